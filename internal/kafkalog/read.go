package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Range reads the messages of a range of offsets, in order. It belongs to one goroutine at a time.
type Range struct{ stream stream }

// Range returns a reader of exactly the messages with offsets in [from, to) that are committed. It waits for offsets that
// are not written yet only for a moment, so to is at most the end that Bounds reported.
func (l *Log) Range(topic string, partition int, from, to int64) *Range {
	return &Range{stream{source: source{log: l, topic: topic, partition: partition, cursor: cursor{position: from, to: to}}}}
}

// Next returns the next message, and io.EOF after the last. Offsets that hold no record (compacted, of an aborted
// transaction, its markers) are passed over; offsets that were deleted are a *DeletedError. An error of ctx leaves the
// Range as it was, any other is final.
func (r *Range) Next(ctx context.Context) (Message, error) { return r.stream.next(ctx) }

// Close ends the fetching.
func (r *Range) Close() error { return r.stream.close() }

// Follower reads a partition as it grows. It belongs to one goroutine at a time.
type Follower struct {
	// SkipDeleted makes a Follower that comes too late for some offsets go on at the first that is left, which is right
	// for a compacted topic. Set it before the first Next.
	SkipDeleted bool

	stream   stream
	position int64
}

// Follow returns a reader of all committed messages from an offset on, without an end.
func (l *Log) Follow(topic string, partition int, from int64) *Follower {
	return &Follower{
		stream:   stream{source: source{log: l, topic: topic, partition: partition, cursor: cursor{position: from, to: unbounded}}},
		position: from,
	}
}

// Next returns the next message as soon as there is one, waiting out trouble with the brokers for as long as ctx lasts. A
// fetch is always under way, so it costs no time to call Next with a short ctx again and again. Offsets that were deleted
// are a *DeletedError unless SkipDeleted, a topic that is gone is ErrUnknownTopic; both are final.
func (f *Follower) Next(ctx context.Context) (Message, error) {
	f.stream.source.skipDeleted = f.SkipDeleted
	m, err := f.stream.next(ctx)
	if err == nil {
		f.position = m.Offset + 1
	}
	return m, err
}

// Position returns the offset after the last message that Next returned: where another Follower would go on.
func (f *Follower) Position() int64 { return f.position }

// Close ends the fetching.
func (f *Follower) Close() error { return f.stream.close() }

// stream fetches one page ahead of its user, in a goroutine that begins with the first next and ends with close, with the
// log, or with the last page.
type stream struct {
	source source
	page   page
	pages  chan page // nil until the first next
	cancel context.CancelFunc
}

// page is what one fetch brought. One with an error is the last.
type page struct {
	messages []Message
	err      error
}

func (s *stream) next(ctx context.Context) (Message, error) {
	if s.pages == nil && s.page.err == nil {
		s.start()
	}
	for len(s.page.messages) == 0 {
		if s.page.err != nil {
			return Message{}, s.page.err
		}
		select {
		case p, ok := <-s.pages:
			if !ok {
				p.err = ErrClosed
			}
			s.page = p
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
	m := s.page.messages[0]
	s.page.messages[0] = Message{} // let the value's memory end with its user
	s.page.messages = s.page.messages[1:]
	return m, nil
}

func (s *stream) start() {
	var ctx context.Context
	ctx, s.cancel = context.WithCancel(s.source.log.ctx)
	s.pages = make(chan page)
	go s.run(ctx)
}

func (s *stream) run(ctx context.Context) {
	defer close(s.pages)
	for {
		messages, err := s.source.next(ctx)
		if len(messages) == 0 && err == nil {
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, io.EOF) {
			err = fmt.Errorf("read %s[%d]@%d: %w", s.source.topic, s.source.partition, s.source.position, err)
		}
		select {
		case s.pages <- page{messages, err}:
		case <-ctx.Done():
			return
		}
		if err != nil {
			return
		}
	}
}

func (s *stream) close() error {
	if s.pages != nil {
		s.cancel()
		for range s.pages { // until run has ended
		}
	}
	s.page = page{err: ErrClosed}
	return nil
}
