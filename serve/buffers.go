package serve

import (
	"context"
	"runtime"
	"sync"
)

// buffers are those of bodies that no request uses now, of each size that bodies grow to. They count in the memory for
// requests, and go when others need it. A large one counts until the collector has taken it, as another is made in the
// meantime.
type buffers struct {
	mutex sync.Mutex
	idle  map[int64][][]byte // by capacity
	bytes int64
}

// take returns a buffer of a size, with the memory that it counts; nil if there is none.
func (b *buffers) take(size int64) []byte {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	list := b.idle[size]
	if len(list) == 0 {
		return nil
	}
	buffer := list[len(list)-1]
	b.idle[size] = list[:len(list)-1]
	b.bytes -= size
	return buffer[:0]
}

// likely returns a buffer that nobody uses for a body of an announced length, if that is small; nil if there is none.
func (b *buffers) likely(length int64) []byte {
	for size := int64(firstRead); length >= 0 && size <= 1<<20; size *= 4 {
		if size > length {
			return b.take(size)
		}
	}
	return nil
}

// keep keeps a buffer. It returns false if there would be more than so many bytes.
func (b *buffers) keep(buffer []byte, most int64) bool {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	size := int64(cap(buffer))
	if b.bytes+size > most {
		return false
	}
	if b.idle == nil {
		b.idle = map[int64][][]byte{}
	}
	b.idle[size] = append(b.idle[size], buffer)
	b.bytes += size
	return true
}

// drop returns all buffers, and keeps none.
func (b *buffers) drop() (all [][]byte) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, list := range b.idle {
		all = append(all, list...)
	}
	b.idle, b.bytes = nil, 0
	return all
}

// grow returns a larger buffer with what is in one, which it takes; nil if there is no memory. Both count while one is
// copied into the other.
func (s *Server) grow(ctx context.Context, buffer []byte, size int64) []byte {
	larger := s.bodies.take(size)
	if larger == nil {
		if !s.reserve(ctx, size) {
			return nil
		}
		larger = make([]byte, 0, size)
	}
	larger = append(larger, buffer...)
	s.putBuffer(buffer)
	return larger
}

// putBuffer gives a buffer back, with the memory that it counts.
func (s *Server) putBuffer(buffer []byte) {
	if cap(buffer) > 0 && !s.bodies.keep(buffer, s.options.Memory/2) {
		s.free(buffer)
	}
}

// largeBuffer is from how many bytes on a buffer counts until the collector has taken it.
const largeBuffer = 1 << 20

// free gives back the memory of a buffer that nobody needs any more.
func (s *Server) free(buffer []byte) {
	size := int64(cap(buffer))
	if size < largeBuffer {
		s.memory.Release(size)
		return
	}
	s.garbage.Add(size)
	runtime.AddCleanup(&buffer[:1][0], func(size int64) {
		s.garbage.Add(-size)
		s.memory.Release(size)
	}, size)
}

// collect frees the buffers that no request uses, and has the collector take those that are free.
func (s *Server) collect() {
	for _, buffer := range s.bodies.drop() {
		s.free(buffer)
	}
	if s.garbage.Load() > 0 && s.collecting.TryLock() { // else somebody else does
		defer s.collecting.Unlock()
		runtime.GC()
	}
}
