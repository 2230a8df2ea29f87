package chain

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/schemas/coverage"
)

// Increment is the messages that a run adds to a chain.
type Increment struct {
	Spans coverage.Spans
	Rows  int64 // of its messages
	Whole bool  // it has the requested number of rows, and two classes if it is the first
}

// Cut returns the next increment: messages with at least the given number of rows, some of which count if it is the first,
// and with two classes, including those there; fewer if the topic has no more. Advance marks its spans as processed.
func (b *Backlog) Cut(ctx context.Context, rows int64, first bool, there Labels) (increment Increment, err error) {
	taken := make([]int, len(b.ahead))
	any, classes := !first, slices.Clone(there)
	for increment.Rows < rows || !any || first && !b.TellApart(classes) {
		next := -1
		for n := range b.ahead {
			if taken[n] == len(b.ahead[n]) {
				if err := b.readMore(ctx, n); err != nil {
					return Increment{}, err
				}
			}
			if taken[n] < len(b.ahead[n]) && (next < 0 || b.distance(n, taken[n]) < b.distance(next, taken[next])) {
				next = n
			}
		}
		if next < 0 {
			break
		}
		increment.Rows += int64(b.ahead[next][taken[next]].rows)
		any = any || b.ahead[next][taken[next]].counts
		classes.add(&b.ahead[next][taken[next]])
		taken[next]++
	}
	for n, count := range taken {
		if count > 0 {
			increment.Spans = append(increment.Spans, b.spansOf(n, b.ahead[n][:count])...)
		}
	}
	increment.Whole = increment.Rows >= rows && (!first || b.TellApart(classes))
	return increment, nil
}

// spansOf returns the spans of a partition's messages that are in no run yet: those of sources that were sealed late, and
// one for all unprocessed messages up to the last of them.
func (b *Backlog) spansOf(partition int, messages []counted) (spans coverage.Spans) {
	end := b.End(partition)
	for _, m := range messages {
		span := coverage.Span{Partition: partition, From: m.offset, To: m.offset + 1}
		if m.offset >= end {
			span.From = end
		}
		if last := len(spans) - 1; last >= 0 && spans[last].To >= span.From {
			spans[last].To = span.To
			continue
		}
		spans = append(spans, span)
	}
	return spans
}

// AnyCounts reports whether a message counts in spans that were cut and not yet taken.
func (b *Backlog) AnyCounts(spans coverage.Spans) bool {
	return slices.ContainsFunc(spans, func(s coverage.Span) bool {
		return slices.ContainsFunc(b.ahead[s.Partition], func(c counted) bool { return c.counts && c.offset < s.To })
	})
}

// Times returns the timestamps of the oldest and the newest message in spans that were cut and not yet taken. A message
// with a timestamp after the plan was made, or without one, counts as written then. future is the number of messages with
// later timestamps.
func (b *Backlog) Times(spans coverage.Spans, made int64) (oldest, newest int64, future int) {
	for _, s := range spans {
		for _, c := range b.ahead[s.Partition] {
			if c.offset >= s.To {
				continue
			}
			until := c.until
			if until > made {
				future++
			}
			if until <= 0 || until > made {
				until = made
			}
			if newest = max(newest, until); oldest == 0 || until < oldest {
				oldest = until
			}
		}
	}
	return oldest, newest, future
}

// Lacking returns the optional columns that rows lack, although earlier rows had them, and the messages of these rows, in spans
// that were cut and not yet taken.
func (b *Backlog) Lacking(spans coverage.Spans) (columns []string, messages coverage.Spans) {
	for _, s := range spans {
		for _, c := range b.ahead[s.Partition] {
			if len(c.lacks) > 0 && c.offset >= s.From && c.offset < s.To {
				columns = append(columns, c.lacks...)
				messages = append(messages, coverage.Span{Partition: s.Partition, From: c.offset, To: c.offset + 1})
			}
		}
	}
	return columns, messages.Merged()
}

// MarksAfter returns the marks of the chain after a run over spans that were cut and not yet taken.
func (b *Backlog) MarksAfter(spans coverage.Spans) []coverage.Mark {
	var more []coverage.Mark
	for _, hull := range spans.Hulls() {
		ahead := b.ahead[hull.Partition]
		for i := len(ahead) - 1; i >= 0; i-- {
			if ahead[i].offset < hull.To {
				more = append(more, ahead[i].mark)
				break
			}
		}
	}
	return coverage.Marks(b.marks, more)
}

// distance returns the distance of a partition's message from the start of the partition.
func (b *Backlog) distance(partition, message int) int64 {
	return b.ahead[partition][message].offset - b.begins[partition]
}
