package topics

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// StateSize is the size of a chain's state on the state topic in bytes.
type StateSize struct {
	Increment  int64 // terms of an increment: two p × k matrices for each stage
	Grams      int64 // Gram matrices: p(p+1)/2 numbers for each stage
	Increments int64 // maximum number of increments in the window; 0: unlimited
}

// Total returns the size of the Gram matrices and of all increments, or of one increment if the window is unlimited.
func (s StateSize) Total() int64 { return s.Grams + max(s.Increments, 1)*s.Increment }

// StateSize returns the state size of a chain with the given numbers of columns (p) of its stages and of classes (k), in
// float64.
func (o RetrainOptions) StateSize(columns []int, classes int) (s StateSize) {
	for _, p := range columns {
		s.Increment += 2 * 8 * int64(p) * int64(classes)
		s.Grams += 8 * int64(p) * int64(p+1) / 2
	}
	s.Increments = int64(o.Window.Increments)
	if o.Window.Rows > 0 {
		// The oldest increment leaves when the others have the rows. Each has as many rows as an update, or more.
		if n := (o.Window.Rows+o.Rows-1)/o.Rows + 1; s.Increments == 0 || n < s.Increments {
			s.Increments = n
		}
	}
	return s
}

// AlwaysFull returns the reason why every version of a chain with these stages is full; "" if versions can be updates.
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

// MostTerms returns the maximum number of increments, or groups of merged ones, with terms on a state topic of the given
// size, with a window of a chain; 0: unlimited.
func (o RetrainOptions) MostTerms(state option.Bytes, w *schemas.Window) int {
	if w.TermsSize == 0 {
		return 0
	}
	return int(max((int64(state)-w.GramsSize)/w.TermsSize, o.FewestTerms()))
}

// merges reports whether increments can be merged: not with different weights, because their terms are stored at weight 1.
func (o RetrainOptions) merges() bool { return o.Decay == 1 }

// negligible is the weight below which a row does not change any float64 sum of rows of weight 1: half of the distance
// from 1 to the next number.
const negligible = 1.0 / (1 << 53)

// LeavesByDecay reports whether decay makes the oldest increment leave a window, so that the window is finite: its weight
// is negligible compared with the next increment, or there is no room for one more among the terms or in the list of
// increments, which can't be merged.
func (o RetrainOptions) LeavesByDecay(w *schemas.Window, mostTerms int, bytes int64) bool {
	if o.merges() || len(w.Increments) == 0 {
		return false
	}
	return w.Increments[0].Increment.Weight*o.Decay < negligible || mostTerms > 0 && len(w.Increments) >= mostTerms || w.Bytes() > bytes
}

// FewestTerms is the minimum number of terms for which a chain needs room: those that an update writes, and two others
// that it merges.
func (o RetrainOptions) FewestTerms() int64 { return int64(o.Refresh) + 3 }

// pairsToMerge returns the neighbouring increments of a window to merge, so that no more than most terms remain after an
// update that visits some of them and adds one. The neighbours with the fewest increments are merged first; among equals
// the older. An update separates merged increments that it visits.
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

// Shorten adds to an update the increments to merge, so that no more than most terms remain after it; 0: unlimited. If the
// increments of the window exceed the given size in JSON, it merges neighbours until they fit, and combines merged ones.
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

// sizeOf returns the number of increments in a group of a window.
func sizeOf(w *schemas.Window, members []int) (size int) {
	for _, i := range members {
		size += w.Increments[i].Increment.Size()
	}
	return size
}

// joins returns the groups of a window's increments that share terms after an update that merges some, so that they can be
// combined.
func joins(w *schemas.Window, chain *schemas.Chain) (groups [][]int, err error) {
	after := &schemas.Window{Increments: slices.Clone(w.Increments)}
	for i := range after.Increments { // it separates those that it visits
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

// MergesOfFull returns the increments of a full run to merge, so that it leaves room for as many terms as it has.
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
