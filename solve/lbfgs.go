package solve

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// MethodLBFGS is L-BFGS that starts from the inverse Gram matrix.
const MethodLBFGS = "lbfgs"

func lbfgsMethod() method {
	return method{
		name:  MethodLBFGS,
		doc:   "L-BFGS from the inverse Gram matrix",
		start: func() descent { return &lbfgs{} },
	}
}

// lbfgs is L-BFGS (Nocedal 1980) that starts from the inverse of the Gram matrix in place of a multiple of the identity.
// The pairs of the last steps learn how far L·S+λI is from the curvature of J along them. A trial is accepted if it
// satisfies Armijo's condition; otherwise its step is halved.
type lbfgs struct {
	pairs     []pair
	direction []float64 // the step of size 1 from the last accepted point
	slope     float64   // ⟨∇J, direction⟩ there
	size      float64
}

// pair is an accepted step and the change of ∇J along it.
type pair struct {
	step, change   []float64
	preconditioned []float64 // (L·S+λI)⁻¹ change
	inner          float64   // ⟨step, change⟩
}

const (
	// maxPairs is how many pairs are kept. On MNIST 5, 10 and 20 make no difference within 12 passes.
	maxPairs = 10
	// armijo is the share of the slope that a trial must gain (Nocedal and Wright 2006, 3.1).
	armijo = 1e-4
)

func (q *lbfgs) accept(before, at *point) []float64 {
	if before != nil {
		p := pair{step: make([]float64, len(at.w)), change: make([]float64, len(at.w)), preconditioned: make([]float64, len(at.w))}
		onCores(len(at.w), 1, func(from, to int) {
			for i := from; i < to; i++ {
				p.step[i] = float64(at.w[i]) - float64(before.w[i])
				p.change[i] = at.gradient[i] - before.gradient[i]
				p.preconditioned[i] = at.preconditioned[i] - before.preconditioned[i]
			}
		})
		// J is convex, so only rounding can make the product 0 or negative
		if p.inner = floats.Dot(p.step, p.change); p.inner > 1e-14*floats.Norm(p.step, 2)*floats.Norm(p.change, 2) {
			q.pairs = append(q.pairs, p)
			q.pairs = q.pairs[max(0, len(q.pairs)-maxPairs):]
		}
	}
	q.direction = q.along(at)
	q.slope = floats.Dot(at.gradient, q.direction)
	if !(q.slope > 0) { // rounding made the step go uphill: start again without pairs
		q.pairs, q.direction, q.slope = nil, at.preconditioned, at.decrement
	}
	q.size = 1
	return q.direction
}

// along is the two-loop recursion (Nocedal and Wright 2006, algorithm 7.4). The inverse Gram matrix is linear, so its product
// with the remainder of the first loop is a combination of its products with the gradients, which are known.
func (q *lbfgs) along(at *point) []float64 {
	if len(q.pairs) == 0 {
		return at.preconditioned
	}
	alphas := make([]float64, len(q.pairs))
	rest, direction := slices.Clone(at.gradient), slices.Clone(at.preconditioned)
	for i, p := range slices.Backward(q.pairs) {
		alphas[i] = floats.Dot(p.step, rest) / p.inner
		addScaled(rest, -alphas[i], p.change)
		addScaled(direction, -alphas[i], p.preconditioned)
	}
	last := q.pairs[len(q.pairs)-1]
	floats.Scale(last.inner/floats.Dot(last.change, last.preconditioned), direction)
	for i, p := range q.pairs {
		addScaled(direction, alphas[i]-floats.Dot(p.change, direction)/p.inner, p.step)
	}
	return direction
}

// addScaled adds alpha · x to dst.
func addScaled(dst []float64, alpha float64, x []float64) {
	onCores(len(dst), 1, func(from, to int) { floats.AddScaled(dst[from:to], alpha, x[from:to]) })
}

func (q *lbfgs) reject(*point) []float64 {
	if q.size /= 2; q.size < minStep {
		return nil
	}
	return scaled(q.size, q.direction)
}

func (q *lbfgs) sufficient(from *point, objective float64) bool {
	return objective <= from.objective-armijo*q.size*q.slope
}
