package kernel

import (
	"fmt"
	"math"

	"github.com/viterin/vek"
	"github.com/viterin/vek/vek32"
)

// vectorColumns is the number of columns from which the functions of columns use vector operations.
const vectorColumns = 32

// Standardize replaces each x[i, j] by (x[i, j] − center[j])·scale[j], and a NaN, which is a missing value, by 0.
func Standardize(x Dense, center, scale []float32) {
	x.check("Standardize", "x", x.Rows, len(center))
	x.check("Standardize", "x", x.Rows, len(scale))
	for i := range x.Rows {
		row := x.Row(i)
		if !mayLack(row) {
			vek32.Sub_Inplace(row, center)
			vek32.Mul_Inplace(row, scale)
			continue
		}
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

// UnitRows divides each row of x by its Euclidean length. Rows of zeros stay as they are. Missing values (NaN) add nothing to the
// length and stay missing. It computes in float64: the reciprocal length of subnormal numbers exceeds the range of float32.
func UnitRows(x Dense) {
	var memory [chunk]float64
	values := memory[:]
	if x.Cols > chunk {
		values = make([]float64, x.Cols)
	}
	values = values[:x.Cols]
	for i := range x.Rows {
		row, sum := x.Row(i), 0.0
		fast := !mayLack(row)
		if fast {
			vek.FromFloat32_Into(values, row)
			sum = vek.Dot(values, values)
		} else {
			for _, v := range row {
				if v == v {
					sum += float64(v) * float64(v)
				}
			}
		}
		switch scale := 1 / math.Sqrt(sum); {
		case sum == 0:
		case fast:
			vek.MulNumber_Inplace(values, scale)
			vek32.FromFloat64_Into(row, values)
		default:
			for j, v := range row {
				row[j] = float32(float64(v) * scale)
			}
		}
	}
}

// mayLack reports whether vector operations are not used for a row: it is short, or may contain a NaN.
func mayLack(row []float32) bool {
	if len(row) < vectorColumns {
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
	for from := 0; from < n; from += chunk {
		to := min(from+chunk, n)
		for i, weight := range weights {
			addColumns(sums[from:to], squares[from:to], present[from:to], x.Row(i)[from:to], center[from:to], float64(weight))
		}
	}
}

// addColumns is AddColumns for at most chunk columns of a row.
func addColumns(sums, squares, present []float64, row, center []float32, w float64) {
	if !mayLack(row) {
		vek32.Sub_Inplace(row, center)
		if w > 0 {
			var values, products [chunk]float64
			z := vek.FromFloat32_Into(values[:len(row)], row)
			added := vek.MulNumber_Into(products[:len(row)], z, w)
			vek.Add_Inplace(sums, added)
			vek.Mul_Inplace(added, z)
			vek.Add_Inplace(squares, added)
			vek.AddNumber_Inplace(present, w)
		}
		return
	}
	center, sums, squares, present = center[:len(row)], sums[:len(row)], squares[:len(row)], present[:len(row)]
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
