package pipeline

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// errKilled is what every call of an actor answers that has been killed.
var errKilled = errors.New("killed")

// simLog is a log in memory. It knows no time: what happens when is the
// scheduler's choice, which every call of an actor gives way to.
type simLog struct {
	topics map[string][]*simPartition
	check  func(topic string, m schemas.Message) // what is written
	writes int
}

// simPartition is what a partition holds. Offsets may be missing in between.
type simPartition struct {
	first, end int64
	messages   []run.Message
}

func (p *simPartition) append(m schemas.Message) int64 {
	p.messages = append(p.messages, run.Message{Message: m, Offset: p.end})
	p.end++
	return p.end - 1
}

// at is the place of the first message of an offset or a later one.
func (p *simPartition) at(offset int64) int {
	at, _ := slices.BinarySearchFunc(p.messages, offset, func(m run.Message, offset int64) int { return int(m.Offset - offset) })
	return at
}

// expire deletes the messages before an offset, as retention does.
func (p *simPartition) expire(before int64) {
	p.messages = slices.Clone(p.messages[p.at(before):])
	p.first = max(p.first, before)
}

// compact keeps the last message of each key among those before an offset, as the
// log cleaner does with what is older than min.compaction.lag.ms.
func (p *simPartition) compact(before int64) {
	last := map[string]int64{}
	for _, m := range p.messages {
		last[m.Key] = m.Offset
	}
	p.messages = slices.DeleteFunc(slices.Clone(p.messages), func(m run.Message) bool {
		return m.Offset < before && last[m.Key] != m.Offset
	})
}

func (l *simLog) write(topic string, partition int, m schemas.Message) int64 {
	l.writes++
	if l.check != nil {
		l.check(topic, m)
	}
	return l.topics[topic][partition].append(m)
}

// simClientLog is the log as one actor has it.
type simClientLog struct {
	*simLog
	*actor
	faults *rand.Rand // nil: none
}

// lost tells whether an answer is, and has the actor wait for it as long as a
// request may take: others move on meanwhile.
func (j simClientLog) lost() bool {
	if !j.chance(0.05) {
		return false
	}
	if j.chance(0.5) {
		j.paused = j.faults.IntN(600)
	}
	return true
}

// chance tells whether a fault that is so likely is due.
func (j simClientLog) chance(of float64) bool { return j.faults != nil && j.faults.Float64() < of }

// Append writes in one or several requests, each of which may be written again,
// as its answer is lost.
func (j simClientLog) Append(_ context.Context, topic string, partition int, messages ...schemas.Message) (base int64, err error) {
	for base = -1; len(messages) > 0; {
		n := len(messages)
		if j.chance(0.3) {
			n = 1 + j.faults.IntN(n)
		}
		var first int64
		for again := true; again; again = j.lost() {
			if err := j.turn(); err != nil {
				return base, err
			}
			for i, m := range messages[:n] {
				if at := j.write(topic, partition, m); i == 0 {
					first = at
				}
			}
		}
		if base < 0 {
			base = first
		}
		messages = messages[n:]
	}
	return base, j.turn()
}

func (j simClientLog) Scatter(ctx context.Context, topic string, partition int, messages ...schemas.Message) error {
	messages = slices.Clone(messages)
	if j.faults != nil {
		j.faults.Shuffle(len(messages), func(a, b int) { messages[a], messages[b] = messages[b], messages[a] })
	}
	for _, m := range messages {
		if _, err := j.Append(ctx, topic, partition, m); err != nil {
			return err
		}
	}
	return nil
}

func (j simClientLog) Bounds(_ context.Context, topic string, partition int) (first, end int64, err error) {
	if err := j.turn(); err != nil {
		return 0, 0, err
	}
	p := j.topics[topic][partition]
	return p.first, p.end, nil
}

func (j simClientLog) Partitions(_ context.Context, topic string) (int, error) {
	return len(j.topics[topic]), j.turn()
}

func (j simClientLog) Range(topic string, partition int, from, to int64) run.Reader {
	return &simRange{simClientLog: j, topic: topic, partition: partition, position: from, to: to}
}

type simRange struct {
	simClientLog
	topic        string
	partition    int
	position, to int64
	begun        bool
}

func (r *simRange) Next(context.Context) (run.Message, error) {
	if !r.begun || r.chance(0.1) { // what it reads may be deleted under it
		r.begun = true
		if err := r.turn(); err != nil {
			return run.Message{}, err
		}
	}
	p := r.topics[r.topic][r.partition]
	if r.position < p.first && r.position < r.to {
		return run.Message{}, &kafkalog.DeletedError{Topic: r.topic, Partition: r.partition, Wanted: r.position, First: p.first, End: p.end}
	}
	at := p.at(r.position)
	if at == len(p.messages) || p.messages[at].Offset >= r.to {
		return run.Message{}, io.EOF
	}
	r.position = p.messages[at].Offset + 1
	return p.messages[at], nil
}

func (r *simRange) Close() error { return nil }

func (j simClientLog) Subscribe(_ context.Context, wake <-chan struct{}, from ...run.Position) run.Subscription {
	m := &simSubscription{simClientLog: j, wake: wake, from: slices.Clone(from)}
	for _, a := range from {
		m.boxes = append(m.boxes, j.topics[a.Topic][a.Partition])
	}
	return m
}

type simSubscription struct {
	simClientLog
	wake  <-chan struct{}
	from  []run.Position
	boxes []*simPartition // of from
	with  []int           // the news, room for the next
}

// has tells whether an address has news.
func (m *simSubscription) has(i int) bool {
	a, p := &m.from[i], m.boxes[i]
	n := len(p.messages)
	return n > 0 && p.messages[n-1].Offset >= a.Offset || a.Offset < p.first && !a.Compacted
}

// idle tells whether there is nothing to wake up for.
func (m *simSubscription) idle() bool {
	if len(m.wake) > 0 {
		return false
	}
	for i := range m.from {
		if m.has(i) {
			return false
		}
	}
	return true
}

// news are the addresses that have some.
func (m *simSubscription) news() []int {
	m.with = m.with[:0]
	for i := range m.from {
		if m.has(i) {
			m.with = append(m.with, i)
		}
	}
	return m.with
}

func (m *simSubscription) Next(context.Context, time.Duration) (*run.Delivery, bool, error) {
	m.waits = m
	err := m.turn()
	m.waits = nil
	if err != nil {
		return nil, false, err
	}
	news := m.news()
	if len(m.wake) > 0 && (len(news) == 0 || m.choose(2) == 0) {
		<-m.wake
		return nil, false, nil
	}
	if len(news) == 0 || m.chance(0.02) {
		return nil, true, nil
	}
	i := news[m.choose(len(news))]
	a, p := &m.from[i], m.boxes[i]
	if a.Offset < p.first && !a.Compacted {
		return nil, false, &kafkalog.DeletedError{Topic: a.Topic, Partition: a.Partition, Wanted: a.Offset, First: p.first, End: p.end}
	}
	message := p.messages[p.at(a.Offset)]
	a.Offset = message.Offset + 1
	return &run.Delivery{Topic: a.Topic, Message: message}, false, nil
}

// choose is one of n, by chance; without faults the first.
func (j simClientLog) choose(n int) int {
	if j.faults == nil {
		return 0
	}
	return j.faults.IntN(n)
}

func (m *simSubscription) Close() {}
