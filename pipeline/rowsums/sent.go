package rowsums

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/online"
)

// Rows are the rows of a stage sent by workers. They are not safe for concurrent use. Create them with [Sent].
type Rows struct {
	shape    solve.Shape
	spans    coverage.Spans
	tree     coverage.Tree
	segments []Segment
	summers  []Summer // by segment
}

// Sent decodes the rows sent for partitions, with a span each, whose sums are added by a tree. The error wraps
// [wire.ErrDamaged] if they belong to other partitions, or their number differs from the coverage of their records: the
// weights would lack them.
func Sent(sent *accumulate.Sum, shape solve.Shape, task examples.Task, spans coverage.Spans, tree coverage.Tree) (*Rows, error) {
	segments, err := Read(sent.Tensors(), shape, task)
	if err != nil {
		return nil, err
	}
	r := &Rows{shape: shape, spans: spans, tree: tree, segments: segments, summers: make([]Summer, len(segments))}
	rows := int64(0)
	for i, of := range segments {
		if !slices.ContainsFunc(spans, func(span coverage.Span) bool { return span.Partition == of.Partition }) {
			return nil, fmt.Errorf("%w: rows of partition %d, which the plan does not have", wire.ErrDamaged, of.Partition)
		}
		for _, b := range of.Batches {
			rows += int64(b.Block.Rows)
		}
		r.summers[i].Begin(of.Batches)
	}
	if rows != sent.Rows {
		return nil, fmt.Errorf("%w: %d rows came, %d are covered", wire.ErrDamaged, rows, sent.Rows)
	}
	return r, nil
}

// Visit returns the sums of a visit with weights, as workers and the solver would have added them, and the inputs of the
// fit.
func (r *Rows) Visit(ctx context.Context, of Stage, w *Weights) (sum *accumulate.Sum, v online.Visit, err error) {
	for i := range r.summers {
		r.summers[i].SetWeights(w)
	}
	if len(r.segments) != 1 { // otherwise there is nothing to add
		if sum, err = r.sum(ctx, of); err == nil {
			v, err = online.VisitOf(sum.Tensors(), r.shape)
		}
		return sum, v, err
	}
	sum = &accumulate.Sum{}
	t := r.summers[0].Tables(ctx, sum, of)
	v.Losses = statistics.LossesOf(sum.Tensors())[examples.Train]
	table := func(values []float64) statistics.Occurring {
		if values == nil {
			return statistics.Occurring{}
		}
		return statistics.Occurring{Columns: t.Columns, Values: values}
	}
	if of.Counted {
		v.Counted = table(t.Cross)
	} else {
		v.Gradient, v.Curvature, v.Reach = table(t.Cross), table(t.Curvature), table(t.Reach)
	}
	return sum, v, ctx.Err()
}

// sum adds the sums of segments.
func (r *Rows) sum(ctx context.Context, of Stage) (*accumulate.Sum, error) {
	partitions := map[int]*accumulate.Sum{}
	for i := range r.segments {
		sum := &accumulate.Sum{}
		r.summers[i].Sum(ctx, sum, of)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if of := r.segments[i].Partition; partitions[of] == nil {
			partitions[of] = sum
		} else if err := partitions[of].Merge(sum); err != nil {
			return nil, err
		}
	}
	reduction := accumulate.NewReduction(r.tree)
	_, err := reduction.AddReady(func(from, to int) (*accumulate.Sum, error) {
		if to-from > 1 {
			return nil, nil
		}
		return cmp.Or(partitions[r.spans[from].Partition], &accumulate.Sum{}), nil
	})
	if err != nil {
		return nil, err
	}
	return reduction.Sum()
}
