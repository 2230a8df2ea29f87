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

// cursor is a place in a partition that moves with every fetch.
//
// Offsets need not hold a record: compaction, markers and aborted transactions leave gaps. A gap that ends in a record is
// no trouble, as that record says where it is. But a batch whose last records compaction took away still covers their
// offsets, the broker answers a fetch from there with that same batch, and kafka-go does not tell where it ends. When
// nothing follows it in the answer the cursor feels its way: in steps of 1, 2, 4, … while the answer is the same batch,
// and back to the last offset that is known to be empty when a step may have gone over something.
type cursor struct {
	position int64 // the next offset to fetch
	to       int64 // where a range ends
	empty    int64 // with a step: the last offset that is known to hold no record
	step     int64 // from empty to position; 0 when the offset before position is settled
}

const unbounded = math.MaxInt64

// move takes the answer to a fetch at the position and returns the messages in it.
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
	last := min(c.to, f.stable) - 1 // not to step over the end, from where there is no way to see what was missed
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
	stalled     time.Time // since when a range has met the end of the log; zero when it has not
}

// next returns the messages of one fetch, which may be none, or io.EOF at the end of the range.
func (s *source) next(ctx context.Context) ([]Message, error) {
	if s.position >= s.to {
		return nil, io.EOF
	}
	var f fetched
	bytes := int32(fetchBytes)
	switch {
	case s.to-s.position == 1:
		bytes = oneBatch
	case s.log.Embedded():
		bytes = embeddedBytes
	}
	err := s.log.retryOn(ctx, s.topic, fmt.Sprintf("read %s[%d]", s.topic, s.partition), func(ctx context.Context) (err error) {
		f, err = s.log.fetch(ctx, s.topic, s.partition, s.position, bytes)
		if errors.Is(err, kafka.OffsetOutOfRange) {
			err = s.outOfRange(ctx)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	before := s.position
	messages := s.move(f)
	switch {
	case s.position != before || s.to == unbounded:
		s.stalled = time.Time{}
	case s.stalled.IsZero():
		s.stalled = time.Now()
	case time.Since(s.stalled) > s.log.stall:
		first, end, err := s.log.Bounds(ctx, s.topic, s.partition)
		if err == nil {
			err = s.deleted(first, end)
		}
		return nil, err
	}
	return messages, nil
}

// outOfRange finds out why the broker does not have the position; nil means that the position was moved.
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
	return kafka.OffsetNotAvailable // the leader that answered had not caught up
}

func (s *source) deleted(first, end int64) error {
	return &DeletedError{Topic: s.topic, Partition: s.partition, Wanted: s.position, First: first, End: end}
}
