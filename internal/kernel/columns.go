package kernel

import "fmt"

// FromBytes converts src into dst, which must have the same length.
func FromBytes(dst []float32, src []uint8) {
	if len(dst) != len(src) {
		panic(fmt.Sprintf("kernel: FromBytes: dst has %d values, src %d", len(dst), len(src)))
	}
	for i, v := range src {
		dst[i] = float32(v)
	}
}

// Standardize replaces each x[i, j] by (x[i, j] − center[j])·scale[j], and a NaN, which is a missing value, by 0.
func Standardize(x Dense, center, scale []float32) {
	x.check("Standardize", "x", x.Rows, len(center))
	x.check("Standardize", "x", x.Rows, len(scale))
	for i := range x.Rows {
		row := x.Row(i)
		center, scale := center[:len(row)], scale[:len(row)]
		for j, v := range row {
			if v != v {
				row[j] = 0
			} else {
				row[j] = (v - center[j]) * scale[j]
			}
		}
	}
}

// AddColumns replaces each x[i, j] by z = x[i, j] − center[j], and a NaN by 0. For each column it adds Σ w·z to sums, Σ
// w·z² to squares, and the weights of the values that are not NaN to present. Rows of weight 0 add nothing, even if
// they hold an infinity.
func AddColumns(sums, squares, present []float64, x Dense, center, weights []float32) {
	n := x.Cols
	x.check("AddColumns", "x", len(weights), len(center))
	if len(sums) != n || len(squares) != n || len(present) != n {
		panic(fmt.Sprintf("kernel: AddColumns: %d sums, %d squares and %d present, want %d of each", len(sums), len(squares), len(present), n))
	}
	for i, weight := range weights {
		row, w := x.Row(i), float64(weight)
		center, sums, squares, present := center[:len(row)], sums[:len(row)], squares[:len(row)], present[:len(row)]
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
