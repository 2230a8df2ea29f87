package kafkalog

import (
	"context"
	"io"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// topicPartition is a partition of a topic.
type topicPartition struct {
	topic     string
	partition int
}

// source is one partition being read. Not every offset holds a message: compaction, markers and aborted transactions leave
// gaps. A fetch crosses them, since each batch has its range of offsets.
type source struct {
	log *Log
	topicPartition
	at          int       // its index among the sources that are read together
	position    int64     // the next offset to fetch
	to          int64     // the end of the range, or unbounded
	skipDeleted bool      // continue at the first remaining offset if the next ones were deleted
	stalled     time.Time // when a range first reached the end of the log early; zero if it has not
}

// unbounded is the end of a range without end.
const unbounded = math.MaxInt64

// isOver reports whether the source was read to its end, or has ended with an error.
func (s *source) isOver() bool { return s.position >= s.to }

// accept moves the source by its partition of a fetch response, and returns the messages in it.
func (s *source) accept(ctx context.Context, p *kmsg.FetchResponseTopicPartition) ([]Message, error) {
	if failure(p.ErrorCode) == kafka.OffsetOutOfRange {
		return nil, s.outOfRange(ctx)
	}
	messages, next, err := decode(p, s.position)
	if err != nil {
		return nil, err
	}
	for len(messages) > 0 && messages[len(messages)-1].Offset >= s.to {
		messages = messages[:len(messages)-1]
	}
	switch {
	case next > s.position:
		s.position, s.stalled = min(next, s.to), time.Time{}
	case s.to == unbounded:
	case s.stalled.IsZero():
		s.stalled = time.Now()
	case time.Since(s.stalled) > s.log.stall:
		return nil, s.short(ctx)
	}
	return messages, nil
}

// outOfRange determines why the broker does not have the position. It returns nil if it has moved the position.
func (s *source) outOfRange(ctx context.Context) error {
	first, end, err := s.log.Bounds(ctx, s.topic, s.partition)
	switch {
	case err != nil:
		return err
	case s.position < first && s.skipDeleted:
		s.position = first
		return nil
	case s.position < first || s.position > end:
		return s.deleted(first, end)
	}
	return kafka.OffsetNotAvailable // the leader that served the fetch was behind
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

func (s *source) deleted(first, end int64) error {
	return &DeletedError{Topic: s.topic, Partition: s.partition, Wanted: s.position, First: first, End: end}
}

// Range reads the messages of an offset range, in order. It fetches one response ahead of its user, in a goroutine that
// starts with the first Next and ends with Close, with the log, or after the last response. It is not safe for concurrent
// use. Create it with [Log.Range].
type Range struct {
	source source
	page   page
	pages  chan page // nil until the first Next
	cancel context.CancelFunc
}

// page is the result of one fetch. A page with an error is the last.
type page struct {
	messages []Message
	err      error
}

// Range returns a reader of exactly the committed messages with offsets in [from, to). It waits only briefly for offsets
// that are not written yet, so to must not exceed the end returned by Bounds.
func (l *Log) Range(topic string, partition int, from, to int64) *Range {
	return &Range{source: source{log: l, topicPartition: topicPartition{topic, partition}, position: from, to: to}}
}

// Next returns the next message, and io.EOF after the last. It skips offsets without a record (compacted, aborted, transaction
// markers). If offsets of the range were deleted it returns a *DeletedError. After an error of ctx Next may be called again;
// any other error is final.
func (r *Range) Next(ctx context.Context) (Message, error) {
	if r.pages == nil && r.page.err == nil {
		var running context.Context
		running, r.cancel = context.WithCancel(r.source.log.ctx)
		r.pages = make(chan page)
		go r.run(running)
	}
	for len(r.page.messages) == 0 {
		if r.page.err != nil {
			return Message{}, r.page.err
		}
		select {
		case p, ok := <-r.pages:
			if !ok {
				p.err = context.Cause(r.source.log.ctx)
			}
			r.page = p
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
	m := r.page.messages[0]
	r.page.messages[0] = Message{} // drop the reference, so that the value's memory can be freed
	r.page.messages = r.page.messages[1:]
	return m, nil
}

func (r *Range) run(ctx context.Context) {
	defer close(r.pages)
	last := error(io.EOF)
	deliver := func(_ int, messages []Message, err error) {
		select {
		case r.pages <- page{messages, err}:
		case <-ctx.Done():
		}
		if err != nil {
			last = nil
		}
	}
	r.source.log.follow(ctx, []*source{&r.source}, deliver)
	if last != nil && r.source.isOver() {
		deliver(0, nil, last)
	}
}

// Close stops fetching. It always returns nil.
func (r *Range) Close() error {
	if r.pages != nil {
		r.cancel()
		for range r.pages { // until run has ended
		}
	}
	r.page = page{err: ErrClosed}
	return nil
}
