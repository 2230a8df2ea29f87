package solver

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// gramRows gathers the rows that workers of an update send instead of Gram matrices.
func (s *Solver) gramRows(kind wire.Kind) *part {
	return &part{kind: kind, sum: func(id wire.Identity, _ coverage.Spans) (*accumulate.Sum, error) {
		fields, err := statistics.GramRowsOf(s.inbox.Single(id))
		if err != nil {
			return nil, err
		}
		sum := accumulate.NewSum(coverage.Coverage{}, fields)
		if kind == statistics.KindLeaveRows { // the sum of all parts has both
			sum.Move(sum, statistics.FieldGramBatches, statistics.FieldLeaveBatches)
			sum.Move(sum, statistics.FieldGramBlock, statistics.FieldLeaveBlock)
		}
		return sum, nil
	}}
}

// sumRows returns a function that adds the Gram matrices of the rows of a stage in a sum. A goroutine may call it.
func (s *Solver) sumRows(g *gathering, columns int) func(*accumulate.Sum) error {
	var partitions []int
	for _, span := range g.spans {
		partitions = append(partitions, span.Partition)
	}
	of := accumulate.GramOfRows{BLAS: s.blas, Buffers: s.Grams, Size: columns * (columns + 1) / 2, Partitions: partitions,
		Tree: s.plan.Merges(len(g.spans))}
	weights := s.plan.Update().LeaveWeights()
	return func(sum *accumulate.Sum) error {
		added := sum.TakeGramRows(statistics.FieldGramBatches, statistics.FieldGramBlock)
		gram, err := of.Sum(added.Tensors(), nil)
		if err != nil {
			return err
		}
		sum.Move(gram, statistics.FieldGram, statistics.FieldGram)
		left := sum.TakeGramRows(statistics.FieldLeaveBatches, statistics.FieldLeaveBlock)
		if gram, err = of.Sum(left.Tensors(), weights); err != nil {
			return err
		}
		sum.Move(gram, statistics.FieldGram, statistics.FieldLeave)
		return nil
	}
}
