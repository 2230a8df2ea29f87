package visit

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// openEmbedded opens a log for one test.
func openEmbedded(t testing.TB) *kafkalog.Log {
	t.Helper()
	log := arrowtest.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// A segment that fails while others wait for their turn ends the scan.
func TestScanEndsWhenTheFirstSegmentFails(t *testing.T) {
	var others sync.WaitGroup
	others.Add(1)
	bad := errors.New("bad")
	s := scanOf(func(_ context.Context, l *Load) (int, error) {
		switch l.Index {
		case 0:
			others.Wait()
			return 0, bad
		case 1:
			others.Done()
		}
		return 0, nil
	}, func(*Load, int) (Write, error) { return nil, nil }, inMemory(40))
	if err := (Concurrent{}).Run(t.Context(), s); !errors.Is(err, bad) {
		t.Error(err)
	}
}

// A scan is collected in order, and while one segment is slow few others wait for it.
func TestScanIsCollectedInOrder(t *testing.T) {
	const segments = 200
	limit := int64(2 * runtime.GOMAXPROCS(0))
	var ahead atomic.Int64
	collected := 0
	s := scanOf(func(_ context.Context, l *Load) (int, error) {
		if l.Index == 3 {
			for ahead.Load() < limit-1 { // the maximum number
				runtime.Gosched()
			}
		}
		if n := ahead.Add(1); n > limit {
			t.Errorf("%d segments at once, expected at most %d", n, limit)
		}
		return 0, nil
	}, func(at *Load, _ int) (Write, error) {
		if at.Index != collected {
			t.Errorf("segment %d comes behind %v", at.Index, collected)
		}
		collected++
		ahead.Add(-1)
		return nil, nil
	}, inMemory(segments))
	if err := (Concurrent{}).Run(t.Context(), s); err != nil || collected != segments {
		t.Errorf("collected %v, %v", collected, err)
	}
	s.Shares = nil
	if err := (Concurrent{}).Run(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// scanOf returns a scan of shares that are in memory.
func scanOf(work func(context.Context, *Load) (int, error), collect func(*Load, int) (Write, error), shares ...*partition.Share) *Scan {
	s := inOrder(shares)
	s.Processor = Outcomes(func() func(context.Context, *Load) (int, error) { return work }, collect)
	return s
}

// inMemory returns a partition whose segments need not be read.
func inMemory(segments int64) *partition.Share {
	p, budget := partition.New(1, partition.NewPart(coverage.Span{From: 0, To: segments}, 0, nil)), partition.NewCache(0)
	for _, segment := range p.Segments {
		segment.KeepBatches([]*partition.Batch{}, budget)
	}
	return p
}

// The read-ahead is limited for messages of any size.
func TestScanReadsAheadWithinItsBound(t *testing.T) {
	const messages, size = 40, 100_000
	log := openEmbedded(t)
	arrowtest.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: protocol.TopicsOf("test").Examples, Partitions: 1}))
	for range messages {
		arrowtest.Must(log.Append(t.Context(), protocol.TopicsOf("test").Examples, 0, kafkalog.Message{Value: make([]byte, size)}))(t)
	}
	for readAhead, limit := range map[int64]int64{1: 1, 2.5 * size: 2} {
		var ahead atomic.Int64
		rows := int64(0)
		s := &Scan{
			Run:    NewRun(protocol.NewClient(log, "test", nil), nil, &schemas.Plan{Foreign: true}, "", partition.NewCache(0)),
			Shares: []*partition.Share{partition.New(1, partition.NewPart(coverage.Span{To: messages}, 0, nil))},
			Processor: Outcomes(func() func(context.Context, *Load) (int, error) {
				return func(_ context.Context, l *Load) (int, error) {
					if n := ahead.Add(1); n > limit {
						t.Errorf("%d segments at once, expected at most %d", n, limit)
					}
					return len(l.Messages), nil
				}
			}, func(_ *Load, messages int) (Write, error) {
				ahead.Add(-1)
				rows += int64(messages)
				return nil, nil
			}),
		}
		if err := (Concurrent{readAhead}).Run(t.Context(), s); err != nil || rows != messages {
			t.Errorf("%d messages, %v", rows, err)
		}
	}
}
