package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
)

// Range reads the messages of an offset range, in order. It is not safe for concurrent use. Create it with [Log.Range].
type Range struct{ stream stream }

// Range returns a reader of exactly the committed messages with offsets in [from, to). It waits only briefly for offsets
// that are not written yet, so to must not exceed the end returned by Bounds.
func (l *Log) Range(topic string, partition int, from, to int64) *Range {
	return &Range{stream{source: source{log: l, topic: topic, partition: partition, cursor: cursor{position: from, to: to}}}}
}

// Next returns the next message, and io.EOF after the last. It skips offsets without a record (compacted, aborted, transaction
// markers). If offsets of the range were deleted it returns a *DeletedError. After an error of ctx Next may be called again;
// any other error is final.
func (r *Range) Next(ctx context.Context) (Message, error) { return r.stream.next(ctx) }

// Close stops fetching. It always returns nil.
func (r *Range) Close() error { return r.stream.close() }

// Follower reads a partition as it grows. It is not safe for concurrent use. Create it with [Log.Follow].
type Follower struct {
	// SkipDeleted makes the Follower continue at the first remaining offset if the next ones were deleted, which is right for
	// a compacted topic. Set it before the first Next.
	SkipDeleted bool

	stream stream
}

// Follow returns a reader of all committed messages from an offset on, without end.
func (l *Log) Follow(topic string, partition int, from int64) *Follower {
	return &Follower{stream: stream{source: source{
		log: l, topic: topic, partition: partition, cursor: cursor{position: from, to: unbounded}, tail: l.tail, behind: true,
	}}}
}

// Next waits for the next message, and retries transient errors until ctx ends. A fetch is always in flight, so calling
// Next repeatedly with a short ctx costs no time. If offsets were deleted it returns a *DeletedError, unless SkipDeleted
// is set; if the topic is gone, ErrUnknownTopic. Both are final.
func (f *Follower) Next(ctx context.Context) (Message, error) {
	f.stream.source.skipDeleted = f.SkipDeleted
	return f.stream.next(ctx)
}

// Close stops fetching. It always returns nil.
func (f *Follower) Close() error { return f.stream.close() }

// stream fetches one page ahead of its user, in a goroutine that starts with the first next and ends with close, with the log,
// or after the last page.
type stream struct {
	source source
	page   page
	pages  chan page // nil until the first next
	cancel context.CancelFunc
}

// page is the result of one fetch. A page with an error is the last.
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
				p.err = context.Cause(s.source.log.ctx)
			}
			s.page = p
		case <-ctx.Done():
			return Message{}, ctx.Err()
		}
	}
	m := s.page.messages[0]
	s.page.messages[0] = Message{} // drop the reference, so that the value's memory can be freed
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
	if s.source.tail != nil {
		s.source.tail.join(&s.source)
		defer s.source.tail.leave(&s.source)
	}
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
