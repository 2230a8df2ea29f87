package partition

import (
	"container/list"
	"context"
	"io"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Store is a process's memory between runs of a pipeline: all examples messages as read, so that the next run decides
// again which of them count, and the batches with their blocks, for a run with the same preparation. It has a [Budget],
// and uses the part that the current run does not need. Create stores with [NewStore]. A nil store stores nothing. A store
// is safe for concurrent use by one worker.
type Store struct {
	budget *Budget

	mutex     sync.Mutex
	topic     string             // topic of the messages
	stretches map[int][]*stretch // by partition, in offset order
	batches   map[coverage.Span]*stretch
	made      Made                              // properties of the batches
	grams     map[GramKey]*wire.Record[float32] // nil: see NewSharingStore
}

// stretch is the stored messages or batches of an offset range. The mutex of the budget guards both, and the position
// among the spare stretches.
type stretch struct {
	from, to int64
	bytes    int64
	messages []protocol.Message
	batches  []*Batch
	spare    *list.Element // nil: evicted, or no longer spare
}

// Made is the dependencies of batches other than their messages.
type Made struct {
	Rows   wire.Digest // of inputs, classes, weights and splits
	Blocks wire.Digest // of blocks, in addition to Rows
}

// NewStore returns an empty store with a budget of the given number of bytes.
func NewStore(bytes int64) *Store {
	return &Store{budget: NewBudget(bytes), stretches: map[int][]*stretch{}, batches: map[coverage.Span]*stretch{}}
}

// Budget returns the budget shared by the store and the worker; nil if the store is nil.
func (s *Store) Budget() *Budget {
	if s == nil {
		return nil
	}
	return s.budget
}

// Begin drops data that a run over a span of a topic can't use. It reads the last stored message again from the log. If it
// differs, the log was truncated or the topic recreated, and Begin drops everything. So at most one message is read.
func (s *Store) Begin(ctx context.Context, log protocol.Log, topic string, span coverage.Span) error {
	if s == nil {
		return nil
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.topic != topic {
		s.retain(nil)
		s.topic = topic
	}
	var last *protocol.Message
	inside := s.stretches[span.Partition][:0]
	for _, part := range s.stretches[span.Partition] {
		messages, ok := s.budget.messages(part)
		if !ok || part.from < span.From || part.to > span.To {
			s.budget.dropSpare(part)
			continue
		}
		inside = append(inside, part)
		if len(messages) > 0 {
			last = &messages[len(messages)-1]
		}
	}
	s.stretches[span.Partition] = inside
	if last == nil {
		return nil
	}
	found, err := protocol.Still(ctx, log, topic, span, last.Offset, func(m protocol.Message) bool { return m.Same(last) })
	if err == nil && found != protocol.FoundSame {
		s.drop(span.Partition)
	}
	return err
}

// Drop drops the data of a partition.
func (s *Store) Drop(number int) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.drop(number)
}

func (s *Store) drop(number int) {
	for _, part := range s.stretches[number] {
		s.budget.dropSpare(part)
	}
	delete(s.stretches, number)
	for span := range s.batches {
		if span.Partition == number {
			s.dropBatches(span)
		}
	}
}

func (s *Store) dropBatches(span coverage.Span) {
	s.budget.dropSpare(s.batches[span])
	delete(s.batches, span)
}

// Retain drops the data of all partitions except those in the sorted list.
func (s *Store) Retain(numbers []int) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.retain(numbers)
}

func (s *Store) retain(numbers []int) {
	for number := range s.stretches {
		if _, stays := slices.BinarySearch(numbers, number); !stays {
			s.drop(number)
		}
	}
	for span := range s.batches {
		if _, stays := slices.BinarySearch(numbers, span.Partition); !stays {
			s.dropBatches(span)
		}
	}
}

// Leave stores the batches of a share at the end of a run. hasBlock reports whether the blocks of a stage depend only
// on made. All data in a store has the same dependencies: data with others is dropped.
func (s *Store) Leave(p *Share, made Made, hasBlock func(stage int) bool) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.made != made {
		for span := range s.batches {
			s.dropBatches(span)
		}
		s.dropGrams()
		s.made = made
	}
	for _, segment := range p.Segments() {
		if segment.batches == nil || segment.Leaves {
			continue
		}
		part := &stretch{from: segment.Span.From, to: segment.Span.To, batches: segment.batches}
		for _, b := range segment.batches {
			b.forget(hasBlock, s.budget)
			part.bytes += b.bytes()
		}
		segment.batches = nil
		if s.batches[segment.Span] != nil {
			s.dropBatches(segment.Span)
		}
		s.budget.makeSpare(part)
		s.batches[segment.Span] = part
	}
}

