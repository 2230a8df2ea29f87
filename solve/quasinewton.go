package solve

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// quasiNewton is L-BFGS (Nocedal 1980) that starts from the inverse of the Gram
// matrix in place of a multiple of the identity: the pairs of the last steps
// learn how far L·S+λI is from the curvature of J along them. A trial counts
// if it gains what Armijo asks for, and is halved otherwise.
type quasiNewton struct {
	pairs     []pair
	direction []float64 // from the point accepted last
	slope     float64   // ⟨∇J, direction⟩ there
	size      float64
}

// pair is an accepted step and what it changed of ∇J.
type pair struct {
	step, change []float64
	natural      []float64 // (L·S+λI)⁻¹ change
	inner        float64   // ⟨step, change⟩
}

const (
	// rememberedPairs of 5, 10 and 20: on MNIST no difference within 12 passes.
	rememberedPairs = 10
	// armijo is the share of the slope that a trial has to gain (Nocedal and
	// Wright 2006, 3.1).
	armijo = 1e-4
)

func (q *quasiNewton) accept(before, at *point) []float64 {
	if before != nil {
		p := pair{step: make([]float64, len(at.w)), change: make([]float64, len(at.w)), natural: make([]float64, len(at.w))}
		floats.SubTo(p.step, wide(at.w), wide(before.w))
		floats.SubTo(p.change, at.gradient, before.gradient)
		floats.SubTo(p.natural, at.natural, before.natural)
		// J is convex: only rounding makes the product anything but positive
		if p.inner = floats.Dot(p.step, p.change); p.inner > 1e-14*floats.Norm(p.step, 2)*floats.Norm(p.change, 2) {
			q.pairs = append(q.pairs, p)
			q.pairs = q.pairs[max(0, len(q.pairs)-rememberedPairs):]
		}
	}
	q.direction = q.along(at)
	q.slope = floats.Dot(at.gradient, q.direction)
	if !(q.slope > 0) { // not downhill, by rounding: begin again
		q.pairs, q.direction, q.slope = nil, at.natural, at.decrement
	}
	q.size = 1
	return q.direction
}

// along is the two-loop recursion (Nocedal and Wright 2006, algorithm 7.4). The
// inverse Gram matrix is linear, so what it makes of the first loop's rest is
// put together from what it has made of the gradients.
func (q *quasiNewton) along(at *point) []float64 {
	if len(q.pairs) == 0 {
		return at.natural
	}
	alphas := make([]float64, len(q.pairs))
	rest, direction := slices.Clone(at.gradient), slices.Clone(at.natural)
	for i, p := range slices.Backward(q.pairs) {
		alphas[i] = floats.Dot(p.step, rest) / p.inner
		floats.AddScaled(rest, -alphas[i], p.change)
		floats.AddScaled(direction, -alphas[i], p.natural)
	}
	last := q.pairs[len(q.pairs)-1]
	floats.Scale(last.inner/floats.Dot(last.change, last.natural), direction)
	for i, p := range q.pairs {
		floats.AddScaled(direction, alphas[i]-floats.Dot(p.change, direction)/p.inner, p.step)
	}
	return direction
}

func (q *quasiNewton) reject(*point) []float64 {
	if q.size /= 2; q.size < smallest {
		return nil
	}
	return scaled(q.size, q.direction)
}

func (q *quasiNewton) enough(from *point, objective float64) bool {
	return objective <= from.objective-armijo*q.size*q.slope
}
