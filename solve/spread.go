package solve

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"
	"gonum.org/v1/gonum/stat"

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
// bits. It returns a *NotFiniteError if the result overflows float32.
func Spread(rows kernel.Dense) (float32, error) {
	n := rows.Rows
	if n < 2 {
		return 1, nil
	}
	// in float64, as a distance is the small difference of large products
	x := mat.NewDense(n, rows.Cols, wide(rows.Data))
	lengths, distances := make([]float64, n), make([]float64, 0, n*(n-1)/2)
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
				distances = append(distances, distance)
			}
		}
	}
	for _, s := range []float64{median(distances), stat.Mean(distances, nil)} {
		if !Finite(float64(float32(s))) {
			return 0, &NotFiniteError{What: "the distance between examples"}
		}
		if float32(s) > 0 {
			return float32(s), nil
		}
	}
	return 1, nil
}

// median returns the median of numbers ≥ 0, the lower one of an even count. The bits of numbers ≥ 0 sort like the
// numbers. So a radix count finds the leading bits of the median, and only the numbers with these bits need sorting.
func median(x []float64) float64 {
	const digit, few = 16, 1 << 12 // below few, sorting is faster than clearing the counts
	rank := (len(x) - 1) / 2
	for low := 64 - digit; low >= 0 && len(x) > few; low -= digit {
		counts := make([]int, 1<<digit)
		for _, v := range x {
			counts[math.Float64bits(v)>>low%(1<<digit)]++
		}
		top := 0
		for ; rank >= counts[top]; top++ {
			rank -= counts[top]
		}
		same := make([]float64, 0, counts[top])
		for _, v := range x {
			if math.Float64bits(v)>>low%(1<<digit) == uint64(top) {
				same = append(same, v)
			}
		}
		x = same
	}
	return slices.Sorted(slices.Values(x))[rank]
}
