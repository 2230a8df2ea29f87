package coverage

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Span is a range of one partition's offsets.
type Span struct {
	Partition int   `json:"partition"` // partition number
	From      int64 `json:"from"`      // first offset
	To        int64 `json:"to"`        // offset after the last
}

// Empty reports whether the span has no offsets.
func (s Span) Empty() bool { return s.To <= s.From }

// Len returns the number of offsets.
func (s Span) Len() int64 { return max(s.To-s.From, 0) }

// String returns the span as [partition]@from–to.
func (s Span) String() string { return fmt.Sprintf("[%d]@%d–%d", s.Partition, s.From, s.To) }

// Spans is a set of disjoint spans, sorted by partition and offset. Adjacent spans are merged into one. The zero value is
// the empty set.
type Spans []Span

// Union returns the set of all offsets of a and b, or an error if they share any, because adding sums over both would count
// examples twice. Neither needs to be sorted.
func (a Spans) Union(b Spans) (Spans, error) {
	all := append(slices.Clone(a), b...)
	all = slices.DeleteFunc(all, Span.Empty)
	slices.SortFunc(all, func(x, y Span) int {
		return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.From, y.From), cmp.Compare(x.To, y.To))
	})
	var union Spans
	for _, s := range all {
		last := len(union) - 1
		if last < 0 || union[last].Partition != s.Partition || union[last].To < s.From {
			union = append(union, s)
			continue
		}
		if union[last].To > s.From {
			return nil, fmt.Errorf("spans %v and %v overlap", union[last], s)
		}
		union[last].To = s.To
	}
	return union, nil
}

// Merged returns the set of all offsets of a, which may overlap, and sorts a.
func (a Spans) Merged() (set Spans) {
	slices.SortFunc(a, func(x, y Span) int { return cmp.Or(cmp.Compare(x.Partition, y.Partition), cmp.Compare(x.From, y.From)) })
	for _, s := range a {
		if last := len(set) - 1; last >= 0 && set[last].Partition == s.Partition && s.From <= set[last].To {
			set[last].To = max(set[last].To, s.To)
			continue
		}
		set = append(set, s)
	}
	return set
}

// Hulls returns the span from the first offset to the last of each partition.
func (a Spans) Hulls() (hulls Spans) {
	for _, s := range a {
		if last := len(hulls) - 1; last >= 0 && hulls[last].Partition == s.Partition {
			hulls[last].To = s.To
			continue
		}
		hulls = append(hulls, s)
	}
	return hulls
}

// On returns the spans of a partition.
func (a Spans) On(partition int) (spans Spans) {
	for _, s := range a {
		if s.Partition == partition {
			spans = append(spans, s)
		}
	}
	return spans
}

// Has reports whether an offset of a partition is in the set.
func (a Spans) Has(partition int, offset int64) bool {
	return slices.ContainsFunc(a, func(s Span) bool { return s.Partition == partition && s.From <= offset && offset < s.To })
}

// Without returns the offsets of a that are not in b.
func (a Spans) Without(b Spans) (rest Spans) {
	for _, s := range a {
		for _, cut := range b {
			if cut.Partition != s.Partition || cut.To <= s.From || s.To <= cut.From {
				continue
			}
			if before := (Span{s.Partition, s.From, cut.From}); !before.Empty() {
				rest = append(rest, before)
			}
			s.From = cut.To
		}
		if !s.Empty() {
			rest = append(rest, s)
		}
	}
	return rest
}

// Digest returns the digest of the spans.
func (a Spans) Digest() wire.Digest { return wire.DigestJSON(a) }

// SegmentCount returns the number of segments of the given length.
func (s Span) SegmentCount(length int64) int64 {
	if s.Empty() {
		return 0
	}
	return (s.To-1)/length - s.From/length + 1
}

// Segments splits the span at the multiples of length. The boundaries do not depend on where the span begins, so runs
// over overlapping windows of the log share all but their outermost segments. From must not be negative. Segments panics
// if length is not positive.
func (s Span) Segments(length int64) []Span {
	if length < 1 {
		panic(fmt.Sprintf("schemas: a segment has %d messages, expected at least 1", length))
	}
	var segments []Span
	for from := s.From; from < s.To; {
		to := s.To
		if rest := length - from%length; rest < to-from { // the next multiple may overflow int64
			to = from + rest
		}
		segments = append(segments, Span{s.Partition, from, to})
		from = to
	}
	return segments
}

// maxPartitions exceeds the number of partitions of any topic. Readers of spans keep state for each partition up to the last.
const maxPartitions = 1 << 20

// Check returns an error for spans that overlap or have a negative partition or offset.
func Check(spans Spans) error {
	for _, s := range spans {
		if s.Partition < 0 || s.Partition >= maxPartitions || s.From < 0 {
			return fmt.Errorf("span %v: expected a partition below %d, and offsets of at least 0", s, maxPartitions)
		}
	}
	_, err := spans.Union(nil)
	return err
}
