package pipeline

import (
	"context"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// journal is what the roles need of a log: the brokers, or in a simulation a log
// in memory that does whatever a log may do.
type journal interface {
	// Append writes messages to the end of a partition in their order, and answers
	// with the offset of the first.
	Append(ctx context.Context, topic string, partition int, messages ...schemas.Message) (int64, error)
	// Scatter writes messages to the end of a partition, in whatever order.
	Scatter(ctx context.Context, topic string, partition int, messages ...schemas.Message) error
	Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error)
	Partitions(ctx context.Context, topic string) (int, error)
	// Range reads the messages of a range of offsets.
	Range(topic string, partition int, from, to int64) reader
	// Mail follows partitions from now on, until it is closed. A receipt from
	// wake wakes who waits for it.
	Mail(ctx context.Context, wake <-chan struct{}, from ...address) mail
}

// reader brings messages one by one, and io.EOF after the last.
type reader interface {
	Next(ctx context.Context) (entry, error)
	Close() error
}

// entry is a message, and where it is on its partition.
type entry struct {
	schemas.Message
	offset int64
}

// address is a partition, and the offset that mail from it begins at.
type address struct {
	topic     string
	partition int
	from      int64
	compact   bool // offsets that are not there any more are passed over
}

// letter is a message and where it is from.
type letter struct {
	topic string
	entry
}

// mail brings the messages of several partitions as they come, in order within
// each. It belongs to one goroutine.
type mail interface {
	// Next is the next letter. Without one it is late when none came within that
	// time, and otherwise somebody woke it.
	Next(ctx context.Context, within time.Duration) (l *letter, late bool, err error)
	Close()
}

// brokers is the journal of a log.
type brokers struct{ *kafkalog.Log }

func (b brokers) Append(ctx context.Context, topic string, partition int, messages ...schemas.Message) (int64, error) {
	return b.Log.Append(ctx, topic, partition, records(messages)...)
}

func (b brokers) Range(topic string, partition int, from, to int64) reader {
	return entries{b.Log.Range(topic, partition, from, to)}
}

// entries reads a range of a log.
type entries struct{ *kafkalog.Range }

func (e entries) Next(ctx context.Context) (entry, error) {
	r, err := e.Range.Next(ctx)
	if err != nil {
		return entry{}, err
	}
	return entry{message(r), r.Offset}, nil
}

// records are messages as the log has them.
func records(messages []schemas.Message) []kafkalog.Message {
	records := make([]kafkalog.Message, len(messages))
	for i, m := range messages {
		records[i] = kafkalog.Message{Key: []byte(m.Key), Value: m.Value, Headers: make([]kafkalog.Header, len(m.Headers))}
		for j, h := range m.Headers {
			records[i].Headers[j] = kafkalog.Header{Key: h.Key, Value: []byte(h.Value)}
		}
	}
	return records
}

// message is what a record of the log says.
func message(r kafkalog.Message) schemas.Message {
	m := schemas.Message{Key: string(r.Key), Value: r.Value, Headers: make([]schemas.Header, len(r.Headers))}
	for i, h := range r.Headers {
		m.Headers[i] = schemas.Header{Key: h.Key, Value: string(h.Value)}
	}
	return m
}

// Scatter has a few requests on their way at once: a Gram matrix takes its time.
func (b brokers) Scatter(ctx context.Context, topic string, partition int, messages ...schemas.Message) error {
	requests, ctx := errgroup.WithContext(ctx)
	requests.SetLimit(3)
	for _, m := range messages {
		requests.Go(func() error {
			_, err := b.Append(ctx, topic, partition, m)
			return err
		})
	}
	return requests.Wait()
}

func (b brokers) Mail(ctx context.Context, wake <-chan struct{}, from ...address) mail {
	ctx, cancel := context.WithCancel(ctx)
	f := &followers{letters: make(chan delivery, 64), wake: wake, cancel: cancel}
	for _, a := range from {
		follower := b.Follow(a.topic, a.partition, a.from)
		follower.SkipDeleted = a.compact
		f.running.Go(func() {
			defer follower.Close()
			for {
				m, err := follower.Next(ctx)
				if err != nil {
					err = fmt.Errorf("follow %s[%d]: %w", a.topic, a.partition, err)
				}
				select {
				case f.letters <- delivery{&letter{a.topic, entry{message(m), m.Offset}}, err}:
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

// followers are a goroutine for each partition, until Close.
type followers struct {
	letters chan delivery
	wake    <-chan struct{}
	cancel  context.CancelFunc
	running sync.WaitGroup
}

type delivery struct {
	letter *letter
	err    error
}

func (f *followers) Next(ctx context.Context, within time.Duration) (*letter, bool, error) {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case d := <-f.letters:
		if d.err != nil {
			return nil, false, d.err
		}
		return d.letter, false, nil
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
