package visit

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// score predicts the rows of a message with the previous version, and adds the losses: each row is scored before it is
// trained on. The error means that the run is configured to stop at rows that overflow.
func (p *surveyor) score(found *Findings, offset int64, batch *examples.Batch, rows accumulate.Rows) error {
	n := batch.Rows
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	var probabilities kernel.Dense
	if batch.Sparse {
		probabilities = p.predictor.MeasureSparse(&p.features, rows.Truth, p.loss, p.predicted)
	} else {
		p.x.Reshape(batch.Rows, len(p.shift))
		batch.Features(p.x.Data, len(p.shift))
		probabilities = p.predictor.Measure(p.x, rows.Truth, p.loss, p.predicted)
	}
	if err := p.leaveOut(found, "inputs, blocks or scores of the version before", p.predictor.Overflowed(), rows); err != nil {
		return err
	}
	found.sum.AddLosses(rows, p.loss, p.predicted, probabilities)
	found.sum.AddQuality(rows, probabilities, p.predicted)
	found.sum.AddRanking(rows, probabilities, p.predicted, p.predictor.Model().Manifest.Threshold)
	message := statistics.MessageLosses{Offset: offset}
	for i, class := range rows.Classes {
		if class < 0 || rows.Splits[i] != examples.Train {
			continue
		}
		w := float64(rows.Weights[i])
		message.Rows++
		message.Weight += w
		message.Loss += w * float64(p.loss[i])
		message.Errors += w * min(rows.Wrong(i, p.predicted, probabilities), 1) // the error of a target may be larger
		if served, ok := batch.Served(i); ok && p.Plan.Task() == examples.OneLabel {
			one := statistics.ServedLosses{Version: served.Version, Weight: w, Rows: 1}
			if p.labels.Spelt(served.Label) != p.labels.Text()[class] {
				one.Errors = w
			}
			found.served = statistics.AddServed(found.served, one)
		}
	}
	if message.Rows > 0 {
		found.messages = append(found.messages, message)
	}
	return nil
}
