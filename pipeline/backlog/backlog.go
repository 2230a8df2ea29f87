// Package backlog cuts what a topic of examples has that no run of a chain has looked at into increments:
//
//	messages, sealed sources ──▶ backlog ──cut──▶ spans of the next increment
//
// It reads messages by a [Topic], so cuts are a function of what the topic holds and of the sources that count. Cuts go round the
// partitions by the distance of an offset from where its partition began: on a topic that does not grow they depend on nothing else.
package backlog

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Topic is a topic of examples.
type Topic interface {
	// Range reads the messages of a span in the order of their offsets. The caller closes the reader.
	Range(coverage.Span) protocol.Reader
	// Examples returns the rows of a message that may be learnt, without those that are forgotten. The error says that it has none.
	Examples(partition int, m protocol.Message) (*examples.Batch, error)
	String() string // its name
}

// Backlog is what a topic has that no run of a chain has looked at. [New] makes one; [Backlog.Begin] says where it begins.
type Backlog struct {
	topic  Topic
	labels func(*examples.Batch) []string // the first two of a message; nil: any increment may be the first

	begins []int64     // by partition: where it began when it was first seen
	ends   []int64     // by partition: the end of the last run
	read   []int64     // by partition: how far it was read
	bounds []int64     // by partition: how far the topic has messages
	ahead  [][]counted // by partition: messages that were read and are in no run yet
	late   lateSources
	marks  []coverage.Mark // the last messages that runs have looked at
	lost   coverage.Spans  // that the topic has deleted before a run has looked at them, since the last run

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

// New returns the backlog of a topic. labels finds the first two labels of a message, of rows that a run can learn from; it is nil if the
// first increment needs no rows of two classes.
func New(topic Topic, labels func(*examples.Batch) []string) *Backlog {
	return &Backlog{topic: topic, labels: labels}
}

// Begin makes the backlog that of a run's end: ends is by partition where the run ended, begins where the partitions
// began, and marks are the last messages that it and those before it have looked at.
func (b *Backlog) Begin(begins, ends []int64, marks []coverage.Mark) {
	*b = Backlog{topic: b.topic, labels: b.labels, begins: begins, ends: ends, read: slices.Clone(ends), marks: marks}
}

// Begun reports whether it is known where the backlog begins.
func (b *Backlog) Begun() bool { return b.ends != nil }

// Begins returns by partition where it began when it was first seen.
func (b *Backlog) Begins() []int64 { return slices.Clone(b.begins) }

// Ends returns by partition where the last run ended.
func (b *Backlog) Ends() []int64 { return slices.Clone(b.ends) }

// Bounds returns by partition how far the topic has messages, as the last call of Refresh says.
func (b *Backlog) Bounds() []int64 { return b.bounds }

// Partitions returns how many partitions are known.
func (b *Backlog) Partitions() int { return len(b.ends) }

// Lost returns what the topic has deleted before a run has looked at it, since the last run.
func (b *Backlog) Lost() coverage.Spans { return slices.Clone(b.lost) }

// Marks returns the last messages that runs have looked at.
func (b *Backlog) Marks() []coverage.Mark { return b.marks }

// Refresh says which offsets the topic has now. What it has deleted and no run has looked at is lost.
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

// Shrunk reports whether a topic with these bounds has less than the chain has looked at or counted.
func (b *Backlog) Shrunk(bounds []coverage.Span) bool {
	for n, read := range b.read {
		if n >= len(bounds) || bounds[n].To < max(read, b.End(n)) {
			return true
		}
	}
	return false
}

// Shrink forgets what the topic does not have: partitions, and messages that were read and are in no run.
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

// End returns where what no run has looked at begins in a partition, but for sources that were sealed late.
func (b *Backlog) End(partition int) int64 { return max(b.ends[partition], b.begins[partition]) }

// Replace says that a partition does not hold what runs have looked at, but for what is before an offset, which ends
// with a mark, if there is any.
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

// Everything returns the span of all offsets that a partition may have.
func Everything(partition int) coverage.Span {
	return coverage.Span{Partition: partition, To: math.MaxInt64}
}

// Restart makes the backlog what it is after the last run: nothing is read ahead.
func (b *Backlog) Restart() { b.restart(lateSources{}) }

// Follow makes sources the ones that count, of which runs have counted progress. If they were others, what is read ahead is read again,
// with the messages that the chain has passed over because their sources were not sealed then.
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

// Add makes partition n known, which comes after those that are, and begins there.
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

// Behind returns how many messages and rows the topic has that are in no run. A message that was not read is taken to have as many rows as
// those that were have on average.
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

// Take makes the spans of a plan that was made of the backlog a part of the past.
func (b *Backlog) Take(plan *schemas.Plan) {
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
