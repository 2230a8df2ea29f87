package schemas

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Chain is the place of a run in a chain of retraining, in which each run continues from the previous version.
type Chain struct {
	Number  int   `json:"number"`           // of the run in its chain: 1, 2, …
	Parent  *Warm `json:"parent,omitempty"` // the version before it; nil for the first
	Attempt int   `json:"attempt"`          // counts the runs with this parent that failed before this one
	// Update lists what an update visits; nil: a full run, which refits all stages to the whole window.
	Update *Update `json:"update,omitempty"`
	// Increments are the parts of the window of a full run, in order. Those of an update are in Update.
	Increments []coverage.Increment `json:"increments,omitempty"`
	// Times has the time of the newest message of each increment of a full run.
	Times []coverage.IncrementTime `json:"times,omitempty"`
	// Ends is by partition the offset after the last that the runs before have looked at. Only a full run has it: an update goes on from a
	// window, which says it.
	Ends []int64 `json:"ends,omitempty"`
	// Begins is where each partition of the examples began when it was first seen: cuts go round the partitions by the distance from
	// there.
	Begins []int64 `json:"begins"`
	// From is the time of the oldest message of the new rows, in milliseconds since 1970.
	From int64 `json:"from,omitempty"`
	// Until is the time of the newest message of the new rows, in milliseconds since 1970.
	Until int64 `json:"until,omitempty"`
	// Gate says when subscribers get the version; nil: always.
	Gate *Gate `json:"gate,omitempty"`
	// Open says that the classes were found, so more may come: rows of other labels are left out, and counted, until they are enough.
	Open bool `json:"open,omitempty"`
	// Merge has pairs of increments, by their numbers: those of the second, and of others that it was merged with before, follow those of the
	// first in the window. Their terms are added up. From then on they are visited together, and leave together.
	Merge [][2]int `json:"merge,omitempty"`
	// Join has numbers of increments that are neighbours in the window, and have the same terms once the pairs of Merge
	// have: from then on they are one increment, with the number of the first.
	Join [][]int `json:"join,omitempty"`
	// Made is when the plan was made, by its maker's clock, in milliseconds since 1970. Messages that say they are of a later time count as
	// of this one.
	Made int64 `json:"made,omitempty"`
	// Marks are the last messages that the runs up to this one have looked at, one of a partition, in order.
	Marks []coverage.Mark `json:"marks,omitempty"`
	// Lost are offsets that the log has deleted since the run before, and that no run of the chain has looked at.
	Lost coverage.Spans `json:"lost,omitempty"`
	// Had is how many rows that are not forgotten the window had before a full run over what the log still holds of it; 0: it holds all of
	// it.
	Had int64 `json:"had,omitempty"`
	// AtLeast is how many rows a version must have learnt to be offered without the gate's word; 0: any number. It is set when rows have left
	// the window that no setting of the window or of the log lets go.
	AtLeast int64 `json:"at_least,omitempty"`
	// Progress is how far sources were counted by the runs before: those of the plan, or in a full run all that may still come.
	Progress []SourceProgress `json:"progress,omitempty"`
}

// Update lists what a run that continues from a version visits, besides the new rows in the spans of its plan.
type Update struct {
	// visits to each stage; one more if the last step is not accepted, and in the last stage one with the final weights if
	// the gate has rows
	Passes  int                  `json:"passes"`
	Decay   float64              `json:"decay"`             // what the weights of all earlier increments are multiplied by
	Refresh []coverage.Increment `json:"refresh,omitempty"` // visited again, those longest unvisited first
	Leave   []coverage.Increment `json:"leave,omitempty"`   // that leave the window
	// Forget are those of Refresh that have forgotten rows which the version before has learnt: their share of S leaves as it was, and
	// comes back as it is without these rows.
	Forget []coverage.Increment `json:"forget,omitempty"`
	// Sparse says that the examples are sparse: the sums are of the columns that occur, and what leaves is read from the state topic, not from
	// the log.
	Sparse bool `json:"sparse,omitempty"`
	// Rows says that workers may send sparse rows in place of their sums: the survey's result says whether they do.
	Rows bool `json:"rows,omitempty"`
	// Restart says that nothing of the sums before stays: the stream has changed, and what is visited is all that the window has.
	Restart bool `json:"restart,omitempty"`
}

// KeepsTerms reports whether the visits of an update with so many passes have the terms of each increment apart: those of the last pass
// stay. Earlier visits have their sum, which is all that a step needs.
func KeepsTerms(visit, passes int) bool { return visit >= passes-1 }

// SumsGrams reports whether the run is an update that sums Gram matrices, as those on dense rows do.
func (u *Update) SumsGrams() bool { return u != nil && !u.Sparse }

// TakesAway reports whether an update takes rows away from the sums.
func (u *Update) TakesAway() bool {
	return u != nil && !u.Restart && !u.Sparse && len(u.Leave)+len(u.Forget) > 0
}

// Forgets returns the place of an increment among those with forgotten rows, or −1.
func (u *Update) Forgets(number int) int {
	return slices.IndexFunc(u.Forget, func(c coverage.Increment) bool { return c.Number == number })
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

// TermsPlaces returns for each increment of a full run the place of that whose terms its rows are summed into: its own,
// or that of the first of the increments that the run merges it with. A sum is kept at weight 1, so increments of
// different weights stay apart.
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

// TermsOn returns which of these places a partition has increments of, in order. A run without a list of increments has
// one, on all partitions.
func (c *Chain) TermsOn(partition int, places []int) (on []int) {
	if len(c.Increments) == 0 {
		return places
	}
	for i := range c.Increments {
		if covered, any := c.Increments[i].On(partition); any && slices.ContainsFunc(covered.Spans,
			func(s coverage.Span) bool { return !s.Empty() }) {
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

// SourceProgress says how far a source was counted.
type SourceProgress struct {
	Source  string  `json:"source"`  // its ID
	Attempt string  `json:"attempt"` // of its ingest
	Next    []int64 `json:"next"`    // by partition: the first sequence that was not counted
}

// Added returns the spans that a run adds to those that the runs of its chain before it have looked at.
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

// checkForget returns an error unless what has forgotten rows is visited again.
func (u *Update) checkForget() error {
	for _, c := range u.Forget {
		if !slices.ContainsFunc(u.Refresh, func(r coverage.Increment) bool { return r.Number == c.Number }) {
			return fmt.Errorf("increment %d has forgotten rows: expected it among the revisited increments", c.Number)
		}
	}
	return nil
}

// increments returns the increments whose rows the run reads, beside new ones.
func (c *Chain) increments() []coverage.Increment {
	if c.Update == nil {
		return c.Increments
	}
	if c.Update.Restart {
		return c.Update.Refresh
	}
	return append(append([]coverage.Increment(nil), c.Update.Refresh...), c.Update.Leave...)
}
