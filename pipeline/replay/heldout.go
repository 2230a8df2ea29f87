package replay

import (
	"context"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/decode"
	"github.com/stagewise/stagewise/schemas/examples"
)

// HeldOut is rows that a version was not fitted to, with what they should be predicted as.
type HeldOut struct {
	Split    examples.Split // of all
	Features kernel.Dense   // n × d; a missing one is NaN
	Labels   []string       // of a model of labels (n)
	Targets  []float64      // of a model of numbers (n × k)
}

// ReadHeldOut returns the first test rows of a version's run, or its first holdout rows if it has no test rows, in the order of the topic,
// and at most so many. Rows that were forgotten, or have no label or several, are left out. The error is as that of [Mistakes].
func ReadHeldOut(ctx context.Context, p *topics.Pipeline, m *model.Model, most int) (*HeldOut, error) {
	plan := m.Manifest.Plan
	test, holdout := &HeldOut{Split: examples.Test}, &HeldOut{Split: examples.Holdout}
	if m.Sparse() || m.Task() == examples.SeveralLabels {
		return test, nil
	}
	var raw kernel.Dense
	err := eachMessage(ctx, p, plan, func(partition int, offset int64, batch *examples.Batch) bool {
		left, read := forgottenIn(plan, partition, offset, batch.Rows), false
		k := len(m.Labels())
		var targets []float64
		if m.Task() == examples.Numbers {
			known := make([]bool, batch.Rows)
			if targets = make([]float64, batch.Rows*k); batch.Targets(targets, known, plan.Targets) != nil {
				return true // the run has put the message into quarantine
			}
			for i := range left {
				left[i] = left[i] || !known[i]
			}
		}
		rows, _ := decode.Rows(plan, partition, offset, batch)
		for i, split := range rows.Splits {
			of := holdout
			switch {
			case split == examples.Test:
				of = test
			case split != examples.Holdout || test.Features.Rows > 0:
				continue
			}
			if of.Features.Rows >= most || left[i] || targets == nil && !batch.Labelled(i) {
				continue
			}
			if !read {
				if read = readRows(&raw, batch, m); !read {
					return true
				}
			}
			if targets != nil {
				of.Targets = append(of.Targets, targets[i*k:(i+1)*k]...)
			} else {
				of.Labels = append(of.Labels, batch.Label(i))
			}
			of.Features.Data = append(of.Features.Data, raw.Row(i)...)
			of.Features.Rows, of.Features.Cols = of.Features.Rows+1, batch.Width
		}
		return test.Features.Rows < most
	})
	if test.Features.Rows == 0 {
		return holdout, err
	}
	return test, err
}
