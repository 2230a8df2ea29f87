package schemas

import (
	"cmp"
	"fmt"
	"slices"
)

// Span is a range of one partition's offsets, From included, To not.
type Span struct {
	Partition int   `json:"partition"`
	From      int64 `json:"from"`
	To        int64 `json:"to"`
}

// Empty tells whether the span holds no offset.
func (s Span) Empty() bool { return s.To <= s.From }

// Contains tells whether all of other lies within s.
func (s Span) Contains(other Span) bool {
	return s.Partition == other.Partition && s.From <= other.From && other.To <= s.To
}

func (s Span) String() string { return fmt.Sprintf("[%d]@%d–%d", s.Partition, s.From, s.To) }

// OverlapError says that two spans share offsets: their sums would count
// examples twice.
type OverlapError struct{ A, B Span }

func (e *OverlapError) Error() string { return fmt.Sprintf("spans %v and %v overlap", e.A, e.B) }

// Spans is a set of disjoint spans in the order of (partition, from). Spans
// that touch are one span. The zero value is the empty set.
type Spans []Span

// Union is the set of all offsets of a and b, or an *OverlapError if they
// share any.
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
			return nil, &OverlapError{union[last], s}
		}
		union[last].To = s.To
	}
	return union, nil
}

// pieces is how many segments of that length the span has.
func (s Span) pieces(length int64) int64 {
	if s.Empty() {
		return 0
	}
	return (s.To-1)/length - s.From/length + 1
}

// Segments cuts the span at the multiples of length, so that the cuts do not
// depend on where the span begins: runs over overlapping windows of the log
// share all but their outermost segments. Offsets are not negative; it panics
// if length is not positive.
func (s Span) Segments(length int64) []Span {
	if length < 1 {
		panic(fmt.Sprintf("schemas: segments of %d messages", length))
	}
	var segments []Span
	for from := s.From; from < s.To; {
		to := s.To
		if rest := length - from%length; rest < to-from { // a multiple may be beyond int64
			to = from + rest
		}
		segments = append(segments, Span{s.Partition, from, to})
		from = to
	}
	return segments
}

// checkSpans returns an error for spans that no plan or seal can have.
func checkSpans(spans Spans) error {
	for _, s := range spans {
		if s.Partition < 0 || s.From < 0 {
			return fmt.Errorf("span %v", s)
		}
	}
	_, err := spans.Union(nil)
	return err
}
