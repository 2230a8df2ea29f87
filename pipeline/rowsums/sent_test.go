package rowsums

import (
	"errors"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
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
		_, err := Sent(sent, sentShapeOf(), examples.OneLabel, spans, coverage.Tree{Parts: 2}, &online.Memory{})
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

// What the fit gets of sent rows has the bits of what it would read from the records of their segments, in each visit.
func TestVisitsAreOfTheSumsOfSegments(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	shape := solve.Shape{Columns: inputs + 1, Penalised: inputs, Classes: classes}
	for trial := range 60 {
		tree, spans := coverage.Tree{Parts: 1 + r.IntN(6), Group: 1 + r.IntN(4)}, coverage.Spans{}
		sent, parts := &accumulate.Sum{}, make([][]Segment, tree.Parts)
		for partition := range parts {
			spans = append(spans, coverage.Span{Partition: 2 * partition, To: 1})
			for number := range r.IntN(4) {
				s := silenced(segment(r, 2*partition, number, examples.OneLabel))
				parts[partition] = append(parts[partition], s)
				one := &accumulate.Sum{}
				Write(one, s, true)
				if err := sent.Merge(one); err != nil {
					t.Fatal(err)
				}
				for _, b := range s.Batches {
					sent.Rows += int64(b.Block.Rows)
				}
			}
		}
		rows, err := Sent(sent, shape, examples.OneLabel, spans, tree, &online.Memory{})
		if err != nil {
			t.Fatal(err)
		}
		for visit := range 3 {
			of := StageOf(link.Named(link.Softmax), trial%3 == 0, visit, 2)
			w := &Weights{Initial: kernel.NewDense(inputs+1, classes)}
			for i := range w.Initial.Data {
				w.Initial.Data[i] = r.Float32() - 0.5
			}
			reduction := accumulate.NewReduction(tree)
			for partition, segments := range parts {
				if err := reduction.Add(partition/tree.Group, sums(t, segments, of, w)); err != nil {
					t.Fatal(err)
				}
			}
			all, err := reduction.Sum()
			if err != nil {
				t.Fatal(err)
			}
			want, err := online.VisitOf(all.Tensors(), shape)
			if err != nil {
				t.Fatal(err)
			}
			sum, got, err := rows.Visit(t.Context(), of, w)
			if err != nil {
				t.Fatal(err)
			}
			for _, table := range [][2]statistics.Occurring{{got.Gradient, want.Gradient}, {got.Curvature, want.Curvature},
				{got.Reach, want.Reach}, {got.Counted, want.Counted}} {
				bits := func(a, b float64) bool { return math.Float64bits(a) == math.Float64bits(b) }
				if !slices.Equal(table[0].Columns, table[1].Columns) || !slices.EqualFunc(table[0].Values, table[1].Values, bits) {
					t.Fatalf("trial %d, visit %d: got %v, want %v", trial, visit, table[0], table[1])
				}
			}
			if of.Ends = !of.Counted && !of.Reaching; of.Ends {
				_, last, err := rows.Visit(t.Context(), of, w)
				if err != nil {
					t.Fatal(err)
				}
				if last.Gradient.Values != nil || !slices.Equal(last.Curvature.Values, got.Curvature.Values) || last.Losses != got.Losses {
					t.Errorf("trial %d, visit %d: the visit that ends has %v, want %v without the gradient", trial, visit, last, got)
				}
			}
			if !reflect.DeepEqual(got.Losses, want.Losses) {
				t.Errorf("trial %d, visit %d: the losses are %v, want %v", trial, visit, got.Losses, want.Losses)
			}
			for _, f := range sum.Tensors() {
				if of, _ := all.Tensors().Find(f.Name); !reflect.DeepEqual(f, of) {
					t.Errorf("trial %d, visit %d: got %v, want %v", trial, visit, f, of)
				}
			}
		}
	}
}
