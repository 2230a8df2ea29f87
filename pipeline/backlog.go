package pipeline

import (
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// backlog is the messages of a topic that no run of a chain has processed. It divides them into increments. Cuts alternate
// between the partitions by the distance of offsets from the start of their partition: if the topic does not grow, they
// depend on nothing else. Create one with [newBacklog]; [backlog.begin] sets its start.
type backlog struct {
	*topics.Pipeline
	forgotten *source.Forgotten
	labels    func(*examples.Rows) []string // the first two labels of a message; nil: any increment may be the first

	begins []int64     // by partition: its start when it was first seen
	ends   []int64     // by partition: end of the last run; nil: unknown
	read   []int64     // by partition: read position
	bounds []int64     // by partition: end of the topic at the last call of refresh
	ahead  [][]counted // by partition: messages read and not yet in a run
	late   lateSources
	marks  []coverage.Mark // last messages processed by runs
	lost   coverage.Spans  // deleted from the topic since the last run, before a run has processed them

	messages, rows int64 // counts of messages read, to estimate the unread ones
}

// counted is a message with its number of rows: 0 if unknown.
type counted struct {
	offset int64
	rows   int
	until  int64 // timestamp in milliseconds since 1970; 0 or less: none
	mark   coverage.Mark
	lacks  []string // optional columns that most of its rows lack, although earlier rows had them
	counts bool     // a run planned now would count it: its source is valid, and some row has a weight unless it is unusable
	labels []string // the first two, if the chain determines its classes from the rows
}

// newBacklog returns the backlog of a pipeline's examples, without forgotten rows. labels returns the first two labels of a message's
// trainable rows; it is nil if the first increment does not need rows of two classes.
func newBacklog(p *topics.Pipeline, forgotten *source.Forgotten, labels func(*examples.Rows) []string) *backlog {
	return &backlog{Pipeline: p, forgotten: forgotten, labels: labels}
}

// begin sets the backlog to that at the end of a run: ends is the end of the run by partition, begins are the starts of
// the partitions, and marks the last messages processed by the run and its predecessors.
func (b *backlog) begin(begins, ends []int64, marks []coverage.Mark) {
	*b = backlog{Pipeline: b.Pipeline, forgotten: b.forgotten, labels: b.labels, begins: begins, ends: ends, read: slices.Clone(ends),
		marks: marks}
}

// refresh sets the current bounds of the topic. Deleted messages that no run has processed are lost.
func (b *backlog) refresh(bounds []coverage.Span) {
	b.bounds = b.bounds[:0]
	for n, span := range bounds {
		b.add(n, span.From)
		b.bounds = append(b.bounds, span.To)
		late := &b.late // retention has deleted messages
		late.left = slices.DeleteFunc(late.left, func(s coverage.Span) bool { return s.Partition == n && s.To <= span.From })
		for i := range late.left {
			if late.left[i].Partition == n {
				late.left[i].From = max(late.left[i].From, span.From)
			}
		}
		for len(b.ahead[n]) > 0 && b.ahead[n][0].offset < span.From {
			b.ahead[n] = b.ahead[n][1:]
		}
		b.read[n] = max(b.read[n], span.From)
		if end := b.end(n); end < span.From {
			b.lost = append(b.lost, coverage.Span{Partition: n, From: end, To: span.From})
			b.ends[n] = span.From
		}
	}
	b.lost = b.lost.Merged()
}

// shrunk reports whether a topic with these bounds has less than the chain has processed or counted.
func (b *backlog) shrunk(bounds []coverage.Span) bool {
	for n, read := range b.read {
		if n >= len(bounds) || bounds[n].To < max(read, b.end(n)) {
			return true
		}
	}
	return false
}

// shrink drops partitions that the topic no longer has, and the read-ahead if the topic has lost messages of it.
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

// end returns the start of a partition's unprocessed messages, apart from sources that were sealed late.
func (b *backlog) end(partition int) int64 { return max(b.ends[partition], b.begins[partition]) }

// replace records that a partition no longer has the messages processed by runs, except those before the offset proven.
// last is the mark of the last of these, or nil if there are none.
func (b *backlog) replace(bounds coverage.Span, proven int64, last *coverage.Mark) {
	n := bounds.Partition
	b.ends[n], b.read[n], b.ahead[n] = proven, proven, nil
	b.begins[n] = min(b.begins[n], proven)
	b.marks = slices.DeleteFunc(slices.Clone(b.marks), func(m coverage.Mark) bool { return m.Partition == n })
	b.lost = b.lost.Without(coverage.Spans{{Partition: n, To: math.MaxInt64}})
	if last != nil {
		b.marks = coverage.Marks(b.marks, []coverage.Mark{*last})
	}
}

// follow sets the valid sources. progress is the sources' progress in runs. If the sources have changed, it discards the
// read-ahead, and adds the messages that the chain has passed over because their sources were not sealed yet.
func (b *backlog) follow(sources []schemas.SourceSeal, progress []schemas.SourceProgress, bounds []coverage.Span) {
	if !slices.EqualFunc(b.late.names, sources, func(name string, s schemas.SourceSeal) bool { return name == s.Name() }) {
		b.restart(findLate(sources, progress, bounds, b.ends))
	}
}

// restart resets the backlog to the end of the last run, without read-ahead.
func (b *backlog) restart(late lateSources) {
	b.late = late
	for n := range b.read {
		b.read[n] = b.end(n)
	}
	clear(b.ahead)
}

// add adds partition n, the next one, which starts at an offset.
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

// behind returns the number of messages and rows that are in no run. An unread message is assumed to have the average
// number of rows of those that were read.
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

// advance marks the spans of a plan made from the backlog as processed.
func (b *backlog) advance(plan *schemas.Plan) {
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

// cut is the messages that a run adds to a chain.
type cut struct {
	spans    coverage.Spans
	messages []counted // by partition and offset
	rows     int64     // of its messages
	counts   bool      // any message counts
	classes  []string  // the given classes, and labels of messages that count: at most two
	whole    bool      // it has the requested number of rows, and two classes if it is the first
}

// cut returns the next increment: messages with at least the given number of rows, or fewer if the topic has no more. If first is
// set, some of them count, and there are two classes, including those in there. [backlog.advance] marks its spans as processed.
//
// A classifier needs two classes. So the first increment of a chain that determines its classes extends until it has rows
// of two. If forgetting rows leaves the window with one class, so does the increment of the due full run.
func (b *backlog) cut(ctx context.Context, rows int64, first bool, there []string) (*cut, error) {
	taken := make([]int, len(b.ahead))
	c := &cut{classes: slices.Clone(there)}
	for c.rows < rows || first && !(c.counts && b.tellApart(c.classes)) {
		next := -1
		for n := range b.ahead {
			if taken[n] == len(b.ahead[n]) {
				if err := b.readMore(ctx, n); err != nil {
					return nil, err
				}
			}
			if taken[n] < len(b.ahead[n]) && (next < 0 || b.distance(n, taken[n]) < b.distance(next, taken[next])) {
				next = n
			}
		}
		if next < 0 {
			break
		}
		m := &b.ahead[next][taken[next]]
		c.rows += int64(m.rows)
		if m.counts {
			c.counts, c.classes = true, withLabels(c.classes, m.labels)
		}
		taken[next]++
	}
	for n, count := range taken {
		c.messages = append(c.messages, b.ahead[n][:count]...)
		c.spans = append(c.spans, b.spansOf(n, b.ahead[n][:count])...)
	}
	c.whole = c.rows >= rows && (!first || b.tellApart(c.classes))
	return c, nil
}

// withLabels adds labels to classes, up to a total of two.
func withLabels(classes, labels []string) []string {
	for _, label := range labels {
		if len(classes) < 2 && !slices.Contains(classes, label) && !slices.Contains(classes, examples.NewLabels(classes).Spelt(label)) {
			classes = append(classes, label)
		}
	}
	return classes
}

// tellApart reports whether a chain can start with rows of these labels.
func (b *backlog) tellApart(classes []string) bool { return b.labels == nil || len(classes) > 1 }

// distance returns the distance of a partition's message from the start of the partition.
func (b *backlog) distance(partition, message int) int64 {
	return b.ahead[partition][message].offset - b.begins[partition]
}

// spansOf returns the spans of a partition's messages that are in no run yet: those of sources that were sealed late, and
// one for all unprocessed messages up to the last of them.
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

// readAhead is the number of messages of a partition that are read at once to count their rows. maxReadAhead is the maximum
// number of offsets read at once in a gap without messages.
const readAhead, maxReadAhead = 64, 1 << 16

// readMore reads the next messages of a partition, if the topic has any.
func (b *backlog) readMore(ctx context.Context, partition int) error {
	had := len(b.ahead[partition])
	for len(b.ahead[partition]) == had {
		span, any := b.late.next(partition, readAhead)
		if !any {
			break
		}
		if _, err := b.readSpan(ctx, span, func(m wire.Message) bool { // an uncounted one of a valid source
			origin, ingested := schemas.OriginOf(m)
			return ingested && origin.Next == 0 && b.late.counted[partition].Accept(m) == ""
		}); err != nil {
			return err
		}
	}
	// Not every offset holds a message: aborted transactions and compaction leave gaps of any length.
	for step := int64(readAhead); len(b.ahead[partition]) == had && b.read[partition] < b.bounds[partition]; step = min(2*step, maxReadAhead) {
		to := min(b.read[partition]+step, b.bounds[partition])
		to, err := b.readSpan(ctx, coverage.Span{Partition: partition, From: b.read[partition], To: to},
			func(wire.Message) bool { return true })
		b.read[partition] = to
		if err != nil {
			return err
		}
	}
	return nil
}

// readSpan reads messages, up to a number of wanted ones, and records their rows. It returns the offset after the last one
// read.
func (b *backlog) readSpan(ctx context.Context, span coverage.Span, wanted func(wire.Message) bool) (to int64, err error) {
	partition, messages := span.Partition, 0
	to = span.From
	for m, err := range b.Log.Range(ctx, b.Topics.Examples, partition, span.From, span.To) {
		if err != nil {
			return to, fmt.Errorf("count the rows of %s[%d]: %w", b.Topics.Examples, partition, err)
		}
		if to = m.Offset + 1; !wanted(m.Message) {
			continue
		}
		origin, ingested := schemas.OriginOf(m.Message)
		valid := !ingested || origin.Next > 0 || slices.Contains(b.late.names, schemas.SourceName(origin.Source, origin.Attempt))
		c := counted{offset: m.Offset, until: schemas.TimeOf(m.Message, m.Time.UnixMilli()), mark: protocol.MarkOf(partition, m),
			counts: valid, lacks: schemas.LackingOf(m.Message)}
		if examples, err := examples.Decode(m.Value, b.Memory); err == nil {
			examples.Without(b.forgotten.Rows, partition, m.Offset)
			c.rows, c.counts = examples.Rows, c.counts && weighs(examples)
			if b.labels != nil {
				c.labels = b.labels(examples)
			}
		}
		b.ahead[partition] = append(b.ahead[partition], c)
		b.messages, b.rows = b.messages+1, b.rows+int64(c.rows)
		if messages++; messages == readAhead {
			return to, nil
		}
	}
	return span.To, nil
}

// weighs reports whether any row of examples has a weight.
func weighs(examples *examples.Rows) bool {
	for row := range examples.Rows {
		if examples.Weight(row) > 0 {
			return true
		}
	}
	return false
}

// lateSources are messages that a chain has passed over because their sources were not sealed yet, and now are. An
// increment has them before the unprocessed messages of their partition, so that the messages of a source are counted in
// order. The zero value has none.
type lateSources struct {
	names   []string                 // names of the valid sources, late or not
	counted []*protocol.SpanCounting // by partition, after the progress of the sources
	left    coverage.Spans           // spans that contain the unread ones of these messages
}

// findLate finds the uncounted messages of sources before the ends of a backlog. progress is the sources' progress in
// runs, and begins the current starts of the topic's partitions.
func findLate(sources []schemas.SourceSeal, progress []schemas.SourceProgress, begins []coverage.Span, ends []int64) (l lateSources) {
	counting := protocol.NewCounting(&schemas.Plan{Sources: sources, Chain: &schemas.Chain{Progress: progress}})
	for n := range ends {
		l.counted = append(l.counted, counting.Replay(coverage.Span{Partition: n}))
	}
	for _, seal := range sources {
		l.names = append(l.names, seal.Name())
		own := func(p schemas.SourceProgress) bool { return p.Source == seal.ID && p.Attempt == seal.Attempt }
		var next []int64 // by partition: sequence numbers
		if at := slices.IndexFunc(progress, own); at >= 0 {
			next = progress[at].Next
		}
		for _, span := range seal.Spans {
			n := span.Partition
			if n >= len(ends) || n >= len(begins) {
				continue
			}
			before := int64(0) // number of its messages counted
			if n < len(next) {
				before = max(next[n]-int64(n), 0) / int64(seal.Partitions)
			}
			late := coverage.Span{Partition: n, From: max(span.From+before, begins[n].From), To: min(span.To, ends[n])}
			if before < seal.In(n) && !late.Empty() {
				l.left = append(l.left, late)
			}
		}
	}
	l.left = l.left.Merged()
	return l
}

// next removes and returns a span of at most the given number of messages of a partition; false if nothing is left.
func (l *lateSources) next(partition int, messages int64) (coverage.Span, bool) {
	for i, s := range l.left {
		if s.Partition == partition {
			s.To = min(s.To, s.From+messages)
			if l.left[i].From = s.To; l.left[i].Empty() {
				l.left = slices.Delete(l.left, i, i+1)
			}
			return s, true
		}
	}
	return coverage.Span{}, false
}
