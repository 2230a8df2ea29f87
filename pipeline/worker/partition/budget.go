package partition

import (
	"container/list"
	"fmt"
	"sync"

	"github.com/stagewise/stagewise/internal/freememory"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Budget is the memory that a worker may use for what it could also read or compute again. The zero value has none. A budget is
// safe for concurrent use.
type Budget struct {
	mutex sync.Mutex
	left  int64
	// spare is what goes when a run needs the memory, the first first. It is of type *stretch, and has taken spareBytes.
	spare      list.List
	spareBytes int64
	sharing    bool // blocks of several stages stay: see NewSharingStore
}

// NewBudget returns a budget with that number of bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes} }

// Bytes returns how many bytes a worker may keep in memory: as many as are asked for, or if that is 0 half of the
// memory that is free, of the machine's and of the limit of the container.
func Bytes(asked int64) (int64, error) {
	if asked > 0 {
		return asked, nil
	}
	free, err := freememory.Bytes()
	if err != nil {
		return 0, fmt.Errorf("find how much memory is free (set memory): %w", err)
	}
	return free / 2, nil
}

// take takes bytes from the budget and returns true. What is spare goes for it. If the budget has fewer, it takes none and returns
// false.
func (b *Budget) take(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if bytes > b.left+b.spareBytes {
		return false
	}
	b.spend(bytes)
	return true
}

// spend takes bytes, for which what is spare goes. The caller has locked the mutex.
func (b *Budget) spend(bytes int64) {
	for bytes > b.left && b.spare.Len() > 0 {
		b.drop(b.spare.Front().Value.(*stretch))
	}
	b.left -= bytes
}

// Reserve takes bytes for what a run can't do without, also if the budget has fewer: nothing else can be taken then.
// What is spare goes for it. It reports whether the budget had as many.
func (b *Budget) Reserve(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.spend(bytes)
	return b.left >= 0
}

// Has reports whether the budget has that number of bytes now, if what is spare goes.
func (b *Budget) Has(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return bytes <= b.left+b.spareBytes
}

// keepSpare keeps a stretch for as long as nobody needs its memory. Nothing else goes for it: the result is false if the budget has
// too little left.
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

// dropSpare drops a stretch, if it has not gone already.
func (b *Budget) dropSpare(s *stretch) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if s.spare != nil {
		b.drop(s)
	}
}

// drop drops a stretch and takes back its memory. The caller has locked the mutex.
func (b *Budget) drop(s *stretch) {
	b.spare.Remove(s.spare)
	b.left += s.bytes
	b.spareBytes -= s.bytes
	s.spare, s.messages, s.batches = nil, nil, nil
}

// makeSpare makes spare what a stretch has taken of the budget.
func (b *Budget) makeSpare(s *stretch) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.spareBytes += s.bytes
	s.spare = b.spare.PushBack(s)
}

// claim returns the batches of a stretch, which are no longer spare; nil if they have gone.
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

// messages returns the messages of a stretch; false if they have gone.
func (b *Budget) messages(s *stretch) ([]protocol.Message, bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return s.messages, s.spare != nil
}

// Give gives back bytes that were taken, by Reserve too.
func (b *Budget) Give(bytes int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.left += bytes
}
