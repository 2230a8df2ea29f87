package kernel

import "fmt"

// FromBytes converts src into dst, which is as long.
func FromBytes(dst []float32, src []uint8) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernel: FromBytes: %d values of %d", len(dst), len(src)))
	}
	if wide() && len(src) > 0 {
		bytesToFloats(&dst[0], &src[0], len(src))
		return
	}
	for i, v := range src {
		dst[i] = float32(v)
	}
}

// Standardize replaces each x[i, j] by (x[i, j] − center[j])·scale[j], and a NaN, which is what a missing value is, by 0.
func Standardize(x Dense, center, scale []float32) {
	x.check("Standardize", "x", x.Rows, len(center))
	x.check("Standardize", "x", x.Rows, len(scale))
	if len(x.Data) == 0 {
		return
	}
	for i := range x.Rows {
		row := x.Row(i)
		if wide() {
			standardizeRow(&row[0], &center[0], &scale[0], len(row))
			continue
		}
		for j, v := range row {
			if v != v {
				row[j] = 0
			} else {
				row[j] = (v - center[j]) * scale[j]
			}
		}
	}
}

// AddColumns replaces each value of x by z = x[i, j] − center[j], and a NaN by 0, and adds for each column Σ w·z to sums, Σ w·z²
// to squares, and to present the weights of what is no NaN. Rows of weight 0 count for nothing, whatever they hold.
func AddColumns(sums, squares, present []float64, x Dense, center, weights []float32) {
	n := x.Cols
	x.check("AddColumns", "x", len(weights), len(center))
	if len(sums) != n || len(squares) != n || len(present) != n {
		panic(fmt.Sprintf("kernel: AddColumns: %d, %d and %d sums of %d columns", len(sums), len(squares), len(present), n))
	}
	if len(x.Data) == 0 {
		return
	}
	for i := range x.Rows {
		row, w := x.Row(i), float64(weights[i])
		if wide() && w > 0 {
			momentsRow(&sums[0], &squares[0], &present[0], &row[0], &center[0], w, n)
			continue
		}
		for j, v := range row {
			if v != v {
				row[j] = 0
				continue
			}
			z := v - center[j]
			row[j] = z
			if w > 0 {
				sums[j] += w * float64(z)
				squares[j] += w * float64(z) * float64(z)
				present[j] += w
			}
		}
	}
}
