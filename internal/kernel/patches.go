package kernel

import (
	"math"

	"github.com/viterin/vek/vek32"
)

// ScaleRows replaces each row of x by row·factors[i] − offset, and then gives it that length. A row shorter than 1e-6 is divided by
// 1e-6 instead of its length. factors has x.Rows values, offset x.Cols.
func ScaleRows(x Dense, factors, offset []float32, length float32) {
	x.check("ScaleRows", "x", len(factors), len(offset))
	for i, factor := range factors {
		row := x.Row(i)
		vek32.MulNumber_Inplace(row, factor)
		vek32.Sub_Inplace(row, offset)
		norm := float32(math.Sqrt(float64(vek32.Dot(row, row))))
		vek32.MulNumber_Inplace(row, length/max(norm, 1e-6))
	}
}

// AddRectified adds max(z, threshold) to above, and max(−z, threshold) to below, for each column of each row of z. So the sums of
// max(z − threshold, 0) and max(−z − threshold, 0) are these sums less as many thresholds as there are rows: it takes two
// operations on vectors less. scratch has at least as many values as a row of z.
func AddRectified(above, below []float32, z Dense, threshold float32, scratch []float32) {
	z.check("AddRectified", "z", z.Rows, len(above))
	z.check("AddRectified", "z", z.Rows, len(below))
	part := scratch[:z.Cols]
	for i := range z.Rows {
		row := z.Row(i)
		vek32.MaximumNumber_Into(part, row, threshold)
		vek32.Add_Inplace(above, part)
		vek32.MinimumNumber_Into(part, row, -threshold)
		vek32.Sub_Inplace(below, part)
	}
}
