package protocol

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Log is the log that the roles use: Kafka, the embedded broker, or, in a simulation, a log in memory with injected
// faults. A log is safe for concurrent use.
type Log interface {
	// Append appends messages to a partition in order, and returns the offset of the first.
	Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error)
	// Scatter appends messages to a partition in any order, and returns the offset of each.
	Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) ([]int64, error)
	// Bounds returns the first offset of a partition, and the offset after its last message.
	Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error)
	// Spans returns the offset range of each partition, including empty ones, in the order of the partitions.
	Spans(ctx context.Context, topic string) ([]coverage.Span, error)
	// Before returns, for each partition, an offset before which all messages are older than age. It may be too low.
	Before(ctx context.Context, topic string, age time.Duration) ([]int64, error)
	// DeleteBefore deletes the messages of a partition before an offset. Compacted topics do not allow it.
	DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error
	// Partitions returns the number of partitions of a topic.
	Partitions(ctx context.Context, topic string) (int, error)
	// Range yields the messages with offsets in [from, to), in order; those of a file with consecutive offsets together. It ends with the
	// first error.
	Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error]
	// Subscribe follows partitions until the caller closes the subscription. A value from wake, which may be nil, ends a wait.
	Subscribe(ctx context.Context, wake <-chan struct{}, from ...Position) Subscription
}

// Message is a message with its offset and timestamp.
type Message struct {
	wire.Message
	Offset int64
	Time   time.Time
	// File is the file of an archive with the message; "": the topic has it.
	File string
	// Changed describes the columns of the file if they differ from those of the first file: see ingest.TopicMessage; "": they do not.
	Changed string
	// Rows has the decoded values of a message from a file and of the messages after it, in the form that ingest accepts. Nil means that
	// Value has the value of a single message.
	Rows Rows
	// Copy is the same message in an archive. Nil means that the archive does not have it. The Len of a message with a copy is 1.
	Copy *Message
}

// Rows are messages of a file with consecutive offsets.
type Rows interface {
	// Len returns the number of messages, at least 1.
	Len() int
	// Time returns the timestamp of a message in milliseconds since 1970; 0: unknown.
	Time(message int) int64
	// Part returns the messages from one on, before another.
	Part(from, to int) Message
}

// Len returns the number of messages: 1, unless they are rows of a file.
func (m Message) Len() int {
	if m.Rows == nil {
		return 1
	}
	return m.Rows.Len()
}

// Part returns the messages from one on, before another.
func (m Message) Part(from, to int) Message {
	if to-from == m.Len() {
		return m
	}
	return m.Rows.Part(from, to)
}

// Position is the start of a subscription on a partition.
type Position struct {
	Topic     string
	Partition int
	Offset    int64
	// Compacted allows offset gaps, which compaction leaves, and reused offsets, whose messages an unclean leader election has
	// lost. Otherwise both are errors.
	Compacted bool
}

// Subscription delivers the messages of several partitions as they are written, in order within each partition. It is not
// safe for concurrent use.
type Subscription interface {
	// Next returns the next delivery. A nil delivery means a timeout or lost messages (both late), or a wake-up.
	Next(ctx context.Context, timeout time.Duration) (d *Delivery, late bool, err error)
	Close()
}

// Delivery is a message with its topic and partition.
type Delivery struct {
	Topic     string
	Partition int
	Message
}

// Ahead reads messages, and can return the next ones without taking them. Create one with [NewAhead].
type Ahead struct {
	next func() (Message, error, bool)
	stop func()
	head Message
	read bool // head has the next messages
}

// NewAhead returns the reader of messages. The caller stops it.
func NewAhead(messages iter.Seq2[Message, error]) *Ahead {
	a := &Ahead{}
	a.next, a.stop = iter.Pull2(messages)
	return a
}

// Peek returns the next message, with the following rows of its file, valid until the next call; nil at the end.
func (a *Ahead) Peek() (*Message, error) {
	if !a.read {
		m, err, any := a.next()
		if err != nil || !any {
			return nil, err
		}
		a.head, a.read = m, true
	}
	return &a.head, nil
}

// Take takes the first of the messages that Peek has returned.
func (a *Ahead) Take() Message { return a.TakeBefore(a.head.Offset) }

// TakeBefore takes the messages before an offset, but at least one, from those that Peek has returned.
func (a *Ahead) TakeBefore(offset int64) Message {
	m := a.head
	n := max(1, min(offset-m.Offset, int64(m.Len())))
	if a.read = n < int64(m.Len()); a.read {
		a.head = m.Part(int(n), m.Len())
	}
	return m.Part(0, int(n))
}

// Stop ends reading.
func (a *Ahead) Stop() { a.stop() }

