package solve

import "math"

// diagonal is L·D + λI, or its square root, where the diagonal matrix D replaces S: the size of the Gram matrix of a
// block of sparse columns would be the square of their number.
type diagonal struct {
	Inverse []float64 // per diagonal value (p); 0 for a column without rows
}

// newDiagonal returns L·D + λI, with D = sums/weight. λ applies to the first penalised columns. The matrix reuses sums.
func newDiagonal(sums []float64, penalised int, weight, lambda, smoothness float64) (*diagonal, error) {
	d := &diagonal{sums}
	for j, sum := range sums {
		v := smoothness * sum / weight
		if !Finite(v) {
			return nil, &NotFiniteError{"the sum of squares of a column"}
		}
		if j < penalised {
			v += lambda
		}
		if d.Inverse[j] = 0; v > 0 {
			d.Inverse[j] = 1 / v
		}
	}
	return d, nil
}

// Root replaces the matrix by its square root.
func (d *diagonal) Root() {
	for j, v := range d.Inverse {
		d.Inverse[j] = math.Sqrt(v)
	}
}

// SolveTo writes the product of the inverse with g into dst, for a matrix g (p × k, row-major).
func (d *diagonal) SolveTo(dst, g []float64, k int) {
	scaleRows(dst, d.Inverse, g, k)
}

// Length returns the length of the step from a point with the gradient g (p × k) along its product with the inverse:
// the longest one guaranteed to lower any loss whose curvature is at most above; 1 without a gradient.
func (d *diagonal) Length(g []float64, k int, above *diagonal) float64 {
	slope, curvature := 0.0, 0.0
	for j, inverse := range d.Inverse {
		if above.Inverse[j] == 0 {
			continue
		}
		for _, v := range g[j*k : (j+1)*k] {
			step := inverse * v
			slope += step * v
			curvature += step * step / above.Inverse[j]
		}
	}
	if !(curvature > 0) {
		return 1
	}
	return slope / curvature
}
