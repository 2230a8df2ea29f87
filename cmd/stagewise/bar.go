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

// cells is how long the bar itself is.
const cells = 24

// draw shows how far done is on the way to all, if that is known (> 0), unless it was drawn a moment ago.
func (b *bar) draw(what string, done, all int64, note string) {
	if b.width == nil {
		return
	}
	now := b.now()
	if b.drawn && now.Sub(b.last) < redraw {
		return
	}
	b.last, b.drawn = now, true
	line := fmt.Sprintf("%-11s  ", what)
	if all > 0 {
		full := int(min(done, all) * cells / all)
		line += fmt.Sprintf("%s%s %3d %%  ", strings.Repeat("█", full), strings.Repeat("░", cells-full), min(done, all)*100/all)
	}
	letters := []rune(line + note)
	// A full last column would move some terminals on to the next line.
	if most := b.width() - 1; len(letters) > most {
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
