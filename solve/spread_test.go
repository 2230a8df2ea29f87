package solve

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kernel"
)

// The median equals that of sorting, for few and many numbers, close together and far apart.
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
				t.Errorf("%s, %d: the argument was changed", name, n)
			}
		}
	}
}

// Equal rows have distance 0, not rounding, anywhere in the sample and with any BLAS. Most pairs are equal here, so the
// spread is the mean.
func TestSpreadOfEqualRows(t *testing.T) {
	blas := arrowtest.Must(kernel.Open(""))(t)
	blas.UseForSolves()
	defer kernel.Gonum().UseForSolves()
	for _, m := range []int{1, 3, 37, 50, 63, 64, 65, 784} {
		const n = 3*rowsPerProduct + 8
		r := rand.New(rand.NewPCG(uint64(m), 2))
		usual, rows := make([]float32, m), kernel.NewDense(n, m)
		for j := range usual {
			usual[j] = r.Float32()
		}
		for i := range n {
			copy(rows.Row(i), usual)
			if i%7 == 3 { // six of seven rows are equal, and so are most pairs
				for j := range m {
					rows.Row(i)[j] = r.Float32()
				}
			}
		}
		if s, err := Spread(rows); err != nil || s < 0.01 {
			t.Errorf("%d columns: spread %g, %v, expected the mean of the distances", m, s, err)
		}
	}
}

// The spread is the median of all pairwise distances by their definition.
func TestSpreadAgainstItsDefinition(t *testing.T) {
	for _, n := range []int{2, 3, 63, 64, 65, 300} {
		r, rows := rand.New(rand.NewPCG(uint64(n), 3)), kernel.NewDense(n, 5)
		for i := range rows.Data {
			rows.Data[i] = float32(r.NormFloat64())
		}
		var distances []float64
		for i := range n {
			for j := range i {
				sum := 0.0
				for c, v := range rows.Row(i) {
					d := float64(v) - float64(rows.Row(j)[c])
					sum += d * d
				}
				distances = append(distances, sum)
			}
		}
		slices.Sort(distances)
		want := distances[(len(distances)-1)/2]
		if got, err := Spread(rows); err != nil || math.Abs(float64(got)-want) > 1e-6*want {
			t.Errorf("%d rows: %v, %v, expected %v", n, got, err, want)
		}
	}
}

func TestSpreadThatOverflows(t *testing.T) {
	for _, rows := range [][]float32{{3e38, -3e38, 1e38}, {float32(math.Inf(1)), 1, 2}, {float32(math.NaN()), 1, 2}} {
		if s, err := Spread(kernel.Dense{Rows: 3, Cols: 1, Data: rows}); !errors.As(err, new(*NotFiniteError)) {
			t.Errorf("%v: %v, %v", rows, s, err)
		}
	}
}
