package screen

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// bar is a progress bar on the last line of a terminal. If w is not a terminal, it draws nothing.
type bar struct {
	w     io.Writer
	width func() int // the columns of the terminal; nil if w is not a terminal
	now   func() time.Time
	last  time.Time // when the bar was last drawn
	drawn bool      // the bar is on the screen
}

const (
	// minInterval is the shortest time between two drawings. A faster bar would flicker.
	minInterval = 100 * time.Millisecond
	// maxCells is the length of the bar itself on a wide terminal.
	maxCells = 24
)

// newBar returns a bar on w, which draws only if w is a terminal.
func newBar(w io.Writer, now func() time.Time) *bar {
	return &bar{w: w, now: now, width: terminalWidth(w)}
}

// terminalWidth returns a function that returns the columns of a terminal; nil if w is not a terminal.
func terminalWidth(w io.Writer) func() int {
	f, ok := w.(*os.File)
	if !ok || !term.IsTerminal(int(f.Fd())) {
		return nil
	}
	return func() int {
		columns, _, err := term.GetSize(int(f.Fd()))
		if err != nil || columns <= 0 {
			return 80
		}
		return columns
	}
}

// draw shows title, a bar and note. fraction is how much is done, from 0 to 1; if it is negative, the line has no bar. draw does
// nothing if the last drawing was less than minInterval ago.
func (b *bar) draw(title string, fraction float64, note string) {
	if b.width == nil {
		return
	}
	now := b.now()
	if b.drawn && now.Sub(b.last) < minInterval {
		return
	}
	b.last, b.drawn = now, true
	// Some terminals go to the next line after a character in the last column.
	maxRunes := b.width() - 1
	line := title
	if fraction >= 0 {
		percent := fmt.Sprintf(" %3.0f %%", 100*fraction)
		line = fmt.Sprintf("%-11s  ", title)
		cells := max(0, min(maxCells, maxRunes-len(line)-len(percent)-2-len([]rune(note))))
		full := int(fraction * float64(cells))
		line += fmt.Sprintf("%s%s%s", strings.Repeat("█", full), strings.Repeat("░", cells-full), percent)
	}
	runes := []rune(strings.TrimRight(line+"  "+note, " "))
	if len(runes) > maxRunes {
		runes = runes[:max(0, maxRunes)]
	}
	// One write puts the new line over the old one and then erases the rest of the old one. The line is never empty in between,
	// so it does not flicker.
	fmt.Fprintf(b.w, "\r%s\x1b[K", string(runes))
}

// clear erases the bar, so that a line of text can take its place.
func (b *bar) clear() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = false
	}
}
