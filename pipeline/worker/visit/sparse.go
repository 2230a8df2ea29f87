package visit

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// sumSparse computes the sums of a gradient over batches of sparse rows, and in the first visit to a stage the substitute
// of the Gram matrix. Sums are in double precision from the first row on: the rows of a tile have few columns in common.
func (p *Processor) sumSparse(batches []*Batch) summing {
	classes, columns := p.visit.Of.Classes, p.visit.Of.Features.Size()
	p.expandSparse(batches)
	inBlock := p.visit.blocks != nil && p.visit.blocks.block != nil
	if inBlock {
		p.gram.Begin(p.visit.blocks.size)
	} else {
		p.occurring.Begin(p.blocks)
		p.sum, columns = p.occurring.Sum(), len(p.occurring.Columns())
	}
	s := summing{add: func(i int, b *Batch) {
		block := p.blocks[i]
		p.countOverflowed(b.Overflowed)
		p.score.Reshape(b.Len(), classes)
		if p.visit.blocks != nil {
			p.scoresInBlocks(p.score, b, block)
		} else {
			p.visit.fitted.ScoresSparse(p.score, b.Score, block)
		}
		p.measure(b.Rows)
		b.Rows.Residuals(p.score)
		if inBlock {
			p.addBlock(b, block.Ones)
		} else {
			block = p.occurring.Batch(i)
			kernel.AddCrossSparse(p.sum.Field(statistics.FieldCross, columns, classes), block, p.score, b.Fitted)
		}
		if p.visit.Number == 0 {
			kernel.AddDiagonalSparse(p.sum.Field(statistics.FieldDiagonal, columns), p.sum.Field(statistics.FieldBounds, columns), block, b.Fitted)
		}
	}}
	if inBlock {
		s.end = func() { p.gram.End(p.sum) }
	}
	return s
}

// expandSparse sets the blocks of batches of sparse rows.
func (p *Processor) expandSparse(batches []*Batch) {
	p.blocks = p.blocks[:0]
	for _, b := range batches {
		p.blocks = append(p.blocks, p.visit.Of.Features.ExpandSparse(b.Sparse))
	}
}

// addCounts adds a batch of sparse rows to the sums of a counted stage: in the first visit the counts of each
// class, in the second, with the counted weights, the losses of holdout rows at several multiples of the weights.
func (p *Processor) addCounts(b *Batch) {
	classes, columns := p.visit.Of.Classes, p.visit.Of.Features.Size()
	block := p.visit.Of.Features.ExpandSparse(b.Sparse)
	p.score.Reshape(b.Len(), classes)
	p.countOverflowed(b.Overflowed)
	if p.visit.Number == 0 {
		b.Rows.Write(p.score)
		kernel.AddCrossSparse(p.sum.Field(statistics.FieldCounts, columns, classes), block, p.score, b.Fitted)
		copy(p.score.Data, b.Score.Data) // W is 0
	} else {
		p.visit.fitted.ScoresSparse(p.score, b.Score, block)
		p.try(b)
	}
	p.measure(b.Rows)
}

// try measures the holdout rows of a batch with each multiple. p.score has the scores with the multiple 1.
func (p *Processor) try(b *Batch) {
	weights := solve.CountWeights()
	held := kernel.NewDense(len(weights), p.visit.Of.Classes) // scores of a row with each multiple
	trials := p.sum.Field(statistics.FieldTrials, len(weights), solve.TrialFields)
	rows := b.Rows
	for i, w := range heldOut(rows) {
		if w == 0 {
			continue
		}
		row, before, after := rows.Slice(i, i+1), b.Score.Row(i), p.score.Row(i)
		for t, weight := range weights {
			for c, s := range before {
				held.Row(t)[c] = s + float32(weight)*(after[c]-s)
			}
			tried := held.Slice(t, t+1)
			p.predict(row, tried)
			sums := trials[t*solve.TrialFields:]
			sums[0] += float64(w)
			sums[1] += float64(w) * row.Wrong(0, p.predicted, tried)
			sums[2] += float64(w) * float64(p.loss[0])
		}
	}
}

// blockVisit is a visit to a stage that is fitted in blocks. Batches in memory keep their scores, to which the next visit
// adds the changes. Other scores are computed from the last full weights, with each later change added in order. So they
// have the same bits.
type blockVisit struct {
	protocol.Changes
	by    []solve.Step // changes, in order
	block []int32      // inputs of the visit; nil: all
	size  int          // size of the sums of the block, including the intercept
}

