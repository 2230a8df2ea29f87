package chain

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Topic is an examples topic.
type Topic interface {
	// Range reads the messages of a span in offset order. The caller closes the reader.
	Range(coverage.Span) protocol.Reader
	// Examples returns the trainable rows of a message, without forgotten ones. The error means that it has none.
	Examples(partition int, m protocol.Message) (*examples.Batch, error)
	String() string // its name
}

// Backlog is the messages of a topic that no run of a chain has processed. Create one with [New]; [Backlog.Begin] sets its
// start.
type Backlog struct {
	topic  Topic
	labels func(*examples.Batch) []string // the first two labels of a message; nil: any increment may be the first

	begins []int64     // by partition: its start when it was first seen
	ends   []int64     // by partition: end of the last run
	read   []int64     // by partition: read position
	bounds []int64     // by partition: end of the topic
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
	counts bool     // counts in a run planned now, unless it is unusable: some row has a weight
	labels []string // the first two, if the chain determines its classes from the rows
}

// NewBacklog returns the backlog of a topic. labels returns the first two labels of a message's trainable rows; it is nil if the
// first increment does not need rows of two classes.
func NewBacklog(topic Topic, labels func(*examples.Batch) []string) *Backlog {
	return &Backlog{topic: topic, labels: labels}
}

// Begin sets the backlog to that at the end of a run: ends is the end of the run by partition, begins are the starts of
// the partitions, and marks the last messages processed by the run and its predecessors.
func (b *Backlog) Begin(begins, ends []int64, marks []coverage.Mark) {
	*b = Backlog{topic: b.topic, labels: b.labels, begins: begins, ends: ends, read: slices.Clone(ends), marks: marks}
}

// Begun reports whether the start of the backlog is known.
func (b *Backlog) Begun() bool { return b.ends != nil }

// Begins returns, by partition, its start when it was first seen.
func (b *Backlog) Begins() []int64 { return slices.Clone(b.begins) }

// Ends returns, by partition, the end of the last run.
func (b *Backlog) Ends() []int64 { return slices.Clone(b.ends) }

// Bounds returns, by partition, the end of the topic at the last call of Refresh.
func (b *Backlog) Bounds() []int64 { return b.bounds }

// Partitions returns the number of known partitions.
func (b *Backlog) Partitions() int { return len(b.ends) }

// Lost returns the messages deleted since the last run, before a run has processed them.
func (b *Backlog) Lost() coverage.Spans { return slices.Clone(b.lost) }

// Marks returns the last messages processed by runs.
func (b *Backlog) Marks() []coverage.Mark { return b.marks }

// Refresh sets the current bounds of the topic. Deleted messages that no run has processed are lost.
func (b *Backlog) Refresh(bounds []coverage.Span) {
	b.bounds = b.bounds[:0]
	for n, span := range bounds {
		b.Add(n, span.From)
		b.bounds = append(b.bounds, span.To)
		b.late.expire(n, span.From)
		for len(b.ahead[n]) > 0 && b.ahead[n][0].offset < span.From {
			b.ahead[n] = b.ahead[n][1:]
		}
		b.read[n] = max(b.read[n], span.From)
		if end := b.End(n); end < span.From {
			b.lost = append(b.lost, coverage.Span{Partition: n, From: end, To: span.From})
			b.ends[n] = span.From
		}
	}
	b.lost = b.lost.Merged()
}

// Shrunk reports whether a topic with these bounds has less than the chain has processed or counted.
func (b *Backlog) Shrunk(bounds []coverage.Span) bool {
	for n, read := range b.read {
		if n >= len(bounds) || bounds[n].To < max(read, b.End(n)) {
			return true
		}
	}
	return false
}

// Shrink drops what the topic no longer has: partitions, and messages that were read and are not in a run.
func (b *Backlog) Shrink(bounds []coverage.Span) {
	if keep := len(bounds); keep < len(b.ends) {
		b.begins, b.ends, b.read, b.ahead = b.begins[:keep], b.ends[:keep], b.read[:keep], b.ahead[:keep]
	}
	for n := range b.ahead {
		if b.read[n] > bounds[n].To {
			b.Restart()
			return
		}
	}
}

// End returns the start of a partition's unprocessed messages, apart from sources that were sealed late.
func (b *Backlog) End(partition int) int64 { return max(b.ends[partition], b.begins[partition]) }

// Replace records that a partition no longer has the messages processed by runs, except those before an offset, the last
// of which has the given mark, if there are any.
func (b *Backlog) Replace(bounds coverage.Span, proven int64, last *coverage.Mark) {
	n := bounds.Partition
	b.ends[n], b.read[n], b.ahead[n] = proven, proven, nil
	b.begins[n] = min(b.begins[n], proven)
	b.marks = slices.DeleteFunc(slices.Clone(b.marks), func(m coverage.Mark) bool { return m.Partition == n })
	b.lost = b.lost.Without(coverage.Spans{Everything(n)})
	if last != nil {
		b.marks = coverage.Marks(b.marks, []coverage.Mark{*last})
	}
}

// Everything returns the span of all possible offsets of a partition.
func Everything(partition int) coverage.Span {
	return coverage.Span{Partition: partition, To: math.MaxInt64}
}

// Restart resets the backlog to the end of the last run, without read-ahead.
func (b *Backlog) Restart() { b.restart(lateSources{}) }

// Follow sets the valid sources. progress is the sources' progress in runs. If the sources have changed, it discards the
// read-ahead, and adds the messages that the chain has passed over because their sources were not sealed yet.
func (b *Backlog) Follow(sources []schemas.SourceSeal, progress []schemas.SourceProgress, bounds []coverage.Span) {
	if !slices.EqualFunc(b.late.names, sources, func(name string, s schemas.SourceSeal) bool { return name == s.Name() }) {
		b.restart(findLate(sources, progress, bounds, b.ends))
	}
}

func (b *Backlog) restart(late lateSources) {
	b.late = late
	for n := range b.read {
		b.read[n] = b.End(n)
	}
	clear(b.ahead)
}

// Add adds partition n, the next one, which starts at an offset.
func (b *Backlog) Add(n int, begin int64) {
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

// Behind returns the number of messages and rows that are in no run. An unread message is assumed to have the average
// number of rows of those that were read.
func (b *Backlog) Behind() (left event.Behind) {
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

// Advance marks the spans of a plan made from the backlog as processed.
func (b *Backlog) Advance(plan *schemas.Plan) {
	for n, begin := range plan.Chain.Begins {
		b.Add(n, begin)
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
