package schemas

import (
	"cmp"
	"math"
)

// Scored is the position up to which the messages of a partition have valid predictions. The zero value is the beginning.
//
// Several processes may predict the same messages, with different versions, and each may stop at any time. Each continues
// at the position reached by all of them, according to the topic. So of two predictions of the same row the first is
// valid, and no row is skipped.
//
// If the examples topic loses messages with predictions, for example in an unclean leader election, other messages may get
// their offsets. A new generation of predictions then starts at the first lost message.
type Scored struct {
	Next       int64 // first message without complete predictions. Some offsets before it may have had no message
	Row        int   // its first row without a prediction
	Generation int   // how often messages with predictions were lost
}

// Count applies the next prediction of the partition, and reports whether it is valid.
func (s *Scored) Count(p *Prediction) bool {
	if p.Lost && p.Generation == s.Generation+1 {
		*s = Scored{Next: p.After, Generation: p.Generation}
	}
	if p.After != s.Next || p.Row != s.Row || p.Generation != s.Generation {
		return false
	}
	if s.Next, s.Row = p.Offset, p.Until; s.Row >= p.Rows || p.Reason != "" {
		s.Next, s.Row = p.Offset+1, 0
	}
	return true
}

// before reports whether s precedes o.
func (s Scored) before(o Scored) bool {
	return cmp.Or(cmp.Compare(s.Generation, o.Generation), cmp.Compare(s.Next, o.Next), cmp.Compare(s.Row, o.Row)) < 0
}

// Begins returns the position at which a prediction starts. If it starts a generation, only the generation of the position
// is known: the previous one.
func (p *Prediction) Begins() Scored {
	if p.Lost {
		return Scored{Next: math.MaxInt64, Generation: p.Generation - 1}
	}
	return Scored{p.After, p.Row, p.Generation}
}

// ScoredBy returns the position after the last predictions of a partition, given in order from the Seen offset of the last
// one. Without predictions, it is the start of the partition.
//
// A writer starts at the position reached before Seen, and continues from there. So the first prediction of the writers
// with the same Seen as the last one starts there.
func ScoredBy(last []*Prediction) (s Scored) {
	found := false
	for _, p := range last {
		begins := p.Begins()
		if p.Seen == last[len(last)-1].Seen && (begins.before(s) || !found) {
			s, found = begins, true
		}
	}
	for _, p := range last {
		s.Count(p)
	}
	return s
}
