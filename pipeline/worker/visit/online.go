package visit

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/judge"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/bayes"
	"github.com/stagewise/stagewise/solve/online"
)

// occurringWeights are the weights of a visit of an update on sparse rows: those of columns that occur, and of all others those of the
// version before.
type occurringWeights struct {
	initial kernel.Dense // p × k
	columns []int32      // ascending; none in the first visit
	rows    kernel.Dense // m × k
}

// readOccurring reads the weights that a visit of an update on sparse rows is made with. A visit to the last stage can tell how the new
// version predicts, after all stages: own has the weights of those before it.
func (v *Visit) readOccurring(chain *protocol.Chain) (err error) {
	published, _ := chain.WeightsFor(v.Visit)
	k := v.Of.Classes
	w := &occurringWeights{initial: kernel.Dense{Rows: v.Of.Features.Size(), Cols: k, Data: chain.Initial(v.Stage)}}
	if published != nil {
		if w.columns, w.rows.Data, err = statistics.RowsOf(published.Tensors, v.Of.Features.Size(), k); err != nil {
			return err
		}
		w.rows.Rows, w.rows.Cols = len(w.columns), k
	}
	v.occurring = w
	if _, gated := judge.Split(v.Plan); gated && v.Stage == len(v.Plan.Stages)-1 {
		v.own, err = passedStages(v.Plan, chain, v.Stage)
	}
	return err
}

// passedBefore returns the stages before one of an update on sparse rows, with the weights of the version before: rows are scored before
// they are counted.
func (v *Visit) passedBefore(chain *protocol.Chain) (list []passed, err error) {
	for t := range v.Stage {
		s, err := chain.Stage(t)
		if err != nil {
			return nil, err
		}
		fitted, err := s.Fitted(chain.Initial(t), nil)
		if err != nil {
			return nil, err
		}
		list = append(list, passed{s, fitted, model.LinkOf(v.Plan, t+1)})
	}
	return list, nil
}

// gather writes the weights of columns that occur in a segment, and of the intercept, into dst.
func (w *occurringWeights) gather(dst *kernel.Dense, columns []int32, ones bool) {
	k := w.initial.Cols
	n := len(columns)
	if ones {
		n++
	}
	dst.Reshape(n, k)
	for i := range n {
		column := int32(w.initial.Rows - 1)
		if i < len(columns) {
			column = columns[i]
		}
		if at, found := slices.BinarySearch(w.columns, column); found {
			copy(dst.Row(i), w.rows.Row(at))
		} else {
			copy(dst.Row(i), w.initial.Row(int(column)))
		}
	}
}

// updateSparse sums what an update on sparse rows needs of them: of a stage of columns the gradient, in some visits the curvature and in
// the first what bounds it; of a counted stage the counts.
func (p *Processor) updateSparse(ctx context.Context, batches []*partition.Batch) *accumulate.Sum {
	sum, k := &accumulate.Sum{}, p.visit.Of.Classes
	p.blocks = p.blocks[:0]
	for _, b := range batches {
		p.blocks = append(p.blocks, p.visit.Of.Features.ExpandSparse(b.Sparse))
	}
	p.occurring.Begin(p.blocks)
	m, counts := p.occurring.Width(), p.visit.Of.Features.Counted()
	if len(batches) == 0 {
		m = 0
	}
	curved := !counts && online.HasCurvature(p.visit.Number, p.Plan.Update().Passes)
	cross, curvature := make([]float64, m*k), []float64(nil)
	if curved {
		curvature = make([]float64, m*k)
	}
	squares, reach := make([]float64, m), make([]float64, m)
	p.visit.occurring.gather(&p.rows, p.occurring.Columns(), m > len(p.occurring.Columns()))
	for i, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		p.countOverflowed(sum, b.Overflowed)
		p.advanceSparse(b)
		block := p.occurring.Batch(i)
		p.score.Reshape(b.Len(), k)
		copy(p.score.Data, b.Score.Data)
		kernel.MulAddSparse(p.score, block, p.rows)
		sink.TakeBack(p.score, b.Score)
		p.measure(sum, b.Rows, p.score)
		if curved {
			p.addCurvature(curvature, block, p.score, b.Fitted)
		}
		if counts {
			b.Rows.Write(p.score)
		} else {
			b.Rows.Residuals(p.score)
		}
		kernel.AddCrossSparse(cross, block, p.score, b.Fitted)
		if p.visit.Number == 0 && !counts {
			kernel.AddDiagonalSparse(squares, reach, block, b.Fitted)
		}
		p.judgeSparse(sum, b, block)
		sum.Count(b.Examples, b.Checksum)
	}
	if m == 0 {
		return sum
	}
	if counts {
		p.occurring.Table(sum, statistics.FieldCounted, cross)
		return sum
	}
	p.occurring.Table(sum, statistics.FieldGradient, cross)
	if curved {
		p.occurring.Table(sum, statistics.FieldCurvature, curvature)
	}
	if p.visit.Number == 0 {
		p.occurring.Table(sum, statistics.FieldReach, reach)
	}
	return sum
}

