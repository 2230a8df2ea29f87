package visit

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// ByLeaves reports whether the visit's sums are computed from the leaves of rows: a row has one leaf in each tree, so such
// sums take a fraction of the time of a dense block. Sums of a chain use a block, because its increments need terms, and
// so do those of Algorithm 2.
func (v *Visit) ByLeaves() bool {
	return v.Of.Features.Leaves() > 0 && v.Plan.Chain == nil && !v.Of.Link.Learnt
}

// leavesOf returns the leaves of a batch's rows in the trees of the stage.
func (p *Processor) leavesOf(b *partition.Batch) tree.Leaves {
	features := p.visit.Of.Features
	leaves, found := b.Leaves(features, features.Trees(), &p.leaves, p.Cache)
	if !found {
		features.FindLeaves(leaves, b.Codes)
	}
	return *leaves
}

// sumLeaves computes the sums of a gradient, or the Gram matrix of the stage: Σ h x xᵀ, where h is the mean curvature of the
// loss of a row at its score before the stage. So the preconditioner is close to the Hessian, and few passes find the minimum.
func (p *Processor) sumLeaves(ctx context.Context, l *Load, batches []*partition.Batch) *accumulate.Sum {
	sum := &accumulate.Sum{}
	var matrix []float64
	for i, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		sum.Count(b.Examples, b.Checksum) // also outside the sample: all must match the survey
		sampled := p.visit.Gram && p.visit.samples(l.Segment(), i)
		if sampled || !p.visit.Gram && p.visit.Sample != nil {
			p.curvatureBefore(b)
		}
		switch {
		case !p.visit.Gram:
			p.gradientOfLeaves(sum, b, p.leavesOf(b))
		case sampled:
			if matrix == nil {
				n := p.visit.Of.Features.Size()
				matrix = p.Grams.Get(n * (n + 1) / 2)
				clear(matrix)
			}
			p.addPairs(sum, matrix, b, p.leavesOf(b))
		}
	}
	if matrix != nil {
		sum.AddGram(matrix)
	}
	return sum
}

// countsPairs reports whether the Gram matrix of batches, of unweighted leaves, can be counted by pairs of leaves: the
// rows' weights are 0 or 1, so each number is identical to that of a product of blocks in float32.
func (p *Processor) countsPairs(batches []*partition.Batch) bool {
	if p.visit.Of.Features.Leaves() == 0 || p.visit.ByLeaves() {
		return false
	}
	return !slices.ContainsFunc(batches, func(b *partition.Batch) bool {
		return slices.ContainsFunc(b.Fitted, func(w float32) bool { return w != 0 && w != 1 })
	})
}

// countPairs counts the pairs of leaves of a batch's rows into a packed Gram matrix, which it allocates for the first rows
// that count.
func (p *Processor) countPairs(sum *accumulate.Sum, matrix []float64, b *partition.Batch) []float64 {
	sum.Field(statistics.FieldGramRows, 1)
	if n := p.visit.Of.Features.Size(); matrix == nil && slices.Contains(b.Fitted, 1) {
		matrix = p.Grams.Get(n * (n + 1) / 2)
		clear(matrix)
	}
	if matrix != nil {
		p.visit.Of.Features.FindLeaves(&p.leaves, b.Codes)
		p.curvature = append(p.curvature[:0], b.Fitted...)
		p.addPairs(sum, matrix, b, p.leaves)
	}
	return matrix
}

// gradientOfLeaves sums the loss and the cross moment of a batch, and, if the Gram matrix is that of a sample, the trace
// of that of all rows, from the batch's curvature in p.curvature.
func (p *Processor) gradientOfLeaves(sum *accumulate.Sum, b *partition.Batch, leaves tree.Leaves) {
	p.countOverflowed(sum, b.Overflowed)
	if p.visit.Sample != nil {
		trace := 0.0
		for _, h := range p.curvature {
			trace += float64(h)
		}
		sum.Field(statistics.FieldTrace, 1)[0] += trace * float64(leaves.Trees)
	}
	features, k := p.visit.Of.Features, p.visit.Of.Classes
	p.score.Reshape(b.Len(), k)
	p.visit.fitted.ScoresOfLeaves(p.score, b.Score, leaves, features.Leaves())
	p.measure(sum, b.Rows, p.score)
	b.Rows.Residuals(p.score)
	weighted(p.score, b.Fitted)
	cross := sum.Field(statistics.FieldCross, features.Size(), k)
	grown := leaves.Trees * features.Leaves()
	tree.AddResiduals(cross[:grown*k], leaves, features.Leaves(), p.score.Data)
	if features.Size() > grown { // the intercept
		last := cross[grown*k:]
		for i, v := range p.score.Data {
			last[i%k] += float64(v)
		}
	}
}

