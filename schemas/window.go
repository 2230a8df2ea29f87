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
	// Bases are the earlier windows on the state topic that this one is based on. If there are any, Increments has only the changes since
	// the last of them, which may itself contain changes to the one before; the first has all increments. See [Window.ChangesOf].
	Bases []StatePlace `json:"bases,omitempty"`
	Left  []int        `json:"left,omitempty"` // numbers of the increments that left since the last base
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
	// Chunks are the numbers of messages of the records of each stage; nil for a window.
	Chunks []int `json:"chunks,omitempty"`
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

// maxBases limits the number of windows that must be read for one list of increments.
const maxBases = 16

// ChangesOf returns the window to store after an update of base, which is at a place of the state topic: with only the increments that the
// update changed, if that is much shorter. It also sets Bases of w. base must have all of its increments.
func (w *Window) ChangesOf(base *Window, at StatePlace) *Window {
	w.Bases, w.Left = nil, nil
	if len(base.Bases) == maxBases {
		return w
	}
	stored := *w
	stored.Increments, stored.Left = nil, nil
	for i, j := 0, 0; i < len(base.Increments) || j < len(w.Increments); {
		switch {
		case j == len(w.Increments) || i < len(base.Increments) && base.Increments[i].Increment.Number != w.Increments[j].Increment.Number:
			stored.Left = append(stored.Left, base.Increments[i].Increment.Number)
			i++
			continue
		case i == len(base.Increments) || !w.Increments[j].unchanged(&base.Increments[i], w.decay()):
			stored.Increments = append(stored.Increments, w.Increments[j])
		}
		i, j = min(i+1, len(base.Increments)), j+1
	}
	if 2*(len(stored.Increments)+len(stored.Left)) > len(w.Increments) {
		return w
	}
	w.Bases = append(slices.Clone(base.Bases), at)
	stored.Bases = w.Bases
	return &stored
}

// decay returns the factor that the run has applied to the weights of earlier increments.
func (w *Window) decay() float64 {
	if w.Chain == nil || w.Chain.Update == nil {
		return 1
	}
	return w.Chain.Update.Decay
}

// unchanged reports whether an update has only decayed the weight of an increment: it has neither visited it nor removed offsets from it.
func (i *WindowIncrement) unchanged(before *WindowIncrement, decay float64) bool {
	a, b := &i.Increment, &before.Increment
	same := func(a, b coverage.Coverage) bool { return slices.Equal(a.Spans, b.Spans) }
	return i.Visited == before.Visited && i.Terms.Run == before.Terms.Run && i.Terms.Index == before.Terms.Index &&
		a.Weight == b.Weight*decay && slices.EqualFunc(a.Covered, b.Covered, same) && slices.Equal(a.Skipped, b.Skipped)
}

// On restores all increments of a stored window, given the last of its Bases, which must have all of its increments.
func (w *Window) On(base *Window) {
	changed := map[int]WindowIncrement{}
	for _, c := range w.Increments {
		changed[c.Increment.Number] = c
	}
	var all []WindowIncrement
	for _, c := range base.Increments {
		if slices.Contains(w.Left, c.Increment.Number) {
			continue
		}
		if now, any := changed[c.Increment.Number]; any {
			delete(changed, c.Increment.Number)
			c = now
		} else {
			c.Increment.Weight *= w.decay()
		}
		all = append(all, c)
	}
	for _, c := range w.Increments {
		if _, added := changed[c.Increment.Number]; added {
			all = append(all, c)
		}
	}
	w.Increments, w.Left = all, nil
}

// Advance sets Ends to the offsets after the spans that a run's plan adds. Offsets that the log had deleted are skipped.
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
	w.Increments = slices.Clone(w.Increments)
	for i := range w.Increments {
		w.Increments[i].Increment = w.Increments[i].Increment.Without(spans)
	}
	return &w
}