// Deleted reports whether an error of a reader means that the next messages were deleted, as by retention, and returns the offset after
// them. It returns false if the partition has lost its last messages.
func Deleted(err error) (first int64, deleted bool) {
	gone, ok := errors.AsType[*kafkalog.DeletedError](err)
	if !ok || gone.Wanted >= gone.First {
		return 0, false
	}
	return gone.First, true
}

// Empty reports whether a partition has no messages in a span: compaction, aborted transactions, and their markers leave offsets
// without messages. It returns false if messages were deleted there.
func (c *Client) Empty(ctx context.Context, topic string, span coverage.Span) (bool, error) {
	for _, err := range c.Between(ctx, topic, span.Partition, span.From, span.To) {
		if errors.As(err, new(*kafkalog.DeletedError)) {
			return false, nil
		}
		return false, err
	}
	return true, nil
}

// Waiting counts the unread messages of a topic. Create one with [NewWaiting].
type Waiting struct {
	client *Client
	topic  string
	tails  map[int]tail // by partition, from the last call
}

// tail is the unread part of a partition.
type tail struct {
	span           coverage.Span
	checked, empty bool // it was checked for messages; it has none
}

// NewWaiting returns a counter of the unread messages of a topic.
func NewWaiting(client *Client, topic string) *Waiting {
	return &Waiting{client: client, topic: topic, tails: map[int]tail{}}
}

// Count returns the number of unread messages, and of partitions. next returns the read position of a partition. Offsets
// without a message, as transactions leave at their ends, count as messages until a second call finds the same.
func (w *Waiting) Count(ctx context.Context, next func(partition int) int64) (messages int64, partitions int, err error) {
	bounds, err := w.client.Log.Spans(ctx, w.topic)
	if err != nil {
		return 0, 0, err
	}
	for n, span := range bounds {
		now := tail{span: coverage.Span{Partition: n, From: max(next(n), span.From), To: span.To}}
		if now.span.From >= now.span.To {
			continue
		}
		if before := w.tails[n]; before.span == now.span {
			if now = before; !now.checked {
				if now.empty, err = w.client.Empty(ctx, w.topic, now.span); err != nil {
					return 0, 0, err
				}
				now.checked = true
			}
		}
		if w.tails[n] = now; !now.empty {
			messages += now.span.Len()
		}
	}
	return messages, len(bounds), nil
}

// brokers is a Log on Kafka or on the embedded broker.
type brokers struct{ *kafkalog.Log }

func (b brokers) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	return b.Log.Append(ctx, topic, partition, toKafka(messages)...)
}

func (b brokers) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	bounds, err := b.AllBounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	spans := make([]coverage.Span, len(bounds))
	for p, b := range bounds {
		spans[p] = coverage.Span{Partition: p, From: b.First, To: b.End}
	}
	return spans, nil
}

func (b brokers) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	return b.OffsetsAt(ctx, topic, time.Now().Add(-age))
}

// Scatter sends a few requests concurrently, because a large Gram matrix takes many messages.
func (b brokers) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) ([]int64, error) {
	requests, ctx := errgroup.WithContext(ctx)
	requests.SetLimit(3)
	offsets := make([]int64, len(messages))
	for i, m := range messages {
		requests.Go(func() (err error) {
			offsets[i], err = b.Append(ctx, topic, partition, m)
			return err
		})
	}
	return offsets, requests.Wait()
}

func (b brokers) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[Message, error] {
	return func(yield func(Message, error) bool) {
		for m, err := range b.Log.Range(ctx, topic, partition, from, to) {
			if !yield(messageOf(m), err) {
				return
			}
		}
	}
}

// messageOf converts a Kafka message.
func messageOf(m kafkalog.Message) Message {
	return Message{Message: FromKafka(m), Offset: m.Offset, Time: m.Time}
}

func toKafka(messages []wire.Message) []kafkalog.Message {
	list := make([]kafkalog.Message, len(messages))
	for i, m := range messages {
		list[i] = kafkalog.Message{Key: []byte(m.Key), Value: m.Value, Headers: make([]kafkalog.Header, len(m.Headers))}
		for j, h := range m.Headers {
			list[i].Headers[j] = kafkalog.Header{Key: h.Key, Value: []byte(h.Value)}
		}
	}
	return list
}

// FromKafka converts a Kafka message, without its offset.
func FromKafka(k kafkalog.Message) wire.Message {
	m := wire.Message{Key: string(k.Key), Value: k.Value, Headers: make([]wire.Header, len(k.Headers))}
	for i, h := range k.Headers {
		m.Headers[i] = wire.Header{Key: h.Key, Value: string(h.Value)}
	}
	return m
}

