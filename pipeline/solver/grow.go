package solver

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// grow publishes the trees of a stage that has none yet, grown on the sample of the visit before the stage's first one. A
// stage without trees needs no such visit.
func (s *Solver) grow(ctx context.Context, number int) error {
	v, due := s.chain.GrowthVisit(number)
	if !due {
		return nil
	}
	s.inbox.Begin(number)
	sample := &accumulate.Sample{Max: s.plan.Stages[number].Features.Sample}
	visits := &part{kind: statistics.KindVisit, read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) {
		visit, err := statistics.VisitOf(s.inbox.double(id))
		if err != nil {
			return nil, err
		}
		return accumulate.NewSum(coverage.Coverage{}, visit.Sums), nil
	}}
	sum, err := s.gather(ctx, s.gathering(v, visits, s.samples(sample)))
	if err != nil {
		return err
	}
	forest, err := growForest(s.plan, number, s.chain.Prepared, sample.Rows(), sum.Tensors())
	if err != nil {
		return err
	}
	w := schemas.Weights{
		Identity: wire.Identity{Kind: schemas.KindStructure, Run: s.run, Stage: number, Parent: v.Parent}, Tensors: stages.StructureOf(forest),
	}
	return s.publishWeights(ctx, w.Record())
}

// samples gathers samples of rows.
func (s *Solver) samples(all *accumulate.Sample) *part {
	drawn := map[uint64]bool{}
	return &part{kind: statistics.KindSample, read: func(id wire.Identity, _ *schemas.Share) (*accumulate.Sum, error) {
		sample, err := statistics.SampleOf(s.inbox.single(id))
		if err != nil {
			return nil, err
		}
		return &accumulate.Sum{}, all.MergeRecord(sample, drawn)
	}}
}
