package pipeline

import (
	"context"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"
	"unsafe"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// simLog is a log in memory. It has no clock: the scheduler decides what happens next.
type simLog struct {
	topics  map[string][]*simPartition         // the partitions of each topic
	onWrite func(topic string, m wire.Message) // called before each write; may be nil
	writes  int
	step    int          // of the simulation
	current *actor       // which runs
	delayed []request    // that are still under way
	calm    bool         // the faults are over
	moves   map[move]int // how often each happened
	trace   func(format string, values ...any)
	history uint32 // a checksum of who made each step, and of what was written
}

// checksums are those of simLog.history.
var checksums = crc32.MakeTable(crc32.Castagnoli)

// record adds to the history.
func (l *simLog) record(texts ...string) {
	for _, text := range texts {
		l.history = crc32.Update(l.history, checksums, unsafe.Slice(unsafe.StringData(text), len(text)))
	}
}

// simPartition is a partition with offsets from first to end (excluded). Some offsets may have no message.
type simPartition struct {
	first, end int64
	messages   []protocol.Message
	written    map[int64]int // the step in which a message was written, by its offset
	reuses     bool          // offsets were used again
	reused     int64         // the lowest of them
}

// addPartition adds a partition to a topic. It has no messages yet, and its offsets begin at first.
func (l *simLog) addPartition(topic string, first int64) {
	l.topics[topic] = append(l.topics[topic], &simPartition{first: first, end: first})
}

// append adds a message, and returns its offset.
func (p *simPartition) append(m wire.Message) int64 {
	p.messages = append(p.messages, protocol.Message{Message: m, Offset: p.end})
	p.end++
	return p.end - 1
}

// index returns the index in messages of the first message with that offset or a later one.
func (p *simPartition) index(offset int64) int {
	i, _ := slices.BinarySearchFunc(p.messages, offset, func(m protocol.Message, offset int64) int { return int(m.Offset - offset) })
	return i
}

// before returns the offset before which all messages were written up to a step.
func (p *simPartition) before(step int) int64 {
	at := p.first
	for _, m := range p.messages {
		if p.written[m.Offset] > step {
			break
		}
		at = m.Offset + 1
	}
	return at
}

// expire deletes the messages before an offset, as retention does.
func (p *simPartition) expire(before int64) {
	p.messages = slices.Clone(p.messages[p.index(before):])
	p.first = max(p.first, before)
}

// truncate deletes the messages from an offset on. Later messages get their offsets again, as after an unclean election of a leader.
func (p *simPartition) truncate(from int64) {
	p.messages = slices.Clone(p.messages[:p.index(from)])
	p.end = from
	p.reuse(from)
}

// remake deletes everything, as if the topic were deleted and created: offsets begin at 0 again.
func (p *simPartition) remake() {
	p.messages, p.first, p.end = nil, 0, 0
	p.reuse(0)
}

// reuse notes that offsets are used again.
func (p *simPartition) reuse(from int64) {
	if !p.reuses || from < p.reused {
		p.reuses, p.reused = true, from
	}
}

// gone reports whether a subscription that wants an offset gets the error that the offset is gone.
func (p *simPartition) gone(offset int64, compacted bool) bool {
	return offset < p.first && !compacted || offset > p.end
}

// compact keeps only the last message of each key among the messages before an offset, and no tombstones. Kafka's log cleaner does
// the same.
func (p *simPartition) compact(before int64) {
	last := map[string]int64{}
	for _, m := range p.messages {
		last[m.Key] = m.Offset
	}
	p.messages = slices.DeleteFunc(slices.Clone(p.messages), func(m protocol.Message) bool {
		return m.Offset < before && (last[m.Key] != m.Offset || m.Value == nil)
	})
}

func (l *simLog) write(topic string, partition int, m wire.Message) int64 {
	l.writes++
	l.record(topic, strconv.Itoa(partition), m.Key)
	for _, h := range m.Headers {
		l.record(h.Key, h.Value)
	}
	l.history = crc32.Update(l.history, checksums, m.Value)
	if l.onWrite != nil {
		l.onWrite(topic, m)
	}
	p := l.topics[topic][partition]
	if p.written == nil {
		p.written = map[int64]int{}
	}
	p.written[p.end] = l.step
	offset := p.append(m)
	if topic != protocol.TopicsOf(simName).Examples { // whose times are in the plans of a chain
		p.messages[len(p.messages)-1].Time = time.UnixMilli(int64(l.writes)) // no two messages have the same
	}
	return offset
}

// actorLog is the log as one actor sees it. Each call gives control to the scheduler, and may suffer a fault.
type actorLog struct {
	*simLog
	*actor
	random *rand.Rand // draws faults; nil: there are none
}

// self returns the actor that runs: the process, or one of its threads.
func (l actorLog) self() *actor {
	if l.current != nil && l.current.process == l.actor {
		return l.current
	}
	return l.actor
}

// giveWay gives control to the scheduler. It returns the error of the context if that has ended meanwhile.
func (l actorLog) giveWay(ctx context.Context) error {
	if err := l.self().giveWay(); err != nil {
		return err
	}
	return ctx.Err()
}

// chance reports whether a fault of that probability happens now.
func (l actorLog) chance(probability float64) bool {
	return l.random != nil && !l.calm && l.random.Float64() < probability
}

// choose returns a number below n: at random, or without faults 0.
func (l actorLog) choose(n int) int {
	if l.random == nil {
		return 0
	}
	return l.random.IntN(n)
}

// Bounds returns the first offset of a partition, and the one after its last.
func (l actorLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	if err := l.giveWay(ctx); err != nil {
		return 0, 0, err
	}
	p := l.topics[topic][partition]
	return p.first, p.end, nil
}

// Spans returns the offsets that each partition has.
func (l actorLog) Spans(ctx context.Context, topic string) (spans []coverage.Span, err error) {
	if err := l.giveWay(ctx); err != nil {
		return nil, err
	}
	for n, p := range l.topics[topic] {
		spans = append(spans, coverage.Span{Partition: n, From: p.first, To: p.end})
	}
	return spans, nil
}

// oldAge is after how many steps a message may be called old. No request is under way for so long.
const oldAge = 1000

// Before returns offsets before which all messages are old.
func (l actorLog) Before(ctx context.Context, topic string, age time.Duration) (offsets []int64, err error) {
	if err := l.giveWay(ctx); err != nil {
		return nil, err
	}
	steps := oldAge
	if topic == protocol.TopicsOf(simName).Examples {
		steps = int(age / simStep)
	}
	for _, p := range l.topics[topic] {
		offsets = append(offsets, p.before(l.step-steps))
	}
	return offsets, nil
}

// DeleteBefore deletes messages, or does not.
func (l actorLog) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	if err := l.giveWay(ctx); err != nil {
		return err
	}
	p := l.topics[topic][partition]
	p.expire(min(offset, p.end))
	return nil
}

