package statistics

import (
	"reflect"
	"testing"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

func TestScores(t *testing.T) {
	if got := LossesOf(nil); got != [examples.Splits]Losses{} || got[0].MeanLoss() != 0 || got[0].ErrorPercent() != 0 {
		t.Error(got)
	}
	got := LossesOf(wire.Tensors[float64]{wire.Matrix(FieldSplits, int(examples.Splits), LossFields, []float64{8, 5, 2, 4, 0, 0, 0, 0,
		1, 1, 1, 0})})
	want := [examples.Splits]Losses{{8, 5, 2, 4}, {}, {1, 1, 1, 0}}
	if !reflect.DeepEqual(got, want) || got[0].MeanLoss() != 0.5 || got[0].ErrorPercent() != 25 || got[2].ErrorPercent() != 100 {
		t.Error(got)
	}
}
