package coverage

import (
	"cmp"
	"fmt"
	"slices"
)

// ForgottenRows are rows of the examples topic: all rows of the messages in a span, or some of one message.
type ForgottenRows struct {
	Partition int   `json:"partition"`       // partition number
	From      int64 `json:"from"`            // offset of the first message
	To        int64 `json:"to"`              // offset after the last message
	First     int   `json:"first,omitempty"` // single message: first row
	End       int   `json:"end,omitempty"`   // single message: row after the last; 0: all rows of all messages
}

// Span returns the span of the messages.
func (r ForgottenRows) Span() Span { return Span{r.Partition, r.From, r.To} }

// Forgotten is a set of rows of the examples topic, in the order of their offsets, without duplicates. The zero value is empty.
type Forgotten []ForgottenRows

// Union returns the rows of f and of others, which may be in any order.
func (f Forgotten) Union(others Forgotten) (union Forgotten) {
	all := slices.Concat(f, others)
	all = slices.DeleteFunc(all, func(r ForgottenRows) bool { return r.Span().Empty() })
	// If some rows of a message and the whole message begin together, the whole message is first: it covers the others.
	slices.SortFunc(all, func(a, b ForgottenRows) int {
		return cmp.Or(cmp.Compare(a.Partition, b.Partition), cmp.Compare(a.From, b.From), cmp.Compare(min(a.End, 1), min(b.End, 1)),
			cmp.Compare(a.First, b.First))
	})
	for _, r := range all {
		last := len(union) - 1
		if last < 0 || union[last].Partition != r.Partition {
			union = append(union, r)
			continue
		}
		switch before := &union[last]; {
		case before.End == 0 && r.End == 0 && r.From <= before.To:
			before.To = max(before.To, r.To)
		case before.End == 0 && r.To <= before.To: // covered
		case before.End > 0 && r.End > 0 && r.From == before.From && r.First <= before.End:
			before.End = max(before.End, r.End)
		default:
			union = append(union, r)
		}
	}
	return union
}

// Within returns the rows that are in spans, which must be disjoint.
func (f Forgotten) Within(spans Spans) (within Forgotten) {
	for _, r := range f {
		for _, s := range spans {
			if cut := (Span{r.Partition, max(r.From, s.From), min(r.To, s.To)}); s.Partition == r.Partition && !cut.Empty() {
				within = append(within, ForgottenRows{cut.Partition, cut.From, cut.To, r.First, r.End})
			}
		}
	}
	return within.Union(nil)
}

// Spans returns the spans of the messages with the rows.
func (f Forgotten) Spans() (spans Spans) {
	for _, r := range f {
		if last := len(spans) - 1; last < 0 || spans[last] != r.Span() { // rows of one message are adjacent
			spans = append(spans, r.Span())
		}
	}
	return spans
}

// Covers reports whether all rows of others are in f.
func (f Forgotten) Covers(others Forgotten) bool { return slices.Equal(f.Union(others), f.Union(nil)) }

// In calls with for the ranges of rows, [first, end), of a message with the given number of rows.
func (f Forgotten) In(partition int, offset int64, rows int, with func(first, end int)) {
	i, _ := slices.BinarySearchFunc(f, offset, func(r ForgottenRows, offset int64) int {
		return cmp.Or(cmp.Compare(r.Partition, partition), cmp.Compare(r.To, offset+1))
	})
	for ; i < len(f) && f[i].Partition == partition && f[i].From <= offset; i++ {
		if f[i].End == 0 {
			with(0, rows)
		} else if f[i].First < rows {
			with(f[i].First, min(f[i].End, rows))
		}
	}
}

// Check returns an error for impossible values, and for rows that are not in order.
func (f Forgotten) Check() error {
	for _, r := range f {
		switch {
		case r.Partition < 0 || r.From < 0 || r.Span().Empty():
			return fmt.Errorf("forgotten rows of %v: expected a partition and offsets of at least 0, and a message", r.Span())
		case r.First < 0 || r.End < 0 || r.First > 0 && r.End <= r.First || r.End > 0 && r.Span().Len() != 1:
			return fmt.Errorf("forgotten rows %d to %d of %v: expected rows of one message", r.First, r.End, r.Span())
		}
	}
	if !slices.Equal(f, f.Union(nil)) {
		return fmt.Errorf("forgotten rows are not in order, or are twice")
	}
	return nil
}
