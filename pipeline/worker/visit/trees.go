package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// ByLeaves reports whether the visit's sums are computed from the leaves of rows: a row has one leaf in each tree, so such
// sums take a fraction of the time of a dense block. Sums of a chain use a block, because its increments need terms, and
// so do those of Algorithm 2.
func (v *Visit) ByLeaves() bool {
	return v.Of.Features.Leaves() > 0 && v.Plan.Chain == nil && !v.Of.Link.Learnt
}

// leavesOf returns the leaves of a batch's rows in the trees of the stage.
func (p *Processor) leavesOf(b *Batch) tree.Leaves {
	features := p.visit.Of.Features
	leaves, found := b.Leaves(features, features.Trees(), &p.leaves, p.Cache)
	if !found {
		features.FindLeaves(leaves, b.Codes)
	}
	return *leaves
}

// countsPairs reports whether the Gram matrix of batches is counted by pairs of leaves: where the rows' weights are 0 or 1, each number is
// identical to that of a product of blocks in float32.
func (p *Processor) countsPairs(batches []*Batch) bool {
	if p.visit.Of.Features.Leaves() == 0 || p.visit.ByLeaves() {
		return p.visit.ByLeaves()
	}
	return !slices.ContainsFunc(batches, func(b *Batch) bool {
		return slices.ContainsFunc(b.Fitted, func(w float32) bool { return w != 0 && w != 1 })
	})
}

// sumPairs computes the Gram matrix of a stage from pairs of leaves: Σ h x xᵀ. If the sums are computed from leaves, h is the mean
// curvature of the loss of a row at its score before the stage, times its weight: so the preconditioner is close to the Hessian, and few
// passes find the minimum. Otherwise h is the weight.
func (p *Processor) sumPairs() summing {
	return summing{func(i int, b *Batch) {
		if !p.inGram(i) {
			return
		}
		p.weighGram(b)
		if !slices.ContainsFunc(b.Fitted, func(w float32) bool { return w != 0 }) {
			return
		}
		if p.visit.ByLeaves() {
			p.curvatureBefore(b)
		} else {
			p.curvature = append(p.curvature[:0], b.Fitted...)
		}
		features := p.visit.Of.Features
		p.sum.AddLeaves(p.leavesOf(b), features.Leaves(), features.Size(), p.curvature)
	}, p.nameGram}
}

// addLeavesGradient sums the loss and the cross moment of a batch, and, if the Gram matrix is that of a sample, the trace
// of the matrix of all rows.
func (p *Processor) addLeavesGradient(b *Batch) {
	p.countOverflowed(b.Overflowed)
	features, k, leaves := p.visit.Of.Features, p.visit.Of.Classes, p.leavesOf(b)
	if p.visit.Sample != nil {
		p.curvatureBefore(b)
		trace := 0.0
		for _, h := range p.curvature {
			trace += float64(h)
		}
		p.sum.Field(statistics.FieldTrace, 1)[0] += trace * float64(leaves.Trees)
	}
	p.score.Reshape(b.Len(), k)
	p.visit.fitted.ScoresOfLeaves(p.score, b.Score, leaves, features.Leaves())
	p.measure(b.Rows)
	b.Rows.Residuals(p.score)
	weighted(p.score, b.Fitted)
	p.sum.AddLeafResiduals(leaves, features.Leaves(), features.Size(), p.score)
}

// curvatureBefore writes the weighted curvature of each row of a batch at its score before the stage to p.curvature.
func (p *Processor) curvatureBefore(b *Batch) {
	p.residual.Reshape(b.Len(), p.visit.Of.Classes)
	copy(p.residual.Data, b.Score.Data)
	p.visit.Of.Link.Predict(p.residual)
	p.curvatureAt(b, p.residual)
}

// curvatureAt is curvatureBefore for given predictions of the scores.
func (p *Processor) curvatureAt(b *Batch, predictions kernel.Dense) {
	p.curvature = p.visit.Of.Link.Curvature(p.curvature[:0], predictions)
	for i, w := range b.Fitted {
		if w == 0 {
			p.curvature[i] = 0
		} else {
			p.curvature[i] *= w
		}
	}
}

// weighted multiplies the residuals of rows by their weights. The residuals of rows with weight 0 may have any value
// before.
func weighted(residuals kernel.Dense, weights []float32) {
	for i, w := range weights {
		switch row := residuals.Row(i); w {
		case 1:
		case 0:
			clear(row)
		default:
			for c := range row {
				row[c] *= w
			}
		}
	}
}

// sumGrowth computes the sums for growing trees: for each word of each column the residuals and the curvature of all
// training rows before the stage, and a sample of these rows, drawn again for the stage.
func (p *Processor) sumGrowth(batches []*Batch) summing {
	coder, k := p.visit.prepared.Coder, p.visit.Of.Classes
	p.sample = &accumulate.Sample{Max: p.Plan.Stages[p.visit.Stage].Features.Sample}
	_, words := coder.Divided()
	row := make([]float32, statistics.GrowthWidth(coder.Width(), k))
	rows := 0
	for _, b := range batches {
		rows += b.Len()
	}
	p.sample.Expect(rows, len(row))
	return summing{add: func(_ int, b *Batch) {
		p.score.Reshape(b.Len(), k)
		copy(p.score.Data, b.Score.Data)
		p.measure(b.Rows)
		p.curvatureAt(b, p.score)
		b.Rows.Residuals(p.score)
		for i, w := range b.Fitted {
			if w == 0 {
				continue
			}
			hash := statistics.GrowthHash(p.Plan.Seed, p.visit.Stage, p.segment.Span.Partition, b.Offset, i)
			if p.sample.Wants(hash) {
				for j, code := range b.Codes[i*coder.Width():][:coder.Width()] {
					row[j] = float32(code)
				}
				row[coder.Width()+copy(row[coder.Width():], p.score.Row(i))] = w
				p.sample.Offer(hash, row)
			}
		}
		weighted(p.score, b.Fitted)
		p.sum.AddWords(words, b.Codes, coder.Width(), p.score, p.curvature)
	}}
}
