package stages

import (
	"fmt"
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Slopes are mean gradients, as central differences at many points of the path have them, and add up to the rise of the score.
func TestSlopesAreMeanGradients(t *testing.T) {
	const inputs, k, points, step = 7, 2, 64, 1.0 / 32
	for _, f := range variants(5) {
		t.Run(fmt.Sprint(f.Kind, f.Replacement), func(t *testing.T) {
			m := mustMap(t, f, 1, plain(inputs, 11), 0, true)
			x, w, blas := normals(1, inputs, 1), normals(m.Size(), k, 1), kernel.Gonum()
			x.Data[3] = 0
			slopes := kernel.NewDense(inputs, k)
			m.AddSlopes(blas, slopes, x.Data, w)
			score := func(t float64, input int, by float64) kernel.Dense {
				at, scores := kernel.NewDense(1, inputs), kernel.NewDense(1, k)
				for i, v := range x.Data {
					at.Data[i] = float32(t * float64(v))
				}
				at.Data[input] += float32(by)
				blas.Mul(scores, expand(m, at, kernel.Dense{}), w, false)
				return scores
			}
			for out := range k {
				rise := float64(score(1, 0, 0).Data[out] - score(0, 0, 0).Data[out])
				for i, v := range x.Data {
					rise -= float64(v) * float64(slopes.Row(i)[out])
					want := 0.0
					for q := range points {
						at := (float64(q) + 0.5) / points
						want += float64(score(at, i, step).Data[out]-score(at, i, -step).Data[out]) / (2 * step * points)
					}
					if got := float64(slopes.Row(i)[out]); math.Abs(got-want) > 2e-3*(1+math.Abs(want)) {
						t.Errorf("the slope of input %d is %g, want %g", i, got, want)
					}
				}
				if math.Abs(rise) > 1e-5 {
					t.Errorf("the score rises by %g more than the slopes say", rise)
				}
			}
		})
	}
}
