package worker

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// terms sums the terms of increments at the end of a stage of a full run of a chain, by share.
type terms struct {
	*Worker
	visit *visit.Visit
	of    map[*partition.Share]*visit.IncrementTerms
}

// termsOf returns empty terms.
func (w *Worker) termsOf(v *visit.Visit) *terms {
	return &terms{Worker: w, visit: v, of: map[*partition.Share]*visit.IncrementTerms{}}
}

// add adds the terms of a segment. It returns a function that writes those of an increment if they are complete in the
// share; otherwise nil.
func (t *terms) add(at visit.LoadPlace, of *accumulate.Sum) (visit.Write, error) {
	p := at.Share
	if t.of[p] == nil {
		t.of[p] = visit.NewIncrementTerms(p)
	}
	segment := p.Segments()[at.Segment]
	sum, err := t.of[p].Add(segment, of)
	if err != nil || sum == nil {
		return nil, err
	}
	id := t.identity(statistics.KindIncrement, protocol.Visit{Stage: t.visit.Stage, Number: segment.Increment, Parent: t.visit.Parent}, p)
	return func(ctx context.Context) error { return t.publish(ctx, id, sum) }, nil
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
