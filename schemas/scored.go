package schemas

// Scored is how far the messages of a partition have predictions that count, as the predictions in their order say. The zero value: none has.
//
// Several processes may predict for the same messages, with other versions, and each may end at any time. Each goes on where the topic says that all of
// them have got, so that of two predictions of the same rows the first counts, and no rows are passed over.
type Scored struct {
	Next int64 // the first message that does not have all of its predictions. Some offsets before it may have had no message
	Row  int   // its first row without a prediction
}

// Count takes into account the next prediction of the partition, and reports whether it counts.
func (s *Scored) Count(p *Prediction) bool {
	if p.After != s.Next || p.Row != s.Row {
		return false
	}
	if s.Next, s.Row = p.Offset, p.Until; s.Row >= p.Rows || p.Reason != "" {
		s.Next, s.Row = p.Offset+1, 0
	}
	return true
}

// before reports whether s has got less far.
func (s Scored) before(o Scored) bool { return s.Next < o.Next || s.Next == o.Next && s.Row < o.Row }

// ScoredBy returns how far predictions have got, given the last ones of a partition in their order: all since the offset that the last of
// them has Seen. None: nothing has a prediction.
//
// What a writer writes begins where all have got before Seen, and goes on from there. So the first that those write who have seen as
// much as the writer of the last begins there.
func ScoredBy(last []*Prediction) (s Scored) {
	found := false
	for _, p := range last {
		begins := Scored{p.After, p.Row}
		if p.Seen == last[len(last)-1].Seen && (begins.before(s) || !found) {
			s, found = begins, true
		}
	}
	for _, p := range last {
		s.Count(p)
	}
	return s
}
