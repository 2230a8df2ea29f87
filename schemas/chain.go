package schemas

import (
	"fmt"
	"slices"
	"strings"
)

// Chain says which place a run has in a chain of retraining: runs that each go on from the version of the one before.
type Chain struct {
	Number  int   `json:"number"`           // of the run in its chain: 1, 2, …
	Parent  *Warm `json:"parent,omitempty"` // the version before it; nil for the first
	Attempt int   `json:"attempt"`          // counts the runs with this parent that failed before this one
	// Update says what an update visits; nil: the run is full, it fits all stages anew to the whole window.
	Update *Update `json:"update,omitempty"`
	// Increments are those that the window of a full run is cut into, in order. That of an update is in Update.
	Increments []Increment `json:"increments,omitempty"`
	// Times says of the increments of a full run when their newest messages were written.
	Times []IncrementTime `json:"times,omitempty"`
	// Ends is by partition the offset after the last that the runs before have looked at. Only a full run has it: an update goes on from a
	// window, which says it.
	Ends []int64 `json:"ends,omitempty"`
	// Begins is where each partition of the examples began when it was first seen: cuts go round the partitions by the distance from
	// there.
	Begins []int64 `json:"begins"`
	// From is when the oldest message of the new rows was written, in milliseconds since 1970.
	From int64 `json:"from,omitempty"`
	// Until is when the newest message of the new rows was written, in milliseconds since 1970.
	Until int64 `json:"until,omitempty"`
	// Gate says when subscribers get the version; nil: always.
	Gate *Gate `json:"gate,omitempty"`
	// Open says that the classes were found, so more may come: rows of other labels are left out, and counted, until they are enough.
	Open bool `json:"open,omitempty"`
	// Merge has pairs of increments, by their numbers: those of the second, and of others that it was merged with before, follow those of the
	// first in the window. Their terms are added up. From then on they are visited together, and leave together.
	Merge [][2]int `json:"merge,omitempty"`
	// Join has numbers of increments that are neighbours in the window, and have the same terms once the pairs of Merge have: from then on they
	// are one increment, with the number of the first.
	Join [][]int `json:"join,omitempty"`
	// Made is when the plan was made, by its maker's clock, in milliseconds since 1970. Messages that say they are of a later time count as
	// of this one.
	Made int64 `json:"made,omitempty"`
	// Marks are the last messages that the runs up to this one have looked at, one of a partition, in order.
	Marks []Mark `json:"marks,omitempty"`
	// Lost are offsets that the log has deleted since the run before, and that no run of the chain has looked at.
	Lost Spans `json:"lost,omitempty"`
	// Had is how many rows the window had before a full run over what the log still holds of it; 0: it holds all of it.
	Had int64 `json:"had,omitempty"`
	// AtLeast is how many rows a version must have learnt to be offered without the gate's word; 0: any number. It is set when rows have left
	// the window that no setting of the window or of the log lets go.
	AtLeast int64 `json:"at_least,omitempty"`
	// Progress is how far sources were counted by the runs before: those of the plan, or in a full run all that may still come.
	Progress []SourceProgress `json:"progress,omitempty"`
}

// Gate withholds a version from subscribers if its loss on rows of a split in the newest increment is worse, by more than a margin, than that
// of the newest version that is offered, on the same rows, whatever is pinned. Without such rows it offers the version.
type Gate struct {
	Split   string  `json:"split"`   // holdout or test
	Margin  float64 `json:"margin"`  // by how much the mean loss may be above that of the offered version
	Offered Warm    `json:"offered"` // the newest version that is offered
}

// Update says what a run visits that goes on from a version: the new rows in the spans of its plan, and what is listed here.
type Update struct {
	Passes  int         `json:"passes"`            // visits to each stage; one more if the last step is not accepted, and in the last stage one with the final weights if the gate has rows
	Decay   float64     `json:"decay"`             // what the weights of all earlier increments are multiplied by
	Refresh []Increment `json:"refresh,omitempty"` // visited again, those longest unvisited first
	Leave   []Increment `json:"leave,omitempty"`   // that leave the window
	// Forget are those of Refresh that have forgotten rows which the version before has learnt: their share of S leaves as it was, and
	// comes back as it is without these rows.
	Forget []Increment `json:"forget,omitempty"`
	// Restart says that nothing of the sums before stays: the stream has changed, and what is visited is all that the window has.
	Restart bool `json:"restart,omitempty"`
}

