package schemas

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
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
	// Times are the times of the newest messages of the increments of a full run.
	Times []coverage.IncrementTime `json:"times,omitempty"`
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

// UntilOf returns the timestamp of the newest message of an increment of a full run; 0: unknown.
func (c *Chain) UntilOf(number int) int64 {
	if number == c.Number {
		return c.Until
	}
	for _, t := range c.Times {
		if t.Number == number {
			return t.Until
		}
	}
	return 0
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
