package solve

import (
	"errors"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

func TestClassWeights(t *testing.T) {
	classes, rows := []string{"a", "b", "c"}, map[string]int64{"a": 6, "b": 2}
	factors, err := ClassWeights(schemas.ClassWeight{Balanced: true}, classes, rows, false)
	if err != nil || !slices.Equal(factors, []float32{8.0 / 12, 2, 1}) {
		t.Errorf("balanced: %v, %v", factors, err)
	}
	factors, err = ClassWeights(schemas.ClassWeight{By: map[string]float64{"b": 3, "c": 0}}, classes, rows, false)
	if err != nil || !slices.Equal(factors, []float32{1, 3, 0}) {
		t.Errorf("by label: %v, %v", factors, err)
	}
	if factors, err = ClassWeights(schemas.ClassWeight{}, classes, rows, false); factors != nil || err != nil {
		t.Errorf("none: %v, %v", factors, err)
	}
	unknown := schemas.ClassWeight{By: map[string]float64{"d": 3}}
	if _, err = ClassWeights(unknown, classes, rows, false); !errors.As(err, new(*ClassWeightError)) {
		t.Errorf("a label that is no class: %v", err)
	}
	if factors, err = ClassWeights(unknown, classes, rows, true); err != nil || !slices.Equal(factors, []float32{1, 1, 1}) {
		t.Errorf("a label that may come: %v, %v", factors, err)
	}
}