func (b brokers) Subscribe(ctx context.Context, wake <-chan struct{}, from ...Position) Subscription {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{found: make(chan found, 64), wake: wake, cancel: cancel}
	starts := make([]kafkalog.Start, len(from))
	for i, p := range from {
		starts[i] = kafkalog.Start{Topic: p.Topic, Partition: p.Partition, Offset: p.Offset, SkipDeleted: p.Compacted}
	}
	f.running.Go(func() {
		put := func(next found) {
			select {
			case f.found <- next:
			case <-ctx.Done():
			}
		}
		err := b.FollowAll(ctx, starts, func(at int, messages []kafkalog.Message, err error) {
			p := from[at]
			for _, m := range messages {
				put(found{delivery: &Delivery{p.Topic, p.Partition, messageOf(m)}})
			}
			switch {
			case err != nil:
				put(found{err: fmt.Errorf("follow %s[%d]: %w", p.Topic, p.Partition, err)})
			case len(messages) == 0:
				put(found{})
			}
		})
		if err != nil {
			put(found{err: err})
		}
	})
	return f
}

// followers is a subscription with goroutines that Close stops.
type followers struct {
	found   chan found
	wake    <-chan struct{}
	cancel  context.CancelFunc
	running sync.WaitGroup
}

type found struct {
	delivery *Delivery // nil: the partition has lost messages
	err      error
}

func (f *followers) Next(ctx context.Context, timeout time.Duration) (*Delivery, bool, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case found := <-f.found:
		if found.err != nil {
			return nil, false, found.err
		}
		return found.delivery, found.delivery == nil, nil // a late caller checks the topic for lost messages
	case <-f.wake:
		return nil, false, nil
	case <-timer.C:
		return nil, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

func (f *followers) Close() {
	f.cancel()
	f.running.Wait()
}

// writtenTogether is the number of messages of a record that are in memory at the same time.
const writtenTogether = 9

// WriteRecord writes the messages of a record to a partition, in any order, and returns the lowest of their offsets.
func WriteRecord[T wire.Number](ctx context.Context, c *Client, topic string, partition int, r *wire.Record[T]) (first int64, err error) {
	var messages []wire.Message
	first = math.MaxInt64
	write := func() error {
		offsets, err := c.Log.Scatter(ctx, topic, partition, messages...)
		for _, at := range offsets {
			first = min(first, at)
		}
		messages = nil
		return err
	}
	for m, err := range r.EachWithin(c.Chunk, c.Memory) {
		if messages = append(messages, m); err == nil && len(messages) == writtenTogether {
			err = write()
		}
		if err != nil {
			return 0, err
		}
	}
	err = write()
	return first, err
}

// Found is what a partition has in the place of a message that was read before. The zero value means that no message is
// there: the topic is compacted, or the offset is that of an aborted transaction.
type Found int

const (
	// FoundDeleted means that retention has deleted the messages there.
	FoundDeleted Found = iota + 1
	// FoundSame means that the message is there.
	FoundSame
	// FoundOther means that another message is there: the topic has lost messages, or was recreated.
	FoundOther
	// FoundEnd means that the partition ends before the message: the topic has lost messages, or was recreated.
	FoundEnd
)

// MarkOf returns the mark of a message of a partition, by which [Client.Still] recognizes it. That of a message that only an archive has
// lacks a checksum, since its bytes may differ.
func MarkOf(partition int, m Message) coverage.Mark {
	mark := coverage.Mark{Partition: partition, Offset: m.Offset}
	if m.File == "" {
		mark.Checksum = schemas.MessageChecksum(m.Message, m.Time.UnixMilli())
	}
	return mark
}

// Still returns what a partition, with the given bounds, has in the place of a message that was read before. An offset alone proves
// nothing.
func (c *Client) Still(ctx context.Context, topic string, bounds coverage.Span, mark coverage.Mark) (found Found, err error) {
	switch {
	case mark.Offset >= bounds.To:
		return FoundEnd, nil
	case mark.Offset < bounds.From:
		return FoundDeleted, nil
	}
	for m, err := range c.Between(ctx, topic, bounds.Partition, mark.Offset, mark.Offset+1) {
		_, deleted := Deleted(err)
		switch there := MarkOf(bounds.Partition, m); {
		case deleted: // after the bounds were read
			return FoundDeleted, nil
		case errors.As(err, new(*kafkalog.DeletedError)):
			return FoundEnd, nil
		case err != nil:
			return found, err
		case there.Checksum == "" || there == mark:
			return FoundSame, nil
		}
		found = FoundOther
	}
	return found, nil
}

// Own returns the message with a copy of its value. A message that was read keeps its whole fetch response in memory.
func (m Message) Own() Message {
	m.Value = bytes.Clone(m.Value)
	return m
}
