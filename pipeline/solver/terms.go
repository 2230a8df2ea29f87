package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// places returns the number of increments in a visit to a stage.
func (s *Solver) places() int {
	if u := s.plan.Update(); u != nil {
		return 1 + len(u.Refresh)
	}
	return max(len(s.plan.Chain.Increments), 1)
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
	for i := range s.places() {
		parts = append(parts, &part{kind: statistics.KindIncrement, increment: i,
			on: func(share *schemas.Share) bool { return s.plan.Chain.HasRows(i, share.Partitions) },
			read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) {
				field, err := statistics.IncrementFieldOf(s.inbox.double(id), s.sparse(), of.Features.Size(), of.Classes)
				if err != nil {
					return nil, err
				}
				return accumulate.NewSum(coverage.Coverage{}, wire.Tensors[float64]{field}), nil
			},
		})
	}
	return parts
}
