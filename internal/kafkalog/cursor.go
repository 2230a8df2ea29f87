package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/kafkalog/longpoll"
)

// cursor is a position in a partition that moves with every fetch. Not every offset holds a message: compaction, markers
// and aborted transactions leave gaps. A fetch crosses them, since each batch has its range of offsets.
type cursor struct {
	position int64 // the next offset to fetch
	to       int64 // the end of the range
}

// unbounded is the end of a range without end.
const unbounded = math.MaxInt64

// move advances the cursor by a fetch response at its position, and returns the messages in it.
func (c *cursor) move(batches []batch) []Message {
	var messages []Message
	for _, b := range batches {
		for _, m := range b.messages {
			if m.Offset < c.to {
				messages = append(messages, m)
			}
		}
		c.position = min(max(c.position, b.next), c.to)
	}
	return messages
}

// source is one partition being read.
type source struct {
	log       *Log
	topic     string
	partition int
	cursor
	skipDeleted bool
	stalled     time.Time // when a range first reached the end of the log early; zero if it has not

	tail   *tail // for a follower of an embedded broker without a listener; otherwise nil
	alone  bool  // the shared long poll has failed: the next fetch is separate, retried, and reported
	behind bool  // there may be messages at the position that were written before following started
	lost   int   // value of the partition's tail when the last fetch started
}

// next returns the messages of one fetch, which may be none, or io.EOF at the end of the range.
func (s *source) next(ctx context.Context) ([]Message, error) {
	if s.position >= s.to {
		return nil, io.EOF
	}
	poll := pollTime
	if s.tail != nil {
		if messages := s.tail.await(ctx, s); len(messages) > 0 || ctx.Err() != nil {
			return messages, ctx.Err()
		}
		poll = 0
	}
	if s.to == unbounded && s.tail == nil {
		if !s.alone {
			return s.wait(ctx)
		}
		poll = 0
	}
	var batches []batch
	bytes := int32(fetchBytes)
	switch {
	case s.to-s.position == 1:
		bytes = minFetchBytes
	case s.log.Embedded():
		bytes = embeddedFetchBytes
	}
	err := s.log.retryOn(ctx, s.topic, fmt.Sprintf("read %s[%d]", s.topic, s.partition), func(ctx context.Context) (err error) {
		batches, err = s.log.fetch(ctx, s.topic, s.partition, s.position, bytes, poll)
		switch {
		case errors.Is(err, kafka.OffsetOutOfRange):
			err = s.outOfRange(ctx)
		case err == nil && len(batches) == 0 && !s.stalled.IsZero() && time.Since(s.stalled) > s.log.stall:
			err = s.short(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	s.alone = false
	before := s.position
	messages := s.move(batches)
	s.behind = s.position != before
	switch {
	case s.position != before || s.to == unbounded:
		s.stalled = time.Time{}
	case s.stalled.IsZero():
		s.stalled = time.Now()
	}
	return messages, nil
}

// wait returns the messages of one fetch by the shared long poll of a broker: none if it has failed.
func (s *source) wait(ctx context.Context) ([]Message, error) {
	wanted := s.wanted(fetchBytes)
	batches, err := s.poll(ctx, wanted)
	if s.alone = err != nil; s.alone {
		return nil, ctx.Err()
	}
	return s.move(batches), nil
}

func (s *source) poll(ctx context.Context, wanted longpoll.Wanted) ([]batch, error) {
	address, err := s.log.cluster.Leader(ctx, longpoll.Request(0, wanted))
	if err != nil {
		return nil, err
	}
	result, err := s.log.polls.Wait(ctx, address, []longpoll.Wanted{wanted})
	if err != nil {
		return nil, err
	}
	return found(result.Found[0], s.position)
}

func (s *source) wanted(maxBytes int32) longpoll.Wanted {
	return longpoll.Wanted{Place: longpoll.Place{Topic: s.topic, Partition: s.partition}, Offset: s.position, MaxBytes: maxBytes}
}

// leads reports whether a broker leads partitions, according to the cached metadata.
func (l *Log) leads(ctx context.Context, address string, wanted []longpoll.Wanted) bool {
	topics := map[string]map[int]string{}
	for _, w := range wanted {
		leaders, asked := topics[w.Topic]
		if !asked {
			leaders, _ = l.cluster.Leaders(ctx, w.Topic) // nil while brokers do not answer
			topics[w.Topic] = leaders
		}
		if leader, known := leaders[w.Partition]; known && leader != address {
			return false
		}
	}
	return true
}

// short determines why the broker has nothing at the position, which is before the end of the range.
func (s *source) short(ctx context.Context) error {
	first, end, err := s.log.Bounds(ctx, s.topic, s.partition)
	switch {
	case err != nil:
		return err
	case s.position < first || s.position >= end:
		return s.deleted(first, end)
	}
	return kafka.OffsetNotAvailable // the log has the position, but the broker that served the fetch is behind
}

// outOfRange determines why the broker does not have the position. It returns nil if it has moved the position.
func (s *source) outOfRange(ctx context.Context) error {
	first, end, err := s.log.Bounds(ctx, s.topic, s.partition)
	switch {
	case err != nil:
		return err
	case s.position < first && s.skipDeleted:
		s.cursor = cursor{position: first, to: s.to}
		return nil
	case s.position < first || s.position > end:
		return s.deleted(first, end)
	}
	return kafka.OffsetNotAvailable // the leader that served the fetch was behind
}

func (s *source) deleted(first, end int64) error {
	return &DeletedError{Topic: s.topic, Partition: s.partition, Wanted: s.position, First: first, End: end}
}
