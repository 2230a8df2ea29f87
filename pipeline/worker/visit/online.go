package visit

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// readOccurring reads the weights for a visit of an update on sparse rows. A visit to the last stage can evaluate the
// predictions of the new version, after all stages: own has the weights of the stages before.
func (v *Visit) readOccurring(chain *protocol.Chain) (err error) {
	_, gated := JudgedSplit(v.Plan)
	gated = gated && v.Stage == len(v.Plan.Stages)-1
	published, _ := chain.WeightsFor(v.Visit)
	k := v.Of.Classes
	w := &occurringWeights{Initial: kernel.Dense{Rows: v.Of.Features.Size(), Cols: k, Data: chain.Initial(v.Stage)}}
	if published != nil {
		if w.Columns, w.Rows.Data, err = statistics.RowsOf(published.Tensors, v.Of.Features.Size(), k); err != nil {
			return err
		}
		w.Rows.Rows, w.Rows.Cols = len(w.Columns), k
	}
	v.occurring = w
	if gated {
		v.own, err = v.passedStages(chain, chain.Fitted)
	}
	return err
}

// sumOccurring computes the sums of an update on sparse rows: tables with a row for each column that occurs in the segment. They are the
// counts of a counted stage; otherwise the gradient, in the first visit the bound of the curvature, and in some visits the curvature.
func (p *Processor) sumOccurring(batches []*Batch) summing {
	stage, k := p.visit.Of, p.visit.Of.Classes
	p.expandSparse(batches)
	p.occurring.Begin(p.blocks)
	m := len(p.occurring.Columns())
	p.visit.occurring.gather(&p.weights, p.occurring.Columns())
	counted := stage.Features.Counted()
	reaching, curved := p.visit.Number == 0 && !counted, !counted && solve.HasCurvature(p.visit.Number, p.Plan.Update().Passes)
	var curvature, squares, reach []float64
	cross := make([]float64, m*k) // Σ w x (y − g)ᵀ, or the counts Σ w x yᵀ
	if curved {
		curvature = make([]float64, m*k)
	}
	if reaching {
		squares, reach = make([]float64, m), make([]float64, m)
	}
	return summing{func(i int, b *Batch) {
		block := p.occurring.Batch(i)
		p.countOverflowed(b.Overflowed)
		p.advance(b)
		p.score.Reshape(b.Len(), k)
		p.occurringScores(p.score, b.Score, i)
		p.measure(b.Rows)
		if curved {
			p.addCurvature(curvature, block, p.score, b.Fitted)
		}
		if counted {
			b.Rows.Write(p.score)
		} else {
			b.Rows.Residuals(p.score)
		}
		kernel.AddCrossSparse(cross, block, p.score, b.Fitted)
		if reaching {
			kernel.AddDiagonalSparse(squares, reach, block, b.Fitted)
		}
		p.judgeSparse(b, i)
	}, func() {
		name := statistics.FieldGradient
		if counted {
			name = statistics.FieldCounted
		}
		p.occurring.Table(p.sum, name, cross)
		if curved {
			p.occurring.Table(p.sum, statistics.FieldCurvature, curvature)
		}
		if reaching {
			p.occurring.Table(p.sum, statistics.FieldReach, reach)
		}
	}}
}

// occurringScores computes the scores of batch i after the stage into dst, from those before it.
func (p *Processor) occurringScores(dst, before kernel.Dense, i int) {
	copy(dst.Data, before.Data)
	kernel.MulAddSparse(dst, p.occurring.Batch(i), p.weights)
	sink.TakeBack(dst, before)
}

// judgeSparse adds the losses of the run's version on the rows of batch i that the gate uses.
func (p *Processor) judgeSparse(b *Batch, i int) {
	if !p.judges(b.Rows) {
		return
	}
	k := p.visit.Of.Classes
	before, score := kernel.NewDense(b.Len(), k), kernel.NewDense(b.Len(), k)
	for _, of := range p.visit.own {
		of.fitted.ScoresSparse(score, before, of.stage.Features.ExpandSparse(b.Sparse))
		link.Convert(score, of.stage.Link, of.link, p.workspace.Link())
		before, score = score, before
	}
	p.occurringScores(score, before, i)
	p.predict(b.Rows, score)
	p.judgeOwn(b.Rows.Slice(0, b.Examples), b.Offset, 0)
}

// occurringTerms computes the terms of an increment on sparse rows, in a full run: the curvature at the final weights, or
// the counts.
func (p *Processor) occurringTerms(batches []*Batch) *accumulate.Sum {
	sum, k := &accumulate.Sum{}, p.visit.Of.Classes
	p.expandSparse(batches)
	if len(batches) == 0 {
		return sum
	}
	p.occurring.Begin(p.blocks)
	terms := make([]float64, len(p.occurring.Columns())*k)
	for i, b := range batches {
		if p.visit.Of.Features.Counted() {
			p.own.Reshape(b.Len(), k)
			b.Rows.Write(p.own)
			kernel.AddCrossSparse(terms, p.occurring.Batch(i), p.own, b.Fitted)
			continue
		}
		p.residual.Reshape(b.After.Rows, b.After.Cols)
		copy(p.residual.Data, b.After.Data)
		p.visit.Of.Link.Predict(p.residual)
		p.addCurvature(terms, p.occurring.Batch(i), p.residual, b.Fitted)
	}
	p.occurring.Table(sum, statistics.FieldOccurring, terms)
	return sum
}

// leaveSelfOut removes a row's own counts from its scores in a counted stage of a full run of a chain: an update scores
// rows before it counts them, and the next stage must not be fitted to scores that include the row's own label.
func (p *Processor) leaveSelfOut(b *Batch, counts []float32, totals []float64) {
	stage := p.visit.Of
	shape := solve.Shape{Columns: stage.Features.Size(), Penalised: stage.Features.Penalised(), Classes: stage.Classes}
	weight := float64(solve.ChainWeight(p.Plan.Stages[p.visit.Stage].Features.Weight))
	for i, class := range b.Rows.Classes {
		if b.Fitted[i] == 0 || class < 0 {
			continue
		}
		columns, values := b.Sparse.Row(i)
		row := solve.CountRow{Columns: columns, Values: values, Class: int(class), Weight: float64(b.Fitted[i])}
		own, other := solve.WithoutRow(row, counts, totals[class], shape, weight)
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

// readCounts reads the counts of the weights of a counted stage of a full run of a chain, and their sums over the inputs.
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

// addCurvature adds Σ w x² h, where h is the second derivative of the loss with respect to each score of a row, from the
// predictions.
func (p *Processor) addCurvature(sums []float64, block kernel.Sparse, predictions kernel.Dense, weights []float32) {
	p.curvatures.Reshape(predictions.Rows, predictions.Cols)
	for i, v := range predictions.Data {
		p.curvatures.Data[i] = v * (1 - v)
	}
	from, to := block.Starts[0], block.Starts[block.Rows]
	p.squared = append(p.squared[:0], make([]float32, to)...)
	for i := from; i < to; i++ {
		p.squared[i] = block.Values[i] * block.Values[i]
	}
	block.Values = p.squared
	kernel.AddCrossSparse(sums, block, p.curvatures, weights)
}
