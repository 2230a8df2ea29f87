package visit

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/solve"
)

// countSparse computes the sums of a counted stage, over batches of sparse rows: in the first visit the counts of each
// class, in the second, with the counted weights, the losses of holdout rows at several multiples of the weights.
func (p *Processor) countSparse(ctx context.Context, batches []*partition.Batch) *accumulate.Sum {
	sum, classes, columns := &accumulate.Sum{}, p.visit.Of.Classes, p.visit.Of.Features.Size()
	for _, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		block := p.visit.Of.Features.ExpandSparse(b.Sparse)
		p.score.Reshape(b.Len(), classes)
		p.countOverflowed(sum, b.Overflowed)
		if p.visit.Number == 0 {
			b.Rows.Write(p.score)
			kernel.AddCrossSparse(sum.Field(statistics.FieldCounts, columns, classes), block, p.score, b.Fitted)
			copy(p.score.Data, b.Score.Data) // W is 0
			p.measure(sum, b.Rows, p.score)
		} else {
			p.visit.fitted.ScoresSparse(p.score, b.Score, block)
			p.try(sum, b)
			p.measure(sum, b.Rows, p.score)
		}
		sum.Count(b.Examples, b.Checksum)
	}
	return sum
}

// try measures the holdout rows of a batch with each multiple. p.score has the scores with the multiple 1.
func (p *Processor) try(sum *accumulate.Sum, b *partition.Batch) {
	weights := solve.CountWeights()
	held := kernel.NewDense(len(weights), p.visit.Of.Classes) // scores of a row with each multiple
	trials := sum.Field(statistics.FieldTrials, len(weights), solve.TrialFields)
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
