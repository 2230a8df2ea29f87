package solver

import (
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// An update encodes the state of each stage while workers visit later stages. A full run, which may have very many
// increments, encodes one after the other at its end.

// encoding is the state of an update's stage, encoded in a goroutine.
type encoding struct {
	done    chan struct{} // closed when everything is encoded
	terms   [][]wire.Message
	moments []wire.Message
	err     error
}

// beginEncoding starts encoding the state of an update's stage.
func (s *Solver) beginEncoding(stage int) {
	e := &encoding{done: make(chan struct{})}
	s.chained.left.encodings = append(s.chained.left.encodings, e)
	terms, moments := s.termsRecords(stage), s.momentsRecord(stage)
	go func() {
		defer close(e.done)
		for _, r := range terms {
			var messages []wire.Message
			if len(r.Sums.Data) == 0 { // merged with another increment
				e.terms = append(e.terms, nil)
				continue
			}
			if messages, e.err = s.Codec.EncodeDouble(r.Record()); e.err != nil {
				return
			}
			e.terms = append(e.terms, messages)
		}
		e.moments, e.err = s.Codec.EncodeDouble(moments.Record())
	}()
}

// endEncoding waits until all encoding has ended.
func (l *left) endEncoding() {
	for _, e := range l.encodings {
		<-e.done
	}
}

// encodedTerms returns the messages of an increment's terms, by its place among the visited increments. The increments
// that an update merges follow these.
func (s *Solver) encodedTerms(stage, increment int) ([]wire.Message, error) {
	if stage < len(s.chained.left.encodings) {
		e := s.chained.left.encodings[stage]
		if <-e.done; e.err != nil {
			return nil, e.err
		}
		return e.terms[increment], nil
	}
	return s.Codec.EncodeDouble(s.termsRecord(stage, increment).Record())
}

// encodedMoments returns the messages of a stage's moments.
func (s *Solver) encodedMoments(stage int) ([]wire.Message, error) {
	if stage < len(s.chained.left.encodings) {
		e := s.chained.left.encodings[stage]
		<-e.done
		return e.moments, e.err
	}
	return s.Codec.EncodeDouble(s.momentsRecord(stage).Record())
}

// termsRecords returns the terms of the increments that an update has visited, then of those that it merges.
func (s *Solver) termsRecords(stage int) (list []*statistics.Terms) {
	for i := range len(s.chained.left.terms[stage]) + len(s.chained.left.merged[stage]) {
		list = append(list, s.termsRecord(stage, i))
	}
	return list
}

func (s *Solver) termsRecord(stage, increment int) *statistics.Terms {
	id := wire.Identity{Kind: statistics.KindTerms, Run: s.run, Stage: stage, Visit: increment, Parent: s.chain.Root}
	p, k := s.shape(stage)
	terms, visited := solve.Terms{}, s.chained.left.terms[stage]
	if increment < len(visited) {
		terms = visited[increment]
	} else {
		terms = s.chained.left.merged[stage][increment-len(visited)]
	}
	both := statistics.TermsWith(id, terms.Scores, terms.Gradient, p, k)
	return &both
}

func (s *Solver) momentsRecord(stage int) *statistics.Moments {
	id := wire.Identity{Kind: statistics.KindMoments, Run: s.run, Stage: stage, Parent: s.chain.Root}
	p, k := s.shape(stage)
	m := s.chained.left.moments[stage]
	return &statistics.Moments{Terms: statistics.TermsWith(id, m.Scores, m.Gradient, p, k), Gram: m.Gram, Curvature: m.Curvature}
}
