package solver

import (
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// detectChange detects whether the stream has changed, from the prequential losses of an update's messages in cut order. It
// records the first increment of the window that belongs to the new stream. Messages whose rows lack optional columns do
// not count.
func detectChange(messages []prequentialMessage, w *schemas.Window) {
	drift := solve.Drift{}
	for _, e := range w.Errors {
		drift.Buckets = append(drift.Buckets, solve.Bucket{Inputs: e.Messages, Rows: e.Rows, Wrong: e.Wrong})
	}
	since := int64(0) // number of the newest messages that belong to the new stream
	for _, m := range inLogOrder(messages, w.Chain) {
		if since > 0 {
			since++
		}
		if w.Chain.Lacking.Has(m.Partition, m.Offset) {
			continue // the rows have changed as the configuration allows
		}
		if changed := drift.Observe(m.Weight, m.Errors); changed > 0 {
			since = changed
		}
	}
	w.Errors = nil
	for _, b := range drift.Buckets {
		w.Errors = append(w.Errors, schemas.ErrorSum{Messages: b.Inputs, Rows: b.Rows, Wrong: b.Wrong})
	}
	if since == 0 {
		return
	}
	w.Changed = w.Increments[0].Increment.Number
	for i := len(w.Increments) - 1; i >= 0 && since > 0; i-- {
		w.Changed = w.Increments[i].Increment.Number
		since -= w.Increments[i].Messages
	}
}