// KeepsTerms reports whether the visits of an update with so many passes have the terms of each increment apart: those of the last pass
// stay. Earlier visits have their sum, which is all that a step needs.
func KeepsTerms(visit, passes int) bool { return visit >= passes-1 }

// TakesAway reports whether an update takes rows away from the sums.
func (u *Update) TakesAway() bool { return u != nil && !u.Restart && len(u.Leave)+len(u.Forget) > 0 }

// Forgets returns the place of an increment among those with forgotten rows, or −1.
func (u *Update) Forgets(number int) int {
	return slices.IndexFunc(u.Forget, func(c Increment) bool { return c.Number == number })
}

// Increment is the examples that one run of a chain added.
type Increment struct {
	Number int     `json:"number"` // of that run in the chain
	Weight float64 `json:"weight"` // w: what decay has made of 1
	// Covered is what counts of the increment, of each partition in order. In a full run only the spans are known. There are several of a
	// partition where messages between them came with another increment: those of a source that was sealed late.
	Covered []Coverage `json:"covered"`
	// Skipped are messages in the spans that do not count.
	Skipped Spans `json:"skipped,omitempty"`
	// Uncounted says that only the spans are known: the record of what counts in them is gone, so a full run decides that again.
	Uncounted bool `json:"uncounted,omitempty"`
	// Joined is how many increments it was made of: see [Chain.Join]. 0: it is one.
	Joined int `json:"joined,omitempty"`
}

// Size returns of how many runs the increment has what they added.
func (c *Increment) Size() int { return max(c.Joined, 1) }

// IncrementTime is when the newest message of an increment was written.
type IncrementTime struct {
	Number int   `json:"number"` // of the increment
	Until  int64 `json:"until"`  // milliseconds since 1970
}

// Merged returns the numbers in Merge, those that become one group together.
func (c *Chain) Merged() (groups [][]int) {
	of := func(number int) int {
		return slices.IndexFunc(groups, func(group []int) bool { return slices.Contains(group, number) })
	}
	for _, pair := range c.Merge {
		for _, number := range pair {
			if of(number) < 0 {
				groups = append(groups, []int{number})
			}
		}
		if to, from := of(pair[0]), of(pair[1]); to != from {
			groups[to] = append(groups[to], groups[from]...)
			groups = slices.Delete(groups, from, from+1)
		}
	}
	return groups
}

// TermsPlaces returns for each increment of a full run the place of that whose terms its rows are summed into: its own, or that of the first of the
// increments that the run merges it with. A sum is kept at weight 1, so increments of different weights stay apart.
func (c *Chain) TermsPlaces() []int {
	places, of := make([]int, max(len(c.Increments), 1)), map[int]int{}
	for i := range c.Increments {
		places[i], of[c.Increments[i].Number] = i, i
	}
	first := func(i int) int {
		for places[i] != i {
			i = places[i]
		}
		return i
	}
	for _, pair := range c.Merge {
		a, known := of[pair[0]]
		b, also := of[pair[1]]
		if a, b = first(a), first(b); known && also && c.Increments[a].Weight == c.Increments[b].Weight {
			places[max(a, b)] = min(a, b)
		}
	}
	for i := range places {
		places[i] = first(i)
	}
	return places
}

// TermsOn returns which of these places a partition has increments of, in order. A run without a list of increments has one, on all partitions.
func (c *Chain) TermsOn(partition int, places []int) (on []int) {
	if len(c.Increments) == 0 {
		return places
	}
	for i := range c.Increments {
		if covered, any := c.Increments[i].On(partition); any && slices.ContainsFunc(covered.Spans, func(s Span) bool { return !s.Empty() }) {
			on = append(on, places[i])
		}
	}
	slices.Sort(on)
	return slices.Compact(on)
}

// Newest returns the place of the newest increment among those that the run visits: the new one of an update, the last of a full run.
func (c *Chain) Newest() int {
	if c.Update != nil {
		return 0
	}
	return max(len(c.Increments)-1, 0)
}

