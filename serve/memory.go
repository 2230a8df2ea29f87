package serve

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// budget is a part of serve.memory. There is one for each step of a request, so that a request that holds memory of one step
// never waits for another that holds memory of the same step and waits for it.
type budget struct {
	*semaphore.Weighted
	size       int64
	clients    clients      // that hold some of it
	garbage    atomic.Int64 // released bytes that the garbage collector has not freed yet
	collecting sync.Mutex   // locked while a request runs the garbage collector
}

func newBudget(size int64) *budget { return &budget{Weighted: semaphore.NewWeighted(size), size: size} }

const (
	// smallBytes is the maximum size of a small body or answer. These have memory of their own: large ones do not make
	// them wait.
	smallBytes = 64 << 10
	// largeBytes is the size from which on memory counts until the garbage collector has freed it, because other memory is
	// allocated in the meantime.
	largeBytes = 1 << 20
	// workspaceBytes is the memory of each workspace for the rows of a request. Only larger rows need memory of their own.
	workspaceBytes = 1 << 20
)

// memories are the parts of serve.memory.
type memories struct {
	small    *budget // small bodies and answers
	bodies   *budget // other bodies
	unpacked *budget // rows of bodies while they are predicted
	answers  *budget // other answers
}

// newMemories divides the memory of the options. Each part has at least what a single request may need.
func newMemories(o *Options) memories {
	return memories{
		small:    newBudget(int64(max(o.Memory/8, 1<<20))),
		bodies:   newBudget(int64(max(o.Memory/4, o.MaxBody+1+o.MaxBody/2))),
		unpacked: newBudget(int64(max(o.Memory*3/8, 8<<20))),
		answers:  newBudget(int64(max(o.Memory/4, 4<<20))),
	}
}

// ofBody and ofAnswer return the memory for a body or an answer of a size.
func (m *memories) ofBody(size int64) *budget {
	if size <= smallBytes {
		return m.small
	}
	return m.bodies
}

func (m *memories) ofAnswer(size int64) *budget {
	if size <= smallBytes {
		return m.small
	}
	return m.answers
}

// maxAnswer is the maximum size of an answer.
func (m *memories) maxAnswer() int64 { return m.answers.size / 4 }

// discard releases memory whose content is garbage.
func (m *budget) discard(bytes int64) {
	if bytes < largeBytes {
		m.Release(bytes)
		return
	}
	m.garbage.Add(bytes)
	// The next collection frees the content together with this value, which has memory of its own: tiny values share some.
	runtime.AddCleanup(new(struct{ _ [64]byte }), func(bytes int64) {
		m.garbage.Add(-bytes)
		m.Release(bytes)
	}, bytes)
}

// collect runs the garbage collector if it frees memory.
func (m *budget) collect() {
	if m.garbage.Load() > 0 && m.collecting.TryLock() { // otherwise another goroutine does
		defer m.collecting.Unlock()
		runtime.GC()
	}
}

// reserve reserves memory. It returns false if there is none for half of the timeout. Clients that send or read nothing in
// the meantime are aborted.
func (s *Server) reserve(ctx context.Context, m *budget, bytes int64) bool {
	if m.TryAcquire(bytes) {
		return true
	}
	if m.collect(); m.TryAcquire(bytes) {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, s.options.Timeout/2)
	defer cancel()
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		ticker := time.NewTicker(clientPatience / 10)
		defer ticker.Stop()
		for {
			m.collect()
			m.clients.cut()
			select {
			case <-ticker.C:
			case <-stop:
				return
			}
		}
	}()
	return m.Acquire(ctx, bytes) == nil
}
