package worker

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// terms sums the terms of increments at the end of a stage of a full run of a chain: by partition, and then by block.
type terms struct {
	*Worker
	visit  *visit.Visit
	of     map[*partition.State]*visit.IncrementTerms
	blocks map[*partition.State]*sealBlock
	merged map[*sealBlock]map[int]*merging // by place, see [schemas.Chain.TermsPlaces]; nil: the terms of partitions are not merged
}

// termsOf returns empty terms; nil if the run is not of a chain.
func (w *Worker) termsOf(v *visit.Visit, partitions []*partition.State, blocks map[*partition.State]*sealBlock) *terms {
	if w.plan.Chain == nil {
		return nil
	}
	t := &terms{Worker: w, visit: v, of: map[*partition.State]*visit.IncrementTerms{}, blocks: blocks}
	for _, p := range partitions {
		t.of[p] = visit.NewIncrementTerms(w.plan.Chain, p)
	}
	if w.mergesTerms(int64(v.Of.Features.Size()), int64(v.Of.Classes)) {
		t.merged = map[*sealBlock]map[int]*merging{}
	}
	return t
}

// add adds the terms of a segment. It returns a function that writes those of an increment if they are complete, in the
// partition or in its block; otherwise nil.
func (t *terms) add(at visit.LoadPlace, of *accumulate.Sum) (func(context.Context) error, error) {
	p := at.Partition
	sum, place, err := t.of[p].Add(p.Segments()[at.Segment], of)
	if err != nil || sum == nil {
		return nil, err
	}
	v := protocol.Visit{Stage: t.visit.Stage, Number: place, Parent: t.visit.Parent}
	id := t.identity(statistics.KindIncrement, v, p)
	if b := t.blocks[p]; b != nil && t.merged != nil {
		if sum, err = t.merging(b, place).add(b.at[p], sum); err != nil || sum == nil {
			return nil, err
		}
		delete(t.merged[b], place)
		id = t.identity(statistics.KindIncrement, v, b.first)
		id.Merged = len(b.at)
	}
	return func(ctx context.Context) error { return t.publish(ctx, id, sum) }, nil
}

// merging returns the sum of a block's terms at a place. Partitions without rows of its increments have none.
func (t *terms) merging(b *sealBlock, place int) *merging {
	if t.merged[b] == nil {
		t.merged[b] = map[int]*merging{}
	}
	m := t.merged[b][place]
	if m == nil {
		m = b.merging()
		t.merged[b][place] = m
		for p, at := range b.at {
			if !t.of[p].Has(place) {
				m.early[at] = accumulate.NewSum(coverage.Coverage{}, nil)
			}
		}
	}
	return m
}

// publish writes the terms of an increment.
func (t *terms) publish(ctx context.Context, id wire.Identity, sum *accumulate.Sum) error {
	columns, classes := t.visit.Of.Features.Size(), t.visit.Of.Classes
	if t.visit.Of.Features.Sparse() {
		o, err := statistics.OccurringOf(sum.Tensors(), statistics.FieldOccurring, columns, classes)
		if err != nil {
			return err
		}
		sparse := statistics.OccurringTerms{Identity: id, Occurring: o, Classes: classes}
		return publish(ctx, t.Worker, sparse.Record())
	}
	both, _ := sum.Take(statistics.FieldTerms)
	dense := statistics.Terms{Identity: id, Sums: wire.Tensor[float64]{Shape: []int{2, columns, classes}, Data: both.Data}}
	return publish(ctx, t.Worker, dense.Record())
}