// LabelRows is how many rows have a label.
type LabelRows struct {
	Label string `json:"label"` // the label
	Rows  int64  `json:"rows"`  // their number
}

// AddLabelRows adds numbers of rows to others. Both are in the order of their labels.
func AddLabelRows(to, more []LabelRows) []LabelRows {
	sum := slices.Clone(to)
	for _, m := range more {
		i, found := slices.BinarySearchFunc(sum, m.Label, func(r LabelRows, label string) int { return strings.Compare(r.Label, label) })
		if !found {
			sum = slices.Insert(sum, i, LabelRows{Label: m.Label})
		}
		sum[i].Rows += m.Rows
	}
	return sum
}

// SourceProgress says how far a source was counted.
type SourceProgress struct {
	Source  string  `json:"source"`  // its ID
	Attempt string  `json:"attempt"` // of its ingest
	Next    []int64 `json:"next"`    // by partition: the first sequence that was not counted
}

// Spans returns the spans of an increment, of all partitions.
func (c *Increment) Spans() (spans Spans) {
	for _, covered := range c.Covered {
		spans = append(spans, covered.Spans...)
	}
	return spans
}

// On returns what of an increment is in a partition.
func (c *Increment) On(partition int) (Coverage, bool) {
	for _, covered := range c.Covered {
		if len(covered.Spans) > 0 && covered.Spans[0].Partition == partition {
			return covered, true
		}
	}
	return Coverage{}, false
}

// Skips reports whether a message does not count.
func (c *Increment) Skips(partition int, offset int64) bool {
	for _, s := range c.Skipped {
		if s.Partition == partition && s.From <= offset && offset < s.To {
			return true
		}
	}
	return false
}

// Without returns the increment without offsets that come with another increment. No message there may count in this one.
func (c Increment) Without(spans Spans) Increment {
	var left []Coverage
	for _, covered := range c.Covered {
		if covered.Spans = covered.Spans.Without(spans); len(covered.Spans) > 0 {
			left = append(left, covered)
		}
	}
	c.Covered, c.Skipped = left, c.Skipped.Without(spans)
	return c
}

// meets reports whether an increment has offsets of spans, which are by partition.
func (c *Increment) meets(on map[int]Spans) bool {
	meets := func(s Span) bool {
		return slices.ContainsFunc(on[s.Partition], func(o Span) bool { return s.From < o.To && o.From < s.To })
	}
	return slices.ContainsFunc(c.Skipped, meets) || slices.ContainsFunc(c.Covered, func(covered Coverage) bool {
		return len(covered.Spans) == 0 || slices.ContainsFunc(covered.Spans, meets)
	})
}

// Rows returns how many rows count, whatever their split.
func (c *Increment) Rows() (rows int64) {
	for _, covered := range c.Covered {
		rows += covered.Rows
	}
	return rows
}

// check returns an error for impossible values.
func (c *Increment) check() error {
	for _, covered := range c.Covered {
		if err := checkSpans(covered.Spans); err != nil {
			return fmt.Errorf("increment %d: %w", c.Number, err)
		}
		if n := len(covered.Spans.Hulls()); n != 1 {
			return fmt.Errorf("increment %d: spans of %d partitions, expected those of one", c.Number, n)
		}
	}
	if !(c.Weight >= 0 && c.Weight <= 1) {
		return fmt.Errorf("increment %d: weight %g, expected one from 0 to 1", c.Number, c.Weight)
	}
	return nil
}

// Added returns the spans that a run adds to those that the runs of its chain before it have looked at.
func (p *Plan) Added() (added Spans) {
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

// checkForget returns an error unless what has forgotten rows is visited again.
func (u *Update) checkForget() error {
	for _, c := range u.Forget {
		if !slices.ContainsFunc(u.Refresh, func(r Increment) bool { return r.Number == c.Number }) {
			return fmt.Errorf("increment %d has forgotten rows: expected it among those that are visited again", c.Number)
		}
	}
	return nil
}

// increments returns the increments whose rows the run reads, beside new ones.
func (c *Chain) increments() []Increment {
	if c.Update == nil {
		return c.Increments
	}
	if c.Update.Restart {
		return c.Update.Refresh
	}
	return append(append([]Increment(nil), c.Update.Refresh...), c.Update.Leave...)
}
