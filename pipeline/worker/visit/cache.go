package visit

import (
	"container/list"
	"fmt"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/schemas/wire"
)

// Cache is the memory of a worker: its budget in bytes, and the data of earlier runs that later runs may need: the batches of segments,
// with their blocks, and by share the Gram matrices of a run's blocks, which runs with the same blocks need, such as those of a search.
// The data of the current run is in its shares and stays, as each visit uses it again. All other data is idle: the least recently used
// is dropped when memory is needed. Create caches with [NewCache]. A cache is safe for concurrent use by one worker.
type Cache struct {
	mutex     sync.Mutex
	free      int64                 // bytes; negative if a run requires more than the budget
	idle      list.List             // of *entry, least recently used first
	idleBytes int64                 // of these
	entries   map[key]*list.Element // of idle
	runs      bool                  // data is kept for later runs
	made      Made                  // of the batches
}

// key is the first offset of a segment, for its batches; or the first partition of a share, and the digest of everything that its Gram
// matrix depends on.
type key struct {
	partition int
	from      int64
	gram      wire.Digest
}

// entry is the batches of a segment, or a Gram matrix.
type entry struct {
	key
	to      int64 // of the segment
	bytes   int64
	batches []*Batch
	matrix  *wire.Record[float32]
}

// Made is the dependencies of batches other than their messages.
type Made struct {
	Rows   wire.Digest // of inputs, classes, weights and splits
	Blocks wire.Digest // of blocks, in addition to Rows
}

// NewCache returns an empty cache with a budget of the given number of bytes, for the runs of a pipeline.
func NewCache(bytes int64) *Cache {
	return &Cache{free: bytes, entries: map[key]*list.Element{}, runs: true}
}

// NewRunCache is [NewCache] for one run: data that the run no longer uses is dropped.
func NewRunCache(bytes int64) *Cache { return &Cache{free: bytes, entries: map[key]*list.Element{}} }

// CacheBytes returns the memory limit of a worker in bytes: asked, or if that is 0, half of the free memory of the machine,
// within the limit of the container.
func CacheBytes(asked int64) (int64, error) {
	if asked > 0 {
		return asked, nil
	}
	free, err := freeBytes()
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
		c.drop(c.idle.Front().Value.(*entry).key)
	}
	c.free -= bytes
}

// Reserve reserves bytes that a run requires, even beyond the budget: further reservations then fail. It reports whether the budget was
// sufficient.
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

// entry returns an idle entry, which it makes the most recently used one; nil if there is none. The caller has locked the mutex, as for all
// unexported methods that follow.
func (c *Cache) entry(of key) *entry {
	at := c.entries[of]
	if at == nil {
		return nil
	}
	c.idle.MoveToBack(at)
	return at.Value.(*entry)
}

// take removes an entry, whose bytes the run uses from now on.
func (c *Cache) take(of key) {
	if at := c.entries[of]; at != nil {
		c.idleBytes -= c.idle.Remove(at).(*entry).bytes
		delete(c.entries, of)
	}
}

// drop drops an entry, and returns its memory.
func (c *Cache) drop(of key) {
	if e := c.entry(of); e != nil {
		c.take(of)
		c.free += e.bytes
	}
}

// keep adds an entry, in place of one with the same key. The run has reserved its bytes.
func (c *Cache) keep(e *entry) {
	c.drop(e.key)
	c.entries[e.key] = c.idle.PushBack(e)
	c.idleBytes += e.bytes
	if !c.runs {
		c.drop(e.key)
	}
	c.spend(0) // the run may have reserved more than the budget
}

// dropIf drops the entries for which gone reports true.
func (c *Cache) dropIf(gone func(*entry) bool) {
	for of, at := range c.entries {
		if gone(at.Value.(*entry)) {
			c.drop(of)
		}
	}
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

// Leave stores the batches of a share at the end of a run. hasBlock reports whether the blocks of a stage depend
// only on made. All batches in a cache have the same dependencies: those with others are dropped.
func (c *Cache) Leave(p *Share, made Made, hasBlock func(stage int) bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.made != made {
		c.dropIf(func(e *entry) bool { return e.matrix == nil })
		c.made = made
	}
	for _, s := range p.Segments {
		if s.Batches == nil || s.Leaves {
			continue
		}
		e := &entry{key: keyOf(s), to: s.Span.To, batches: s.Batches}
		for _, b := range s.Batches {
			b.forget(hasBlock)
			e.bytes += b.bytes()
		}
		s.Batches = nil
		c.keep(e)
	}
}

// keyOf returns the key of the batches of a segment.
func keyOf(s *Segment) key { return key{partition: s.Span.Partition, from: s.Span.From} }

// Return restores the batches of an earlier run to a share if they belong to the messages that the survey has counted.
// It drops the other batches of its partitions, except in a chain (chained), where a later run may visit them. made is the
// dependencies of the run's batches.
func (c *Cache) Return(p *Share, made Made, chained bool) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	for _, s := range p.Segments {
		e := c.entry(keyOf(s))
		if e == nil || e.to != s.Span.To || made.Rows != c.made.Rows || s.Batches != nil {
			continue
		}
		if !s.Past && !s.has(e.batches) { // for past segments, the checksum of a visit verifies it
			c.drop(e.key)
			continue
		}
		c.take(e.key)
		s.Batches = e.batches
		for _, b := range s.Batches {
			if made.Blocks != c.made.Blocks {
				b.forget(func(int) bool { return false })
			}
		}
	}
	numbers := p.Numbers()
	c.dropIf(func(e *entry) bool { return e.matrix == nil && !chained && slices.Contains(numbers, e.partition) })
}

// KeepGram stores the record of a share's Gram matrix for later runs, if it fits without dropping other data. number is the first
// partition of the share, and of the digest of everything that the matrix depends on.
func (c *Cache) KeepGram(number int, of wire.Digest, r *wire.Record[float32]) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := &entry{key: key{partition: number, gram: of}, matrix: r}
	for _, t := range r.Tensors {
		e.bytes += 4 * int64(len(t.Data))
	}
	if c.runs && c.entries[e.key] == nil && e.bytes <= c.free {
		c.spend(e.bytes)
		c.keep(e)
	}
}

// Gram returns the record that [Cache.KeepGram] stored, with the identity of its run; nil if there is none.
func (c *Cache) Gram(number int, of wire.Digest) *wire.Record[float32] {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	e := c.entry(key{partition: number, gram: of})
	if e == nil {
		return nil
	}
	return e.matrix
}
