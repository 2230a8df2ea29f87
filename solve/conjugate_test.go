package solve

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// quadraticOf is a function with a different diagonal Hessian for each class: its value and its gradient at a point.
type quadraticOf struct{ hessian, target []float64 }

func (q quadraticOf) at(w []float32) (value float64, gradient []float64) {
	gradient = make([]float64, len(w))
	for i, x := range w {
		d := float64(x) - q.target[i]
		gradient[i] = q.hessian[i] * d
		value += gradient[i] * d / 2
	}
	return value, gradient
}

// A diagonal Hessian of four values has its minimum after four steps, for rows in one part of a sum and in several.
func TestConjugate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, k := range []int{1, 3} {
		for _, p := range []int{1, 7, minPart/k - 1, minPart/k + 1} {
			q := quadraticOf{make([]float64, p*k), make([]float64, p*k)}
			for i := range q.hessian {
				q.hessian[i], q.target[i] = 0.5+float64(r.IntN(4)), r.NormFloat64()
			}
			w := make([]float32, p*k)
			value, gradient := q.at(w)
			c := newConjugate(w, gradient, k, &diagonal{slices.Repeat([]float64{0.5}, p)}, 0.1)
			for range 4 {
				c.Turn(gradient)
				w = c.Next(gradient)
				_, gradient = q.at(w)
				value = c.Step(w, gradient, value)
			}
			c.Turn(gradient)
			if left, _ := q.at(c.Minimum()); left > 1e-6*float64(p*k) || value > 1e-6*float64(p*k) {
				t.Errorf("%d × %d: %v is left, by the steps %v", p, k, left, value)
			}
		}
	}
}
