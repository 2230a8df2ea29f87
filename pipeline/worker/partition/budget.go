package partition

import (
	"fmt"
	"sync"

	"github.com/shirou/gopsutil/v4/mem"
)

// Budget is the memory that a worker may use for what it could also read or compute again. The zero value has none. A budget is
// safe for concurrent use.
type Budget struct {
	mutex sync.Mutex
	left  int64
}

// NewBudget returns a budget with that number of bytes.
func NewBudget(bytes int64) *Budget { return &Budget{left: bytes} }

// Bytes returns how many bytes a worker may keep in memory: as many as are asked for, or if that is 0 half of the machine's free
// memory.
func Bytes(asked int64) (int64, error) {
	if asked > 0 {
		return asked, nil
	}
	machine, err := mem.VirtualMemory()
	if err != nil {
		return 0, fmt.Errorf("find how much memory is free (set memory): %w", err)
	}
	return int64(machine.Available / 2), nil
}

// take takes bytes from the budget and returns true. If the budget has fewer, it takes none and returns false.
func (b *Budget) take(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	if bytes > b.left {
		return false
	}
	b.left -= bytes
	return true
}

// Has reports whether the budget has that number of bytes now.
func (b *Budget) Has(bytes int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return bytes <= b.left
}

// give returns bytes that were taken.
func (b *Budget) give(bytes int64) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.left += bytes
}
