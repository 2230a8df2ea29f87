package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/kafkalog/longpoll"
	"github.com/stagewise/stagewise/internal/kafkalog/waits"
)

// Start is a partition to follow with its start offset, as for [Log.Follow].
type Start struct {
	Topic       string
	Partition   int
	Offset      int64
	SkipDeleted bool // continue at the first remaining offset, or at the end if messages were lost, as is right for a compacted topic
}

// followed is a partition followed together with others.
type followed struct {
	source
	at int // index in the starts
}

// minShare is the minimum number of bytes that a fetch requests for a partition. Brokers return a larger batch for the
// first partition that has any.
const minShare = 64 << 10

// FollowAll follows many partitions with one request at a time to each broker, whereas [Log.Follow] sends one for each
// partition with messages. It calls deliver for each message, with the index of its partition in starts; without a message
// and an error if the partition has lost messages that were read, and SkipDeleted is set; and with the errors of
// [Follower.Next], which end the partition. deliver is called concurrently, but in order for the messages of a partition.
// FollowAll returns when ctx or the log ends, or deliver returns false.
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
		all[i] = &followed{source{log: l, topic: s.Topic, partition: s.Partition, skipDeleted: s.SkipDeleted,
			cursor: cursor{position: s.Offset, to: unbounded}}, i}
	}
	backoff := minBackoff
	for len(all) > 0 && ctx.Err() == nil {
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
		for address, of := range leaders {
			polling.Go(func() {
				defer end() // leaders of other partitions may also have changed
				f.poll(round, address, of)
			})
		}
		polling.Wait()
		end()
		if time.Since(began) > maxBackoff {
			backoff = minBackoff
		}
		pause(ctx, backoff)
		backoff = min(2*backoff, maxBackoff)
		left := all[:0]
		for _, s := range all {
			if l.cluster.Forget(s.topic); s.position < s.to {
				left = append(left, s)
			}
		}
		all = left
	}
	if l.ctx.Err() != nil {
		deliver(0, nil, context.Cause(l.ctx))
	}
}

// following is the state of a call of FollowAll.
type following struct {
	log     *Log
	deliver func(at int, m *Message, err error)
}

// leaders groups partitions by the addresses of their leaders.
func (f *following) leaders(ctx context.Context, all []*followed) (of map[string][]*followed, err error) {
	topics := map[string]map[int]string{}
	for _, s := range all {
		if topics[s.topic] != nil {
			continue
		}
		err := f.log.retryOn(ctx, s.topic, "find the leaders of "+s.topic, func(ctx context.Context) (err error) {
			topics[s.topic], err = f.log.cluster.Leaders(ctx, s.topic)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	of = map[string][]*followed{}
	for _, s := range all {
		address := topics[s.topic][s.partition]
		of[address] = append(of[address], s) // without a leader, the request fails and is retried
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
func (f *following) poll(ctx context.Context, address string, all []*followed) {
	wait := waits.Reporter{Report: f.log.waiting, What: fmt.Sprintf("read %d partitions, as %s[%d]", len(all), all[0].topic, all[0].partition)}
	defer func() { wait.Over(nil) }()
	for ctx.Err() == nil && len(all) > 0 {
		wanted := make([]longpoll.Wanted, len(all))
		for i, s := range all {
			wanted[i] = s.wanted(int32(max(fetchBytes/len(all), minShare)))
		}
		answer, err := f.log.polls.Wait(ctx, address, wanted)
		again := err != nil
		var idle, busy []*followed // idle partitions come first in the next request, since the first one's batch may be large
		for i, s := range all {
			var p *longpoll.Partition
			if err == nil {
				p = answer.Found[i]
			}
			if p == nil {
				idle = append(idle, s)
				continue
			}
			moved, err := f.accept(ctx, s, p)
			switch {
			case err != nil && transient(err):
				again = true
			case err != nil && ctx.Err() == nil:
				f.end(s, err)
				continue
			}
			to := &idle
			if moved {
				to = &busy
			}
			*to = append(*to, s)
		}
		if all = append(idle, busy...); again {
			if err != nil && ctx.Err() == nil && !transient(err) {
				f.end(all[0], err)
			}
			wait.Failed(answer.Sent, err)
			return
		}
	}
}

// accept delivers the messages of a partition, and reports whether there were any.
func (f *following) accept(ctx context.Context, s *followed, p *longpoll.Partition) (moved bool, err error) {
	if kafka.Error(p.ErrorCode) == kafka.OffsetOutOfRange {
		err := s.outOfRange(ctx)
		if lost, ok := errors.AsType[*DeletedError](err); ok && s.skipDeleted && lost.Wanted > lost.End {
			s.cursor = cursor{position: lost.End, to: unbounded}
			f.deliver(s.at, nil, nil)
			return false, nil
		}
		return false, err
	}
	batches, err := found(p, s.position)
	if err != nil {
		return false, err
	}
	messages := s.move(batches)
	for i := range messages {
		f.deliver(s.at, &messages[i], nil)
	}
	return len(batches) > 0, nil
}

func transient(err error) bool { return retriable(err) || unknown(err) }