// Longest returns up to n least recently visited increments, in this order; the earlier one first if two are equal. A joined
// increment counts as the increments that it consists of. If these exceed the rest of n, it is included only if it fits into the
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

// WindowBytes is the maximum length of the increments of a window, in bytes of JSON, before a full run joins
// neighbours. A document also has other parts.
const WindowBytes = wire.MaxDocument / 4

// Bytes returns the maximum length of the JSON of the increments.
func (w *Window) Bytes() (bytes int64) {
	for i := range w.Increments {
		bytes += w.Increments[i].Increment.Bytes()
	}
	return bytes
}

// join returns increments of a window as a single one with the number and the terms of the first; false if their weights
// differ, or if two have the same offsets.
func join(list []WindowIncrement) (one WindowIncrement, ok bool) {
	one = list[0]
	if len(list) == 1 {
		return one, true
	}
	c, parts, size := &one.Increment, map[int]*coverage.Coverage{}, 0
	c.Skipped, c.Forgotten, one.Fitted, one.Messages = nil, 0, 0, 0
	spans, numbers := map[int]coverage.Spans{}, []int(nil)
	for i := range list {
		more := &list[i]
		if more.Increment.Weight != c.Weight || more.Increment.Uncounted != c.Uncounted {
			return one, false
		}
		size += more.Increment.Size()
		one.Fitted, one.Messages = one.Fitted+more.Fitted, one.Messages+more.Messages
		c.Forgotten += more.Increment.Forgotten
		one.Visited, one.Until = min(one.Visited, more.Visited), max(one.Until, more.Until)
		c.Skipped = append(c.Skipped, more.Increment.Skipped...)
		for _, covered := range more.Increment.Covered {
			if len(covered.Spans) == 0 {
				continue
			}
			n := covered.Spans[0].Partition
			if parts[n] == nil {
				parts[n], numbers = &coverage.Coverage{}, append(numbers, n)
			}
			spans[n] = append(spans[n], covered.Spans...)
			part := parts[n]
			part.Messages, part.Rows, part.Checksum = part.Messages+covered.Messages, part.Rows+covered.Rows, part.Checksum+covered.Checksum
		}
	}
	slices.Sort(numbers)
	c.Covered, c.Joined = nil, size
	for _, n := range numbers {
		all, err := spans[n].Union(nil)
		if err != nil {
			return one, false
		}
		parts[n].Spans = all
		c.Covered = append(c.Covered, *parts[n])
	}
	skipped, err := c.Skipped.Union(nil)
	c.Skipped = skipped
	return one, err == nil
}

// IsLong reports whether a window has at least most increments, unless most is 0, or their JSON is longer than bytes.
func (w *Window) IsLong(most int, bytes int64) bool {
	return most > 0 && len(w.Increments) >= most || w.Bytes() > bytes
}

// Shortened returns the increments of a window. If the window is long, it joins neighbours with the same weight until about half of
// the limit is left, if the weights allow it. Increments before and after a change of the stream are not joined.
func (w *Window) Shortened(most int, bytes int64) []WindowIncrement {
	if !w.IsLong(most, bytes) {
		return w.Increments
	}
	// A joined increment is hardly longer than each of its parts, because the spans of neighbours are adjacent.
	each := int((2*w.Bytes() + bytes - 1) / bytes)
	if most > 0 {
		each = max(each, (2*len(w.Increments)+most-1)/most)
	}
	var all []WindowIncrement
	for i := 0; i < len(w.Increments); {
		to := i + 1
		for to < min(i+each, len(w.Increments)) {
			a, b := &w.Increments[i].Increment, &w.Increments[to].Increment
			if a.Weight != b.Weight || a.Uncounted != b.Uncounted || b.Number == w.Changed {
				break
			}
			to++
		}
		if one, ok := join(w.Increments[i:to]); ok {
			all = append(all, one)
		} else {
			all = append(all, w.Increments[i:to]...)
		}
		i = to
	}
	return all
}
