package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// The median is what sorting finds, of few numbers and of many, near each other and not.
func TestMedian(t *testing.T) {
	draws := map[string]func(*rand.Rand) float64{
		"of all sizes": func(r *rand.Rand) float64 { return math.Exp(100 * r.NormFloat64()) },
		"near":         func(r *rand.Rand) float64 { return 1 + r.Float64()/1e6 },
		"few":          func(r *rand.Rand) float64 { return float64(r.IntN(3)) },
		"equal":        func(*rand.Rand) float64 { return 0.1 },
		"zeros":        func(*rand.Rand) float64 { return 0 },
		"infinite":     func(r *rand.Rand) float64 { return 1 / float64(r.IntN(2)) },
	}
	for name, draw := range draws {
		for _, n := range []int{1, 2, 3, 4095, 4096, 4097, 20_000} {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			x := make([]float64, n)
			for i := range x {
				x[i] = draw(r)
			}
			before := slices.Clone(x)
			want := slices.Sorted(slices.Values(x))[(n-1)/2]
			if got := median(x); got != want {
				t.Errorf("%s, %d: median %g, expected %g", name, n, got, want)
			}
			if !slices.Equal(x, before) {
				t.Errorf("%s, %d: the numbers were moved", name, n)
			}
		}
	}
}

// Equal rows are at no distance, not at one of rounding, wherever they are in the sample: where most pairs are equal the mean
// counts.
func TestSpreadOfEqualRows(t *testing.T) {
	blas, err := kernel.Open("")
	if err != nil {
		t.Fatal(err)
	}
	blas.UseForSolves()
	defer kernel.Gonum().UseForSolves()
	for _, d := range []int{3, 37, 50, 63, 64, 65, 784} {
		const n = 3*strip + 8
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
		basis := make([]float32, d*2)
		for i := range basis {
			basis[i] = r.Float32()
		}
		for components, basis := range map[int][]float32{0: nil, 2: basis} {
			if s := spread(sample, make([]float32, d), scale, basis, schemas.Prepare{PCA: components}); s < 0.01 {
				t.Errorf("%d columns, %d components: spread %g, expected the mean of the distances", d, components, s)
			}
		}
	}
}