// addPairs adds the products of a batch's rows, with their curvature in p.curvature, to a packed Gram matrix.
func (p *Processor) addPairs(sum *accumulate.Sum, matrix []float64, b *partition.Batch, leaves tree.Leaves) {
	features := p.visit.Of.Features
	n := leaves.Trees * features.Leaves()
	tree.AddPairs(matrix[:n*(n+1)/2], leaves, features.Leaves(), p.curvature)
	if features.Size() > n { // the intercept
		last := matrix[n*(n+1)/2:]
		tree.AddResiduals(last[:n], leaves, features.Leaves(), p.curvature)
		for _, h := range p.curvature {
			last[n] += float64(h)
		}
	}
	weight := sum.Field(statistics.FieldGramRows, 1)
	for _, w := range b.Fitted {
		weight[0] += float64(w)
	}
}

// curvatureBefore writes the weighted curvature of each row of a batch at its score before the stage to p.curvature.
func (p *Processor) curvatureBefore(b *partition.Batch) {
	p.residual.Reshape(b.Len(), p.visit.Of.Classes)
	copy(p.residual.Data, b.Score.Data)
	p.visit.Of.Link.Predict(p.residual)
	p.curvatureAt(b, p.residual)
}

// curvatureAt is curvatureBefore for given predictions of the scores.
func (p *Processor) curvatureAt(b *partition.Batch, predictions kernel.Dense) {
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

// finishLeaves measures the final predictions of a batch, and fills b.After, p.residual and, at the end of a member,
// votes.
func (p *Processor) finishLeaves(sum, average *accumulate.Sum, b *partition.Batch, votes kernel.Dense) {
	p.visit.fitted.ScoresOfLeaves(b.After, b.Score, p.leavesOf(b), p.visit.Of.Features.Leaves())
	p.score.Reshape(b.After.Rows, b.After.Cols)
	copy(p.score.Data, b.After.Data)
	p.conclude(sum, b.Rows, b.Examples, b.After, p.residual)
	if EndsMember(p.Plan, p.visit.Stage) {
		p.vote(average, b.Rows, b.Examples, votes, b.Votes)
	}
}

// sumGrowth computes the sums for growing trees: for each word of each column the residuals and the curvature of all
// training rows before the stage, and a sample of these rows, drawn again for the stage.
func (p *Processor) sumGrowth(ctx context.Context, l *Load, batches []*partition.Batch) (*accumulate.Sum, *accumulate.Sample) {
	coder, k := p.visit.prepared.Coder, p.visit.Of.Classes
	sum, sample := &accumulate.Sum{}, &accumulate.Sample{Max: p.Plan.Stages[p.visit.Stage].Features.Sample}
	words, each := coder.Words(), tree.Codes*(k+1)
	row := make([]float32, statistics.GrowthWidth(coder.Width(), k))
	rows := 0
	for _, b := range batches {
		rows += b.Len()
	}
	sample.Expect(rows, len(row))
	for _, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		p.score.Reshape(b.Len(), k)
		copy(p.score.Data, b.Score.Data)
		p.measure(sum, b.Rows, p.score)
		p.curvatureAt(b, p.score)
		b.Rows.Residuals(p.score)
		for i, w := range b.Fitted {
			if w == 0 {
				continue
			}
			hash := statistics.GrowthHash(p.Plan.Seed, p.visit.Stage, l.Segment().Span.Partition, b.Offset, i)
			if sample.Wants(hash) {
				growthRow(row, b.Codes[i*coder.Width():][:coder.Width()], p.score.Row(i), w)
				sample.Offer(hash, row)
			}
		}
		weighted(p.score, b.Fitted)
		sums := sum.Field(statistics.FieldWords, len(words), tree.Codes, k+1)
		for j, column := range words {
			w := tree.Words{Column: column, Sums: sums[j*each:][:each]}
			w.AddWords(b.Codes, coder.Width(), p.score.Data, p.curvature)
		}
		sum.Count(b.Examples, b.Checksum)
	}
	return sum, sample
}

// growthRow writes a row of a sample for growing trees: its codes, its residuals and its weight.
func growthRow(row []float32, codes []uint8, residuals []float32, weight float32) {
	for j, code := range codes {
		row[j] = float32(code)
	}
	row[len(codes)+copy(row[len(codes):], residuals)] = weight
}
