package linear

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/spill"
)

// Conjugate finds the minimum of a quadratic function of a matrix W (p × k) by preconditioned conjugate gradients,
// given the gradients at the ends of steps. The classes are independent problems, each with its own lengths. Each step
// is made conjugate to the previous one, and so, up to rounding, to all earlier ones.
//
// With ten million columns, a matrix takes hundreds of megabytes. So Conjugate updates its four matrices in place, in
// memory or in a file, and computes the direction of the next step in the memory of the gradient.
type Conjugate struct {
	k         int
	metric    Metric
	kept      *Matrices
	curvature []float64 // ⟨d, H d⟩ of each class; 0 if it is only rounding; nil before the first step
	moved     []float64 // per class: after Step, length along the step to the minimum; after Turn, its weight in the next direction
	lengths   []float64 // length of the next step along its direction, per class
}

// Indices of the matrices.
const (
	minimum  = iota // so far
	gradient        // there
	last            // previous step d
	product         // H d, with the Hessian H
	matrices
)

// NewConjugate starts at a point with a gradient, which it does not keep. The first step is the product of the metric's
// inverse with the gradient, times length. The matrices are in file unless it is nil; the metric must then be a
// [Diagonal].
func NewConjugate(at []float32, there []float64, k int, metric Metric, length float64, file *spill.File) (*Conjugate, error) {
	m := &Conjugate{k: k, metric: metric, kept: NewMatrices(matrices, len(at)/k, k, file), lengths: slices.Repeat([]float64{length}, k)}
	return m, m.kept.Each(nil, []int{minimum, gradient}, func(from, to int, rows [][]float64) {
		for i, x := range at[from*k : to*k] {
			rows[minimum][i] = float64(x)
		}
		copy(rows[gradient], there[from*k:to*k])
	})
}

// Step takes the end of a step and the gradient there. value is that of the function at the minimum so far; Step
// returns the value at the minimum along this step.
func (m *Conjugate) Step(end []float32, there []float64, value float64) (float64, error) {
	k, lengths, read := m.k, make([]float64, m.k), []int{minimum, gradient}
	if m.curvature != nil {
		read = append(read, last, product)
		var along []float64 // ⟨end − W, H d⟩ of the previous step
		err := m.kept.Each([]int{minimum, product}, nil, func(from, to int, rows [][]float64) {
			end, w, hd := end[from*k:to*k], rows[minimum], rows[product]
			along = AddSums(along, to-from, k, func(from, to int, sums []float64) {
				for i := from * k; i < to*k; i += k {
					for c := range sums {
						sums[c] += (float64(end[i+c]) - w[i+c]) * hd[i+c]
					}
				}
			})
		})
		if err != nil {
			return value, err
		}
		lengths = Quotients(along, m.curvature)
	}
	var slope, curvature []float64
	err := m.kept.Each(read, []int{last, product}, func(from, to int, rows [][]float64) {
		m.conjugate(end[from*k:to*k], there[from*k:to*k], lengths, rows)
		curvature = AddDots(curvature, rows[last], rows[product], k)
		slope = AddDots(slope, rows[gradient], rows[last], k)
	})
	if err != nil {
		return value, err
	}
	for class, c := range curvature {
		if !(c > 0) || math.IsInf(c, 0) {
			curvature[class] = 0 // the class has only rounding left
			continue
		}
		value -= slope[class] * slope[class] / c / 2
	}
	m.curvature, m.moved = curvature, Quotients(slope, curvature)
	for class, length := range m.moved {
		if length > 0 {
			m.lengths[class] *= length
		}
	}
	return value, nil
}

// conjugate makes rows of a step conjugate to the previous step.
func (m *Conjugate) conjugate(end []float32, there, lengths []float64, rows [][]float64) {
	k, w, g, d, hd := m.k, rows[minimum], rows[gradient], rows[last], rows[product]
	OnCores(len(end)/k, k, func(from, to int) {
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
// step into direction (p × k), for [Conjugate.Next].
func (m *Conjugate) Turn(direction []float64) (decrement float64, err error) {
	k, read, written := m.k, []int{gradient}, []int(nil)
	if m.moved != nil {
		read, written = []int{minimum, gradient, last, product}, []int{minimum, gradient}
	}
	var decrements, along []float64
	err = m.kept.Each(read, written, func(from, to int, rows [][]float64) {
		direction := direction[from*k : to*k]
		if m.moved != nil {
			AddByClass(rows[minimum], m.moved, rows[last])
			AddByClass(rows[gradient], m.moved, rows[product])
		}
		rowsOf(m.metric, from, to).SolveTo(direction, rows[gradient], k)
		decrements = AddDots(decrements, rows[gradient], direction, k)
		if m.moved != nil {
			along = AddDots(along, direction, rows[product], k)
		}
	})
	if err == nil && m.moved != nil {
		m.moved = Quotients(along, m.curvature)
	}
	return Sum(decrements), err
}

// rowsOf returns the rows [from, to) of a diagonal metric, and any other metric unchanged.
func rowsOf(m Metric, from, to int) Metric {
	if d, ok := m.(*Diagonal); ok {
		return &Diagonal{d.Inverse[from:to]}
	}
	return m
}

// Next returns the end of the next step, given its direction.
func (m *Conjugate) Next(direction []float64) ([]float32, error) {
	k, end, read := m.k, make([]float32, len(direction)), []int{minimum}
	if m.moved != nil {
		read = append(read, last)
	}
	return end, m.kept.Each(read, nil, func(from, to int, rows [][]float64) {
		end, direction, w := end[from*k:to*k], direction[from*k:to*k], rows[minimum]
		if m.moved != nil {
			AddByClass(direction, m.moved, rows[last])
		}
		OnCores(to-from, k, func(from, to int) {
			for i := from * k; i < to*k; i += k {
				for c, length := range m.lengths {
					end[i+c] = float32(w[i+c] - length*direction[i+c])
				}
			}
		})
	})
}

// Minimum returns the minimum so far.
func (m *Conjugate) Minimum() ([]float32, error) {
	w := make([]float32, m.kept.p*m.k)
	return w, m.kept.Each([]int{minimum}, nil, func(from, to int, rows [][]float64) {
		for i, x := range rows[minimum] {
			w[from*m.k+i] = float32(x)
		}
	})
}
