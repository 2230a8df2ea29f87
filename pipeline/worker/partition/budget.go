package partition

import (
	"container/list"
	"fmt"
	"sync"

	"github.com/stagewise/stagewise/internal/memorylimit"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Budget is a worker's memory limit for data that it could also read or compute again. The zero value is an empty budget.
// A budget is safe for concurrent use.
type Budget struct {
	mutex sync.Mutex
	left  int64
	// spare is a queue of *stretch of spareBytes in total that are evicted, oldest first, when a run needs the memory.
	spare      list.List
	spareBytes int64
	sharing    bool // blocks of several stages are kept: see NewSharingStore
}

// NewBudget returns a budget of the given number of bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes} }

// Bytes returns the memory limit of a worker in bytes: asked, or if that is 0 half of the free memory, of the machine and
// within the limit of the container.
func Bytes(asked int64) (int64, error) {
	if asked > 0 {
		return asked, nil
	}
	free, err := memorylimit.Free()
	if err != nil {
		return 0, fmt.Errorf("find how much memory is free (set memory): %w", err)
	}
	return free / 2, nil
}

// tryReserve reserves bytes and returns true. It evicts spare stretches if needed. If the budget is too small even then,
// it reserves nothing and returns false.
func (b *Budget) tryReserve(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if bytes > b.left+b.spareBytes {
		return false
	}
	b.spend(bytes)
	return true
}

// spend reserves bytes, and evicts spare stretches if needed. The caller has locked the mutex.
func (b *Budget) spend(bytes int64) {
	for bytes > b.left && b.spare.Len() > 0 {
		b.drop(b.spare.Front().Value.(*stretch))
	}
	b.left -= bytes
}

// Reserve reserves bytes that a run can't do without, even beyond the budget: further reservations then fail. It evicts
// spare stretches if needed. It reports whether the budget was sufficient.
func (b *Budget) Reserve(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.spend(bytes)
	return b.left >= 0
}

// Has reports whether the budget has the given number of bytes, including spare stretches.
func (b *Budget) Has(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return bytes <= b.left+b.spareBytes
}

// keepSpare adds a spare stretch, which is evicted when its memory is needed. It evicts nothing itself: the result is
// false if too little memory is left.
func (b *Budget) keepSpare(s *stretch) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if s.bytes > b.left {
		return false
	}
	b.left -= s.bytes
	b.spareBytes += s.bytes
	s.spare = b.spare.PushBack(s)
	return true
}

// dropSpare drops a stretch that is still spare.
func (b *Budget) dropSpare(s *stretch) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if s.spare != nil {
		b.drop(s)
	}
}

// drop drops a stretch and returns its memory. The caller has locked the mutex.
func (b *Budget) drop(s *stretch) {
	b.spare.Remove(s.spare)
	b.left += s.bytes
	b.spareBytes -= s.bytes
	s.spare, s.messages, s.batches = nil, nil, nil
}

// makeSpare makes a stretch with reserved memory spare.
func (b *Budget) makeSpare(s *stretch) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.spareBytes += s.bytes
	s.spare = b.spare.PushBack(s)
}

// claim returns the batches of a stretch, which is no longer spare; nil if they were evicted.
func (b *Budget) claim(s *stretch) []*Batch {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	batches := s.batches
	if s.spare != nil {
		b.spare.Remove(s.spare)
		b.spareBytes -= s.bytes
		s.spare, s.batches = nil, nil
	}
	return batches
}

// messages returns the messages of a stretch; false if they were evicted.
func (b *Budget) messages(s *stretch) ([]protocol.Message, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return s.messages, s.spare != nil
}

// Give returns reserved bytes to the budget.
func (b *Budget) Give(bytes int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.left += bytes
}
