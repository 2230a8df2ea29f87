package solve

import "github.com/stagewise/stagewise/solve/linear"

// MethodLBFGS is L-BFGS that starts from the inverse Gram matrix.
const MethodLBFGS = "lbfgs"

func lbfgsMethod() method {
	return method{
		name:  MethodLBFGS,
		doc:   "L-BFGS from the inverse Gram matrix",
		start: newLBFGS,
	}
}

// lbfgs is L-BFGS from the inverse of the Gram matrix, or of a diagonal matrix for sparse rows.
type lbfgs struct{ linear.LBFGS }

// newLBFGS returns L-BFGS. The metric of a curved fit is the Hessian at the start of the fit.
func newLBFGS(shape Shape) descent { return &lbfgs{linear.LBFGS{Unscaled: shape.Curved}} }

func (q *lbfgs) accept(before, at *point) []float64 {
	if before == nil {
		q.Accept(nil, &at.Point)
	} else {
		q.Accept(&before.Point, &at.Point)
	}
	return q.Step
}

func (q *lbfgs) reject(*point) (size float64, step []float64) {
	if !q.Halve() {
		return 0, nil
	}
	return q.Size, q.Step
}

func (q *lbfgs) sufficient(from *point, objective float64) bool {
	return q.Sufficient(from.objective, objective)
}
