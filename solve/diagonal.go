package solve

import "github.com/stagewise/stagewise/schemas"

// diagonal is L·D + λI, where D is a diagonal matrix in the place of S: the Gram matrix of a block of sparse columns would be as large as
// the square of their number.
type diagonal struct {
	inverse []float64 // of each value of the diagonal (p); 0 for a column without rows
}

// newDiagonal returns L·D + λI, whose D is sums/weight. λ applies to the first penalised columns.
func newDiagonal(sums []float64, penalised int, weight, lambda, smoothness float64) (*diagonal, error) {
	d := &diagonal{make([]float64, len(sums))}
	for j, sum := range sums {
		v := smoothness * sum / weight
		if !finite(v) {
			return nil, &NotFiniteError{"the sum of squares of a column"}
		}
		if j < penalised {
			v += lambda
		}
		if v > 0 {
			d.inverse[j] = 1 / v
		}
	}
	return d, nil
}

// Solve returns (L·D + λI)⁻¹ g for a matrix g (p × k, row-major).
func (d *diagonal) Solve(g []float64, k int) []float64 {
	solved := make([]float64, len(g))
	for j, inverse := range d.inverse {
		for c := j * k; c < (j+1)*k; c++ {
			solved[c] = inverse * g[c]
		}
	}
	return solved
}

// openSparse computes λ and the preconditioner of a block of sparse columns, from the sums of the first visit.
//
// For a quadratic loss D is the diagonal of S, which is Jacobi's preconditioner of conjugate gradients: it need not bound S, as the gradients
// give the length of a step. For another loss a step is tried at length 1, so D bounds S.
//
// A ridge that is auto is that of one row's worth: λ is the mean squared length of a row divided by the number of rows, as if one more row
// of each direction had the target 0.
func (c *common) openSparse(sums schemas.Tensors[float64]) error {
	squares, err := sums.Shaped(schemas.FieldDiagonal, c.shape.Columns)
	if err != nil {
		return err
	}
	trace := 0.0
	for _, v := range squares[:c.shape.Penalised] {
		trace += v
	}
	if c.stage.Ridge == schemas.RidgeAuto {
		c.stage.Ridge = schemas.Ridge(float64(c.shape.Penalised) / c.weight)
	}
	if c.lambda = c.ridge(trace, c.weight); !finite(c.lambda) {
		return &NotFiniteError{"the sum of squares of a column"}
	}
	metric := squares
	if !c.link.Quadratic {
		if metric, err = sums.Shaped(schemas.FieldBounds, c.shape.Columns); err != nil {
			return err
		}
	}
	c.sampled = true // so that conjugate gradients are made
	c.factor, err = newDiagonal(metric, c.shape.Penalised, c.weight, c.lambda, c.link.Smoothness)
	return err
}
