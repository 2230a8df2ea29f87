package model

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// sparsePreparation returns a preparation that keeps some columns of sparse rows.
func sparsePreparation(t *testing.T, columns []int32) *prepare.Preparation {
	factors, labels := statistics.Factors{Width: 1 << 12}, wire.Tensor[float32]{Name: statistics.TensorLabels, Shape: []int{2}, Text: []string{"a", "b"}}
	factors.Columns = columns
	for range columns {
		factors.Values = append(factors.Values, 1)
	}
	p := arrowtest.Must(prepare.New(schemas.Prepare{}, append(factors.Tensors(false), labels)))(t)
	return p
}

// The weights of a model on more columns are those of its columns, and 0 elsewhere.
func TestWeightsOnMoreColumns(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		var few, all []int32
		for column := range int32(300) {
			if n := r.IntN(3); n > 0 || column == 0 {
				all = append(all, column)
				if n > 1 || column == 0 {
					few = append(few, column)
				}
			}
		}
		before, after := sparsePreparation(t, few), sparsePreparation(t, all)
		w := kernel.NewDense(len(few)+1, 2) // the intercept is last
		for i := range w.Data {
			w.Data[i] = r.Float32()
		}
		m := &Model{prepared: before, stages: []fittedStage{{fitted: &sink.Fitted{W: kernel.Weights{Dense: w}}}}}
		got := m.WeightsOn(0, after)
		want := make([]float32, 2*(len(all)+1))
		for i, column := range few {
			copy(want[2*slices.Index(all, column):], w.Row(i))
		}
		copy(want[2*len(all):], w.Row(len(few)))
		if !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

// A record of an update on sparse rows does not change the memory of the weights that a stage begins at.
func TestFittedLeavesInitialWeights(t *testing.T) {
	prepared := sparsePreparation(t, []int32{1, 4, 9, 16})
	plan := &schemas.Plan{Seed: 1, Stages: []schemas.Stage{{Features: schemas.Features{Kind: stages.Columns}, Link: "softmax"}}}
	s := arrowtest.Must(NewStage(plan, 0, prepared))(t)
	initial := []float32{1, 2, 3, 4, 5, 6, 7, 8}
	published := []*schemas.Weights{{Tensors: wire.Tensors[float32]{statistics.InputsTensor(statistics.TensorOccurring, []int32{0, 2}),
		wire.Matrix(statistics.TensorRows, 2, 2, []float32{10, 20, 30, 40}), wire.Vector(statistics.TensorShift, []float32{0.5, -0.5})}}}
	for range 2 {
		f := arrowtest.Must(s.Fitted(initial, published))(t)
		if want := []float32{10, 20, 3.5, 3.5, 30, 40, 7.5, 7.5}; !slices.Equal(f.W.Data, want) {
			t.Fatalf("got %v, want %v", f.W.Data, want)
		}
		if initial[0] != 1 || initial[7] != 8 {
			t.Fatalf("the initial weights are %v", initial)
		}
	}
}
