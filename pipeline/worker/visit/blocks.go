package visit

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

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
func (p *Processor) scoresInBlocks(dst kernel.Dense, b *partition.Batch, block kernel.Sparse) {
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

// addBlock adds the Gram matrix of the visit's inputs, and their cross moment with the residuals.
func (p *Processor) addBlock(sum *accumulate.Sum, b *partition.Batch, residual kernel.Dense, ones bool) {
	v := p.visit.blocks
	chosen := b.Choose(v.block, p.Cache)
	chosen.Ones = ones
	p.gram.Add(chosen, b.Fitted)
	kernel.AddCrossSparse(sum.Field(statistics.FieldCross, v.size, residual.Cols), chosen, residual, b.Fitted)
}
