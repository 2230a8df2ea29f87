package visit

import (
	"container/list"
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/memorylimit"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Cache is the memory of a worker for data that it could also read or compute again, by segment: messages as read, so that the next run
// decides again which of them count, and batches with their blocks; and by share the Gram matrices of a run's blocks, which further runs
// with the same blocks need, such as those of a search. All share one budget in bytes. What the current run uses stays, as
// each visit uses it again. Everything else is idle: the least recently used is dropped when memory is needed. Create caches with
// [NewCache]. A cache is safe for concurrent use by one worker.
type Cache struct {
	mutex     sync.Mutex
	free      int64          // bytes; negative if a run can't do without more than there are
	idle      list.List      // of *entry, least recently used first
	idleBytes int64          // of these
	entries   map[key]*entry // messages, and idle batches
	runs      bool           // data is kept for later runs
	topic     string         // of the messages
	made      Made           // of the idle batches
}

// key is the first offset of a segment, and whether an entry has its rows, in batches, or its messages; or the first partition of a
// share, and the digest of everything that its Gram matrix depends on.
type key struct {
	partition int
	from      int64
	rows      bool
	gram      wire.Digest
}

// entry is the messages or the batches of a segment, or a Gram matrix.
type entry struct {
	key
	to       int64
	bytes    int64
	messages []protocol.Message
	batches  []*Batch
	matrix   *wire.Record[float32]
	idle     *list.Element // nil: the run uses it
}

// Made is the dependencies of batches other than their messages.
type Made struct {
	Rows   wire.Digest // of inputs, classes, weights and splits
	Blocks wire.Digest // of blocks, in addition to Rows
}

// NewCache returns an empty cache with a budget of the given number of bytes, for the runs of a pipeline.
func NewCache(bytes int64) *Cache { return &Cache{free: bytes, entries: map[key]*entry{}, runs: true} }

// NewRunCache is [NewCache] for one run: what that run no longer uses is dropped.
func NewRunCache(bytes int64) *Cache { return &Cache{free: bytes, entries: map[key]*entry{}} }

// CacheBytes returns the memory limit of a worker in bytes: asked, or if that is 0 half of the free memory, of the machine and
// within the limit of the container.
func CacheBytes(asked int64) (int64, error) {
	if asked > 0 {
		return asked, nil
	}
	free, err := memorylimit.Free()
	if err != nil {
		return 0, fmt.Errorf("find how much memory is free (set memory): %w", err)
	}
	return free / 2, nil
}

// tryReserve reserves bytes, and drops idle entries if needed. If there is too little memory even then, it reserves nothing and returns
// false.
func (c *Cache) tryReserve(bytes int64) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if bytes > c.free+c.idleBytes {
		return false
	}
	c.spend(bytes)
	return true
}

// spend reserves bytes, and drops idle entries if needed. The caller has locked the mutex.
func (c *Cache) spend(bytes int64) {
	for bytes > c.free && c.idle.Len() > 0 {
		c.drop(c.idle.Front().Value.(*entry))
	}
	c.free -= bytes
}

// Reserve reserves bytes that a run can't do without, even beyond the budget: further reservations then fail. It reports whether the budget
// was sufficient.
func (c *Cache) Reserve(bytes int64) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.spend(bytes)
	return c.free >= 0
}

// Has reports whether the run can have the given number of bytes.
func (c *Cache) Has(bytes int64) bool {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return bytes <= c.free+c.idleBytes
}

// Give returns reserved bytes.
func (c *Cache) Give(bytes int64) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.free += bytes
}

// drop drops an entry, and returns its memory. The caller has locked the mutex, as for all unexported methods that follow.
func (c *Cache) drop(e *entry) {
	c.use(e)
	c.free += e.bytes
	delete(c.entries, e.key)
}

