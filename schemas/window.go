package schemas

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// KindWindow is the kind of a [Window] document.
const KindWindow wire.Kind = "window"

// Window is the state of a chain of retraining after a run, except for the sums. The next run continues from it. It is on the state topic.
type Window struct {
	Run        string            `json:"run"`              // run ID
	Chain      *Chain            `json:"chain"`            // chain of the run's plan
	Full       int               `json:"full"`             // number of the last full run in the chain
	FullRows   int64             `json:"full_rows"`        // rows of the window at that run
	Ends       []int64           `json:"ends"`             // by partition: the offset after the last processed one
	Sparse     bool              `json:"sparse,omitempty"` // see [Update.Sparse]
	Stages     int               `json:"stages"`           // number of stages with sums and terms on the state topic
	TermsSize  int64             `json:"terms_size"`       // bytes of the terms of an increment, for all stages
	GramsSize  int64             `json:"grams_size"`       // bytes of the Gram matrices of all stages
	Increments []WindowIncrement `json:"increments"`       // increments, in the order of arrival
	// Errors are the sums of the prequential errors of messages, oldest first: the state of the drift detector.
	Errors []ErrorSum `json:"errors,omitempty"`
	// Rejected counts the versions withheld since the last version that subscribers got.
	Rejected int `json:"rejected,omitempty"`
	// [Chain.AtLeast] of the run, if the version was withheld because of it
	AtLeast int64 `json:"at_least,omitempty"`
	// Unseen are the columns of [Chain.Lacking], if the gate has not compared the version.
	Unseen []string `json:"unseen,omitempty"`
	// Changed is the number of the first increment of the new stream, if the stream has changed; 0: it has not.
	Changed int `json:"changed,omitempty"`
	// MostlyBad counts the messages with the new rows of the run, if most of them are unusable.
	MostlyBad *coverage.BadMessages `json:"mostly_bad,omitempty"`
	Unknown   []examples.LabelRows  `json:"unknown,omitempty"`  // rows whose labels are not classes
	Progress  []SourceProgress      `json:"progress,omitempty"` // progress of the sources
	// Moments is the place on the state topic of the sums of all stages.
	Moments StatePlace `json:"moments"`
}

// WindowIncrement is an increment of a window, and where its terms are.
type WindowIncrement struct {
	Increment coverage.Increment `json:"increment"`       // the increment, with its weight after the run
	Visited   int                `json:"visited"`         // number of the run that visited it last
	Fitted    float64            `json:"fitted"`          // Σw of its training rows
	Messages  int64              `json:"messages"`        // number of messages with training rows
	Until     int64              `json:"until,omitempty"` // timestamp of the newest message, in milliseconds since 1970
	Terms     StatePlace         `json:"terms"`           // place on the state topic
}

// ErrorSum is the prequential error of consecutive messages.
type ErrorSum struct {
	Messages int64   `json:"messages"` // number of messages
	Rows     float64 `json:"rows"`     // Σw of the training rows
	Wrong    float64 `json:"wrong"`    // Σw of the rows that were predicted wrong
}

// StatePlace is the place of records of a run.
type StatePlace struct {
	Run  string `json:"run"`  // run ID
	From int64  `json:"from"` // first offset
	To   int64  `json:"to"`   // offset after the last
	// Index is the place of an increment among those that the run visited.
	Index int `json:"index,omitempty"`
}

// Messages encodes the window for the state topic.
func (w *Window) Messages() ([]wire.Message, error) { return wire.MessagesOf(KindWindow, w.Run, w) }

// Rows returns the number of rows of the window, including forgotten rows.
func (w *Window) Rows() (rows int64) {
	for i := range w.Increments {
		rows += w.Increments[i].Increment.Rows()
	}
	return rows
}

// Learnt returns the number of rows of the window, excluding forgotten rows.
func (w *Window) Learnt() (rows int64) {
	for i := range w.Increments {
		rows += w.Increments[i].Increment.Learnt()
	}
	return rows
}

// Spans returns the spans of all increments, grouped by increment.
func (w *Window) Spans() (spans coverage.Spans) {
	for i := range w.Increments {
		spans = append(spans, w.Increments[i].Increment.Spans()...)
	}
	return spans
}

// Advance sets Ends to the offsets after a run, which has processed what its plan adds. Offsets that the log had deleted are skipped.
func (w *Window) Advance(plan *Plan) {
	for _, span := range append(slices.Clone(plan.Chain.Lost), plan.Added()...) {
		for len(w.Ends) <= span.Partition {
			w.Ends = append(w.Ends, 0)
		}
		w.Ends[span.Partition] = max(w.Ends[span.Partition], span.To)
	}
}

// Without returns the window without offsets that belong to another increment: see [coverage.Increment.Without].
func (w Window) Without(spans coverage.Spans) *Window {
	on := map[int]coverage.Spans{}
	for _, s := range spans {
		on[s.Partition] = append(on[s.Partition], s)
	}
	w.Increments = slices.Clone(w.Increments)
	for i := range w.Increments {
		if c := &w.Increments[i].Increment; c.Meets(on) {
			*c = c.Without(spans)
		}
	}
	return &w
}

// Longest returns up to n least recently visited increments, in this order; the earlier one first if two are equal.
// A joined increment counts as those that it consists of. If that is more than n has left, it is included only if it fits into the
// rows left of n increments with the given number of rows. So the number of revisited rows is bounded.
func (w *Window) Longest(n int, rows int64) (list []WindowIncrement) {
	if n <= 0 {
		return nil
	}
	left, count := int64(n)*rows, 0
	all := slices.Clone(w.Increments)
	slices.SortStableFunc(all, func(a, b WindowIncrement) int { return a.Visited - b.Visited })
	for i := range all {
		has, size := all[i].Increment.Rows(), all[i].Increment.Size()
		if count+size > n && (size == 1 || has > left) {
			continue
		}
		left, count = left-has, count+size
		list = append(list, all[i])
	}
	return list
}