// Return restores the batches of an earlier run to a share if they belong to the messages that the survey has counted.
// It drops the other batches of its partitions, except in a chain (chained), where a later run may visit them. made is the
// dependencies of the run's batches.
func (s *Store) Return(p *Share, made Made, chained bool) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, segment := range p.Segments() {
		part := s.batches[segment.Span]
		if part == nil || made.Rows != s.made.Rows || segment.batches != nil {
			continue
		}
		batches := s.budget.claim(part)
		delete(s.batches, segment.Span)
		if batches == nil {
			continue
		}
		segment.batches = batches
		if !segment.Past && !s.trusts(segment) && !segment.has(batches) { // for past segments, the checksum of a visit verifies it
			segment.dropBatches(s.budget)
			continue
		}
		segment.dropMessages(s.budget)
		for _, b := range batches {
			if made.Blocks != s.made.Blocks {
				b.forget(func(int) bool { return false }, s.budget)
			}
		}
	}
	for span := range s.batches {
		if !chained && p.Has(span.Partition) {
			s.dropBatches(span)
		}
	}
}

// Keep stores all messages of a span, as read, if the budget has room for them.
func (s *Store) Keep(span coverage.Span, messages []protocol.Message) {
	if s == nil {
		return
	}
	s.mutex.Lock()
	defer s.mutex.Unlock()
	stretches := s.stretches[span.Partition]
	from, _ := slices.BinarySearchFunc(stretches, span.From, func(part *stretch, offset int64) int {
		if part.to <= offset {
			return -1
		}
		return 1
	})
	to := from
	for ; to < len(stretches) && stretches[to].from < span.To; to++ {
		s.budget.dropSpare(stretches[to])
	}
	var kept []*stretch
	part := &stretch{from: span.From, to: span.To, bytes: storedBytes(messages), messages: messages}
	if len(messages) > 0 && s.budget.keepSpare(part) {
		kept = append(kept, part)
	}
	s.stretches[span.Partition] = slices.Replace(stretches, from, to, kept...)
}

// storedBytes returns the memory of messages: their content, and about the overhead of Go for each message and header.
func storedBytes(messages []protocol.Message) (bytes int64) {
	const perMessage, perHeader = 112, 32
	for _, m := range messages {
		bytes += perMessage + int64(len(m.Key)+len(m.Value))
		for _, h := range m.Headers {
			bytes += perHeader + int64(len(h.Key)+len(h.Value))
		}
	}
	return bytes
}

// Range reads the messages of a span of the store's topic: from memory if stored, otherwise from the log. The caller
// closes the reader.
func (s *Store) Range(log protocol.Log, topic string, span coverage.Span) protocol.Reader {
	if s == nil {
		return log.Range(topic, span.Partition, span.From, span.To)
	}
	return &storeReader{store: s, log: log, topic: topic, span: span, at: span.From}
}

// storeReader reads a span in pieces, each from memory or from the log.
type storeReader struct {
	store *Store
	log   protocol.Log
	topic string
	span  coverage.Span
	at    int64 // offset after the piece

	messages []protocol.Message // of a piece in memory
	piece    protocol.Reader    // of a piece in the log
}

// Next returns the next message; io.EOF at the end of the span.
func (r *storeReader) Next(ctx context.Context) (protocol.Message, error) {
	for {
		switch {
		case len(r.messages) > 0:
			m := r.messages[0]
			r.messages = r.messages[1:]
			return m, nil
		case r.piece != nil:
			m, err := r.piece.Next(ctx)
			if err != io.EOF {
				return m, err
			}
			if err := r.Close(); err != nil {
				return protocol.Message{}, err
			}
		case r.at >= r.span.To:
			return protocol.Message{}, io.EOF
		default:
			from := r.at
			var inMemory bool
			r.messages, r.at, inMemory = r.store.piece(r.span, from)
			if !inMemory {
				r.piece = r.log.Range(r.topic, r.span.Partition, from, r.at)
			}
		}
	}
}

// Close closes the reader.
func (r *storeReader) Close() (err error) {
	if r.piece != nil {
		err = r.piece.Close()
		r.piece = nil
	}
	return err
}

// piece returns the piece at an offset of a span, and the offset after it: messages in memory, or a range to read from the
// log.
func (s *Store) piece(span coverage.Span, from int64) (messages []protocol.Message, to int64, inMemory bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, part := range s.stretches[span.Partition] {
		messages, ok := s.budget.messages(part)
		switch {
		case !ok || part.to <= from:
		case part.from >= span.To:
			return nil, span.To, false
		case part.from > from:
			return nil, part.from, false
		case part.from == from && part.to <= span.To:
			return messages, part.to, true
		}
	}
	return nil, span.To, false
}
