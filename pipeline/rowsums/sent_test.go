package rowsums

import (
	"errors"
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/online"
)

// sentBatch returns a message of three rows of six inputs and an intercept.
func sentBatch() Batch {
	const k = 2
	return Batch{Block: kernel.Sparse{Rows: 3, Cols: 6, Ones: true, Starts: []int{0, 2, 2, 4}, Columns: []int32{1, 5, 0, 5},
		Values: []float32{1, 0.5, 2, -1}}, Before: kernel.NewDense(3, k), Rows: accumulate.Rows{Task: examples.OneLabel,
		Weights: []float32{1, 1, 2}, Splits: []examples.Split{0, 0, examples.Holdout}, Truth: link.Truth{Classes: []int32{0, 1, 1}}},
		Fitted: []float32{1, 1, 0}}
}

func sentShapeOf() solve.Shape { return solve.Shape{Columns: 7, Penalised: 6, Classes: 2} }

// Rows that are not those of the plan, or not as many as their records cover, are an error: they would be missing from the weights.
func TestSentRowsAreThoseThatAreCovered(t *testing.T) {
	spans := coverage.Spans{{Partition: 0, To: 2}, {Partition: 3, To: 1}}
	read := func(covered int64, partitions ...int) error {
		sent := &accumulate.Sum{}
		for _, number := range partitions {
			one := &accumulate.Sum{}
			Write(one, Segment{Partition: number, Batches: []Batch{sentBatch()}}, false)
			if err := sent.Merge(one); err != nil {
				t.Fatal(err)
			}
		}
		sent.Rows = covered
		_, err := Sent(sent, sentShapeOf(), examples.OneLabel, spans, coverage.Tree{Parts: 2})
		return err
	}
	if err := read(6, 0, 3); err != nil {
		t.Error(err)
	}
	for _, err := range []error{read(6, 0, 1), read(5, 0, 3), read(6, 0), read(3)} {
		if !errors.Is(err, wire.ErrDamaged) {
			t.Errorf("%v, expected damage", err)
		}
	}
}

// What the fit gets of a single segment, without a record, is what it would read from the sums of a record.
func TestVisitToASingleSegment(t *testing.T) {
	sent := &accumulate.Sum{}
	Write(sent, Segment{Partition: 4, Batches: []Batch{sentBatch()}}, false)
	sent.Rows = 3
	r, err := Sent(sent, sentShapeOf(), examples.OneLabel, coverage.Spans{{Partition: 4, To: 1}}, coverage.Tree{Parts: 1})
	if err != nil {
		t.Fatal(err)
	}
	w := Weights{Initial: kernel.NewDense(7, 2), Columns: []int32{5}, Rows: kernel.NewDense(1, 2)}
	w.Rows.Data[0], w.Initial.Data[3] = 0.5, -1
	for _, of := range []Stage{{Curved: true, Reaching: true}, {Curved: true}, {Counted: true}} {
		of.Link = link.Named(link.Softmax)
		sum, got, err := r.Visit(t.Context(), of, &w)
		if err != nil {
			t.Fatal(err)
		}
		all, err := r.sum(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		want, err := online.VisitOf(all.Tensors(), sentShapeOf())
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
