package solver

import (
	"maps"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// The record of an update's visit has the terms of increments. At the end of a stage of a full run they are separate
// records. In both cases they are summed by increment.

// places returns the number of increments in a visit to a stage.
func (s *Solver) places() int {
	if u := s.plan.Update(); u != nil {
		return 1 + len(u.Refresh)
	}
	return max(len(s.plan.Chain.Increments), 1)
}

// apart reports whether a visit has separate terms for each increment.
func (s *Solver) apart(visit int) bool {
	u := s.plan.Update()
	return u != nil && schemas.KeepsTerms(visit, u.Passes)
}

// terms gathers the terms of increments, which workers send before the seals of a stage of a full run.
func (s *Solver) terms(stage int) (parts []*part) {
	if s.plan.Chain == nil || s.plan.Update() != nil {
		return nil
	}
	of, err := s.chain.Stage(stage)
	if err != nil || of.Link.Learnt {
		return nil
	}
	places := s.chained.found.TermsPlaces
	on := map[int]map[int]bool{} // the shares of each place, by first partition
	for _, place := range places {
		on[place] = map[int]bool{}
	}
	for _, share := range s.sharesOf(stage) {
		for _, number := range share.Partitions {
			for _, place := range s.plan.Chain.TermsOn(number, places) {
				on[place][share.First] = true
			}
		}
	}
	for _, place := range slices.Sorted(maps.Keys(on)) {
		parts = append(parts, &part{kind: statistics.KindIncrement, place: place,
			on:   func(share *schemas.Share) bool { return on[place][share.First] },
			read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) { return s.termsSum(id) },
		})
	}
	return parts
}

// termsSum returns the terms in a record as a field of their increment.
func (s *Solver) termsSum(id wire.Identity) (*accumulate.Sum, error) {
	p, k := s.shape(id.Stage)
	field, err := statistics.IncrementFieldOf(s.inbox.double(id), s.sparse(), p, k)
	if err != nil {
		return nil, err
	}
	return accumulate.NewSum(coverage.Coverage{}, wire.Tensors[float64]{field}), nil
}
