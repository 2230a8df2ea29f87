package visit

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// openEmbedded opens a log for one test.
func openEmbedded(t testing.TB) *kafkalog.Log {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	t.Cleanup(func() { assert.NoError(t, log.Close()) })
	return log
}

// A segment that fails while others wait for their turn ends the scan.
func TestScanEndsWhenTheFirstSegmentFails(t *testing.T) {
	var others sync.WaitGroup
	others.Add(1)
	bad := errors.New("bad")
	s := scanOf(func(_ context.Context, l *Load) (*Outcome, error) {
		switch l.Index {
		case 0:
			others.Wait()
			return nil, bad
		case 1:
			others.Done()
		}
		return &Outcome{}, nil
	}, func(*Load, *Outcome) (Write, error) { return nil, nil }, inMemory(40))
	assert.Fails(t, (Concurrent{}).Run(t.Context(), s), bad)
}

// A scan is collected in order, and while one segment is slow few others wait for it.
func TestScanIsCollectedInOrder(t *testing.T) {
	const segments = 200
	limit := int64(2 * runtime.GOMAXPROCS(0))
	var ahead atomic.Int64
	collected := 0
	s := scanOf(func(_ context.Context, l *Load) (*Outcome, error) {
		if l.Index == 3 {
			for ahead.Load() < limit-1 { // the maximum number
				runtime.Gosched()
			}
		}
		n := ahead.Add(1)
		assert.True(t, n <= limit, "%d segments at once, expected at most %d", n, limit)
		return &Outcome{}, nil
	}, func(at *Load, _ *Outcome) (Write, error) {
		assert.Equal(t, at.Index, collected, "a segment in its order")
		collected++
		ahead.Add(-1)
		return nil, nil
	}, inMemory(segments))
	err := Concurrent{}.Run(t.Context(), s)
	assert.True(t, err == nil && collected == segments, "collected %v, %v", collected, err)
	s.Shares = nil
	assert.NoError(t, (Concurrent{}).Run(t.Context(), s))
}

// scanOf returns a scan of shares that are in memory.
func scanOf(work Process, collect func(*Load, *Outcome) (Write, error), shares ...*Share) *Scan {
	s := inOrder(shares)
	s.Processor, s.Collect = func() Process { return work }, collect
	return s
}

// inMemory returns a partition whose segments need not be read.
func inMemory(segments int64) *Share {
	p, budget := NewShare(1, &Part{Span: coverage.Span{From: 0, To: segments}}), NewCache(0)
	for _, segment := range p.Segments {
		segment.KeepBatches([]*Batch{}, budget)
	}
	return p
}

// The read-ahead is limited for messages of any size.
func TestScanReadsAheadWithinItsBound(t *testing.T) {
	const messages, size = 40, 100_000
	log := openEmbedded(t)
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: protocol.TopicsOf("test").Examples, Partitions: 1}))
	for range messages {
		assert.Must(log.Append(t.Context(), protocol.TopicsOf("test").Examples, 0, kafkalog.Message{Value: make([]byte, size)}))(t)
	}
	for readAhead, limit := range map[int64]int64{1: 1, 2.5 * size: 2} {
		var ahead atomic.Int64
		rows := int64(0)
		s := inOrder([]*Share{NewShare(1, &Part{Span: coverage.Span{To: messages}})})
		s.Run = NewRun(protocol.NewClient(log, "test", nil), nil, &schemas.Plan{Foreign: true}, "", NewCache(0))
		s.Processor = func() Process {
			return func(_ context.Context, l *Load) (*Outcome, error) {
				n := ahead.Add(1)
				assert.True(t, n <= limit, "%d segments at once, expected at most %d", n, limit)
				return &Outcome{Rows: int64(len(l.Messages))}, nil
			}
		}
		s.Collect = func(_ *Load, o *Outcome) (Write, error) {
			ahead.Add(-1)
			rows += o.Rows
			return nil, nil
		}
		err := Concurrent{readAhead}.Run(t.Context(), s)
		assert.True(t, err == nil && rows == messages, "%d messages, %v", rows, err)
	}
}

