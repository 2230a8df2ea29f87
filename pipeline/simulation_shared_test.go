package pipeline

import (
	"context"
	"sync"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// sharedLog is the log of a simulation for a process with goroutines, all of whose work is one step of the schedule: the order
// of its calls is not that of the schedule, and what it writes is not in the history.
type sharedLog struct {
	actorLog
	mutex   *sync.Mutex
	written chan struct{} // closed when something is written
	history uint32        // of the log, before
	onWrite func(string, wire.Message)
}

// shared returns the pipeline for such a process. The caller closes the log.
func (s *simulation) shared() (*topics.Pipeline, *sharedLog) {
	p := s.pipeline(unattended())
	log := &sharedLog{actorLog: actorLog{s.log, unattended(), nil}, mutex: new(sync.Mutex), written: make(chan struct{}),
		history: s.log.history, onWrite: s.log.onWrite}
	s.log.onWrite = nil
	p.Log, p.Admin = log, &sharedAdmin{simAdmin{log.actorLog, s.settings}, log.mutex}
	return s.remaking(p), log
}

func (l *sharedLog) close() { l.simLog.history, l.simLog.onWrite = l.history, l.onWrite }

func (l *sharedLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	close(l.written)
	l.written = make(chan struct{})
	return l.actorLog.Append(ctx, topic, partition, messages...)
}

func (l *sharedLog) Scatter(ctx context.Context, topic string, partition int, messages ...wire.Message) (offsets []int64, err error) {
	for _, m := range messages {
		offset, err := l.Append(ctx, topic, partition, m)
		if err != nil {
			return nil, err
		}
		offsets = append(offsets, offset)
	}
	return offsets, nil
}

func (l *sharedLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Bounds(ctx, topic, partition)
}

func (l *sharedLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Spans(ctx, topic)
}

func (l *sharedLog) Before(ctx context.Context, topic string, age time.Duration) ([]int64, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Before(ctx, topic, age)
}

func (l *sharedLog) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.DeleteBefore(ctx, topic, partition, offset)
}

func (l *sharedLog) Partitions(ctx context.Context, topic string) (int, error) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return l.actorLog.Partitions(ctx, topic)
}

func (l *sharedLog) Range(topic string, partition int, from, to int64) protocol.Reader {
	return &sharedRange{l.actorLog.Range(topic, partition, from, to), l.mutex}
}

type sharedRange struct {
	protocol.Reader
	mutex *sync.Mutex
}

func (r *sharedRange) Next(ctx context.Context) (protocol.Message, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.Reader.Next(ctx)
}

func (l *sharedLog) Subscribe(ctx context.Context, wake <-chan struct{}, from ...protocol.Position) protocol.Subscription {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	return &sharedSubscription{l.actorLog.Subscribe(ctx, nil, from...).(*simSubscription), l, wake}
}

// sharedSubscription waits for what other goroutines write.
type sharedSubscription struct {
	*simSubscription
	log  *sharedLog
	wake <-chan struct{}
}

func (s *sharedSubscription) Next(ctx context.Context, timeout time.Duration) (*protocol.Delivery, bool, error) {
	for {
		s.log.mutex.Lock()
		written := s.log.written
		s.waits = ctx
		if !s.idle() {
			d, late, err := s.simSubscription.Next(ctx, timeout)
			s.log.mutex.Unlock()
			return d, late, err
		}
		s.log.mutex.Unlock()
		select {
		case <-written:
		case <-s.wake:
			return nil, false, nil
		case <-ctx.Done():
			return nil, false, ctx.Err()
		}
	}
}

// sharedAdmin is the cluster for such a process.
type sharedAdmin struct {
	simAdmin
	mutex *sync.Mutex
}

func (s *sharedAdmin) Configs(ctx context.Context, topics ...string) (map[string]map[string]string, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.simAdmin.Configs(ctx, topics...)
}

func (s *sharedAdmin) Create(ctx context.Context, topics ...kafkalog.Topic) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.simAdmin.Create(ctx, topics...)
}

func (s *sharedAdmin) Delete(ctx context.Context, topics ...string) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.simAdmin.Delete(ctx, topics...)
}
