package worker

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
)

// surveyFirst is first, but the survey of an update, which keeps the preparation of the version before it, needs no usable message.
func (w *Worker) surveyFirst(ctx context.Context) (*first, error) {
	if w.plan.Update() == nil {
		return w.first(ctx)
	}
	columns := w.earlier.Columns()
	return &first{&shape{w.earlier.Sparse(), w.earlier.Width()}, make([]float32, w.earlier.Width()), columns, columns.Text(), schemas.Image{}}, nil
}

// score predicts the rows of a message with the version before, and adds how well it did: each row is scored before it is learnt. The error says that
// the run stops at rows that overflow.
func (p *surveyProcessor) score(sum *accumulate.Sum, found *findings, offset int64, examples *schemas.Examples, rows accumulate.Rows) error {
	n := examples.Rows
	features(&p.x, examples, len(p.shift))
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	probabilities := p.predictor.Measure(p.x, rows.Truth, p.loss, p.predicted)
	if err := p.leaveOut(found, "inputs, blocks or scores of the version before", p.predictor.Overflowed(), rows); err != nil {
		return err
	}
	sum.AddLosses(rows, p.loss, p.predicted, probabilities)
	sum.AddQuality(rows, probabilities, p.predicted)
	message := schemas.MessageLosses{Offset: offset}
	for i, class := range rows.Classes {
		if class == schemas.Unlabelled || rows.Splits[i] != schemas.Train {
			continue
		}
		w := float64(rows.Weights[i])
		message.Rows++
		message.Weight += w
		message.Loss += w * float64(p.loss[i])
		message.Errors += w * min(rows.Wrong(i, p.predicted, probabilities), 1) // a number may be wrong by more
	}
	if message.Rows > 0 {
		found.messages = append(found.messages, message)
	}
	return nil
}

// skippedSpans returns the messages of a segment that do not count: those that were passed over, and those in quarantine.
func skippedSpans(number int, offsets []int64, bad []schemas.Quarantined) (spans schemas.Spans) {
	offsets = slices.Clone(offsets)
	for _, q := range bad {
		offsets = append(offsets, q.Offset)
	}
	slices.Sort(offsets)
	for _, at := range offsets {
		if last := len(spans) - 1; last >= 0 && spans[last].To == at {
			spans[last].To++
			continue
		}
		spans = append(spans, schemas.Span{Partition: number, From: at, To: at + 1})
	}
	return spans
}
