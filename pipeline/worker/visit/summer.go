package visit

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// occurringRows are the rows of a message in a visit of an update on sparse rows.
type occurringRows struct {
	block  kernel.Sparse   // n × p
	before kernel.Dense    // n × k: the scores before the stage
	rows   accumulate.Rows // n
	fitted []float32       // n: training weights, 0 for other rows
}

// occurringSums are the sums of a visit.
type occurringSums struct {
	link     link.Link
	counted  bool // the counts rather than the gradient
	curved   bool // also the curvature
	reaching bool // also the bound of the curvature
}

// sumsOf returns the sums of visit number, of the given number of passes, for a stage.
func sumsOf(stage *model.Stage, number, passes int) occurringSums {
	counted := stage.Features.Counted()
	return occurringSums{link: stage.Link, counted: counted, reaching: number == 0 && !counted,
		curved: !counted && solve.HasCurvature(number, passes)}
}

// occurringWeights are those of a visit of an update on sparse rows: of occurring columns, and for all others those of the
// previous version.
type occurringWeights struct {
	Initial kernel.Dense // p × k
	Columns []int32      // ascending; none in the first visit
	Rows    kernel.Dense // m × k
}

// gather copies the weights of some columns, in ascending order, to dst.
func (w *occurringWeights) gather(dst *kernel.Dense, columns []int32) {
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

// summer sums the messages of a segment. The zero value is ready for begin. It reuses its memory at the next call of begin.
type summer struct {
	batches    []occurringRows
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

// begin sets the messages for the next sums.
func (s *summer) begin(batches []occurringRows) {
	s.batches, s.blocks = batches, s.blocks[:0]
	for i := range batches {
		s.blocks = append(s.blocks, batches[i].block)
	}
	s.occurring.Begin(s.blocks)
	s.occurring.Ascend()
	s.columns = s.occurring.Columns()
	if s.occurring.Width() > len(s.columns) {
		s.columns = append(s.columns[:len(s.columns):len(s.columns)], int32(s.blocks[0].Width()-1))
	}
}

// scores computes the scores of a message after the stage into dst, from those before it.
func (s *summer) scores(dst, before kernel.Dense, batch int) {
	copy(dst.Data, before.Data)
	kernel.MulAddSparse(dst, s.occurring.Batch(batch), s.weights)
	sink.TakeBack(dst, before)
}

// sum adds the sums of the messages to sum: tables with a row for each occurring column. They are undefined if ctx ends.
func (s *summer) sum(ctx context.Context, sum *accumulate.Sum, of occurringSums) {
	m, k := len(s.columns), s.weights.Cols
	var curvature, squares, reach []float64
	cross := make([]float64, m*k) // Σ w x (y − g)ᵀ, or the counts Σ w x yᵀ
	if of.curved {
		curvature = make([]float64, m*k)
	}
	if of.reaching {
		squares, reach = make([]float64, m), make([]float64, m)
	}
	for i := range s.batches {
		if ctx.Err() != nil {
			return
		}
		b, block := &s.batches[i], s.occurring.Batch(i)
		s.score.Reshape(block.Rows, k)
		s.scores(s.score, b.before, i)
		s.loss, s.predicted = slices.Grow(s.loss[:0], block.Rows)[:block.Rows], slices.Grow(s.predicted[:0], block.Rows)[:block.Rows]
		of.link.Measure(s.score, b.rows.Truth, s.loss, s.predicted, &s.scratch)
		sum.AddLosses(b.rows, s.loss, s.predicted, s.score)
		if of.curved {
			s.addCurvature(curvature, block, s.score, b.fitted)
		}
		if of.counted {
			b.rows.Write(s.score)
		} else {
			b.rows.Residuals(s.score)
		}
		kernel.AddCrossSparse(cross, block, s.score, b.fitted)
		if of.reaching {
			kernel.AddDiagonalSparse(squares, reach, block, b.fitted)
		}
	}
	name := statistics.FieldGradient
	if of.counted {
		name = statistics.FieldCounted
	}
	s.occurring.Table(sum, name, cross)
	if of.curved {
		s.occurring.Table(sum, statistics.FieldCurvature, curvature)
	}
	if of.reaching {
		s.occurring.Table(sum, statistics.FieldReach, reach)
	}
}

// addCurvature adds Σ w x² h, where h is the second derivative of the loss with respect to each score of a row, from the
// predictions.
func (s *summer) addCurvature(sums []float64, block kernel.Sparse, predictions kernel.Dense, weights []float32) {
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
