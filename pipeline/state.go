package pipeline

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// StateSize is how many bytes a chain keeps on the state topic.
type StateSize struct {
	Increment  int64 // the terms of an increment: two p × k matrices of each stage
	Snapshot   int64 // the Gram matrices: p(p+1)/2 numbers of each stage
	Increments int64 // that the window has at most; 0: it has no bound
}

// Total returns the bytes of a snapshot and of all increments, or of one increment if the window has no bound.
func (s StateSize) Total() int64 { return s.Snapshot + max(s.Increments, 1)*s.Increment }

// StateSize returns what a chain keeps whose stages have so many columns (p), and so many classes (k). The numbers are float64.
func (o RetrainOptions) StateSize(columns []int, classes int) (s StateSize) {
	for _, p := range columns {
		s.Increment += 2 * 8 * int64(p) * int64(classes)
		s.Snapshot += 8 * int64(p) * int64(p+1) / 2
	}
	s.Increments = int64(o.Window.Increments)
	if o.Window.Rows > 0 {
		// The oldest increment leaves when the others have the rows. Each has as many rows as an update takes, or more.
		if n := (o.Window.Rows+o.Rows-1)/o.Rows + 1; s.Increments == 0 || n < s.Increments {
			s.Increments = n
		}
	}
	return s
}

// AlwaysFull returns why every version of a chain with these stages is full; empty if versions can be updates.
func AlwaysFull(stages []schemas.Stage) string {
	for t, s := range stages {
		switch {
		case s.Scores:
			return fmt.Sprintf("stage %d has scores: true", t)
		case link.Named(s.Link).Learnt:
			return fmt.Sprintf("stage %d has the link %s", t, s.Link)
		}
	}
	return ""
}
