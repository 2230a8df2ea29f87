package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"golang.org/x/term"
)

// bar is a line at the bottom of a terminal that is drawn over and over. On what is no terminal it draws nothing.
type bar struct {
	w     io.Writer
	width func() int // of the terminal; nil: there is none
	now   func() time.Time
	last  time.Time // of what is drawn
	drawn bool
}

// redraw is how often people can see a line change without seeing it flicker.
const redraw = 100 * time.Millisecond

func newBar(w io.Writer, now func() time.Time) *bar {
	b := &bar{w: w, now: now}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		b.width = func() int {
			columns, _, err := term.GetSize(int(f.Fd()))
			if err != nil || columns <= 0 {
				return 80
			}
			return columns
		}
	}
	return b
}

// mostCells is how long the bar itself is where there is room.
const mostCells = 24

// draw shows a fraction of the way, if that is known (≥ 0), unless it was drawn a moment ago.
func (b *bar) draw(what string, fraction float64, note string) {
	if b.width == nil {
		return
	}
	now := b.now()
	if b.drawn && now.Sub(b.last) < redraw {
		return
	}
	b.last, b.drawn = now, true
	// A full last column would move some terminals on to the next line.
	most := b.width() - 1
	line := what
	if fraction >= 0 {
		percent := fmt.Sprintf(" %3.0f %%", 100*fraction)
		line = fmt.Sprintf("%-11s  ", what)
		cells := max(0, min(mostCells, most-len(line)-len(percent)-2-len([]rune(note))))
		full := int(fraction * float64(cells))
		line += fmt.Sprintf("%s%s%s", strings.Repeat("█", full), strings.Repeat("░", cells-full), percent)
	}
	letters := []rune(strings.TrimRight(line+"  "+note, " "))
	if len(letters) > most {
		letters = letters[:max(0, most)]
	}
	// In one write, the old line's rest erased after the new one is there: no moment without a line, so no flicker.
	fmt.Fprintf(b.w, "\r%s\x1b[K", string(letters))
}

// clear makes room for a line of text.
func (b *bar) clear() {
	if b.drawn {
		fmt.Fprint(b.w, "\r\x1b[K")
		b.drawn = false
	}
}
