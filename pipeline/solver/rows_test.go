package solver

import (
	"errors"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/rowsums"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Rows that are not those of the plan, or fewer than their records cover, are an error: they would be missing from the weights.
func TestSentRowsAreThoseThatAreCovered(t *testing.T) {
	s := &Solver{visited: coverage.Spans{{Partition: 0, To: 2}, {Partition: 3, To: 1}}}
	sent := &accumulate.Sum{}
	sent.Rows = 5
	of := func(partition, rows int) rowsums.Segment {
		return rowsums.Segment{Partition: partition, Batches: []rowsums.Batch{{Block: kernel.Sparse{Rows: rows}}}}
	}
	if err := s.checkSent(0, []rowsums.Segment{of(0, 2), of(3, 3)}, sent); err != nil {
		t.Error(err)
	}
	for _, segments := range [][]rowsums.Segment{{of(0, 2), of(3, 2)}, {of(0, 2), of(1, 3)}, nil} {
		if err := s.checkSent(0, segments, sent); !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%v: %v", segments, err)
		}
	}
}
