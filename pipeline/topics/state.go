package topics

import (
	"fmt"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
)

// StateSize is the size of a chain's state on the state topic in bytes.
type StateSize struct {
	Increment  int64 // terms of an increment: two p × k matrices for each stage
	Grams      int64 // Gram matrices: p(p+1)/2 numbers for each stage
	Increments int64 // maximum number of increments in the window; 0: unlimited
}

// Total returns the size of the Gram matrices and of all increments, or of one increment if the window is unlimited.
func (s StateSize) Total() int64 { return s.Grams + max(s.Increments, 1)*s.Increment }

// StateSize returns the state size of a chain with the given numbers of columns (p) of its stages and of classes (k), in
// float64.
func (o RetrainOptions) StateSize(columns []int, classes int) (s StateSize) {
	for _, p := range columns {
		s.Increment += 2 * 8 * int64(p) * int64(classes)
		s.Grams += 8 * int64(p) * int64(p+1) / 2
	}
	s.Increments = int64(o.Window.Increments)
	if o.Window.Rows > 0 {
		// The oldest increment leaves when the others have the rows. Each has as many rows as an update, or more.
		if n := (o.Window.Rows+o.Rows-1)/o.Rows + 1; s.Increments == 0 || n < s.Increments {
			s.Increments = n
		}
	}
	return s
}

// AlwaysFull returns the reason why every version of a chain with these stages is full; "" if versions can be updates.
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

// MostTerms returns the maximum number of increments with terms on a state topic of the given size, with a window of a chain; 0: unlimited.
func (o RetrainOptions) MostTerms(state option.Bytes, w *schemas.Window) int {
	if w.TermsSize == 0 {
		return 0
	}
	return int(max((int64(state)-w.GramsSize)/w.TermsSize, o.FewestTerms()))
}

// negligible is the weight below which a row does not change any float64 sum of rows of weight 1: half of the distance
// from 1 to the next number.
const negligible = 1.0 / (1 << 53)

// LeavesByDecay reports whether decay makes the oldest increment leave a window, so that the window is finite: its weight
// is negligible compared with the next increment, or the window is long, as increments with different weights can't be joined.
func (o RetrainOptions) LeavesByDecay(w *schemas.Window, mostTerms int, bytes int64) bool {
	if o.Decay == 1 || len(w.Increments) == 0 {
		return false
	}
	return w.Increments[0].Increment.Weight*o.Decay < negligible || w.IsLong(mostTerms, bytes)
}

// FewestTerms is the minimum number of terms for which a chain needs room: those that an update writes, and two others.
func (o RetrainOptions) FewestTerms() int64 { return int64(o.Refresh) + 3 }
