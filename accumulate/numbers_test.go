package accumulate

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Distances are those of their definitions, in the units of the numbers, over two messages. Rows without weight or numbers count nowhere.
func TestDistances(t *testing.T) {
	rows := func(targets []float32, weights []float32, classes []int32) Rows {
		n := len(weights)
		return Rows{
			Truth: link.Truth{Classes: classes, Targets: kernel.Dense{Rows: n, Cols: 2, Data: targets}}, Task: examples.Numbers, Weights: weights,
			Splits: make([]examples.Split, n),
		}
	}
	nan := float32(math.NaN())
	sum := &Sum{}
	for _, m := range []struct {
		Rows
		prediction []float32
	}{
		{rows([]float32{1, 0, 3, 0, 9, 9}, []float32{1, 1, 0}, []int32{0, 0, 0}), []float32{2, 0, 3, 0, nan, nan}},
		{rows([]float32{5, 0, 0, 0}, []float32{2, 1}, []int32{0, examples.Unlabelled}), []float32{4, 0, nan, nan}},
	} {
		prediction := kernel.Dense{Rows: len(m.Weights), Cols: 2, Data: m.prediction}
		sum.AddLosses(m.Rows, make([]float32, len(m.Weights)), nil, prediction)
		sum.AddQuality(m.Rows, prediction, nil)
	}
	if l := statistics.LossesOf(sum.Tensors())[examples.Train]; l.Weight != 4 || l.Rows != 4 || math.Abs(l.Errors-1.5) > 1e-12 {
		t.Errorf("%+v", l)
	}
	// The first number: y is 1, 3, 5, 5, errors are −1, 0, 1, 1.
	all, each := sum.DistancesOf(examples.Train, []float32{10, 1})
	want := statistics.Distances{RMSE: 10 * math.Sqrt(0.75), MAE: 7.5, R2: 1 - 3.0/11}
	if d := each[0]; math.Abs(d.RMSE-want.RMSE) > 1e-9 || math.Abs(d.MAE-want.MAE) > 1e-9 || math.Abs(d.R2-want.R2) > 1e-9 {
		t.Errorf("%+v, expected %+v", d, want)
	}
	if d := each[1]; d != (statistics.Distances{R2: 1}) { // it never changes, and is predicted so
		t.Errorf("%+v", d)
	}
	if math.Abs(all.RMSE-want.RMSE/2) > 1e-9 || math.Abs(all.R2-(want.R2+1)/2) > 1e-9 {
		t.Errorf("the means are %+v", all)
	}
	if all, each := sum.DistancesOf(examples.Test, []float32{10, 1}); all != nil || each != nil {
		t.Errorf("a split without rows has %+v", all)
	}
}
