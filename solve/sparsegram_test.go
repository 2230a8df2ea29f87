package solve

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/wire"
)

// packed returns the nonzero values of a packed lower triangle, with their indices.
func packed(gram []float64) (pairs []float64) {
	for place, v := range gram {
		if v != 0 {
			pairs = append(pairs, float64(place), v)
		}
	}
	return pairs
}

// Either way to invert a block's matrix gives the inverse of its Cholesky factor.
func TestSparseGram(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	for _, p := range []int{2, 63, 64, 65, 200} {
		for _, each := range []int{1, 2, 40} { // most columns of a row
			gram := make([]float64, p*(p+1)/2)
			for range 5 * p {
				row := make([]float64, p)
				for range min(each, p) {
					row[r.IntN(p)] = r.NormFloat64()
				}
				for i, at := 0, 0; i < p; i++ {
					for j := range i + 1 {
						gram[at] += row[i] * row[j]
						at++
					}
				}
			}
			const k = 3
			g := make([]float64, p*k)
			for i := range g {
				g[i] = r.NormFloat64()
			}
			exact := arrowtest.Must(newPreconditioner(gram, p, p-1, 100, 0.01, 0.5, &Buffer{}))(t)
			metric := arrowtest.Must(newBlockMetric(packed(gram), p, p-1, 100, 0.01, 0.5, &Buffer{}))(t)
			if _, sparse := metric.(*sparseGram); p == 200 && sparse != (each < 40) {
				t.Errorf("%d of %d columns a row: a %T", each, p, metric)
			}
			want, largest := solved(exact, g, k), 0.0
			for _, v := range want {
				largest = max(largest, math.Abs(v))
			}
			for i, v := range solved(metric, g, k) {
				if math.Abs(v-want[i]) > 1e-5*largest {
					t.Fatalf("%d of %d columns a row: value %d is %v, expected %v", each, p, i, v, want[i])
				}
			}
			if zeros := solved(metric, make([]float64, p*k), k); slices.ContainsFunc(zeros, func(v float64) bool { return v != 0 }) {
				t.Errorf("%d of %d columns a row: the inverse times 0 is %v", each, p, zeros)
			}
		}
	}
}

// An invalid Gram matrix is an error.
func TestBlockMetricChecksItsMatrix(t *testing.T) {
	many := func(pairs ...float64) []float64 { return append([]float64{0, 1, 2, 1}, pairs...) }
	for name, test := range map[string]struct {
		pairs []float64
		is    func(error) bool
	}{
		"a place twice":       {many(2, 1), func(err error) bool { return errors.Is(err, wire.ErrDamaged) }},
		"a place of no value": {many(20*21/2, 1), func(err error) bool { return errors.Is(err, wire.ErrDamaged) }},
		"no whole place":      {many(2.5, 1), func(err error) bool { return errors.Is(err, wire.ErrDamaged) }},
		"NaN":                 {many(5, math.NaN()), func(err error) bool { return errors.As(err, new(*NotFiniteError)) }},
		"an empty column":     {many(), func(err error) bool { return errors.As(err, new(*SingularError)) }},
	} {
		if _, err := newBlockMetric(test.pairs, 20, 20, 1, 0, 1, &Buffer{}); err == nil || !test.is(err) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
