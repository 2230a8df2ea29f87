package kafkalog

import (
	"context"
	"math"
	"sync"
	"time"
)

// tail is what was written last to an embedded broker that listens nowhere. All writes are those of this process then, so whoever follows a
// partition gets from memory what is written meanwhile, once the broker has acknowledged it. Otherwise each follower
// fetches the same bytes: the broker reads them from a file, and they are copied six times until they are messages
// again.
//
// Without it, the training of three stages of 1,024 features takes 3 % more processor time and 40 MB more.
//
// Followers fetch what was written before, and what the broker may have written although it has not said so.
type tail struct {
	mutex      sync.Mutex
	partitions map[topicPartition]*partitionTail // that are followed, or written to
}

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// partitionTail is the tail of a partition.
type partitionTail struct {
	followers map[*source]int64   // their positions
	batches   map[int64][]Message // that a follower may need, by the offset of the first message
	bytes     int                 // of the values of batches
	first     int64               // no batch is before this offset
	writing   int                 // requests that are under way
	ended     chan struct{}       // closed when a request has ended, and then replaced
	lost      int                 // how often the tail may have missed messages
}

// maxTailBytes bounds the values that the tail of a partition has. There are more only if a follower is far behind: it fetches the others.
const maxTailBytes = 64 << 20

func newTail() *tail { return &tail{partitions: map[topicPartition]*partitionTail{}} }

// of returns the tail of a partition, which it makes if there is none.
func (t *tail) of(at topicPartition) *partitionTail {
	p := t.partitions[at]
	if p == nil {
		p = &partitionTail{followers: map[*source]int64{}, batches: map[int64][]Message{}, ended: make(chan struct{})}
		t.partitions[at] = p
	}
	return p
}

// join makes a reader a follower of its partition, until leave. Nothing is kept for a partition without followers.
func (t *tail) join(s *source) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.of(topicPartition{s.topic, s.partition}).followers[s] = s.position
}

func (t *tail) leave(s *source) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	at := topicPartition{s.topic, s.partition}
	p := t.of(at)
	delete(p.followers, s)
	p.drop()
	t.forget(at, p)
}

// forget forgets the tail of a partition that is neither followed nor written to.
func (t *tail) forget(at topicPartition, p *partitionTail) {
	if len(p.followers) == 0 && p.writing == 0 {
		delete(t.partitions, at)
	}
}

// begin says that a request begins to write to a partition. The caller calls end when it has ended: with the offset of
// the first of its messages, or without messages if the request has failed.
func (t *tail) begin(at topicPartition) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	t.of(at).writing++
}

func (t *tail) end(at topicPartition, base int64, when time.Time, messages []Message) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.of(at)
	p.writing--
	switch size := bytesOf(messages); {
	case len(p.followers) == 0:
	case len(messages) == 0, p.bytes+size > maxTailBytes:
		p.lost++
	default:
		batch := make([]Message, len(messages))
		for i, m := range messages {
			m.Partition, m.Offset, m.Time = at.partition, base+int64(i), when
			batch[i] = m
		}
		p.batches[base] = batch
		p.bytes += size
	}
	p.wake()
	t.forget(at, p)
}

// deleted drops what was written to a topic that is gone.
func (t *tail) deleted(topic string) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	for at, p := range t.partitions {
		if at.topic == topic {
			clear(p.batches)
			p.bytes, p.first = 0, 0
			p.lost++
			p.wake()
		}
	}
}

// wake wakes those who wait in await.
func (p *partitionTail) wake() {
	close(p.ended)
	p.ended = make(chan struct{})
}

// await waits for messages at a follower's position, and moves it behind them. It returns none if the follower has to fetch.
func (t *tail) await(ctx context.Context, s *source) []Message {
	timeout := time.NewTimer(pollTime)
	defer timeout.Stop()
	for {
		messages, ended, fetch := t.take(s)
		if fetch || len(messages) > 0 {
			return messages
		}
		select {
		case <-ended:
		case <-timeout.C: // a request that has failed may be applied later
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// take returns the messages at a follower's position that the tail has. Without any it reports whether the follower has
// to fetch, and returns what is closed when that may have changed.
func (t *tail) take(s *source) (messages []Message, ended <-chan struct{}, fetch bool) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	p := t.of(topicPartition{s.topic, s.partition})
	for {
		batch, ok := p.batches[s.position]
		if !ok {
			break
		}
		messages = append(messages, batch...)
		s.cursor = cursor{position: s.position + int64(len(batch)), to: s.to}
	}
	if p.followers[s] = s.position; len(messages) > 0 {
		p.drop()
		s.behind = false
		return messages, nil, false
	}
	// While requests are under way, what is at the position may still come.
	if fetch = s.behind || p.lost != s.lost && p.writing == 0; fetch {
		s.lost = p.lost
	}
	return nil, p.ended, fetch
}

// drop drops what no follower needs.
func (p *partitionTail) drop() {
	first := int64(math.MaxInt64)
	for _, position := range p.followers {
		first = min(first, position)
	}
	if first <= p.first {
		return
	}
	for base, batch := range p.batches {
		if base < first {
			p.bytes -= bytesOf(batch)
			delete(p.batches, base)
		}
	}
	p.first = first
}

func bytesOf(messages []Message) (n int) {
	for _, m := range messages {
		n += len(m.Value)
	}
	return n
}
