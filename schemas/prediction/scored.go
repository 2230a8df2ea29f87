package prediction

import (
	"cmp"
	"math"
)

// Scored is the position up to which the messages of a partition have valid predictions. The zero value is the beginning.
//
// Several processes may predict the same messages, with different versions, and each may end at any time. Each continues
// at the position that all of them have reached according to the topic. So of two predictions of the same rows the first
// is valid, and no rows are skipped.
//
// If the examples topic loses messages with predictions, for example after an unclean leader election, other messages
// may get their offsets. A new generation of predictions then begins, at the first lost message.
type Scored struct {
	Next       int64 // first message without all of its predictions. Some offsets before it may have had no message
	Row        int   // first row of it without a prediction
	Generation int   // how often messages with predictions were lost
}

// Count processes the next prediction of the partition, and reports whether it is valid.
func (s *Scored) Count(p *Message) bool {
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

// Begins returns the position at which a prediction begins. If it begins a generation, only the generation of the
// position is known: the previous one.
func (p *Message) Begins() Scored {
	if p.Lost {
		return Scored{Next: math.MaxInt64, Generation: p.Generation - 1}
	}
	return Scored{p.After, p.Row, p.Generation}
}

// ScoredBy returns the position of predictions, given the last predictions of a partition in order: all since the offset that the last one
// has Seen. Without any, it is the beginning.
//
// A writer begins at the position that all have reached before Seen, and continues from there. So the first prediction of the writers with
// the same Seen as the last one begins there.
func ScoredBy(last []*Message) (s Scored) {
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
