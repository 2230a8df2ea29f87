package kernel

import (
	"fmt"
	"math"

	"github.com/viterin/vek"
	"github.com/viterin/vek/vek32"
)

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

// UnitRows divides each row of x by its Euclidean length. Rows of zeros do not change. Missing values (NaN) add nothing to the length and
// stay missing. It computes in float64: the reciprocal length of subnormal numbers exceeds the range of float32.
func UnitRows(x Dense) {
	var memory [chunk]float64
	values := memory[:]
	if x.Cols > chunk {
		values = make([]float64, x.Cols)
	}
	values = values[:x.Cols]
	for i := range x.Rows {
		row, sum := x.Row(i), 0.0
		if mayLack(row) {
			for _, v := range row {
				if v == v {
					sum += float64(v) * float64(v)
				}
			}
		} else {
			vek.FromFloat32_Into(values, row)
			sum = vek.Dot(values, values)
		}
		if sum == 0 {
			continue
		}
		scale := 1 / math.Sqrt(sum)
		for j, v := range row {
			row[j] = float32(float64(v) * scale)
		}
	}
}

// mayLack reports whether a row is short, or may contain a NaN.
func mayLack(row []float32) bool {
	const short = 32
	if len(row) < short {
		return true
	}
	sum := vek32.Sum(row)
	return sum != sum
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
		w, row := float64(weight), x.Row(i)
		center, sums, squares, present := center[:n], sums[:n], squares[:n], present[:n]
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
