package rowsums

import (
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
	summer   Summer // of the batches of all segments, one after the other
	added    adder
}

// Sent decodes the rows sent for partitions, with a span each, whose sums are added by a tree. The error wraps
// [wire.ErrDamaged] if they belong to other partitions, or their number differs from the coverage of their records: the
// weights would lack them. The sums of visits are in the memory.
func Sent(sent *accumulate.Sum, shape solve.Shape, task examples.Task, spans coverage.Spans, tree coverage.Tree,
	memory *online.Memory) (*Rows, error) {
	segments, err := readRows(sent.Tensors(), shape, task)
	if err != nil {
		return nil, err
	}
	r := &Rows{shape: shape, spans: spans, tree: tree, segments: segments}
	rows, batches := int64(0), []Batch(nil)
	for _, of := range segments {
		if !slices.ContainsFunc(spans, func(span coverage.Span) bool { return span.Partition == of.Partition }) {
			return nil, fmt.Errorf("%w: rows of partition %d, which the plan does not have", wire.ErrDamaged, of.Partition)
		}
		for _, b := range of.Batches {
			rows += int64(b.Block.Rows)
		}
		batches = append(batches, of.Batches...)
	}
	if rows != sent.Rows {
		return nil, fmt.Errorf("%w: %d rows came, %d are covered", wire.ErrDamaged, rows, sent.Rows)
	}
	r.summer.Begin(batches)
	r.added.begin(r, memory)
	return r, nil
}

// Visit returns the losses of a visit with weights, and the sums of its columns, as workers and the solver would have added them.
func (r *Rows) Visit(ctx context.Context, of Stage, w *Weights) (sum *accumulate.Sum, v online.Visit, err error) {
	r.summer.SetWeights(w)
	all, err := r.added.of(ctx, r, of)
	if err != nil {
		return nil, v, err
	}
	table := func(values []float64) statistics.Occurring {
		if values == nil {
			return statistics.Occurring{}
		}
		return statistics.Occurring{Columns: r.summer.columns, Values: values}
	}
	if of.Counted {
		v.Counted = table(all.cross)
	} else {
		v.Gradient, v.Curvature, v.Reach = table(all.cross), table(all.curvature), table(all.reach)
	}
	v.Losses = statistics.LossesOf(all.sum.Tensors())[examples.Train]
	return all.sum, v, nil
}
