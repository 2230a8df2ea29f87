package visit

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
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
