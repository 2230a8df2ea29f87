package schemas

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Chain is the place of a run in a chain of retraining, in which each run continues from the previous version.
type Chain struct {
	Number  int   `json:"number"`           // number of the run in its chain: 1, 2, …
	Parent  *Warm `json:"parent,omitempty"` // previous version; absent for the first run
	Attempt int   `json:"attempt"`          // number of failed runs with this parent before this one
	// Update lists what an update visits; absent for a full run, which refits all stages to the whole window.
	Update *Update `json:"update,omitempty"`
	// Increments are the increments in the window of a full run, in order. For an update they are in Update.
	Increments []coverage.Increment `json:"increments,omitempty"`
	// Ends is by partition the offset after the last that earlier runs processed. Only a full run has it: an update continues from a
	// window, which has these offsets.
	Ends []int64 `json:"ends,omitempty"`
	// Begins is by partition the offset at which the examples began when the partition was first seen. Cuts take the partitions in turn, by
	// distance from these offsets.
	Begins []int64 `json:"begins"`
	// From is the timestamp of the oldest message with new rows, in milliseconds since 1970.
	From int64 `json:"from,omitempty"`
	// Until is the timestamp of the newest message with new rows, in milliseconds since 1970.
	Until int64 `json:"until,omitempty"`
	// Gate is the condition for offering the version to subscribers; absent: it is always offered.
	Gate *Gate `json:"gate,omitempty"`
	// Open is true if the survey determined the classes, so that more may appear: rows with other labels are left out and counted until
	// there are enough of them.
	Open bool `json:"open,omitempty"`
	// Made is the creation time of the plan by its maker's clock, in milliseconds since 1970. Later message timestamps are treated as this
	// time.
	Made int64 `json:"made,omitempty"`
	// Marks are the last messages that runs up to this one processed, one per partition, in order.
	Marks []coverage.Mark `json:"marks,omitempty"`
	// Lost are the offsets that the log deleted since the previous run and that no run of the chain processed.
	Lost coverage.Spans `json:"lost,omitempty"`
	// Had is the number of rows in the window, excluding forgotten rows, before a full run over the part that the log still has; 0: the log
	// has the whole window.
	Had int64 `json:"had,omitempty"`
	// AtLeast is the number of rows that a version must be trained on to be offered without passing the gate; 0: any number. It is set when
	// rows left the window for a reason other than the settings of the window or of the log.
	AtLeast int64 `json:"at_least,omitempty"`
	// Lacking are the optional columns that most new rows lack, although earlier rows had them; absent: none.
	Lacking *Lacking `json:"lacking,omitempty"`
	// Settings are the settings of the process that made the plan, by key in order.
	Settings []Setting `json:"settings,omitempty"`
	// Progress is the position up to which earlier runs counted each source: the sources of the plan, or in a full run all whose messages
	// may still arrive.
	Progress []SourceProgress `json:"progress,omitempty"`
}

// Setting is a configured value.
type Setting struct {
	Key    string `json:"key"`    // in the configuration
	Digest string `json:"digest"` // first digits of the value's digest
}

// Lacking are optional columns that most new rows lack, although earlier rows had them.
type Lacking struct {
	// Columns are their names, in order, with those of earlier runs whose versions the gate has not compared.
	Columns []string `json:"columns"`
	// Spans are the messages with such rows. Their prequential errors raise no drift alarm.
	Spans coverage.Spans `json:"spans,omitempty"`
}

// With returns the columns and messages together with more; nil if there are none. l may be nil.
func (l *Lacking) With(columns []string, messages coverage.Spans) *Lacking {
	if len(columns) == 0 {
		return l
	}
	all := &Lacking{Columns: slices.Clone(columns), Spans: messages}
	if l != nil {
		all.Columns, all.Spans = append(all.Columns, l.Columns...), append(all.Spans, l.Spans...)
	}
	slices.Sort(all.Columns)
	all.Columns = slices.Compact(all.Columns)
	return all
}

// Has reports whether a message has rows that lack the columns. l may be nil.
func (l *Lacking) Has(partition int, offset int64) bool {
	return l != nil && l.Spans.Has(partition, offset)
}

// Update lists what a run that continues from a version visits, in addition to the new rows in the spans of its plan.
type Update struct {
	// Passes is the number of visits to each stage. There is one more if the last step is not accepted, and in the last stage one with the
	// final weights if the gate has rows.
	Passes  int                  `json:"passes"`
	Decay   float64              `json:"decay"`             // factor of the weights of all earlier increments
	Refresh []coverage.Increment `json:"refresh,omitempty"` // revisited increments, least recently visited first
	Leave   []coverage.Increment `json:"leave,omitempty"`   // increments that leave the window
	// Sparse is true if the examples are sparse: sums contain only the columns that occur, and terms that leave are read from the state
	// topic, not from the log.
	Sparse bool `json:"sparse,omitempty"`
	// Local is true if the update is too small to distribute: the process of its solver makes the visits, and sends no statistics.
	Local bool `json:"local,omitempty"`
	// Restart is true if all earlier sums are discarded: the stream has changed, and the window is only what the update visits.
	Restart bool `json:"restart,omitempty"`
}

// KeepsTerms reports whether a visit of an update with that many passes has separate terms for each increment: the terms of the last pass
// are kept. Earlier visits have only the sum of the terms, which is sufficient for a step.
func KeepsTerms(visit, passes int) bool { return visit >= passes-1 }

// IsLocal reports whether the run is an update whose solver makes the visits.
func (u *Update) IsLocal() bool { return u != nil && u.Local }

// SumsGrams reports whether the run is an update that sums Gram matrices: an update on dense rows.
func (u *Update) SumsGrams() bool { return u != nil && !u.Sparse }

