package statistics

import (
	"math"
	"testing"
)

// A curve that is shortened has at most so many bins, and the messages, rows, weights, errors and losses of the whole.
func TestShorten(t *testing.T) {
	var curve []ErrorBin
	for i := range 1001 {
		m := MessageLosses{Offset: int64(i), Losses: Losses{Weight: float64(i % 3), Rows: float64(i%3) + 1, Errors: float64(i%3) / 2,
			Loss: float64(i % 3 * 4)}}
		curve = append(curve, m.Bin(m.Offset))
	}
	totals := func(curve []ErrorBin) (t [5]float64) {
		for _, b := range curve {
			for i, v := range []float64{float64(b.Messages), float64(b.Rows), b.Weight, b.Weight * b.Error, b.Weight * b.Loss} {
				t[i] += v
			}
		}
		return t
	}
	want := totals(curve)
	for _, most := range []int{1, 100, 1000, 1001} {
		short := Shorten(curve, most)
		if len(short) > most || 2*len(short) < min(most, len(curve)) {
			t.Errorf("%d bins, expected at most %d, and more than half of that", len(short), most)
		}
		for i, got := range totals(short) {
			if math.Abs(got-want[i]) > 1e-9*want[i] {
				t.Errorf("%d bins: sum %d is %v, expected %v", most, i, got, want[i])
			}
		}
		for i := 1; i < len(short); i++ {
			if short[i].Offset != short[i-1].Offset+short[i-1].Messages {
				t.Errorf("%d bins: bin %d begins at %d", most, i, short[i].Offset)
			}
		}
	}
	if short := Shorten(nil, 3); len(short) > 0 {
		t.Errorf("a curve of nothing: %v", short)
	}
}
