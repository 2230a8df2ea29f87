package pipeline

import (
	"context"
	"fmt"
	"io"
	"math"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// backlog is what the examples topic has that no run of a chain has looked at. Cuts go round the partitions by the distance of an offset
// from where its partition began, so on a topic that does not grow they are a function of the log.
type backlog struct {
	*topics.Pipeline
	begins []int64     // by partition: where it began when it was first seen
	ends   []int64     // by partition: the end of the last run
	read   []int64     // by partition: how far it was read
	bounds []int64     // by partition: how far the topic has messages
	ahead  [][]counted // by partition: messages that were read and are in no run yet
	late   lateSources
	marks  []coverage.Mark                // the last messages that runs have looked at
	lost   coverage.Spans                 // that the topic has deleted before a run has looked at them, since the last run
	labels func(*examples.Batch) []string // the first two of a message; nil: any increment may be the first

	forgotten *heed.Forgotten // whose rows are as if they had no label and no weight

	messages, rows int64 // that were read, for an estimate of what was not
}

// counted is a message and how many rows it has: 0 if that can't be known.
type counted struct {
	offset int64
	rows   int
	until  int64 // when it was written, in milliseconds since 1970; 0 or less: it does not say
	mark   coverage.Mark
	counts bool     // in a run that is planned now, unless it can't be used: some row weighs something
	labels []string // the first two, if the backlog is for a chain that finds its classes
}

// begin makes the backlog that of a run's end: ends is by partition where the run ended, begins where the partitions
// began, and marks are the last messages that it and those before it have looked at.
func (b *backlog) begin(begins, ends []int64, marks []coverage.Mark) {
	*b = backlog{Pipeline: b.Pipeline, labels: b.labels, forgotten: b.forgotten, begins: begins, ends: ends, read: slices.Clone(ends),
		marks: marks}
}

// refresh says which offsets the topic has now. What it has deleted and no run has looked at is lost.
func (b *backlog) refresh(bounds []coverage.Span) {
	b.bounds = b.bounds[:0]
	for n, span := range bounds {
		b.add(n, span.From)
		b.bounds = append(b.bounds, span.To)
		b.late.expire(n, span.From)
		for len(b.ahead[n]) > 0 && b.ahead[n][0].offset < span.From {
			b.ahead[n] = b.ahead[n][1:]
		}
		b.read[n] = max(b.read[n], span.From)
		if end := b.end(n); end < span.From {
			b.lost = append(b.lost, coverage.Span{Partition: n, From: end, To: span.From})
			b.ends[n] = span.From
		}
	}
	b.lost = merged(b.lost)
}

// everything returns the span of all offsets that a partition may have.
func everything(partition int) coverage.Span {
	return coverage.Span{Partition: partition, To: math.MaxInt64}
}

// shrink forgets what the topic does not have: partitions, and messages that were read and are in no run.
func (b *backlog) shrink(bounds []coverage.Span) {
	if keep := len(bounds); keep < len(b.ends) {
		b.begins, b.ends, b.read, b.ahead = b.begins[:keep], b.ends[:keep], b.read[:keep], b.ahead[:keep]
	}
	for n := range b.ahead {
		if b.read[n] > bounds[n].To {
			b.restart(lateSources{})
			return
		}
	}
}

// end returns where what no run has looked at begins in a partition, but for sources that were sealed late.
func (b *backlog) end(partition int) int64 { return max(b.ends[partition], b.begins[partition]) }

// replace says that a partition does not hold what runs have looked at, but for what is before an offset, which ends
// with a mark, if there is any.
func (b *backlog) replace(bounds coverage.Span, proven int64, last *coverage.Mark) {
	n := bounds.Partition
	b.ends[n], b.read[n], b.ahead[n] = proven, proven, nil
	b.begins[n] = min(b.begins[n], proven)
	b.marks = slices.DeleteFunc(slices.Clone(b.marks), func(m coverage.Mark) bool { return m.Partition == n })
	b.lost = b.lost.Without(coverage.Spans{everything(n)})
	if last != nil {
		b.marks = coverage.Marks(b.marks, []coverage.Mark{*last})
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

// maxReadAhead is how many offsets of a partition are read at once behind as many without a message.
const maxReadAhead = 1 << 16

// cut returns the spans of the next increment: messages with at least rows rows, some of which count if it is the
// first, and tell classes apart, of which some may be there; fewer if the topic has no more. whole reports whether it
// has them. The spans become part of the past with take.
func (b *backlog) cut(ctx context.Context, rows int64, first bool, there distinct) (spans coverage.Spans, found int64, whole bool,
	err error) {
	taken := make([]int, len(b.ahead))
	any, classes := !first, slices.Clone(there)
	for found < rows || !any || first && !b.tellApart(classes) {
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
		classes.add(&b.ahead[next][taken[next]])
		taken[next]++
	}
	for n, count := range taken {
		if count > 0 {
			spans = append(spans, b.spansOf(n, b.ahead[n][:count])...)
		}
	}
	return spans, found, found >= rows && (!first || b.tellApart(classes)), nil
}

// spansOf returns the spans of messages of a partition that are in no run yet: those of sources that were sealed late, and one of all that
// no run has looked at up to the last of them.
func (b *backlog) spansOf(partition int, messages []counted) (spans coverage.Spans) {
	end := b.end(partition)
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

// anyCounts reports whether a message of spans counts that were cut and are not taken.
func (b *backlog) anyCounts(spans coverage.Spans) bool {
	return slices.ContainsFunc(spans, func(s coverage.Span) bool {
		return slices.ContainsFunc(b.ahead[s.Partition], func(c counted) bool { return c.counts && c.offset < s.To })
	})
}

// times returns when the oldest and the newest message of spans were written that were cut and are not taken. A message
// that says it was written after the plan was made, or does not say when, counts as written then. future counts those
// that say so.
func (b *backlog) times(spans coverage.Spans, made int64) (oldest, newest int64, future int) {
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

// marksAfter returns the marks of the chain after a run over spans that were cut and are not taken.
func (b *backlog) marksAfter(spans coverage.Spans) []coverage.Mark {
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
		if _, err := b.readSpan(ctx, span, readAhead, func(m protocol.Message) bool { return b.late.counts(partition, m.Message) }); err != nil {
			return err
		}
	}
	if len(b.ahead[partition]) > had || b.read[partition] >= b.bounds[partition] {
		return nil
	}
	// Not every offset has a message: transactions that were aborted and compaction leave gaps of any length.
	for step := int64(readAhead); len(b.ahead[partition]) == had && b.read[partition] < b.bounds[partition]; step = min(2*step, maxReadAhead) {
		to := min(b.read[partition]+step, b.bounds[partition])
		to, err := b.readSpan(ctx, coverage.Span{Partition: partition, From: b.read[partition], To: to}, readAhead,
			func(protocol.Message) bool { return true })
		b.read[partition] = to
		if err != nil {
			return err
		}
	}
	return nil
}

// readSpan reads messages, up to as many that are wanted, and keeps how many rows those have. It returns the offset after what it has read.
func (b *backlog) readSpan(ctx context.Context, span coverage.Span, messages int, wanted func(protocol.Message) bool) (to int64,
	err error) {
	partition := span.Partition
	r := b.Log.Range(b.Topics.Examples, partition, span.From, span.To)
	defer r.Close()
	for to = span.From; messages > 0; {
		m, err := r.Next(ctx)
		if err == io.EOF {
			return span.To, nil
		}
		if err != nil {
			return to, fmt.Errorf("count the rows of %s[%d]: %w", b.Topics.Examples, partition, err)
		}
		if to = m.Offset + 1; !wanted(m) {
			continue
		}
		c := counted{offset: m.Offset, until: m.Time.UnixMilli(), mark: markOf(partition, m), counts: b.late.known(m.Message)}
		if examples, err := b.Codec.DecodeExamples(m.Value); err == nil {
			examples = examples.Without(b.forgotten.Rows, partition, m.Offset)
			c.rows, c.counts = examples.Rows, c.counts && weighs(examples)
			if b.labels != nil {
				c.labels = b.labels(examples)
			}
			examples.Release()
		}
		b.ahead[partition] = append(b.ahead[partition], c)
		b.messages, b.rows, messages = b.messages+1, b.rows+int64(c.rows), messages-1
	}
	return to, nil
}

// weighs reports whether a row of examples weighs something.
func weighs(examples *examples.Batch) bool {
	for row := range examples.Rows {
		if examples.Weight(row) > 0 {
			return true
		}
	}
	return false
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
	b.marks, b.lost = plan.Chain.Marks, b.lost.Without(plan.Chain.Lost)
	for _, s := range plan.Added() {
		n := s.Partition
		b.ends[n], b.read[n] = max(b.ends[n], s.To), max(b.read[n], s.To)
		for len(b.ahead[n]) > 0 && b.ahead[n][0].offset < s.To {
			b.ahead[n] = b.ahead[n][1:]
		}
	}
}
