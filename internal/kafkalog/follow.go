package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	defer context.AfterFunc(l.ctx, cancel)()
	f := &following{log: l, deliver: func(at int, m *Message, err error) {
		if ctx.Err() == nil && !deliver(at, m, err) {
			cancel()
		}
	}}
	all := make([]*followed, len(starts))
	for i, s := range starts {
		all[i] = &followed{source{log: l, topicPartition: topicPartition{s.Topic, s.Partition}, skipDeleted: s.SkipDeleted,
			position: s.Offset, to: unbounded}, i}
	}
	waits := map[int32]*reporter{} // of the brokers
	defer func() {
		for _, wait := range waits {
			wait.over(nil)
		}
	}()
	for backoff := minBackoff; len(all) > 0 && ctx.Err() == nil; backoff = min(2*backoff, maxBackoff) {
		leaders, err := f.leaders(ctx, all)
		if err != nil {
			if ctx.Err() == nil {
				f.end(all[0], err)
			}
			break
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
		pause(ctx, backoff)
		left := all[:0]
		for _, s := range all {
			if l.leaders.forget(s.topic); s.position < s.to {
				left = append(left, s)
			}
		}
		all = left
	}
	if l.ctx.Err() != nil {
		deliver(0, nil, context.Cause(l.ctx))
	}
}

// followed is a partition followed together with others.
type followed struct {
	source
	at int // index in the starts
}

// following is the state of a call of FollowAll.
type following struct {
	log     *Log
	deliver func(at int, m *Message, err error)
}

// leaders groups partitions by their leaders.
func (f *following) leaders(ctx context.Context, all []*followed) (of map[int32][]*followed, err error) {
	topics := map[string]map[int]int32{}
	for _, s := range all {
		if topics[s.topic] != nil {
			continue
		}
		err := f.log.attempt(ctx, s.topic, "find the leaders of "+s.topic, func(ctx context.Context) (err error) {
			topics[s.topic], err = f.log.leadersOf(ctx, s.topic)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	of = map[int32][]*followed{}
	for _, s := range all {
		leader, known := topics[s.topic][s.partition]
		if !known || leader < 0 {
			leader = anyBroker // its error is retried
		}
		of[leader] = append(of[leader], s)
	}
	return of, nil
}

// end ends a partition with an error.
func (f *following) end(s *followed, err error) {
	position := s.position
	s.position = s.to
	f.deliver(s.at, nil, fmt.Errorf("read %s[%d]@%d: %w", s.topic, s.partition, position, f.log.identity.Explain(err)))
}

// poll follows partitions led by a broker, until the broker fails, or no longer leads one of them.
func (f *following) poll(ctx context.Context, broker int32, all []*followed, wait *reporter) {
	for ctx.Err() == nil && len(all) > 0 && f.leads(ctx, broker, all) {
		sources := make([]*source, len(all))
		for i, s := range all {
			sources[i] = &s.source
		}
		began := time.Now()
		found, failure := f.log.fetch(ctx, broker, pollTime, int32(max(fetchBytes/len(all), minShare)), sources...)
		if failure != nil && !transient(failure) && ctx.Err() == nil {
			f.end(all[0], failure)
		}
		var idle, busy []*followed // idle partitions come first in the next request, since the first one's batch may be large
		for i, p := range found {
			s, to := all[i], &idle
			if p != nil {
				before := s.position
				err := f.accept(ctx, s, p)
				switch {
				case err != nil && transient(err):
					failure = err
				case err != nil && ctx.Err() == nil:
					f.end(s, err)
					continue
				}
				if s.position > before {
					to = &busy
				}
			}
			*to = append(*to, s)
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
func (f *following) leads(ctx context.Context, broker int32, all []*followed) bool {
	for _, s := range all {
		leaders, err := f.log.leadersOf(ctx, s.topic)
		if leader, known := leaders[s.partition]; err == nil && known && leader >= 0 && leader != broker {
			return false
		}
	}
	return true
}

// accept delivers the messages of a partition.
func (f *following) accept(ctx context.Context, s *followed, p *kmsg.FetchResponseTopicPartition) error {
	messages, err := s.source.accept(ctx, p)
	if lost, ok := errors.AsType[*DeletedError](err); ok && s.skipDeleted && lost.Wanted > lost.End {
		s.position = lost.End
		f.deliver(s.at, nil, nil)
		return nil
	}
	for i := range messages {
		f.deliver(s.at, &messages[i], nil)
	}
	return err
}

func transient(err error) bool { return retriable(err) || unknown(err) }
