package serve

import (
	"context"
	"runtime"
	"sync"
)

// buffers is a pool of body buffers, by size. They count towards the memory for requests, and are released when it is
// needed. A large one counts until the garbage collector has freed it, because another one is allocated in the meantime.
type buffers struct {
	mutex sync.Mutex
	idle  map[int64][][]byte // by capacity
	bytes int64
}

// get removes and returns a buffer of a size, with the memory that it counts for; nil if there is none.
func (b *buffers) get(size int64) []byte {
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

// likely returns a pooled buffer for a body of an announced length, if that is small; nil if there is none.
func (b *buffers) likely(length int64) []byte {
	for size := int64(firstRead); length >= 0 && size <= 1<<20; size *= 4 {
		if size > length {
			return b.get(size)
		}
	}
	return nil
}

// keep adds a buffer to the pool. It returns false if the pool would exceed most bytes.
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

// drop removes and returns all buffers.
func (b *buffers) drop() (all [][]byte) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	for _, list := range b.idle {
		all = append(all, list...)
	}
	b.idle, b.bytes = nil, 0
	return all
}

// grow returns a larger buffer with the content of one, which it releases; nil if there is no memory. Both count while one
// is copied into the other.
func (s *Server) grow(ctx context.Context, buffer []byte, size int64) []byte {
	larger := s.bodies.get(size)
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

// putBuffer releases a buffer to the pool.
func (s *Server) putBuffer(buffer []byte) {
	if cap(buffer) > 0 && !s.bodies.keep(buffer, s.options.Memory/2) {
		s.free(buffer)
	}
}

// largeBuffer is the size from which on a buffer counts until the garbage collector has freed it.
const largeBuffer = 1 << 20

// free releases the memory of a buffer.
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

// collect frees the pooled buffers, and runs the garbage collector for freed ones.
func (s *Server) collect() {
	for _, buffer := range s.bodies.drop() {
		s.free(buffer)
	}
	if s.garbage.Load() > 0 && s.collecting.TryLock() { // otherwise another goroutine does
		defer s.collecting.Unlock()
		runtime.GC()
	}
}
