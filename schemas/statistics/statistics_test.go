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

// The cross moments of a sum are those of all rows and of each increment, and no other field.
func TestCrossMoments(t *testing.T) {
	of := Increment(3)
	for field, want := range map[string]bool{
		FieldCross: true, of.Cross(): true, of.Scores(): true, of.Terms(): false, of.Visited(): false, FieldGram: false, "scores": false, "": false,
	} {
		if got := IsCross(field); got != want {
			t.Errorf("%q is a cross moment: %v, expected %v", field, got, want)
		}
	}
}