// readBlocks determines the weights of the visit, and its inputs if these are not all.
func (v *Visit) readBlocks(chain *protocol.Chain) error {
	features := v.Of.Features
	shape := solve.Shape{Columns: features.Size(), Penalised: features.Penalised(), Classes: v.Of.Classes, Basis: v.Of.Basis}
	changes, err := chain.Changes(v.Of, v.Stage)
	if err != nil {
		return err
	}
	v.fitted, v.blocks = changes.Whole, &blockVisit{Changes: changes}
	for _, w := range changes.By {
		step, err := solve.StepOf(w.Tensors, shape)
		if err != nil {
			return fmt.Errorf("read %v: %w", w.Identity, err)
		}
		v.blocks.by = append(v.blocks.by, step)
	}
	if w, _ := chain.WeightsFor(v.Visit); w != nil {
		step, err := solve.StepOf(w.Tensors, shape)
		if err != nil {
			return fmt.Errorf("read %v: %w", w.Identity, err)
		}
		v.blocks.block, v.blocks.size = step.Block, len(step.Block)+shape.Columns-shape.Penalised
	}
	return nil
}

// scoresInBlocks computes the scores of a batch with the given block, with the weights of the visit, into dst.
func (p *Processor) scoresInBlocks(dst kernel.Dense, b *Batch, block kernel.Sparse) {
	v := p.visit.blocks
	next := slices.Index(v.Names, b.Shown) + 1
	if next == 0 && b.Shown != v.Since {
		b.After.Reshape(b.Score.Rows, b.Score.Cols)
		v.Whole.ScoresSparse(b.After, b.Score, block)
	}
	for _, step := range v.by[next:] {
		if step.Changed != nil {
			chosen := b.Choose(step.Changed, p.Cache)
			chosen.Ones = block.Ones
			kernel.MulAddSparse(b.After, chosen, kernel.Dense{Rows: chosen.Width(), Cols: dst.Cols, Data: step.Change})
			sink.TakeBack(b.After, b.Score)
		}
	}
	b.Shown = v.Since
	if n := len(v.Names); n > 0 {
		b.Shown = v.Names[n-1]
	}
	copy(dst.Data, b.After.Data)
}

// addBlock adds the Gram matrix of the visit's inputs, and their cross moment with the residuals in p.score.
func (p *Processor) addBlock(b *Batch, ones bool) {
	v := p.visit.blocks
	chosen := b.Choose(v.block, p.Cache)
	chosen.Ones = ones
	p.gram.Add(chosen, b.Fitted)
	kernel.AddCrossSparse(p.sum.Field(statistics.FieldCross, v.size, p.score.Cols), chosen, p.score, b.Fitted)
}

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
		link.Convert(score, of.stage.Link, of.link, &p.workspace.Link)
		before, score = score, before
	}
	p.occurringScores(score, before, i)
	p.predict(b.Rows, score)
	p.judgeOwn(b.Rows.Slice(0, b.Examples), b.Offset, 0)
}

// addOccurringTerms adds the terms of an increment on sparse rows, in a full run: the curvature at the final weights, or
// the counts.
func (p *Processor) addOccurringTerms(batches []*Batch) {
	k := p.visit.Of.Classes
	p.expandSparse(batches)
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
	p.occurring.Table(p.sum, statistics.Increment(p.segment.Increment).Occurring(), terms)
}

// readCounts reads the counts of the weights of a counted stage of a full run of a chain.
func (v *Visit) readCounts(final *schemas.Weights) error {
	k := v.Of.Classes
	counts, err := final.Tensors.Shaped(statistics.TensorCounts, v.Of.Features.Size(), k)
	if err != nil {
		return err
	}
	totals := make([]float64, k)
	for i, n := range counts[:v.Of.Features.Penalised()*k] {
		totals[i%k] += float64(n)
	}
	weight := solve.ChainWeight(v.Plan.Stages[v.Stage].Features.Weight)
	v.counts = &sink.Counts{All: counts, Totals: totals, Smoothing: solve.ChainSmoothing, Weight: float64(weight)}
	return nil
}

// occurringWeights are the weights in a visit of an update on sparse rows: of occurring columns, and for all others those
// of the previous version.
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
