package solve

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/kernel"
)

// rowsPerProduct is the number of rows of the sample that are multiplied at once, so that the products stay in the
// cache: 1 MB for 2000 rows.
const rowsPerProduct = 64

// rounding bounds the rounding error of a squared distance, computed from products, relative to the squared lengths of
// its rows. Distances below it are 0.
const rounding = 1e-13

// Spread returns the median squared distance between prepared rows (n × m). If more than half of the pairs are equal
// rows it is the mean, and if all rows are equal it is 1, so that it is a valid divisor. Equal rows must have equal
// bits. Prepared rows are short enough for distances in float32.
func Spread(rows kernel.Dense) float32 {
	n := rows.Rows
	if n < 2 {
		return 1
	}
	// in float64, as a distance is the small difference of large products
	x := mat.NewDense(n, rows.Cols, wide(rows.Data))
	lengths, distances, sum := make([]float64, n), make([]float32, 0, n*(n-1)/2), 0.0
	for i := range n {
		lengths[i] = floats.Dot(x.RawRowView(i), x.RawRowView(i))
	}
	var products mat.Dense
	for from := 0; from < n; from += rowsPerProduct {
		to := min(from+rowsPerProduct, n)
		products.Reset()
		products.Mul(x.Slice(from, to, 0, rows.Cols), x.Slice(from, n, 0, rows.Cols).T())
		for i := from; i < to; i++ {
			others := lengths[i+1:]
			for j, product := range products.RawRowView(i - from)[i+1-from:] {
				both := lengths[i] + others[j]
				distance := both - 2*product
				if distance < rounding*both {
					distance = 0
				}
				distances, sum = append(distances, float32(distance)), sum+distance
			}
		}
	}
	if s := median(distances); s > 0 {
		return s
	}
	if mean := float32(sum / float64(len(distances))); mean > 0 {
		return mean
	}
	return 1
}

// median returns the median of numbers ≥ 0, the lower one of an even count. The bits of such numbers sort like the numbers, so counts by
// their leading half leave few numbers to sort.
func median(x []float32) float32 {
	leading := func(v float32) uint32 { return math.Float32bits(v) >> 16 }
	counts, rank, half := make([]int, 1<<16), (len(x)-1)/2, uint32(0)
	for _, v := range x {
		counts[leading(v)]++
	}
	for ; rank >= counts[half]; half++ {
		rank -= counts[half]
	}
	same := make([]float32, 0, counts[half])
	for _, v := range x {
		if leading(v) == half {
			same = append(same, v)
		}
	}
	slices.Sort(same)
	return same[rank]
}
