package worker

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// Every goroutine has an end: none is left when the tests are done.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openEmbedded is a log of its own for one test.
func openEmbedded(t testing.TB) *kafkalog.Log {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := log.Close(); err != nil {
			t.Error(err)
		}
	})
	return log
}

// A segment that fails while others wait for their turn ends the scan, in either round.
func TestScanEndsWhenTheFirstSegmentFails(t *testing.T) {
	for round := range 2 {
		var others sync.WaitGroup
		others.Add(1)
		bad := errors.New("bad")
		s := twoRounds(func(_ context.Context, l *load) (*outcome, error) {
			switch {
			case l.round != round:
			case l.index == 0:
				others.Wait()
				return nil, bad
			case l.index == 1:
				others.Done()
			}
			return &outcome{}, nil
		})
		s.collect = func(*partition.State, *outcome) (func(context.Context) error, error) { return nil, nil }
		if err := s.run(t.Context(), []*partition.State{inMemory(40)}); !errors.Is(err, bad) {
			t.Errorf("round %d: %v", round, err)
		}
	}
}

// Both rounds of a scan are collected in order, and while one segment takes its time few others wait for it.
func TestScanInTwoRounds(t *testing.T) {
	const segments = 200
	limit := int64(2 * runtime.GOMAXPROCS(0))
	for slow := range 2 {
		var ahead [2]atomic.Int64
		s := twoRounds(func(_ context.Context, l *load) (*outcome, error) {
			if l.round == slow && l.index == 3 {
				for ahead[slow].Load() < limit-1 { // as many as there may be
					runtime.Gosched()
				}
			}
			if n := ahead[l.round].Add(1); n > limit {
				t.Errorf("round %d: %d segments at once, expected at most %d", l.round, n, limit)
			}
			return &outcome{}, nil
		})
		collected := [2]int{}
		s.collect = func(_ *partition.State, o *outcome) (func(context.Context) error, error) {
			if o.segment != collected[o.round] || o.round == 1 && o.segment >= collected[0] {
				t.Errorf("segment %d of round %d comes behind %v", o.segment, o.round, collected)
			}
			collected[o.round]++
			ahead[o.round].Add(-1)
			return nil, nil
		}
		if err := s.run(t.Context(), []*partition.State{inMemory(segments)}); err != nil || collected != [2]int{segments, segments} {
			t.Errorf("collected %v, %v", collected, err)
		}
	}
	s := twoRounds(nil)
	if err := s.run(t.Context(), nil); err != nil {
		t.Error(err)
	}
}

func twoRounds(work func(context.Context, *load) (*outcome, error)) *scan {
	return &scan{counting: ingest.NewCounting(&schemas.Plan{}), twice: true, process: func() func(context.Context, *load) (*outcome, error) { return work }}
}

// inMemory returns a partition whose segments need not be read.
func inMemory(segments int64) *partition.State {
	p, budget := partition.New(schemas.Span{From: 0, To: segments}, 0, 1), partition.NewBudget(0)
	for _, segment := range p.Segments() {
		segment.KeepBatches([]*partition.Batch{}, budget)
	}
	return p
}

// However large messages are, what is read ahead of the processors is bounded.
func TestScanReadsAheadWithinItsBound(t *testing.T) {
	const messages, size = 40, 100_000
	log := openEmbedded(t)
	if err := log.Create(t.Context(), kafkalog.Topic{Name: run.TopicsOf("test").Examples, Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	for range messages {
		if _, err := log.Append(t.Context(), run.TopicsOf("test").Examples, 0, kafkalog.Message{Value: make([]byte, size)}); err != nil {
			t.Fatal(err)
		}
	}
	for readAhead, limit := range map[int64]int64{1: 1, 2.5 * size: 2} {
		var ahead atomic.Int64
		rows := int64(0)
		s := &scan{
			client: run.NewClient(log, "test", nil), counting: ingest.NewCounting(&schemas.Plan{Foreign: true}), readAhead: readAhead,
			process: func() func(context.Context, *load) (*outcome, error) {
				return func(_ context.Context, l *load) (*outcome, error) {
					if n := ahead.Add(1); n > limit {
						t.Errorf("%d segments at once, expected at most %d", n, limit)
					}
					return &outcome{rows: int64(len(l.messages))}, nil
				}
			},
			collect: func(_ *partition.State, o *outcome) (func(context.Context) error, error) {
				ahead.Add(-1)
				rows += o.rows
				return nil, nil
			},
		}
		if err := s.run(t.Context(), []*partition.State{partition.New(schemas.Span{To: messages}, 0, 1)}); err != nil || rows != messages {
			t.Errorf("%d messages, %v", rows, err)
		}
	}
}
