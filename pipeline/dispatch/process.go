package dispatch

import (
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
)

// Process is the computing resources of a process.
type Process struct {
	BLAS       *kernel.BLAS
	Arithmetic schemas.Arithmetic // arithmetic of its sums
	Executor   visit.Executor     // executor of its workers; nil: [visit.Concurrent]
	// Together calls functions concurrently, and returns when all have returned; nil: each runs in a goroutine.
	Together func(parts ...func())
}

// NewProcess returns this process with all of its cores.
func NewProcess(blas *kernel.BLAS) Process {
	return Process{BLAS: blas, Arithmetic: planning.Arithmetic(blas)}
}

// together calls functions concurrently, and returns when all have returned.
func (p *Process) together(parts ...func()) {
	if p.Together != nil {
		p.Together(parts...)
		return
	}
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(part)
	}
	running.Wait()
}
