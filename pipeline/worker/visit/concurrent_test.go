package visit

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/semaphore"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

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
