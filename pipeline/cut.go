package pipeline

import (
	"context"
	"fmt"
	"io"

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
}

// counted is a message and how many rows it has: 0 if that can't be known.
type counted struct {
	offset int64
	rows   int
	until  int64 // when it was written, in milliseconds since 1970
}

// begin makes the backlog that of a run's end: ends is by partition where the run ended, begins where the partitions began.
func (b *backlog) begin(begins, ends []int64) {
	b.begins, b.ends, b.read, b.bounds, b.ahead = begins, ends, append([]int64(nil), ends...), nil, nil
}

// refresh asks how far the topic has messages now.
func (b *backlog) refresh(ctx context.Context) error {
	bounds, err := b.Log.Spans(ctx, b.Topics.Examples)
	if err != nil {
		return err
	}
	b.bounds = b.bounds[:0]
	for n, span := range bounds {
		b.add(n, span.From)
		b.bounds = append(b.bounds, span.To)
		if len(b.ahead[n]) == 0 && b.read[n] < span.From { // it has expired
			b.read[n] = span.From
		}
	}
	return nil
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

// cut returns the spans of the next increment: messages with at least rows rows; fewer if the topic has no more. whole reports whether it
// has them. The spans become part of the past with take.
func (b *backlog) cut(ctx context.Context, rows int64) (spans schemas.Spans, found int64, whole bool, err error) {
	taken := make([]int, len(b.ahead))
	for found < rows {
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
		taken[next]++
	}
	for n, count := range taken {
		if count > 0 {
			spans = append(spans, schemas.Span{Partition: n, From: max(b.ends[n], b.begins[n]), To: b.ahead[n][count-1].offset + 1})
		}
	}
	return spans, found, found >= rows, nil
}

// until returns when the newest message of spans was written that were cut and are not taken.
func (b *backlog) until(spans schemas.Spans) (newest int64) {
	for _, s := range spans {
		for _, c := range b.ahead[s.Partition] {
			if c.offset < s.To {
				newest = max(newest, c.until)
			}
		}
	}
	return newest
}

// distance returns how far the message of a partition is from where the partition began.
func (b *backlog) distance(partition, message int) int64 {
	return b.ahead[partition][message].offset - b.begins[partition]
}

// readMore reads the next messages of a partition, if the topic has any.
func (b *backlog) readMore(ctx context.Context, partition int) error {
	if b.read[partition] >= b.bounds[partition] {
		return nil
	}
	to := min(b.read[partition]+readAhead, b.bounds[partition])
	r := b.Log.Range(b.Topics.Examples, partition, b.read[partition], to)
	defer r.Close()
	for {
		m, err := r.Next(ctx)
		if err == io.EOF {
			b.read[partition] = to
			return nil
		}
		if err != nil {
			return fmt.Errorf("count the rows of %s[%d]: %w", b.Topics.Examples, partition, err)
		}
		c := counted{offset: m.Offset, until: m.Time.UnixMilli()}
		if examples, err := b.Codec.DecodeExamples(m.Value); err == nil {
			c.rows = examples.Rows
			examples.Release()
		}
		b.ahead[partition] = append(b.ahead[partition], c)
	}
}

// take makes the spans of a plan a part of the past. Another process may have made the plan, of messages that this one has not read.
func (b *backlog) take(plan *schemas.Plan) {
	for n, begin := range plan.Chain.Begins {
		b.add(n, begin)
	}
	for _, s := range plan.Spans {
		n := s.Partition
		b.ends[n], b.read[n] = max(b.ends[n], s.To), max(b.read[n], s.To)
		for len(b.ahead[n]) > 0 && b.ahead[n][0].offset < s.To {
			b.ahead[n] = b.ahead[n][1:]
		}
	}
}
