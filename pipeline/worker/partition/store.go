package partition

import (
	"container/list"
	"context"
	"errors"
	"io"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Store is what a process keeps in memory from one run of a pipeline to the next: the examples' messages as they were read, all of
// them, so that the next run decides anew which count; and the batches, with their blocks, for a run with the same preparation. It has
// a [Budget], and keeps all this in what the current run does not need of it. [NewStore] makes stores. A nil store has
// and keeps nothing. A store is safe for concurrent use by one worker.
type Store struct {
	budget *Budget

	mutex     sync.Mutex
	topic     string             // that the messages are of
	stretches map[int][]*stretch // of messages, by partition, in the order of their offsets
	batches   map[coverage.Span]*stretch
	made      Made                              // how the batches were made
	grams     map[GramKey]*wire.Record[float32] // nil: see NewSharingStore
}

// stretch is what is kept of a range of offsets: all messages, or batches. The mutex of the budget guards both, and its place among
// what is spare.
type stretch struct {
	from, to int64
	bytes    int64
	messages []protocol.Message
	batches  []*Batch
	spare    *list.Element // nil: messages and batches have gone, or are no longer spare
}

// Made is what batches depend on, beside their messages.
type Made struct {
	Rows   wire.Digest // of what inputs, classes, weights and splits depend on
	Blocks wire.Digest // of what blocks depend on beside that
}

// NewStore returns an empty store with a budget of that number of bytes.
func NewStore(bytes int64) *Store {
	return &Store{budget: NewBudget(bytes), stretches: map[int][]*stretch{}, batches: map[coverage.Span]*stretch{}}
}

// Budget returns the memory that the store and the worker share; nil if the store is nil.
func (s *Store) Budget() *Budget {
	if s == nil {
		return nil
	}
	return s.budget
}

// Begin drops what a run over a span of a topic can't use. It reads the last message that is left from the log. If it is no longer
// what it was, the log was truncated or the topic made anew, and nothing stays. So at most one message is read.
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
	r := log.Range(topic, span.Partition, last.Offset, last.Offset+1)
	defer r.Close()
	m, err := r.Next(ctx)
	switch {
	case errors.Is(err, io.EOF), errors.As(err, new(*kafkalog.DeletedError)):
	case err != nil:
		return err
	case same(&m, last):
		return nil
	}
	s.drop(span.Partition)
	return nil
}

// same reports whether two messages are one. The time tells apart two that a producer has written with the same content.
func same(a, b *protocol.Message) bool {
	return a.Offset == b.Offset && a.Time.Equal(b.Time) && a.Key == b.Key && (a.Value == nil) == (b.Value == nil) &&
		slices.Equal(a.Value, b.Value) && slices.Equal(a.Headers, b.Headers)
}

// Drop drops what the store has of a partition.
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

// Retain drops what the store has of other partitions than those of the list, which is sorted.
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

// Leave takes the batches of a partition at the end of a run. hasBlock says of which stages the blocks depend on nothing but how they
// were made. All that a store has is made in one way: what was made in another goes.
func (s *Store) Leave(p *State, made Made, hasBlock func(stage int) bool) {
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

// Return gives a partition the batches that a run has left, where they are those of the messages that the survey has counted. The
// other batches of the partition go, unless the run is of a chain (chained), of which a later one may visit them. made is how the run makes
// its batches.
func (s *Store) Return(p *State, made Made, chained bool) {
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
		if !segment.Past && !s.trusts(segment) && !segment.has(batches) { // the checksum of a visit covers those of the past
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
		if span.Partition == p.Partition() && !chained {
			s.dropBatches(span)
		}
	}
}

// Keep keeps all messages of a span, as they were read, if the budget has room for them beside all that it holds.
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

// storedBytes returns how much memory messages take: their content, and about what Go needs for each message and header.
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

// Range reads the messages of a span of the topic that the store began with. What the store has it reads from memory, the rest from
// the log. The caller closes the reader.
func (s *Store) Range(log protocol.Log, topic string, span coverage.Span) protocol.Reader {
	if s == nil {
		return log.Range(topic, span.Partition, span.From, span.To)
	}
	return &storeReader{store: s, log: log, topic: topic, span: span, at: span.From}
}

// storeReader reads a span piece by piece: each is from memory or from the log.
type storeReader struct {
	store *Store
	log   protocol.Log
	topic string
	span  coverage.Span
	at    int64 // the offset after the piece

	messages []protocol.Message // of the piece, if it is from memory
	piece    protocol.Reader    // if it is from the log
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

// Close ends the reading.
func (r *storeReader) Close() (err error) {
	if r.piece != nil {
		err = r.piece.Close()
		r.piece = nil
	}
	return err
}

// piece returns what begins at an offset of a span, and the offset after it: messages in memory, or what is to be read from the log.
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
