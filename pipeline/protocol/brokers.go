package protocol

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
