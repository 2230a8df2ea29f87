package schemas

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// WindowBytes is how long the increments of a window may be, in bytes of JSON, before neighbours are joined: a document
// has other parts too, and what is joined only with the next run.
const WindowBytes = wire.MaxDocument / 4

// Bytes returns the maximum length of the JSON of the increments.
func (w *Window) Bytes() (bytes int64) {
	for i := range w.Increments {
		bytes += w.Increments[i].Increment.Bytes()
	}
	return bytes
}

// Join makes increments one: see [Chain.Join]. The error is a *[MergeError], and the window stays as it was, unless
// each group is of neighbours of the same weight, and no two have the same offsets.
func (w *Window) Join(groups [][]int) error {
	if len(groups) == 0 {
		return nil
	}
	at := map[int]int{}
	for i := range w.Increments {
		at[w.Increments[i].Increment.Number] = i
	}
	first := map[int][]int{}
	for _, numbers := range groups {
		for i, number := range numbers {
			place, any := at[number]
			if delete(at, number); !any || i > 0 && w.Increments[place-1].Increment.Number != numbers[i-1] {
				return &MergeError{numbers}
			}
		}
		if len(numbers) > 0 {
			first[numbers[0]] = numbers
		}
	}
	var all []WindowIncrement
	for i := 0; i < len(w.Increments); {
		numbers, n := first[w.Increments[i].Increment.Number], 1
		joined := w.Increments[i]
		if numbers != nil {
			n = len(numbers)
			var ok bool
			if joined, ok = join(w.Increments[i : i+n]); !ok {
				return &MergeError{numbers}
			}
		}
		all, i = append(all, joined), i+n
	}
	w.Increments = all
	return nil
}

// join returns increments of a window as one, which has the number and the terms of the first; false if their weights
// differ, or two have the same offsets.
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

// Shortened returns the increments of a window, neighbours of the same weight as one where their JSON is longer than
// that: it then has half of that, if the weights allow. What came before a change of the stream stays apart from what
// came after it.
func (w *Window) Shortened(bytes int64) []WindowIncrement {
	total := w.Bytes()
	if total <= bytes {
		return w.Increments
	}
	// A joined increment is hardly longer than each of its parts, as the spans of neighbours adjoin.
	each := int((2*total + bytes - 1) / bytes)
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
