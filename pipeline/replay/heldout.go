package replay

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas/examples"
)

// HeldOut is a labelled row of a version's run on which the version was not trained.
type HeldOut struct {
	Features []float32 // d, as in the message; missing values are NaN
	Label    string    // in classification
	Targets  []float64 // in regression
	Number   int64     // of the row, from 0, among all from which it was drawn

	Predicted string // of a mistake: the label that the version predicts instead
}

// HeldOutRows returns the test rows of a version's run, or, if there are none, its holdout rows: up to most, drawn with
// the seed, in topic order. The model must be on dense rows, and must not be multi-label.
func HeldOutRows(ctx context.Context, p *topics.Pipeline, m *model.Model, most int, seed uint64) ([]HeldOut, examples.Split, error) {
	test, held := NewDraw(most, seed), NewDraw(most, seed)
	err := eachHeldOut(ctx, p, m, func(split examples.Split, row func() HeldOut) bool {
		if split == examples.Test {
			test.Offer(test.seen, row)
		} else {
			held.Offer(held.seen, row)
		}
		return true
	})
	if len(test.rows) > 0 {
		return test.Rows(), examples.Test, err
	}
	return held.Rows(), examples.Holdout, err
}

// eachHeldOut calls do for the labelled rows of a version's run on which it was not trained, in topic order, until do returns false.
func eachHeldOut(ctx context.Context, p *topics.Pipeline, m *model.Model,
	do func(split examples.Split, row func() HeldOut) (more bool)) error {
	var raw kernel.Dense
	plan := m.Manifest.Plan
	return dispatch.EachCounted(ctx, p, plan, false, func(partition int, offset int64, batch *examples.Rows) bool {
		if batch.Sparse != nil || batch.Cols != m.Width() || batch.Align(m.Columns()) != nil {
			return true // quarantined by the run
		}
		rows := visit.RowsOf(plan, partition, offset, batch)
		var targets []float64
		if m.Task() == examples.Numbers {
			var err error
			if targets, err = visit.ReadTargets(plan, batch, rows); err != nil {
				return true
			}
		}
		read := false
		for i, split := range rows.Splits {
			known := batch.Labelled(i)
			if targets != nil {
				known = rows.Truth.Classes[i] != examples.Unlabelled
			}
			if split == examples.Train || !known {
				continue
			}
			more := do(split, func() HeldOut {
				if !read { // most messages have training rows only
					raw.Reshape(batch.Rows, batch.Cols)
					batch.Features(raw.Data, batch.Cols)
					read = true
				}
				row := HeldOut{Features: slices.Clone(raw.Row(i))}
				if targets == nil {
					row.Label = batch.Label(i)
				} else {
					k := len(plan.Targets)
					row.Targets = slices.Clone(targets[i*k : (i+1)*k])
				}
				return row
			})
			if !more {
				return false
			}
		}
		return true
	})
}

// Draw samples rows of a stream uniformly (reservoir sampling, Vitter 1985).
type Draw struct {
	most   int
	seen   int64
	rows   []HeldOut
	random *rand.Rand
}

// NewDraw returns a draw of up to most rows, with a seed.
func NewDraw(most int, seed uint64) *Draw {
	return &Draw{most: most, random: rand.New(rand.NewPCG(seed, 0))}
}

// Offer adds a row to the stream. It calls row only if the row is drawn, and keeps the result.
func (d *Draw) Offer(number int64, row func() HeldOut) {
	d.seen++
	place := len(d.rows)
	if place == d.most {
		if place = int(d.random.Int64N(d.seen)); place >= d.most {
			return
		}
	} else {
		d.rows = append(d.rows, HeldOut{})
	}
	d.rows[place] = row()
	d.rows[place].Number = number
}

// Rows returns the rows that were drawn, in the order of the stream.
func (d *Draw) Rows() []HeldOut {
	slices.SortFunc(d.rows, func(a, b HeldOut) int { return cmp.Compare(a.Number, b.Number) })
	return d.rows
}

// Mistakes returns up to most test rows of a version's run that it classifies incorrectly, in topic order. It skips
// forgotten rows, and multi-label and regression rows. The error may be a *[protocol.NoVersionError], or a
// *[kafkalog.DeletedError] if retention has deleted examples of the run.
func Mistakes(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, m *model.Model, most int) ([]HeldOut, error) {
	if m.Task() != examples.OneLabel || m.Sparse() {
		return nil, nil
	}
	var found []HeldOut
	labels, predictor := examples.NewLabels(m.Labels()), m.Predictor(blas)
	err := eachHeldOut(ctx, p, m, func(split examples.Split, row func() HeldOut) bool {
		if split != examples.Test {
			return true
		}
		r := row()
		r.Label = labels.Spelt(r.Label)
		if r.Predicted, _ = predictor.Predict(slices.Clone(r.Features)); r.Predicted != r.Label {
			found = append(found, r)
		}
		return len(found) < most
	})
	return found, err
}