// Partitions returns how many partitions a topic has.
func (l actorLog) Partitions(ctx context.Context, topic string) (int, error) {
	return len(l.topics[topic]), l.giveWay(ctx)
}

// Range reads a range of offsets. Retention may delete messages while they are read.
func (l actorLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	return &simRange{actorLog: l, topic: topic, partition: partition, position: from, to: to}
}

// simRange is a reader of a range of offsets.
type simRange struct {
	actorLog
	topic        string
	partition    int
	position, to int64
	begun        bool
}

func (r *simRange) Next(ctx context.Context) (protocol.Message, error) {
	if !r.begun || r.chance(0.1) { // others may write and delete between two fetches
		r.begun = true
		if err := r.giveWay(ctx); err != nil {
			return protocol.Message{}, err
		}
	}
	p := r.topics[r.topic][r.partition]
	if r.position < r.to && (r.position < p.first || r.position >= p.end) {
		return protocol.Message{}, &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: r.position, First: p.first, End: p.end}
	}
	i := p.index(r.position)
	if i == len(p.messages) || p.messages[i].Offset >= r.to {
		return protocol.Message{}, io.EOF
	}
	r.position = p.messages[i].Offset + 1
	return p.messages[i], nil
}

func (r *simRange) Close() error { return nil }

// Subscribe follows partitions. Among those that have a message, it draws which one delivers next.
func (l actorLog) Subscribe(_ context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	s := &simSubscription{actorLog: l, wake: wake, positions: slices.Clone(from)}
	for _, position := range from {
		s.partitions = append(s.partitions, l.topics[position.Topic][position.Partition])
	}
	return s
}

// simSubscription follows partitions from their positions on.
type simSubscription struct {
	actorLog
	wake       <-chan struct{}
	positions  []protocol.Position
	partitions []*simPartition // of the positions
	ready      []int           // buffer of deliverable
	waits      context.Context // of who waits
}

// has reports whether position i has something to deliver: a message, or the error that its messages are deleted.
func (s *simSubscription) has(i int) bool {
	at, p := &s.positions[i], s.partitions[i]
	n := len(p.messages)
	return n > 0 && p.messages[n-1].Offset >= at.Offset || p.gone(at.Offset, at.Compacted)
}

// idle reports whether there is nothing to deliver, no value from wake, and whoever waits is not to stop.
func (s *simSubscription) idle() bool {
	if len(s.wake) > 0 || s.waits.Err() != nil {
		return false
	}
	for i := range s.positions {
		if s.has(i) {
			return false
		}
	}
	return true
}

// deliverable returns the indices of the positions that have something to deliver.
func (s *simSubscription) deliverable() []int {
	s.ready = s.ready[:0]
	for i := range s.positions {
		if s.has(i) {
			s.ready = append(s.ready, i)
		}
	}
	return s.ready
}

func (s *simSubscription) Next(ctx context.Context, _ time.Duration) (*protocol.Delivery, bool, error) {
	self := s.self()
	self.waits, s.waits = s, ctx
	err := s.giveWay(ctx)
	self.waits = nil
	if err != nil {
		return nil, false, err
	}
	ready := s.deliverable()
	if len(s.wake) > 0 && (len(ready) == 0 || s.choose(2) == 0) {
		<-s.wake
		return nil, false, nil
	}
	if len(ready) == 0 || s.random != nil && s.random.Float64() < 0.02 { // time passes, after the faults too
		return nil, true, nil
	}
	i := ready[s.choose(len(ready))]
	at, p := &s.positions[i], s.partitions[i]
	if p.gone(at.Offset, at.Compacted) {
		return nil, false, &kafkalog.DeletedError{Topic: at.Topic, Partition: at.Partition, Wanted: at.Offset, First: p.first, End: p.end}
	}
	message := p.messages[p.index(at.Offset)]
	at.Offset = message.Offset + 1
	return &protocol.Delivery{Topic: at.Topic, Partition: at.Partition, Message: message}, false, nil
}

func (s *simSubscription) Close() {}
