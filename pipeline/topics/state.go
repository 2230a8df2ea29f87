package topics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// StateSize is how many bytes a chain keeps on the state topic.
type StateSize struct {
	Increment  int64 // the terms of an increment: two p × k matrices of each stage
	Snapshot   int64 // the Gram matrices: p(p+1)/2 numbers of each stage
	Increments int64 // that the window has at most; 0: it has no bound
}

// Total returns the bytes of a snapshot and of all increments, or of one increment if the window has no bound.
func (s StateSize) Total() int64 { return s.Snapshot + max(s.Increments, 1)*s.Increment }

// StateSize returns what a chain keeps whose stages have so many columns (p), and so many classes (k). The numbers are float64.
func (o RetrainOptions) StateSize(columns []int, classes int) (s StateSize) {
	for _, p := range columns {
		s.Increment += 2 * 8 * int64(p) * int64(classes)
		s.Snapshot += 8 * int64(p) * int64(p+1) / 2
	}
	s.Increments = int64(o.Window.Increments)
	if o.Window.Rows > 0 {
		// The oldest increment leaves when the others have the rows. Each has as many rows as an update takes, or more.
		if n := (o.Window.Rows+o.Rows-1)/o.Rows + 1; s.Increments == 0 || n < s.Increments {
			s.Increments = n
		}
	}
	return s
}

// AlwaysFull returns why every version of a chain with these stages is full; empty if versions can be updates.
func AlwaysFull(stages []schemas.Stage) string {
	for t, s := range stages {
		switch {
		case s.Scores:
			return fmt.Sprintf("stage %d has scores: true", t)
		case link.Named(s.Link).Learnt:
			return fmt.Sprintf("stage %d has the link %s", t, s.Link)
		}
	}
	return ""
}

// MostTerms returns how many increments, or groups of merged ones, may have terms on a state topic of so many bytes,
// with a window of a chain; 0: as many as there are.
func (o RetrainOptions) MostTerms(state Bytes, w *schemas.Window) int {
	if w.TermsSize == 0 {
		return 0
	}
	return int(max((int64(state)-w.GramsSize)/w.TermsSize, o.FewestTerms()))
}

// merges reports whether increments can be merged: those of different weights can't, as their terms are kept at weight 1.
func (o RetrainOptions) merges() bool { return o.Decay == 1 }

// negligible is the weight below which a row changes no float64 sum of rows that weigh 1: half of the distance from 1 to the next number.
const negligible = 1.0 / (1 << 53)

// LeavesByDecay reports whether decay has the oldest increment leave a window, so that the window has an end: it weighs
// nothing beside the increment that comes, or there is no room for one more among the terms or the list of increments,
// which can't be merged.
func (o RetrainOptions) LeavesByDecay(w *schemas.Window, mostTerms int, bytes int64) bool {
	if o.merges() || len(w.Increments) == 0 {
		return false
	}
	return w.Increments[0].Increment.Weight*o.Decay < negligible || mostTerms > 0 && len(w.Increments) >= mostTerms || w.Bytes() > bytes
}

// FewestTerms is how many terms a chain needs room for: those that an update writes, and two others that it merges.
func (o RetrainOptions) FewestTerms() int64 { return int64(o.Refresh) + 3 }

// pairsToMerge returns which neighbouring increments of a window are to be merged, so that there are at most so many
// terms after an update that visits some of them and adds one. The neighbours with the fewest increments go first; of
// two equals the older. An update takes merged increments that it visits apart.
func pairsToMerge(w *schemas.Window, visited []coverage.Increment, most int) (pairs [][2]int) {
	type group struct{ first, size int }
	var list []group
	for _, members := range w.Groups() {
		first := w.Increments[members[0]].Increment.Number
		if !slices.ContainsFunc(visited, func(c coverage.Increment) bool { return c.Number == first }) {
			list = append(list, group{first, sizeOf(w, members)})
			continue
		}
		for _, i := range members {
			list = append(list, group{w.Increments[i].Increment.Number, w.Increments[i].Increment.Size()})
		}
	}
	for most > 0 && len(list) > 1 && len(list)+1 > most {
		best := 1
		for i := range list[1:] {
			if i+1 > best && list[i].size+list[i+1].size < list[best-1].size+list[best].size {
				best = i + 1
			}
		}
		pairs = append(pairs, [2]int{list[best-1].first, list[best].first})
		list[best-1].size += list[best].size
		list = slices.Delete(list, best, best+1)
	}
	return pairs
}

// Shorten adds to an update what it merges, so that there are at most so many terms after it; 0: any number. Where the
// increments of the window have more bytes of JSON than that, it merges neighbours until they have room, and has merged
// ones become one.
func (o RetrainOptions) Shorten(chain *schemas.Chain, w *schemas.Window, most int, bytes int64) (err error) {
	if !o.merges() {
		return nil
	}
	has := w.Bytes()
	long := has > bytes
	if long {
		fit := max(bytes*int64(len(w.Increments))/has, o.FewestTerms())
		most = int(min(cmp.Or(int64(most), fit), fit))
	}
	if chain.Merge = pairsToMerge(w, chain.Update.Refresh, most); long {
		chain.Join, err = joins(w, chain)
	}
	return err
}

// sizeOf returns how many increments a group of a window was made of.
func sizeOf(w *schemas.Window, members []int) (size int) {
	for _, i := range members {
		size += w.Increments[i].Increment.Size()
	}
	return size
}

// joins returns the groups of increments of a window that have the same terms after an update that merges some, so that they can be one.
func joins(w *schemas.Window, chain *schemas.Chain) (groups [][]int, err error) {
	after := &schemas.Window{Increments: slices.Clone(w.Increments)}
	for i := range after.Increments { // it takes those apart that it visits
		if slices.ContainsFunc(chain.Update.Refresh,
			func(c coverage.Increment) bool { return c.Number == after.Increments[i].Increment.Number }) {
			after.Increments[i].Terms = schemas.StatePlace{}
		}
	}
	if err := after.Merge(chain.Merged(), func(group int) schemas.StatePlace {
		return schemas.StatePlace{Run: "merged",
			Index: group}
	}); err != nil {
		return nil, err
	}
	for _, members := range after.Groups() {
		if len(members) == 1 {
			continue
		}
		var numbers []int
		for _, i := range members {
			numbers = append(numbers, after.Increments[i].Increment.Number)
		}
		groups = append(groups, numbers)
	}
	return groups, nil
}

// MergesOfFull returns which increments of a full run are to be merged, so that it leaves room for as many terms as it has.
func (o RetrainOptions) MergesOfFull(increments []coverage.Increment, most int) (pairs [][2]int) {
	if !o.merges() || most == 0 || len(increments) <= most {
		return nil
	}
	each := (2*len(increments) + most - 1) / most
	for first := 0; first < len(increments); first += each {
		for _, c := range increments[first+1 : min(first+each, len(increments))] {
			pairs = append(pairs, [2]int{increments[first].Number, c.Number})
		}
	}
	return pairs
}