// Segments are read one share after the other, and in order within a share.
func TestOrderOfSegments(t *testing.T) {
	shares := func(segments ...int64) (all []*Share) {
		for n, length := range segments {
			p := NewShare(1, &Part{Span: coverage.Span{Partition: n, To: length}, Ordinal: n})
			for _, segment := range p.Segments {
				segment.KeepBatches([]*Batch{}, NewCache(0))
			}
			all = append(all, p)
		}
		return all
	}
	for want, shares := range map[string][]*Share{
		"[]": shares(), "[00 01 02]": shares(3), "[00 01 10 11 20 30 31 32]": shares(2, 2, 1, 3), "[00 20 21]": shares(1, 0, 2),
	} {
		got, places := []string{}, make(chan *place, 20)
		assert.NoError(t, inOrder(shares).read(t.Context(), places, func(p *place) error {
			got = append(got, fmt.Sprintf("%d%d", p.Segment().Span.Partition, p.Index))
			return nil
		}))
		assert.Equal(t, fmt.Sprint(got), want, "segments")
		assert.Equal(t, len(places), len(got), "places of segments")
	}
	// A cancelled scan stops reading.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	assert.Fails(t, inOrder(shares(2, 2, 2)).read(ctx, make(chan *place), nil), context.Canceled)
}

// inOrder is a scan of partitions.
func inOrder(partitions []*Share) *Scan {
	return &Scan{Run: NewRun(nil, nil, &schemas.Plan{}, "", NewCache(0)), Shares: partitions,
		Extent: func(s *Share) int { return len(s.Segments) }}
}

// No goroutine is left when the tests are done. In some tests a segment waits for another one, on any machine.
func TestMain(m *testing.M) {
	runtime.GOMAXPROCS(max(2, runtime.GOMAXPROCS(0)))
	goleak.VerifyTestMain(m)
}

// For any ratio, the sample has about that fraction of the messages of each partition and of all partitions together, and
// includes the first message of the plan.
func TestGramSample(t *testing.T) {
	for _, ratio := range []struct{ want, total int64 }{{1, 2}, {10_000, 60_000}, {59_999, 60_000}, {1, 60_000}, {7, 1 << 40},
		{1 << 39, 1 << 40}} {
		g := newGramSample(ratio.want, ratio.total)
		f := float64(ratio.want) / float64(ratio.total)
		assert.True(t, g.has(0, 0), "%v: not the first message", ratio)
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
				total += chosen
				assert.Near(t, float64(chosen), f*float64(messages), 1, "%v: chosen messages of partition %d", ratio, n)
			}
			want := f * partitions * float64(messages)
			assert.Near(t, float64(total), want, 2+0.05*want, "%v: messages of %d partitions of %d", ratio, partitions, messages)
		}
	}
}

// A visit that has read other rows than the survey, or than the run that added those that leave, is an error, whatever the difference.
func TestVisitCoversWhatTheSurveyDid(t *testing.T) {
	span, past := coverage.Span{Partition: 3, To: 4}, coverage.Span{Partition: 3, From: 4, To: 5}
	covered := coverage.Coverage{Spans: coverage.Spans{span}, Messages: 4, Rows: 40, Checksum: 7}
	gone := coverage.Coverage{Spans: coverage.Spans{past}, Messages: 1, Rows: 10, Checksum: 3}
	for name, change := range map[string]func(surveyed, added *coverage.Coverage){
		"the same":        func(*coverage.Coverage, *coverage.Coverage) {},
		"messages":        func(c, _ *coverage.Coverage) { c.Messages-- },
		"rows":            func(c, _ *coverage.Coverage) { c.Rows++ },
		"checksum":        func(c, _ *coverage.Coverage) { c.Checksum++ },
		"rows that leave": func(_, c *coverage.Coverage) { c.Rows++ },
	} {
		p, expected, added := NewShare(2, &Part{Span: span}), covered, gone
		change(&expected, &added)
		p.Surveyed, p.Covered = coverage.Coverage{}, expected
		leave := coverage.Increment{Covered: []coverage.Coverage{added}}
		p.AddPast(&leave, 0, true, 2)
		run := NewRun(&protocol.Client{}, nil, &schemas.Plan{Chain: &schemas.Chain{Update: &schemas.Update{Leave: []coverage.Increment{leave}}}}, "",
			NewCache(0))
		outcomes := Outcomes{}
		var whole *Outcome
		for i, s := range p.Segments {
			assert.Need(t, whole == nil, "%s: %d segments of %d give %v", name, i, len(p.Segments), whole)
			o := &Outcome{Sum: accumulate.NewSum(coverage.Coverage{Spans: coverage.Spans{s.Span}, Messages: 2, Rows: 20, Checksum: uint64(3 + i)}, nil)}
			if s.Leaves {
				o = &Outcome{Sum: &accumulate.Sum{}, left: map[int]coverage.Coverage{0: {Messages: 1, Rows: 10, Checksum: 3}}}
			}
			whole = assert.Must(outcomes.Add(&Load{Share: p, Index: i}, o, len(p.Segments)))(t)
		}
		err := whole.Check(run, p, len(p.Segments))
		assert.True(t, errors.Is(err, errChanged) != (name == "the same"), "%s: %v", name, err)
	}
}
