package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
)

// cursor is a position in a partition that moves with every fetch.
//
// Not every offset holds a record: compaction, markers and aborted transactions leave gaps. A gap before a record is easy to
// cross, because the record has its offset. But a batch whose last records were compacted away still covers their offsets:
// the broker answers a fetch from such an offset with the same batch again, and kafka-go does not report where the batch
// ends. If nothing follows that batch in the answer, the cursor probes: it moves by 1, 2, 4, … while the answer is the same
// batch, and goes back to the last offset that is known to be empty if a step may have skipped a record.
type cursor struct {
	position int64 // the next offset to fetch
	to       int64 // the end of the range
	empty    int64 // while probing: the last offset that is known to hold no record
	step     int64 // while probing: position − empty; otherwise 0
}

// unbounded is the end of a range without end.
const unbounded = math.MaxInt64

// move advances the cursor by the answer to a fetch at its position, and returns the messages in it.
func (c *cursor) move(f fetched) []Message {
	if c.step > 1 && (len(f.batches) == 0 || f.batches[0].base > c.empty) {
		c.position, c.step = c.empty+1, 1
		return nil
	}
	if len(f.batches) == 0 {
		return nil
	}
	var messages []Message
	for _, b := range f.batches {
		for _, m := range b.messages {
			if m.Offset < c.to {
				messages = append(messages, m)
			}
		}
	}
	if next := f.batches[len(f.batches)-1].next; next > c.position {
		c.position, c.step = min(next, c.to), 0
		return messages
	}
	// The batch at the position holds no record at or after it.
	c.empty = c.position
	last := min(c.to, f.stable) - 1 // not beyond the end: from there a skipped record would go unnoticed
	c.position = max(c.empty+1, min(c.empty+max(1, 2*c.step), last))
	c.step = c.position - c.empty
	return nil
}

// source is one partition being read.
type source struct {
	log       *Log
	topic     string
	partition int
	cursor
	skipDeleted bool
	stalled     time.Time // when a range first met the end of the log before its own; zero if it has not

	tail   *tail // for a follower of an embedded broker that listens nowhere; otherwise nil
	behind bool  // there may be messages at the position that were written before it followed
	lost   int   // that of the partition's tail when the last fetch began
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
	var f fetched
	bytes := int32(fetchBytes)
	switch {
	case s.to-s.position == 1:
		bytes = minFetchBytes
	case s.log.Embedded():
		bytes = embeddedFetchBytes
	}
	err := s.log.retryOn(ctx, s.topic, fmt.Sprintf("read %s[%d]", s.topic, s.partition), func(ctx context.Context) (err error) {
		f, err = s.log.fetch(ctx, s.topic, s.partition, s.position, bytes, poll)
		switch {
		case errors.Is(err, kafka.OffsetOutOfRange):
			err = s.outOfRange(ctx)
		case err == nil && len(f.batches) == 0 && !s.stalled.IsZero() && time.Since(s.stalled) > s.log.stall:
			err = s.short(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	before := s.position
	messages := s.move(f)
	s.behind = s.position != before || s.step > 0
	switch {
	case s.position != before || s.to == unbounded:
		s.stalled = time.Time{}
	case s.stalled.IsZero():
		s.stalled = time.Now()
	}
	return messages, nil
}

// short finds out why the broker has nothing at the position, which is before the end of the range.
func (s *source) short(ctx context.Context) error {
	first, end, err := s.log.Bounds(ctx, s.topic, s.partition)
	switch {
	case err != nil:
		return err
	case s.position < first || s.position >= end:
		return s.deleted(first, end)
	}
	return kafka.OffsetNotAvailable // the log has the position, but the broker that answers fetches is behind
}

// outOfRange finds out why the broker does not have the position. It returns nil if it has moved the position.
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
	return kafka.OffsetNotAvailable // the leader that answered the fetch was behind
}

func (s *source) deleted(first, end int64) error {
	return &DeletedError{Topic: s.topic, Partition: s.partition, Wanted: s.position, First: first, End: end}
}
