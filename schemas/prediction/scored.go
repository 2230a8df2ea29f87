package prediction

import (
	"cmp"
	"math"
)

// Scored is how far the messages of a partition have predictions that count, as the predictions in their order say. The
// zero value: none has.
//
// Several processes may predict for the same messages, with other versions, and each may end at any time. Each goes on
// where the topic says that all of them have got, so that of two predictions of the same rows the first counts, and no
// rows are passed over.
//
// If the topic of examples loses messages that have predictions, as after an unclean election of a leader, others may
// take their offsets. Then a generation of predictions begins that goes on where the messages were lost.
type Scored struct {
	Next       int64 // the first message that does not have all of its predictions. Some offsets before it may have had no message
	Row        int   // its first row without a prediction
	Generation int   // how often messages with predictions were lost
}

// Count takes into account the next prediction of the partition, and reports whether it counts.
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

// before reports whether s has got less far.
func (s Scored) before(o Scored) bool {
	return cmp.Or(cmp.Compare(s.Generation, o.Generation), cmp.Compare(s.Next, o.Next), cmp.Compare(s.Row, o.Row)) < 0
}

// Begins returns how far predictions have got where a prediction goes on from. Of one that begins a generation it is
// only known that it is of the generation before.
func (p *Message) Begins() Scored {
	if p.Lost {
		return Scored{Next: math.MaxInt64, Generation: p.Generation - 1}
	}
	return Scored{p.After, p.Row, p.Generation}
}

// ScoredBy returns how far predictions have got, given the last ones of a partition in their order: all since the offset that the last of
// them has Seen. None: nothing has a prediction.
//
// What a writer writes begins where all have got before Seen, and goes on from there. So the first that those write who have seen as
// much as the writer of the last begins there.
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
