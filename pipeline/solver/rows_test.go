package solver

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/rowsums"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/online"
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

// What the fit gets of a single segment, without a record, is what it would read from the sums of a record.
func TestVisitToASingleSegment(t *testing.T) {
	const p, k = 7, 2
	s := &Solver{plan: &schemas.Plan{}, visited: coverage.Spans{{Partition: 4, To: 1}}}
	block := kernel.Sparse{Rows: 3, Cols: p - 1, Ones: true, Starts: []int{0, 2, 2, 4}, Columns: []int32{1, 5, 0, 5},
		Values: []float32{1, 0.5, 2, -1}}
	rows := accumulate.Rows{Task: examples.OneLabel, Weights: []float32{1, 1, 2}, Splits: []examples.Split{0, 0, examples.Holdout},
		Truth: link.Truth{Classes: []int32{0, 1, 1}}}
	segments := []rowsums.Segment{{Partition: 4, Batches: []rowsums.Batch{{Block: block, Before: kernel.NewDense(3, k), Rows: rows,
		Fitted: []float32{1, 1, 0}}}}}
	f := &fitting{shape: solve.Shape{Columns: p, Penalised: p - 1, Classes: k}}
	weights := rowsums.Weights{Initial: kernel.NewDense(p, k), Columns: []int32{5}, Rows: kernel.NewDense(1, k)}
	weights.Rows.Data[0], weights.Initial.Data[3] = 0.5, -1
	for _, of := range []rowsums.Stage{{Curved: true, Reaching: true}, {Curved: true}, {Counted: true}} {
		of.Link = link.Named(link.Softmax)
		summers := make([]rowsums.Summer, 1)
		summers[0].Begin(segments[0].Batches)
		summers[0].Take(&weights)
		sum, got, err := s.visitRows(t.Context(), f, of, segments, summers)
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.sumRows(t.Context(), f, of, segments, summers)
		if err != nil {
			t.Fatal(err)
		}
		want, err := online.VisitOf(all.Tensors(), f.shape)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: got %+v, want %+v", of, got, want)
		}
		if a, b := sum.Tensors()[0], all.Tensors()[0]; !reflect.DeepEqual(a, b) {
			t.Errorf("%+v: got the losses %v, want %v", of, a, b)
		}
	}
}
