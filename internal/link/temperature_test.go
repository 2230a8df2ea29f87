package link

import (
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
)

// A temperature above 1 makes predictions less confident, and one below 1 more, of the links whose scores are logarithms. The order of the
// classes stays, and 1 changes no bit.
func TestTemperature(t *testing.T) {
	for _, l := range All() {
		if want := l.Name == "softmax" || l.Name == "logistic"; l.HasTemperature() != want {
			t.Errorf("%s has a temperature: %v", l.Name, l.HasTemperature())
		}
		if !l.HasTemperature() {
			continue
		}
		predicted := func(temperature float64) []float32 {
			score := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{2, -1, 0.5}}
			Temper(score, temperature)
			l.Predict(score)
			return score.Data
		}
		plain := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{2, -1, 0.5}}
		l.Predict(plain)
		if got := predicted(1); !slices.Equal(got, plain.Data) {
			t.Errorf("%s: at temperature 1 %v is predicted, without %v", l.Name, got, plain.Data)
		}
		hot, cold := predicted(2), predicted(0.5)
		if !(hot[0] < plain.Data[0] && plain.Data[0] < cold[0]) || Largest(hot) != 0 || Largest(cold) != 0 {
			t.Errorf("%s: %v at temperature 2, %v at 1, %v at 0.5", l.Name, hot, plain.Data, cold)
		}
	}
	score := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{3, 0}}
	if Temper(score, 1.5); math.Abs(float64(score.Data[0]-2)) > 1e-6 {
		t.Errorf("3 at temperature 1.5 is %v", score.Data[0])
	}
}

// The temperatures that are compared ascend, and have 1 among them: a choice may leave scores as they are.
func TestTemperaturesHaveOne(t *testing.T) {
	if all := Temperatures(); !slices.IsSorted(all) || !slices.Contains(all, 1) {
		t.Errorf("temperatures %v", all)
	}
}
