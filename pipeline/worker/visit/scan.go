package visit

import (
	"context"
	"iter"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Scan processes the segments of shares:
//
//	readers ──loads──▶ processors ──outcomes──▶ collectors ──▶ writes
//
// A reader reads the segments of a share in order, ahead of the processors. Each processor computes the outcome of one
// segment at a time. The outcomes of each share are collected in segment order, whatever the order in which they were
// computed.
type Scan struct {
	*Run
	Shares []*partition.Share
	// Scores reads the scores before the stage, for segments that are not in memory; nil: there are none yet.
	Scores *ResidualsReader
	// Increment returns the increment of a past segment; nil if the run has none.
	Increment func(*partition.Segment) *coverage.Increment
	// Whole means that no segment is in memory, so that the scan can check that every message of the plan's sources exists.
	Whole bool
	// Extent returns the number of leading segments of a share to scan; nil: all.
	Extent func(*partition.Share) int
	// Processor is called once for each goroutine that processes segments. See [Outcomes].
	Processor func() LoadProcessor
	// Apart means that no segment of a share is read before all outcomes of the previous share are collected, because
	// the sums of both would need too much memory.
	Apart bool
	// MaxWrites is the maximum number of concurrent writes; 0 means 1.
	MaxWrites int
	// InOrder means that the writes of a share run sequentially, in the order of collection.
	InOrder bool
}

// LoadProcessor computes the outcome of a load, and returns the collector of the outcome.
type LoadProcessor func(ctx context.Context, l *Load) (Collector, error)

// Collector collects an outcome. If it returns a write, that runs while further outcomes are computed, and completes before the scan ends.
type Collector func() (Write, error)

// Write writes to the log.
type Write = func(context.Context) error

// Outcomes returns the processors of a scan. Each goroutine computes its outcomes with a function of its own, which process returns.
// Collect is called for each outcome, in order within a share.
func Outcomes[T any](process func() func(context.Context, *Load) (T, error), collect func(*Load, T) (Write, error)) func() LoadProcessor {
	return func() LoadProcessor {
		compute := process()
		return func(ctx context.Context, l *Load) (Collector, error) {
			outcome, err := compute(ctx, l)
			return func() (Write, error) { return collect(l, outcome) }, err
		}
	}
}

// Executor schedules the work of a worker: in which goroutines, and in which order. Every process uses [Concurrent].
type Executor interface {
	// Run returns when all outcomes of a scan are collected and all writes are done.
	Run(ctx context.Context, s *Scan) error
}

// Load is a segment with the data read for it.
type Load struct {
	Share    *partition.Share
	Index    int // of the segment in its share
	Messages []protocol.Message
	inMemory bool // the messages are in memory also without the load
	// PassedOver counts the messages that were read and do not count; in a whole scan also missing ones.
	PassedOver coverage.PassedOver
	Skipped    []int64                        // offsets of these messages
	Progress   []statistics.PartitionProgress // of the sources, after the last segment of a partition in a whole scan
	Scores     []kernel.Dense                 // of the messages, if the scan reads scores
	Votes      []kernel.Dense                 // of the messages, if the scan reads scores; empty before a member is finished
	bytes      int64                          // read ahead, until the outcome is collected
}

// Segment returns the segment.
func (l *Load) Segment() *partition.Segment { return l.Share.Segments[l.Index] }

// Loads yields the segments of a share in order, with the data read for those that are not in memory. It calls turn,
// which may wait, before each.
func (s *Scan) Loads(ctx context.Context, p *partition.Share, turn func() error) iter.Seq2[*Load, error] {
	return func(yield func(*Load, error) bool) {
		r := &reader{Scan: s, share: p}
		defer r.close()
		segments := p.All()
		if s.Extent != nil {
			segments = s.Extent(p)
		}
		for i := range segments {
			l := &Load{Share: p, Index: i}
			err := turn()
			if err == nil {
				err = r.read(ctx, l)
			}
			if err == nil && s.Whole && l.Segment().Last {
				var missing coverage.PassedOver
				missing, err = r.replay.Complete()
				l.PassedOver.Add(missing)
				l.Progress = r.replay.Progress()
			}
			if !yield(l, err) || err != nil {
				return
			}
		}
	}
}
