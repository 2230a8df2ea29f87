package pipeline

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// backlog is what the examples topic has that no run of a chain has looked at. Cuts go round the partitions by the distance of an offset
// from where its partition began, so on a topic that does not grow they are a function of the log.
type backlog struct {
	*pipeline
	begins []int64     // by partition: where it began when it was first seen
	ends   []int64     // by partition: the end of the last run
	read   []int64     // by partition: how far it was read
	bounds []int64     // by partition: how far the topic has messages
	ahead  [][]counted // by partition: messages that were read and are in no run yet
	late   lateSources

	messages, rows int64 // that were read, for an estimate of what was not
}

// counted is a message and how many rows it has: 0 if that can't be known.
type counted struct {
	offset int64
	rows   int
	until  int64 // when it was written, in milliseconds since 1970
	counts bool  // in a run that is planned now, unless it can't be used
}

// begin makes the backlog that of a run's end: ends is by partition where the run ended, begins where the partitions began.
func (b *backlog) begin(begins, ends []int64) {
	*b = backlog{pipeline: b.pipeline, begins: begins, ends: ends, read: slices.Clone(ends)}
}

// refresh says which offsets the topic has now.
func (b *backlog) refresh(bounds []schemas.Span) {
	b.bounds = b.bounds[:0]
	for n, span := range bounds {
		b.add(n, span.From)
		b.bounds = append(b.bounds, span.To)
		b.late.expire(n, span.From)
		if len(b.ahead[n]) == 0 && b.read[n] < span.From { // it has expired
			b.read[n] = span.From
		}
	}
}

// knows reports whether sources are those that the backlog was restarted with.
func (b *backlog) knows(sources []schemas.SourceSeal) bool {
	return slices.EqualFunc(b.late.names, sources, func(name string, s schemas.SourceSeal) bool { return name == s.Name() })
}

// restart makes the backlog what it is after the last run, with what is late.
func (b *backlog) restart(late lateSources) {
	b.late, b.read = late, slices.Clone(b.ends)
	clear(b.ahead)
}

// add makes partition n known, which comes after those that are, and begins there.
func (b *backlog) add(n int, begin int64) {
	if n >= len(b.begins) {
		b.begins = append(b.begins, begin)
	}
	if n >= len(b.ends) {
		b.ends, b.read = append(b.ends, b.begins[n]), append(b.read, b.begins[n])
	}
	if n >= len(b.ahead) {
		b.ahead = append(b.ahead, nil)
	}
}

// readAhead is how many messages of a partition are read at once to count their rows.
const readAhead = 64

// cut returns the spans of the next increment: messages with at least rows rows, some of which count if it is the first; fewer if the topic
// has no more. whole reports whether it has them. The spans become part of the past with take.
func (b *backlog) cut(ctx context.Context, rows int64, first bool) (spans schemas.Spans, found int64, whole bool, err error) {
	taken := make([]int, len(b.ahead))
	for any := !first; found < rows || !any; {
		next := -1
		for n := range b.ahead {
			if taken[n] == len(b.ahead[n]) {
				if err := b.readMore(ctx, n); err != nil {
					return nil, 0, false, err
				}
			}
			if taken[n] < len(b.ahead[n]) && (next < 0 || b.distance(n, taken[n]) < b.distance(next, taken[next])) {
				next = n
			}
		}
		if next < 0 {
			break
		}
		found += int64(b.ahead[next][taken[next]].rows)
		any = any || b.ahead[next][taken[next]].counts
		taken[next]++
	}
	for n, count := range taken {
		if count > 0 {
			spans = append(spans, b.spansOf(n, b.ahead[n][:count])...)
		}
	}
	return spans, found, found >= rows, nil
}

