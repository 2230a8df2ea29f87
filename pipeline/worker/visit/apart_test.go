package visit

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
)

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
