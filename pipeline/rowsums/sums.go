package rowsums

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve/online"
)

// Stage configures the sums of a stage.
type Stage struct {
	Link     link.Link
	Counted  bool // the counts rather than the gradient
	Curved   bool // also the curvature
	Reaching bool // also the bound of the curvature
	Ends     bool // without the gradient, which only a next step needs
}

// StageOf returns the sums of visit number, of the given number of passes, for a stage with a link.
func StageOf(l link.Link, counted bool, number, passes int) Stage {
	return Stage{Link: l, Counted: counted, Reaching: number == 0 && !counted, Curved: !counted && online.HasCurvature(number, passes)}
}

// Weights are those of a visit of an update on sparse rows: of occurring columns, and for all others those of the previous
// version.
type Weights struct {
	Initial kernel.Dense // p × k
	Columns []int32      // ascending; none in the first visit
	Rows    kernel.Dense // m × k
}

// gather copies the weights of some columns, in ascending order, to dst.
func (w *Weights) gather(dst *kernel.Dense, columns []int32) {
	dst.Reshape(len(columns), w.Initial.Cols)
	at := 0 // index in w.Columns
	for i, column := range columns {
		for at < len(w.Columns) && w.Columns[at] < column {
			at++
		}
		if at < len(w.Columns) && w.Columns[at] == column {
			copy(dst.Row(i), w.Rows.Row(at))
		} else {
			copy(dst.Row(i), w.Initial.Row(int(column)))
		}
	}
}

// Summer sums the batches of a segment. The zero value is ready for Begin. It reuses its memory at the next call of Begin.
// It is not safe for concurrent use.
type Summer struct {
	batches    []Batch
	blocks     []kernel.Sparse
	occurring  accumulate.Occurring
	columns    []int32      // occurring columns of the block, ascending; the last may be that of ones
	weights    kernel.Dense // of the occurring columns
	score      kernel.Dense
	curvatures kernel.Dense
	squared    []float32
	loss       []float32
	predicted  []int32
	scratch    link.Scratch
}

// Begin sets the batches for the next sums.
func (s *Summer) Begin(batches []Batch) {
	s.batches, s.blocks = batches, s.blocks[:0]
	for i := range batches {
		s.blocks = append(s.blocks, batches[i].Block)
	}
	s.occurring.Begin(s.blocks)
	s.occurring.Ascend()
	s.columns = s.occurring.Columns()
	if s.occurring.Width() > len(s.columns) {
		s.columns = append(s.columns[:len(s.columns):len(s.columns)], int32(s.blocks[0].Width()-1))
	}
}

// SetWeights sets the weights for the next sums.
func (s *Summer) SetWeights(w *Weights) {
	w.gather(&s.weights, s.columns)
}

// Scores computes the scores of a batch after the stage into dst, from those before it.
func (s *Summer) Scores(dst, before kernel.Dense, batch int) {
	copy(dst.Data, before.Data)
	kernel.MulAddSparse(dst, s.occurring.Batch(batch), s.weights)
	sink.TakeBack(dst, before)
}

// tables are sums with a row for each occurring column. Those not requested are nil.
type tables struct {
	cross     []float64 // m × k: Σ w x (y − g)ᵀ, or the counts Σ w x yᵀ
	curvature []float64 // m × k
	reach     []float64 // m
}

// Sum adds the sums of the batches to sum. They are undefined if ctx ends.
func (s *Summer) Sum(ctx context.Context, sum *accumulate.Sum, of Stage) {
	t := s.tables(ctx, sum, of, 0, len(s.batches), func(size int) []float64 { return make([]float64, size) })
	name := statistics.FieldGradient
	if of.Counted {
		name = statistics.FieldCounted
	}
	s.occurring.Table(sum, name, t.cross)
	if t.curvature != nil {
		s.occurring.Table(sum, statistics.FieldCurvature, t.curvature)
	}
	if t.reach != nil {
		s.occurring.Table(sum, statistics.FieldReach, t.reach)
	}
}

// tables adds the losses of the batches from from (included) to to (excluded) to sum, and returns the sums of their columns. They are
// undefined if ctx ends. zeros returns memory for so many values.
func (s *Summer) tables(ctx context.Context, sum *accumulate.Sum, of Stage, from, to int, zeros func(int) []float64) tables {
	m, k := len(s.columns), s.weights.Cols
	var t tables
	if !of.Ends {
		t.cross = zeros(m * k)
	}
	if of.Curved {
		t.curvature = zeros(m * k)
	}
	var squares []float64
	if of.Reaching {
		squares, t.reach = make([]float64, m), zeros(m)
	}
	for i := from; i < to; i++ {
		if ctx.Err() != nil {
			break
		}
		b, block := &s.batches[i], s.occurring.Batch(i)
		s.score.Reshape(block.Rows, k)
		s.Scores(s.score, b.Before, i)
		s.loss, s.predicted = slices.Grow(s.loss[:0], block.Rows)[:block.Rows], slices.Grow(s.predicted[:0], block.Rows)[:block.Rows]
		of.Link.Measure(s.score, b.Rows.Truth, s.loss, s.predicted, &s.scratch)
		sum.AddLosses(b.Rows, s.loss, s.predicted, s.score)
		if of.Curved {
			s.AddCurvature(t.curvature, block, s.score, b.Fitted)
		}
		if !of.Ends {
			if of.Counted {
				b.Rows.Write(s.score)
			} else {
				b.Rows.Residuals(s.score)
			}
			kernel.AddCrossSparse(t.cross, block, s.score, b.Fitted)
		}
		if of.Reaching {
			kernel.AddDiagonalSparse(squares, t.reach, block, b.Fitted)
		}
	}
	return t
}

// AddCurvature adds Σ w x² h, where h is the second derivative of the loss with respect to each score of a row, from the
// predictions.
func (s *Summer) AddCurvature(sums []float64, block kernel.Sparse, predictions kernel.Dense, weights []float32) {
	s.curvatures.Reshape(predictions.Rows, predictions.Cols)
	for i, v := range predictions.Data {
		s.curvatures.Data[i] = v * (1 - v)
	}
	from, to := block.Starts[0], block.Starts[block.Rows]
	s.squared = append(s.squared[:0], make([]float32, to)...)
	for i := from; i < to; i++ {
		s.squared[i] = block.Values[i] * block.Values[i]
	}
	block.Values = s.squared
	kernel.AddCrossSparse(sums, block, s.curvatures, weights)
}