// spansOf returns the spans of messages of a partition that are in no run yet: those of sources that were sealed late, and one of all that
// no run has looked at up to the last of them.
func (b *backlog) spansOf(partition int, messages []counted) (spans schemas.Spans) {
	end := max(b.ends[partition], b.begins[partition])
	for _, m := range messages {
		span := schemas.Span{Partition: partition, From: m.offset, To: m.offset + 1}
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

// anyCounts reports whether a message of spans counts that were cut and are not taken.
func (b *backlog) anyCounts(spans schemas.Spans) bool {
	return slices.ContainsFunc(spans, func(s schemas.Span) bool {
		return slices.ContainsFunc(b.ahead[s.Partition], func(c counted) bool { return c.counts && c.offset < s.To })
	})
}

// times returns when the oldest and the newest message of spans were written that were cut and are not taken.
func (b *backlog) times(spans schemas.Spans) (oldest, newest int64) {
	for _, s := range spans {
		for _, c := range b.ahead[s.Partition] {
			if c.offset >= s.To {
				continue
			}
			if newest = max(newest, c.until); oldest == 0 || c.until < oldest {
				oldest = c.until
			}
		}
	}
	return oldest, newest
}

// distance returns how far the message of a partition is from where the partition began.
func (b *backlog) distance(partition, message int) int64 {
	return b.ahead[partition][message].offset - b.begins[partition]
}

// readMore reads the next messages of a partition, if the topic has any.
func (b *backlog) readMore(ctx context.Context, partition int) error {
	had := len(b.ahead[partition])
	for len(b.ahead[partition]) == had {
		span, any := b.late.next(partition, readAhead)
		if !any {
			break
		}
		if err := b.readSpan(ctx, span, func(m run.Message) bool { return b.late.counts(partition, m.Message) }); err != nil {
			return err
		}
	}
	if len(b.ahead[partition]) > had || b.read[partition] >= b.bounds[partition] {
		return nil
	}
	to := min(b.read[partition]+readAhead, b.bounds[partition])
	err := b.readSpan(ctx, schemas.Span{Partition: partition, From: b.read[partition], To: to}, func(run.Message) bool { return true })
	if err == nil {
		b.read[partition] = to
	}
	return err
}

// readSpan reads messages, and keeps how many rows those have that are wanted.
func (b *backlog) readSpan(ctx context.Context, span schemas.Span, wanted func(run.Message) bool) error {
	partition := span.Partition
	r := b.Log.Range(b.Topics.Examples, partition, span.From, span.To)
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("count the rows of %s[%d]: %w", b.Topics.Examples, partition, err)
		}
		if !wanted(m) {
			continue
		}
		c := counted{offset: m.Offset, until: m.Time.UnixMilli(), counts: b.late.known(m.Message)}
		if examples, err := b.Codec.DecodeExamples(m.Value); err == nil {
			c.rows = examples.Rows
			examples.Release()
		}
		b.ahead[partition] = append(b.ahead[partition], c)
		b.messages, b.rows = b.messages+1, b.rows+int64(c.rows)
	}
}

// behind returns how many messages and rows the topic has that are in no run. A message that was not read is taken to have as many rows as
// those that were have on average.
func (b *backlog) behind() (left event.Behind) {
	unread := int64(0)
	for n, ahead := range b.ahead {
		unread += max(b.bounds[n]-b.read[n], 0)
		left.Messages += int64(len(ahead))
		for _, c := range ahead {
			left.Rows += int64(c.rows)
		}
	}
	left.Messages += unread
	left.Rows += unread * b.rows / max(b.messages, 1)
	return left
}

// take makes the spans of a plan that was made of the backlog a part of the past.
func (b *backlog) take(plan *schemas.Plan) {
	for n, begin := range plan.Chain.Begins {
		b.add(n, begin)
	}
	for _, s := range plan.Added() {
		n := s.Partition
		b.ends[n], b.read[n] = max(b.ends[n], s.To), max(b.read[n], s.To)
		for len(b.ahead[n]) > 0 && b.ahead[n][0].offset < s.To {
			b.ahead[n] = b.ahead[n][1:]
		}
	}
}
