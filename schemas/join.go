package schemas

import (
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

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

// IsLong reports whether the increments of a window are at least most, 0 meaning any number, or their JSON is longer than bytes.
func (w *Window) IsLong(most int, bytes int64) bool {
	return most > 0 && len(w.Increments) >= most || w.Bytes() > bytes
}

// Shortened returns the increments of a window. If the window is long, it joins neighbours with the same weight until about half of
// what is allowed is left, if the weights allow it. Increments before and after a change of the stream are not joined.
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
