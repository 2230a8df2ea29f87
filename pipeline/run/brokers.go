package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// brokers is the Log on Kafka, or on the embedded broker.
type brokers struct{ *kafkalog.Log }

func (b brokers) Append(ctx context.Context, topic string, partition int, messages ...schemas.Message) (int64, error) {
	return b.Log.Append(ctx, topic, partition, toKafka(messages)...)
}

func (b brokers) Spans(ctx context.Context, topic string) ([]schemas.Span, error) {
	bounds, err := b.AllBounds(ctx, topic)
	if err != nil {
		return nil, err
	}
	spans := make([]schemas.Span, len(bounds))
	for p, b := range bounds {
		spans[p] = schemas.Span{Partition: p, From: b.First, To: b.End}
	}
	return spans, nil
}

func (b brokers) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	return b.OffsetsAt(ctx, topic, time.Now().Add(-age))
}

// Scatter sends a few requests at once, as a large Gram matrix takes many messages.
func (b brokers) Scatter(ctx context.Context, topic string, partition int, messages ...schemas.Message) ([]int64, error) {
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

func (b brokers) Range(topic string, partition int, from, to int64) Reader {
	return kafkaRange{b.Log.Range(topic, partition, from, to)}
}

type kafkaRange struct{ *kafkalog.Range }

func (r kafkaRange) Next(ctx context.Context) (Message, error) {
	m, err := r.Range.Next(ctx)
	if err != nil {
		return Message{}, err
	}
	return Message{FromKafka(m), m.Offset, m.Time}, nil
}

func toKafka(messages []schemas.Message) []kafkalog.Message {
	list := make([]kafkalog.Message, len(messages))
	for i, m := range messages {
		list[i] = kafkalog.Message{Key: []byte(m.Key), Value: m.Value, Headers: make([]kafkalog.Header, len(m.Headers))}
		for j, h := range m.Headers {
			list[i].Headers[j] = kafkalog.Header{Key: h.Key, Value: []byte(h.Value)}
		}
	}
	return list
}

// FromKafka converts a message as the brokers have it. Its offset is left out.
func FromKafka(k kafkalog.Message) schemas.Message {
	m := schemas.Message{Key: string(k.Key), Value: k.Value, Headers: make([]schemas.Header, len(k.Headers))}
	for i, h := range k.Headers {
		m.Headers[i] = schemas.Header{Key: h.Key, Value: string(h.Value)}
	}
	return m
}

func (b brokers) Subscribe(ctx context.Context, wake <-chan struct{}, from ...Position) Subscription {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{found: make(chan found, 64), wake: wake, cancel: cancel}
	for _, p := range from {
		follower := b.Follow(p.Topic, p.Partition, p.Offset)
		follower.SkipDeleted = p.Compacted
		f.running.Go(func() {
			defer follower.Close()
			for {
				m, err := follower.Next(ctx)
				if err != nil {
					err = fmt.Errorf("follow %s[%d]: %w", p.Topic, p.Partition, err)
				}
				select {
				case f.found <- found{&Delivery{p.Topic, p.Partition, Message{FromKafka(m), m.Offset, m.Time}}, err}:
				case <-ctx.Done():
					return
				}
				if err != nil {
					return
				}
			}
		})
	}
	return f
}

// followers is a subscription with a goroutine for each partition. Close ends the goroutines.
type followers struct {
	found   chan found
	wake    <-chan struct{}
	cancel  context.CancelFunc
	running sync.WaitGroup
}

type found struct {
	delivery *Delivery
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
		return found.delivery, false, nil
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
