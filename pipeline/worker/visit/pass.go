package visit

import (
	"context"
	"iter"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
)

// Executor schedules the work of a worker: in which goroutines, and in which order. Every process uses [Concurrent].
type Executor interface {
	// Run returns when all outcomes of a pass are collected and all writes are done.
	Run(ctx context.Context, p *Pass) error
}

// Pass is a scan without the type of its outcomes. The outcomes of a share are collected in segment order.
type Pass struct {
	Shares []*partition.Share
	// Segments returns the number of segments of a share.
	Segments func(*partition.Share) int
	// Loads reads the segments of a share in order. It calls turn, which may wait, before each.
	Loads func(ctx context.Context, p *partition.Share, turn func() error) iter.Seq2[*Load, error]
	// Processor returns a processor for one goroutine.
	Processor func() LoadProcessor
	Apart     bool // a share is read after all outcomes of the previous one are collected
	MaxWrites int  // maximum number of concurrent writes, at least 1
	InOrder   bool // a write starts after the earlier writes of its share
}

// LoadProcessor computes the outcome of a load, and returns the collector of the outcome.
type LoadProcessor func(ctx context.Context, l *Load) (Collector, error)

// Collector collects an outcome. If it returns a write, that must complete before the pass ends.
type Collector func() (Write, error)

// Write writes to the log.
type Write = func(context.Context) error