// TakesAway reports whether an update subtracts rows from the sums.
func (u *Update) TakesAway() bool {
	return u != nil && !u.Restart && !u.Sparse && len(u.Leave) > 0
}

// Newest returns the index of the newest increment among those that the run visits: the new one of an update, the last of a full run.
func (c *Chain) Newest() int {
	if c.Update != nil {
		return 0
	}
	return max(len(c.Increments)-1, 0)
}

// SourceProgress is the position up to which a source was counted.
type SourceProgress struct {
	Source  string  `json:"source"`  // source ID
	Attempt string  `json:"attempt"` // attempt of the ingest
	Next    []int64 `json:"next"`    // by partition: first sequence that was not counted
}

// Added returns the spans that a run adds to those that earlier runs of its chain processed.
func (p *Plan) Added() (added coverage.Spans) {
	if p.Chain == nil || p.Update() != nil || len(p.Chain.Increments) == 0 {
		return p.Spans
	}
	for i := range p.Chain.Increments {
		if c := &p.Chain.Increments[i]; c.Number == p.Chain.Number {
			added = append(added, c.Spans()...)
		}
	}
	return added
}

// increments returns the increments whose rows the run reads, except the new one.
func (c *Chain) increments() []coverage.Increment {
	if c.Update == nil {
		return c.Increments
	}
	if c.Update.Restart {
		return c.Update.Refresh
	}
	return append(append([]coverage.Increment(nil), c.Update.Refresh...), c.Update.Leave...)
}

// Gate withholds a version from subscribers if its loss on rows of a split exceeds that of the newest offered version,
// regardless of pins, by more than a margin and more than chance. Both versions predict the same rows, the gate rows:
// those of the newest increment and, if both versions have the same preparation, those of the increments that an update
// revisits. The newest increment alone must not contradict the result. Without rows in the newest increment, the gate
// offers the version.
type Gate struct {
	Split   string  `json:"split"`   // holdout or test
	Margin  float64 `json:"margin"`  // maximum excess of the mean loss over that of the offered version
	Offered Warm    `json:"offered"` // newest offered version
}

// Margin returns the margin of the gate; 0 without one.
func (c *Chain) Margin() float64 {
	if c.Gate == nil {
		return 0
	}
	return c.Gate.Margin
}

// GateReport compares a version with the previously offered version on the gate rows.
type GateReport struct {
	Weight        float64  `json:"weight"`                   // Σw of the rows, with the weights of their classes
	Revisited     float64  `json:"revisited,omitempty"`      // Σw of the rows in increments that the update revisited
	Loss          float64  `json:"loss"`                     // mean loss of the version
	OfferedLoss   float64  `json:"offered_loss"`             // mean loss of the offered version
	StandardError *float64 `json:"standard_error,omitempty"` // standard error of the difference, from random groups of the rows
}

// GateGroups is the number of random groups of the gate rows. The losses of both versions are summed by group: the
// differences between groups determine the standard error.
const GateGroups = 64

// GateGroup returns the group of a row of a message.
func GateGroup(offset int64, row int) int {
	return int(wire.Hash(uint64(offset), uint64(row)) % GateGroups)
}

// Names of the tensors that a gate compares.
const (
	// FieldOfferedGroups has the losses of the offered version. With class weights, which the survey determines, "offered_groups/LABEL" has
	// those on the rows of each label.
	FieldOfferedGroups = "offered_groups" // [64, 2], survey of a chain: offered, for each group
	// FieldJudgedGroups has the losses of the version that a run makes.
	FieldJudgedGroups = "judged_groups" // [64, 2], last stage: for each group Σw and Σw·loss
	// FieldRevisitedGroups has the losses of both versions on rows of revisited increments.
	// [64, 3], last stage of an update: for each group Σw, Σw·loss of the offered version, and of the other
	FieldRevisitedGroups = "revisited_groups"
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
	Increment coverage.Increment `json:"increment"` // the increment, with its weight after the run
	Visited   int                `json:"visited"`   // number of the run that visited it last
	Fitted    float64            `json:"fitted"`    // Σw of its training rows
	Messages  int64              `json:"messages"`  // number of messages with training rows
	Terms     StatePlace         `json:"terms"`     // place on the state topic
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

// Rows returns the number of rows of the window, including forgotten rows; 0 if w is nil.
func (w *Window) Rows() (rows int64) {
	if w == nil {
		return 0
	}
	for i := range w.Increments {
		rows += w.Increments[i].Increment.Rows()
	}
	return rows
}

// Learnt returns the number of rows of the window, excluding forgotten rows; 0 if w is nil.
func (w *Window) Learnt() (rows int64) {
	if w == nil {
		return 0
	}
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

// Advance sets Ends to the offsets after the spans that a run's plan adds. Offsets that the log had deleted are skipped.
func (w *Window) Advance(plan *Plan) {
	for _, span := range append(slices.Clone(plan.Chain.Lost), plan.Added()...) {
		for len(w.Ends) <= span.Partition {
			w.Ends = append(w.Ends, 0)
		}
		w.Ends[span.Partition] = max(w.Ends[span.Partition], span.To)
	}
}

// Without returns the window without offsets that belong to another increment. No message there may be included in an increment.
func (w Window) Without(spans coverage.Spans) *Window {
	w.Increments = slices.Clone(w.Increments)
	for i := range w.Increments {
		c := &w.Increments[i].Increment
		var left []coverage.Coverage
		for _, covered := range c.Covered {
			if covered.Spans = covered.Spans.Without(spans); len(covered.Spans) > 0 {
				left = append(left, covered)
			}
		}
		c.Covered, c.Skipped = left, c.Skipped.Without(spans)
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
		one.Visited, c.Until = min(one.Visited, more.Visited), max(c.Until, more.Increment.Until)
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
