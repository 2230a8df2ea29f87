package scan

import (
	"context"
	"iter"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
)

// Executor decides in which goroutines, and in which order, a worker does its work. Every process has the one of [Concurrent].
type Executor interface {
	// Run returns when all outcomes of a pass are collected and all writes are done.
	Run(ctx context.Context, p *Pass) error
	// Begin starts something that is needed later. The caller calls wait once, which returns when it is done.
	Begin(do func() error) (wait func() error)
}

// Pass is a scan without the type of its outcomes. The outcomes of a partition and round are collected in the order of its segments.
type Pass struct {
	Partitions []*partition.State
	// Segments returns how many segments of a partition there are.
	Segments func(*partition.State) int
	// Loads reads the segments of a partition in order. It calls turn, which may wait, before each.
	Loads func(ctx context.Context, p *partition.State, turn func() error) iter.Seq2[*Load, error]
	// Processor returns a processor for one goroutine.
	Processor func() Processor
	// Twice says that the load of a segment is processed again, once its first outcome is collected: see [Load.Again].
	Twice     bool
	Apart     bool // a partition is read when all outcomes of the one before are collected
	MaxWrites int  // that run at once, at least 1
	InOrder   bool // a write runs when those of its partition that were collected before are done
}

// Processor computes the outcome of a load, and returns what collects it.
type Processor func(ctx context.Context, l *Load) (Collector, error)

// Collector collects an outcome. If it returns a write, that must be done before the pass ends.
type Collector func() (Write, error)

// Write writes to the log.
type Write = func(context.Context) error