// use makes an entry one that the run uses.
func (c *Cache) use(e *entry) {
	if e.idle != nil {
		c.idle.Remove(e.idle)
		c.idleBytes -= e.bytes
		e.idle = nil
	}
}

// rest makes an entry with reserved memory idle, the most recently used one.
func (c *Cache) rest(e *entry) {
	c.use(e)
	if !c.runs {
		c.drop(e)
		return
	}
	e.idle = c.idle.PushBack(e)
	c.idleBytes += e.bytes
	c.spend(0) // if the run has reserved more than there was
}

// dropIf drops the entries for which gone reports true.
func (c *Cache) dropIf(gone func(*entry) bool) {
	for _, e := range c.entries {
		if gone(e) {
			c.drop(e)
		}
	}
}

// Begin drops data that a run over a span of a topic can't use. It reads the last stored message again from the log. If it
// differs, the log was truncated or the topic recreated, and Begin drops all data of the partition. So at most one message is read.
func (c *Cache) Begin(ctx context.Context, log protocol.Log, topic string, span coverage.Span) error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.topic != topic {
		c.dropIf(func(*entry) bool { return true })
		c.topic = topic
	}
	var last *protocol.Message
	c.dropIf(func(e *entry) bool {
		if e.partition != span.Partition || len(e.messages) == 0 {
			return false
		}
		if e.from < span.From || e.to > span.To {
			return true
		}
		if m := &e.messages[len(e.messages)-1]; last == nil || m.Offset > last.Offset {
			last = m
		}
		return false
	})
	if last == nil {
		return nil
	}
	found, err := protocol.Still(ctx, log, topic, span, last.Offset, func(m protocol.Message) bool { return m.Same(last) })
	if err == nil && found != protocol.FoundSame {
		c.dropIf(func(e *entry) bool { return e.partition == span.Partition })
	}
	return err
}

// Drop drops the data of a partition.
func (c *Cache) Drop(number int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.dropIf(func(e *entry) bool { return e.partition == number })
}

// Retain drops the data of all partitions except those in the sorted list.
func (c *Cache) Retain(numbers []int) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.dropIf(func(e *entry) bool {
		_, stays := slices.BinarySearch(numbers, e.partition)
		return !stays
	})
}

// Keep stores all messages of a segment, as read, if there is room. The run uses them until it has decoded them.
func (c *Cache) Keep(s *Segment, messages []protocol.Message) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	at := key{partition: s.Span.Partition, from: s.Span.From}
	e := &entry{key: at, to: s.Span.To, bytes: storedBytes(messages), messages: messages}
	if before := c.entries[at]; before != nil {
		c.drop(before)
	}
	if len(messages) > 0 && e.bytes <= c.free+c.idleBytes {
		c.spend(e.bytes)
		c.entries[at] = e
	}
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

// Messages returns the messages of a segment that the survey has counted; nil if they must be read.
func (c *Cache) Messages(s *Segment) []protocol.Message {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := c.entries[key{partition: s.Span.Partition, from: s.Span.From}]
	if s.counted == nil || e == nil || e.to != s.Span.To {
		return nil
	}
	list := make([]protocol.Message, 0, len(s.counted))
	for _, m := range e.messages {
		if n := len(list); n < len(s.counted) && s.counted[n].offset == m.Offset {
			list = append(list, m)
		}
	}
	return list
}

// Rest makes the messages of segments idle: the run does not need them, or can read them again.
func (c *Cache) Rest(segments ...*Segment) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, s := range segments {
		if e := c.entries[key{partition: s.Span.Partition, from: s.Span.From}]; e != nil {
			c.rest(e)
		}
	}
}

