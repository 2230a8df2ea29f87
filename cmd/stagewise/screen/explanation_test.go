package screen

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/explain"
)

// Labels are in the order of the model, also if rounding makes the probability of a later one change more, and the labels whose probability
// changes little are the last ones.
func TestCurveOrdersLabels(t *testing.T) {
	for _, labels := range [][]string{{"no", "yes"}, {"constant", "a", "b", "c", "d"}} {
		first, last := make([]float64, len(labels)), make([]float64, len(labels))
		for k := range labels {
			last[k] = 0.5 + 1e-9*float64(k)
		}
		want := labels
		if len(labels) > maxColumns {
			last[0] = 0
			want = append(slices.Clone(labels[1:]), labels[0])
		}
		c := explain.Curve{Name: "column", Points: []explain.CurvePoint{{Value: "1", Mean: first}, {Value: "2", Mean: last}}}
		if got := curve(&explain.Report{Labels: labels}, &c).Head[1:]; !slices.Equal(got, want) {
			t.Errorf("labels %q, expected %q", got, want)
		}
	}
}
