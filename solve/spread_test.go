package solve

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Equal rows are at no distance, not at one of rounding, wherever they are in the sample: where most pairs are equal the mean
// counts.
func TestSpreadOfEqualRows(t *testing.T) {
	blas, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	blas.UseForSolves()
	defer kernel.Gonum().UseForSolves()
	for _, d := range []int{3, 37, 50, 64, 784} {
		const n = 200
		r := rand.New(rand.NewPCG(uint64(d), 2))
		usual, sample, scale := make([]float32, d), []float32{}, make([]float32, d)
		for j := range usual {
			usual[j], scale[j] = r.Float32(), 1
		}
		for i := range n {
			row := slices.Clone(usual)
			if i%7 == 3 { // six of seven rows are equal, and so are most pairs
				for j := range row {
					row[j] = r.Float32()
				}
			}
			sample = append(sample, row...)
		}
		if s := spread(sample, make([]float32, d), scale, nil, schemas.Prepare{}); s < 0.01 {
			t.Errorf("%d columns: spread %g, expected the mean of the distances", d, s)
		}
	}
}
