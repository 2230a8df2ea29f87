package solve

import (
	"math"
	"slices"
)

// conjugate finds the minimum of a quadratic function of a matrix W (p × k) by preconditioned conjugate gradients,
// given the gradients at the ends of steps. The classes are independent problems, each with its own lengths. Each step
// is made conjugate to the previous one, and so, up to rounding, to all earlier ones.
//
// With ten million columns, a matrix takes hundreds of megabytes. So conjugate updates its four matrices in place, and
// computes the direction of the next step in the memory of the gradient.
type conjugate struct {
	k         int
	metric    metric
	minimum   []float64 // so far
	gradient  []float64 // there
	last      []float64 // previous step d; nil before the first step
	product   []float64 // H d, with the Hessian H
	curvature []float64 // ⟨d, H d⟩ of each class; 0 if it is only rounding; nil before the first step
	moved     []float64 // per class: after Step, length along the step to the minimum; after Turn, its weight in the next direction
	lengths   []float64 // length of the next step along its direction, per class
}

// newConjugate starts at a point with a gradient, which it does not keep. The first step is the product of the metric's
// inverse with the gradient, times length.
func newConjugate(at []float32, there []float64, k int, metric metric, length float64) *conjugate {
	return &conjugate{k: k, metric: metric, minimum: wide(at), gradient: slices.Clone(there), lengths: slices.Repeat([]float64{length}, k)}
}

// Step takes the end of a step and the gradient there. value is the value of the function at the minimum so far; Step
// returns the value at the minimum along this step.
func (m *conjugate) Step(end []float32, there []float64, value float64) float64 {
	k, lengths := m.k, make([]float64, m.k)
	if m.curvature != nil {
		// ⟨end − W, H d⟩ of the previous step
		along := sumsByClass(len(end)/k, k, func(from, to int, sums []float64) {
			for i := from * k; i < to*k; i += k {
				for c := range sums {
					sums[c] += (float64(end[i+c]) - m.minimum[i+c]) * m.product[i+c]
				}
			}
		})
		lengths = quotients(along, m.curvature)
	} else {
		m.last, m.product = make([]float64, len(end)), make([]float64, len(end))
	}
	m.conjugate(end, there, lengths)
	curvature, slope := dots(m.last, m.product, k), dots(m.gradient, m.last, k)
	for class, c := range curvature {
		if !(c > 0) || math.IsInf(c, 0) {
			curvature[class] = 0 // the class has only rounding left
			continue
		}
		value -= slope[class] * slope[class] / c / 2
	}
	m.curvature, m.moved = curvature, quotients(slope, curvature)
	for class, length := range m.moved {
		if length > 0 {
			m.lengths[class] *= length
		}
	}
	return value
}

// conjugate makes a step conjugate to the previous step.
func (m *conjugate) conjugate(end []float32, there, lengths []float64) {
	k, w, g, d, hd := m.k, m.minimum, m.gradient, m.last, m.product
	onCores(len(end)/k, k, func(from, to int) {
		for i := from * k; i < to*k; i += k {
			for c, length := range lengths {
				step, change := float64(end[i+c])-w[i+c], there[i+c]-g[i+c]
				if length != 0 {
					step += length * d[i+c]
					change += length * hd[i+c]
				}
				d[i+c], hd[i+c] = step, change
			}
		}
	})
}

// Turn moves to the minimum along the last step, and returns the decrement there, summed over the classes: a step along
// the product of the metric's inverse with the gradient gains about half of it. It writes the direction of the next
// step into direction (p × k), for [conjugate.Next].
func (m *conjugate) Turn(direction []float64) (decrement float64) {
	if m.moved != nil {
		addByClass(m.minimum, m.moved, m.last)
		addByClass(m.gradient, m.moved, m.product)
	}
	m.metric.SolveTo(direction, m.gradient, m.k)
	decrements := dots(m.gradient, direction, m.k)
	if m.moved != nil {
		m.moved = quotients(dots(direction, m.product, m.k), m.curvature)
	}
	return sumOf(decrements)
}

// Next returns the end of the next step, given its direction.
func (m *conjugate) Next(direction []float64) []float32 {
	k, end := m.k, make([]float32, len(direction))
	if m.moved != nil {
		addByClass(direction, m.moved, m.last)
	}
	onCores(len(end)/k, k, func(from, to int) {
		for i := from * k; i < to*k; i += k {
			for c, length := range m.lengths {
				end[i+c] = float32(m.minimum[i+c] - length*direction[i+c])
			}
		}
	})
	return end
}
