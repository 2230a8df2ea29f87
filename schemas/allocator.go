package schemas

import (
	"fmt"
	"unsafe"

	"github.com/apache/arrow/go/v17/arrow/memory"
)

// boundedAllocator refuses, by a panic that decode turns into an error, what
// would take more than left, and remembers until live is nil what is allocated,
// so that it can be freed after a panic of arrow's.
type boundedAllocator struct {
	mem  memory.Allocator
	left int
	live map[*byte][]byte
}

func (a *boundedAllocator) Allocate(size int) []byte {
	a.take(size)
	b := a.mem.Allocate(size)
	a.track(b)
	return b
}

func (a *boundedAllocator) Reallocate(size int, b []byte) []byte {
	a.take(size)
	a.forget(b)
	b = a.mem.Reallocate(size, b)
	a.track(b)
	return b
}

func (a *boundedAllocator) take(size int) {
	if size < 0 || size > a.left {
		panic(fmt.Sprintf("%d bytes claimed, at most %d expected", size, a.left))
	}
	a.left -= size
}

func (a *boundedAllocator) Free(b []byte) {
	a.forget(b)
	a.mem.Free(b)
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