// advanceSparse makes the scores of a batch those before the stage of the visit, as the version before has them.
func (p *Processor) advanceSparse(b *partition.Batch) {
	for b.At < p.visit.Stage {
		before := p.visit.passed[b.At]
		b.After.Reshape(b.Score.Rows, b.Score.Cols)
		before.fitted.ScoresSparse(b.After, b.Score, before.stage.Features.ExpandSparse(b.Sparse))
		b.Score, b.After = b.After, b.Score
		link.Convert(b.Score, before.stage.Link, before.link, p.workspace.Link())
		b.At++
	}
}

// addCurvature adds Σ w x² h, where h is the second derivative of the loss in each score of a row, given what is predicted.
func (p *Processor) addCurvature(sums []float64, block kernel.Sparse, predictions kernel.Dense, weights []float32) {
	p.own.Reshape(predictions.Rows, predictions.Cols)
	for i, v := range predictions.Data {
		p.own.Data[i] = v * (1 - v)
	}
	from, to := block.Starts[0], block.Starts[block.Rows]
	p.squared = append(p.squared[:0], make([]float32, to)...)
	for i := from; i < to; i++ {
		p.squared[i] = block.Values[i] * block.Values[i]
	}
	block.Values = p.squared
	kernel.AddCrossSparse(sums, block, p.own, weights)
}

// judgeSparse adds the losses of the version that the run makes, of the rows of a batch that the gate is about.
func (p *Processor) judgeSparse(sum *accumulate.Sum, b *partition.Batch, block kernel.Sparse) {
	split, gated := judge.Split(p.Plan)
	if !gated || !p.newest || p.visit.Stage < len(p.Plan.Stages)-1 || !slices.Contains(b.Rows.Splits, split) {
		return
	}
	before, score := kernel.NewDense(b.Len(), p.score.Cols), kernel.NewDense(b.Len(), p.score.Cols)
	for _, of := range p.visit.own {
		of.fitted.ScoresSparse(score, before, of.stage.Features.ExpandSparse(b.Sparse))
		link.Convert(score, of.stage.Link, of.link, p.workspace.Link())
		before, score = score, before
	}
	copy(score.Data, before.Data)
	kernel.MulAddSparse(score, block, p.rows)
	sink.TakeBack(score, before)
	p.predict(b.Rows, score)
	p.judgeOwn(sum, b.Rows.Slice(0, b.Examples), b.Offset, 0)
}

// occurringTerms sums what a chain keeps of an increment on sparse rows, in a full run: the curvature at the final weights, or the counts.
// Predictions are those after the stage.
func (p *Processor) occurringTerms(batches []*partition.Batch, predicted func(*partition.Batch) kernel.Dense) *accumulate.Sum {
	sum, k := &accumulate.Sum{}, p.visit.Of.Classes
	p.blocks = p.blocks[:0]
	for _, b := range batches {
		p.blocks = append(p.blocks, p.visit.Of.Features.ExpandSparse(b.Sparse))
	}
	if len(batches) == 0 {
		return sum
	}
	p.occurring.Begin(p.blocks)
	terms := make([]float64, p.occurring.Width()*k)
	for i, b := range batches {
		if p.visit.Of.Features.Counted() {
			p.own.Reshape(b.Len(), k)
			b.Rows.Write(p.own)
			kernel.AddCrossSparse(terms, p.occurring.Batch(i), p.own, b.Fitted)
			continue
		}
		p.addCurvature(terms, p.occurring.Batch(i), predicted(b), b.Fitted)
	}
	p.occurring.Table(sum, statistics.FieldOccurring, terms)
	return sum
}

// predictedAfter returns what the scores of a batch after the stage predict.
func (p *Processor) predictedAfter(b *partition.Batch) kernel.Dense {
	p.residual.Reshape(b.After.Rows, b.After.Cols)
	copy(p.residual.Data, b.After.Data)
	p.visit.Of.Link.Predict(p.residual)
	return p.residual
}

// leaveSelfOut takes a row's own counts away from the scores that a counted stage of a full run of a chain gives it: an update scores rows
// before it counts them, and the stage after this one must not be fitted to what rows tell of themselves.
func (p *Processor) leaveSelfOut(b *partition.Batch, counts []float32, totals []float64) {
	stage := p.visit.Of
	shape := bayes.Shape{Columns: stage.Features.Size(), Inputs: stage.Features.Penalised(), Classes: stage.Classes}
	weight := float64(solve.ChainWeight(p.Plan.Stages[p.visit.Stage].Features.Weight))
	for i, class := range b.Rows.Classes {
		if b.Fitted[i] == 0 || class == examples.Unlabelled {
			continue
		}
		columns, values := b.Sparse.Row(i)
		row := bayes.Row{Columns: columns, Values: values, Class: int(class), Weight: float64(b.Fitted[i])}
		own, other := bayes.Without(row, counts, totals[class], shape, weight)
		score := b.After.Row(i)
		for c := range score {
			if c == int(class) {
				score[c] += float32(own)
			} else {
				score[c] += float32(other)
			}
		}
	}
}

// readCounts reads the counts that the weights of a counted stage of a full run of a chain were made of, and their sums over the inputs.
func (v *Visit) readCounts(final *schemas.Weights) (err error) {
	k := v.Of.Classes
	if v.counts, err = final.Tensors.Shaped(statistics.TensorCounts, v.Of.Features.Size(), k); err != nil {
		return err
	}
	v.totals = make([]float64, k)
	for i, n := range v.counts[:v.Of.Features.Penalised()*k] {
		v.totals[i%k] += float64(n)
	}
	return nil
}
