package kernel

import (
	"math"
	"slices"
)

// SimplexRows replaces each row of x by the nearest point (in Euclidean distance) of the probability simplex: Duchi,
// Shalev-Shwartz, Singer, Chandra, Efficient Projections onto the ℓ1-Ball for Learning in High Dimensions, ICML 2008,
// figure 1 with z = 1. A NaN stays NaN, and a row with +Inf becomes NaN.
//
// It allocates only if the capacity of scratch is less than x.Cols.
func SimplexRows(x Dense, scratch []float32) {
	x.check("SimplexRows", "x", x.Rows, x.Cols)
	scratch = slices.Grow(scratch[:0], x.Cols)[:x.Cols]
	for i := range x.Rows {
		row := x.Row(i)
		copy(scratch, row)
		slices.Sort(scratch)
		theta := threshold(scratch)
		for j, v := range row {
			row[j] = float32(max(float64(v)-theta, 0))
		}
	}
}

// threshold returns the θ with Σ max(v−θ, 0) = 1. The values ascend; the figure's μ descend.
func threshold(sorted []float32) float64 {
	theta := math.NaN()
	var sum float64
	for j := 1; j <= len(sorted); j++ {
		mu := float64(sorted[len(sorted)-j])
		sum += mu
		t := (sum - 1) / float64(j)
		if !(mu > t) {
			break // the figure's ρ is the last j for which this holds, and it holds for all j up to ρ
		}
		theta = t
	}
	return theta
}
