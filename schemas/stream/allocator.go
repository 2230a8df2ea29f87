package stream

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// boundedAllocator is a memory.Allocator that panics instead of allocating more than left bytes in total. Decode turns
// the panic into an error. While live is not nil, it records every allocation, so that Decode can free them after an
// error.
type boundedAllocator struct {
	mem     memory.Allocator
	left    int
	reserve func(bytes int) error // see [Reader.Reserve]; nil: left is the limit
	live    map[*byte][]byte
}

// Allocate implements memory.Allocator.
func (a *boundedAllocator) Allocate(size int) []byte {
	a.claim(size)
	b := a.mem.Allocate(size)
	a.track(b)
	return b
}

// Reallocate implements memory.Allocator.
func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.claim(size)
	a.forget(b)
	b = a.mem.Reallocate(size, b)
	a.track(b)
	return b
}

// Free implements memory.Allocator.
func (a *boundedAllocator) Free(b []byte) {
	a.forget(b)
	a.mem.Free(b)
}

func (a *boundedAllocator) claim(size int) {
	if a.reserve != nil && size >= 0 {
		if err := a.reserve(size); err != nil {
			panic(err)
		}
		return
	}
	if size < 0 || size > a.left {
		panic(fmt.Sprintf("%d bytes claimed, at most %d expected", size, a.left))
	}
	a.left -= size
}

func (a *boundedAllocator) track(b []byte) {
	if a.live != nil && cap(b) > 0 {
		a.live[unsafe.SliceData(b)] = b
	}
}

func (a *boundedAllocator) forget(b []byte) {
	if a.live != nil && cap(b) > 0 {
		delete(a.live, unsafe.SliceData(b))
	}
}

func (a *boundedAllocator) freeAll() {
	for _, b := range a.live {
		a.mem.Free(b)
	}
	a.live = nil
}
