package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Start is a partition to follow with its start offset.
type Start struct {
	Topic       string
	Partition   int
	Offset      int64
	SkipDeleted bool // continue at the first remaining offset, or at the end if messages were lost, as is right for a compacted topic
}

// minShare is the minimum number of bytes that a fetch requests for a partition. Brokers return a larger batch for the
// first partition that has any.
const minShare = 64 << 10

// FollowAll reads all committed messages of partitions from their offsets on, without end, with one request at a time to
// each broker. It calls deliver for each message, with the index of its partition in starts; without a message and an
// error if the partition has lost messages that were read, and SkipDeleted is set; and with an error that ends the
// partition: a *DeletedError if offsets were deleted and SkipDeleted is not set, ErrUnknownTopic if the topic is gone. It
// retries transient errors. deliver is called concurrently, but in order for the messages of a partition. FollowAll returns
// when ctx or the log ends, when no partition is left, or deliver returns false.
func (l *Log) FollowAll(ctx context.Context, starts []Start, deliver func(at int, m *Message, err error) (more bool)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sources := make([]*source, len(starts))
	for i, s := range starts {
		sources[i] = &source{log: l, topicPartition: topicPartition{s.Topic, s.Partition}, at: i, skipDeleted: s.SkipDeleted,
			position: s.Offset, to: unbounded}
	}
	l.follow(ctx, sources, func(at int, messages []Message, err error) {
		if len(messages) == 0 && ctx.Err() == nil && !deliver(at, nil, err) {
			cancel()
		}
		for i := range messages {
			if ctx.Err() == nil && !deliver(at, &messages[i], nil) {
				cancel()
			}
		}
	})
	if l.ctx.Err() != nil {
		deliver(0, nil, context.Cause(l.ctx))
	}
}

// following is the state of a call of follow.
type following struct {
	log     *Log
	deliver func(at int, messages []Message, err error)
}

// follow reads sources until their ends, as FollowAll does. It calls deliver with the messages of each fetch, of which there
// are some unless the source has lost messages or ends with an error.
func (l *Log) follow(ctx context.Context, all []*source, deliver func(at int, messages []Message, err error)) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(l.ctx, cancel)()
	f := &following{l, deliver}
	waits := map[int32]*reporter{} // of the brokers
	defer func() {
		for _, wait := range waits {
			wait.over(nil)
		}
	}()
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if all = slices.DeleteFunc(all, (*source).isOver); len(all) == 0 || ctx.Err() != nil {
			return
		}
		leaders, err := f.leaders(ctx, all)
		if err != nil {
			return
		}
		began := time.Now()
		round, end := context.WithCancel(ctx)
		var polling sync.WaitGroup
		for broker, wait := range waits {
			if leaders[broker] == nil {
				wait.over(nil)
				delete(waits, broker)
			}
		}
		for broker, of := range leaders {
			wait := waits[broker]
			if wait == nil {
				wait = &reporter{report: l.waiting, what: fmt.Sprintf("read %s[%d]", of[0].topic, of[0].partition)}
				if len(of) > 1 {
					wait.what = fmt.Sprintf("read %d partitions, as %s[%d]", len(of), of[0].topic, of[0].partition)
				}
				waits[broker] = wait
			}
			polling.Go(func() {
				defer end() // leaders of other partitions may also have changed
				f.poll(round, broker, of, wait)
			})
		}
		polling.Wait()
		end()
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		if all = slices.DeleteFunc(all, (*source).isOver); len(all) > 0 {
			pause(ctx, backoff)
		}
		for _, s := range all {
			l.leaders.forget(s.topic)
		}
	}
}

// leaders groups sources by their leaders. Its error has been delivered.
func (f *following) leaders(ctx context.Context, all []*source) (of map[int32][]*source, err error) {
	of = map[int32][]*source{}
	for _, s := range all {
		leader := anyBroker
		err := f.log.attempt(ctx, s.topic, "find the leaders of "+s.topic, func(ctx context.Context) error {
			leaders, err := f.log.leadersOf(ctx, s.topic)
			known := false
			if leader, known = leaders[s.partition]; err == nil && !known {
				err = fmt.Errorf("topic %s has no partition %d: %w", s.topic, s.partition, kafka.UnknownTopicOrPartition)
			}
			return err
		})
		if err != nil {
			if ctx.Err() == nil {
				f.end(s, err)
			}
			return nil, err
		}
		if leader < 0 {
			leader = anyBroker // its error is retried
		}
		of[leader] = append(of[leader], s)
	}
	return of, nil
}

// end ends a source with an error.
func (f *following) end(s *source, err error) {
	position := s.position
	s.position = s.to
	f.deliver(s.at, nil, fmt.Errorf("read %s[%d]@%d: %w", s.topic, s.partition, position, f.log.identity.Explain(err)))
}

// poll follows partitions led by a broker, until their ends, or the broker fails, or no longer leads one of them.
func (f *following) poll(ctx context.Context, broker int32, all []*source, wait *reporter) {
	most := fetchBytes
	if f.log.Embedded() {
		most = embeddedFetchBytes
	}
	for ctx.Err() == nil && len(all) > 0 && f.leads(ctx, broker, all) {
		bytes := max(most/len(all), minShare)
		if len(all) == 1 && all[0].to-all[0].position == 1 {
			bytes = minFetchBytes
		}
		began := time.Now()
		found, failure := f.log.fetch(ctx, broker, pollTime, int32(bytes), all...)
		if failure != nil && !transient(failure) && ctx.Err() == nil {
			f.end(all[0], failure)
		}
		var idle, busy []*source // idle partitions come first in the next request, since the first one's batch may be large
		for i, p := range found {
			s, to := all[i], &idle
			before := s.position
			switch err := f.accept(ctx, s, p); {
			case err != nil && transient(err):
				failure = err
			case err != nil && ctx.Err() == nil:
				f.end(s, err)
			}
			if s.position > before {
				to = &busy
			}
			if !s.isOver() {
				*to = append(*to, s)
			}
		}
		if failure != nil {
			wait.failed(began, failure)
			return
		}
		wait.over(nil)
		all = append(idle, busy...)
	}
}

// leads reports whether a broker leads all of the partitions, which a partitioned broker does not know. It returns true while
// brokers do not answer.
func (f *following) leads(ctx context.Context, broker int32, all []*source) bool {
	for _, s := range all {
		leaders, err := f.log.leadersOf(ctx, s.topic)
		if leader, known := leaders[s.partition]; err == nil && known && leader >= 0 && leader != broker {
			return false
		}
	}
	return true
}

// accept delivers the messages of a partition, of which the broker may say nothing.
func (f *following) accept(ctx context.Context, s *source, p *kmsg.FetchResponseTopicPartition) error {
	if p == nil {
		return kafka.UnknownTopicOrPartition
	}
	messages, err := s.accept(ctx, p)
	if lost, ok := errors.AsType[*DeletedError](err); ok && s.skipDeleted && lost.Wanted > lost.End {
		s.position = lost.End
		f.deliver(s.at, nil, nil)
		return nil
	}
	if len(messages) > 0 {
		f.deliver(s.at, messages, nil)
	}
	return err
}

func transient(err error) bool { return retriable(err) || unknown(err) }
