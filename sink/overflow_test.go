package sink

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
)

// A score that overflows stays that before the stage, whatever the link.
func TestScoresThatOverflow(t *testing.T) {
	w, identity := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{1e30, 1}}, kernel.NewDense(6, 2)
	identity.Row(0)[0], identity.Row(1)[1] = 1, 1
	before, block := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 2, 3, 4, 5, 6}}, kernel.Dense{Rows: 3, Cols: 1,
		Data: []float32{0, 1, 3e38}}
	for name, f := range map[string]*Fitted{"known": {W: kernel.NewWeights(w)},
		"learnt": {Passes: []CalibratedPass{{W: kernel.NewWeights(w)}}}} {
		for what, scores := range map[string]func(dst kernel.Dense) []int{
			"scores": func(dst kernel.Dense) []int { return f.Scores(kernel.Gonum(), dst, before, block) },
			"shown":  func(dst kernel.Dense) []int { return f.Shown(kernel.Gonum(), &Workspace{}, dst, before, block) },
		} {
			dst := kernel.NewDense(3, 2)
			if overflowed := scores(dst); !slices.Equal(overflowed, []int{1, 2}) || !slices.Equal(dst.Data, before.Data) {
				t.Errorf("%s %s: %v, of which %v overflow; expected %v", name, what, dst.Data, overflowed, before.Data)
			}
		}
	}
	f := &Fitted{Passes: []CalibratedPass{{W: kernel.NewWeights(w), Calibration: identity}}}
	dst := kernel.NewDense(3, 2)
	f.Shown(kernel.Gonum(), &Workspace{}, dst, before, block)
	if slices.ContainsFunc(dst.Data, func(v float32) bool { return v-v != 0 }) {
		t.Errorf("calibrated predictions are %v", dst.Data)
	}
}