// Leave stores the batches of a share at the end of a run. hasBlock reports whether the blocks of a stage depend
// only on made. All batches in a cache have the same dependencies: those with others are dropped.
func (c *Cache) Leave(p *Share, made Made, hasBlock func(stage int) bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.made != made {
		c.dropIf(func(e *entry) bool { return e.rows })
		c.made = made
	}
	for _, s := range p.Segments {
		if s.Batches == nil || s.Leaves {
			continue
		}
		e := &entry{key: key{partition: s.Span.Partition, from: s.Span.From, rows: true}, to: s.Span.To, batches: s.Batches}
		for _, b := range s.Batches {
			b.forget(hasBlock)
			e.bytes += b.bytes()
		}
		s.Batches = nil
		if before := c.entries[e.key]; before != nil {
			c.drop(before)
		}
		c.entries[e.key] = e
		c.rest(e)
	}
}

// Return restores the batches of an earlier run to a share if they belong to the messages that the survey has counted.
// It drops the other batches of its partitions, except in a chain (chained), where a later run may visit them. made is the
// dependencies of the run's batches.
func (c *Cache) Return(p *Share, made Made, chained bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, s := range p.Segments {
		e := c.entries[key{partition: s.Span.Partition, from: s.Span.From, rows: true}]
		if e == nil || e.to != s.Span.To || made.Rows != c.made.Rows || s.Batches != nil {
			continue
		}
		if !s.Past && !s.has(e.batches) { // for past segments, the checksum of a visit verifies it
			c.drop(e)
			continue
		}
		c.use(e)
		delete(c.entries, e.key)
		s.Batches = e.batches
		if before := c.entries[key{partition: s.Span.Partition, from: s.Span.From}]; before != nil {
			c.rest(before)
		}
		for _, b := range s.Batches {
			if made.Blocks != c.made.Blocks {
				b.forget(func(int) bool { return false })
			}
		}
	}
	numbers := p.Numbers()
	c.dropIf(func(e *entry) bool { return e.rows && !chained && slices.Contains(numbers, e.partition) })
}

// KeepGram stores the record of a share's Gram matrix for later runs, if there is room for it besides everything else. number is the
// first partition of the share, and of the digest of everything that the matrix depends on.
func (c *Cache) KeepGram(number int, of wire.Digest, r *wire.Record[float32]) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := &entry{key: key{partition: number, gram: of}, matrix: r}
	for _, t := range r.Tensors {
		e.bytes += 4 * int64(len(t.Data))
	}
	if c.runs && c.entries[e.key] == nil && e.bytes <= c.free {
		c.spend(e.bytes)
		c.entries[e.key] = e
		c.rest(e)
	}
}

// Gram returns the record that [Cache.KeepGram] stored, with the identity of its run; nil if there is none.
func (c *Cache) Gram(number int, of wire.Digest) *wire.Record[float32] {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := c.entries[key{partition: number, gram: of}]
	if e == nil {
		return nil
	}
	c.rest(e)
	return e.matrix
}

// Range reads the messages of a span of the cache's topic: those of leading segments from memory, as far as they are stored, and the others
// from the log. The caller closes the reader.
func (c *Cache) Range(log protocol.Log, topic string, span coverage.Span) protocol.Reader {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	r := &cacheReader{}
	for {
		e := c.entries[key{partition: span.Partition, from: span.From}]
		if e == nil || e.to > span.To {
			break
		}
		r.messages, span.From = append(r.messages, e.messages), e.to
	}
	r.rest = log.Range(topic, span.Partition, span.From, span.To)
	return r
}

// cacheReader reads messages from memory, and then others.
type cacheReader struct {
	messages [][]protocol.Message // by segment, without empty ones
	rest     protocol.Reader
}

// Next returns the next message; io.EOF at the end of the span.
func (r *cacheReader) Next(ctx context.Context) (protocol.Message, error) {
	for len(r.messages) > 0 {
		if first := r.messages[0]; len(first) > 0 {
			r.messages[0] = first[1:]
			return first[0], nil
		}
		r.messages = r.messages[1:]
	}
	return r.rest.Next(ctx)
}

// Close closes the reader.
func (r *cacheReader) Close() error { return r.rest.Close() }
