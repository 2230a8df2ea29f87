package visit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
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

// No segment of a partition is processed before all of the previous partition are collected, and all are collected in
// order.
func TestPartitionsApart(t *testing.T) {
	partitions := []*partition.Share{inMemory(7), inMemory(0), inMemory(1), inMemory(30)}
	place := map[*partition.Share]int{}
	segments := 0
	begin := make([]int64, len(partitions)) // number of segments in the previous partitions
	for i, p := range partitions {
		place[p], begin[i] = i, int64(segments)
		segments += len(p.Segments)
	}
	var collected atomic.Int64
	collect := func(*Load, int) (Write, error) { collected.Add(1); return nil, nil }
	s := scanOf(func(_ context.Context, l *Load) (int, error) {
		if at := place[l.Share]; collected.Load() < begin[at] {
			return 0, fmt.Errorf("partition %d: %d segments are collected, of %d before it", at, collected.Load(), begin[at])
		}
		return 0, nil
	}, func(l *Load, outcome int) (Write, error) { return collect(l, outcome) }, partitions...)
	s.Apart = true
	if err := (Concurrent{}).Run(t.Context(), s); err != nil || collected.Load() != int64(segments) {
		t.Fatalf("%d of %d segments: %v", collected.Load(), segments, err)
	}
	bad := errors.New("bad")
	collect = func(*Load, int) (Write, error) { return nil, bad } // the reader waits for a token that nobody returns
	if err := (Concurrent{}).Run(t.Context(), s); !errors.Is(err, bad) {
		t.Errorf("a scan that can't collect: %v", err)
	}
}

// Segments are read one partition after the other, interleaved for the last partitions, and in order within a partition.
func TestOrderOfSegments(t *testing.T) {
	partitions := func(segments ...int64) (all []*partition.Share) {
		for n, length := range segments {
			p := partition.New(1, partition.NewPart(coverage.Span{Partition: n, To: length}, n, nil))
			for _, segment := range p.Segments {
				segment.KeepBatches([]*partition.Batch{}, partition.NewCache(0))
			}
			all = append(all, p)
		}
		return all
	}
	for _, test := range []struct {
		processors int
		partitions []*partition.Share
		want       string
	}{
		{2, partitions(), "[]"},
		{1, partitions(2, 1, 2), "[00 01 10 20 21]"},
		{2, partitions(3), "[00 01 02]"},
		{2, partitions(2, 2), "[00 10 01 11]"},
		{2, partitions(2, 2, 1, 3), "[00 01 10 11 20 30 31 32]"},
		{2, partitions(1, 0, 2), "[00 20 21]"},
		{3, partitions(2, 2, 2, 2), "[00 01 10 20 30 11 21 31]"},
		{8, partitions(2, 1), "[00 10 01]"},
	} {
		c := &running{
			Scan: inOrder(test.partitions), ahead: semaphore.NewWeighted(1), loaded: make(chan *Load, 20),
			outcomes: make(chan *finished, test.processors), tokens: make(chan struct{}, 20),
		}
		arrowtest.NoError(t, c.read(context.Background()))
		got := []string{}
		for l := range c.loaded {
			got = append(got, fmt.Sprintf("%d%d", l.Segment().Span.Partition, l.Index))
		}
		if fmt.Sprint(got) != test.want {
			t.Errorf("%d processors: %v, want %s", test.processors, got, test.want)
		}
		if held := len(c.tokens); held != len(got) {
			t.Errorf("%d processors: %d tokens for %d segments", test.processors, held, len(got))
		}
	}
	// A cancelled scan stops reading, at any point.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	c := &running{Scan: inOrder(partitions(2, 2, 2)), ahead: semaphore.NewWeighted(1), loaded: make(chan *Load),
		outcomes: make(chan *finished, 2), tokens: make(chan struct{})}
	if err := c.read(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("a scan that is cancelled ends with %v", err)
	}
}

// inOrder is a scan of partitions.
func inOrder(partitions []*partition.Share) *Scan {
	return &Scan{Run: NewRun(nil, nil, &schemas.Plan{}, "", partition.NewCache(0)), Shares: partitions}
}

// No goroutine is left when the tests are done. In some tests a segment waits for another one, on any machine.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	goleak.VerifyTestMain(m)
}

// For any number of increments in a full run, a worker holds the terms of one, and sends their sum.
func TestTermsOfOneIncrementAreHeld(t *testing.T) {
	const increments, perIncrement, segment = 1000, 6, 2
	var list []coverage.Increment
	for i := range increments {
		span := coverage.Span{From: int64(i * perIncrement), To: int64((i + 1) * perIncrement)}
		list = append(list, coverage.Increment{Number: i + 1, Weight: 1,
			Covered: []coverage.Coverage{{Spans: coverage.Spans{span}}}})
	}
	p := partition.New(segment, partition.NewPart(coverage.Span{To: increments * perIncrement}, 0, list))
	terms, sent := NewIncrementTerms(p), map[int]float64{}
	for i, s := range p.Segments {
		whole, err := terms.Add(s, accumulate.NewSum(coverage.Coverage{}, wire.Tensors[float64]{wire.Vector(statistics.FieldTerms,
			[]float64{float64(i + 1)})}))
		arrowtest.NoError(t, err)
		if len(terms.sums) > 1 {
			t.Fatalf("after segment %d there are the terms of %d increments", i, len(terms.sums))
		}
		if whole != nil {
			if _, twice := sent[s.Increment]; twice {
				t.Errorf("the terms of increment %d are sent twice", s.Increment)
			}
			sent[s.Increment] = whole.Field(statistics.FieldTerms, 1)[0]
		}
	}
	if len(terms.sums) > 0 || len(sent) != increments {
		t.Errorf("%d sums are left, %d were sent; expected 0 and %d", len(terms.sums), len(sent), increments)
	}
	sum := 0.0
	for _, part := range sent {
		sum += part
	}
	if n := float64(len(p.Segments)); sum != n*(n+1)/2 || sent[999] != 2998+2999+3000 {
		t.Errorf("the sum is %g, that of the last increment %g", sum, sent[999])
	}
}

// For any ratio, the sample has about that fraction of the messages of each partition and of all partitions together, and
// includes the first message of the plan.
func TestGramSample(t *testing.T) {
	for _, ratio := range []struct{ want, total int64 }{{1, 2}, {10_000, 60_000}, {59_999, 60_000}, {1, 60_000}, {7, 1 << 40},
		{1 << 39, 1 << 40}} {
		g := newGramSample(ratio.want, ratio.total)
		f := float64(ratio.want) / float64(ratio.total)
		if !g.has(0, 0) {
			t.Errorf("%v: not the first message", ratio)
		}
		for _, messages := range []int64{15, 1000} {
			total := 0
			const partitions = 200
			for n := range partitions {
				chosen := 0
				for ordinal := range messages {
					if g.has(n, ordinal) {
						chosen++
					}
				}
				if total += chosen; math.Abs(float64(chosen)-f*float64(messages)) > 1 {
					t.Errorf("%v: %d of %d messages of partition %d", ratio, chosen, messages, n)
				}
			}
			if want := f * partitions * float64(messages); math.Abs(float64(total)-want) > 2+0.05*want {
				t.Errorf("%v: %d messages of %d partitions of %d, expected %.0f", ratio, total, partitions, messages, want)
			}
		}
	}
}
