package solve

import (
	"math"

	"github.com/stagewise/stagewise/schemas"
)

// quadratic is Algorithm 1 for the identity link. J is quadratic, so with a Gram
// matrix of all rows it ends after one pass. With one of a sample that is the
// preconditioner of conjugate gradients: J's curvature along a step is known
// from the gradients at its ends, so each visit is at a full step from the
// minimum over all steps before it, and moves that minimum by the exact length.
// The classes are independent problems, each with its own lengths.
type quadratic struct {
	common
	visit          int
	w              []float64 // the minimum so far, p × k
	objective      float64   // J there
	gradient       []float64 // ∇J there
	preconditioned []float64 // (S+λI)⁻¹ ∇J
	directions     []conjugate
	done           bool
}

// conjugate is a direction with what the Hessian H makes of it.
type conjugate struct {
	d, hd     []float64 // p × k
	curvature []float64 // ⟨d, H d⟩ of each class
}

// converged is the decrement a class at which predictions are off by an RMS of
// some 3e-5: the decrement is about the mean square of what they are off by.
const converged = 1e-9

func (q *quadratic) Observe(v int, w Step, sums schemas.Tensors[float64]) (*Evaluation, error) {
	scores, err := q.open(sums)
	if err != nil {
		return nil, err
	}
	k := q.shape.Classes
	weights, penalised, ridge := q.start(w)
	gradient, err := q.ridgeGradient(sums, penalised)
	if err != nil {
		return nil, err
	}
	q.visit, q.passes = v, q.passes+1
	if q.w == nil {
		q.w, q.gradient = wide(weights), gradient
		q.objective = scores[schemas.Train].MeanLoss() + ridge
	} else {
		q.step(weights, gradient)
	}
	q.preconditioned = q.factor.Solve(q.gradient, k)
	decrement := 0.0
	for _, x := range dots(q.gradient, q.preconditioned, k) {
		decrement += x
	}
	q.done = !(decrement > converged*float64(k))
	return &Evaluation{Number: q.passes, Objective: q.objective, Accepted: true}, nil
}

// step moves the minimum along what was visited, made conjugate to the steps
// before it.
func (q *quadratic) step(visited []float32, gradient []float64) {
	k := q.shape.Classes
	c := conjugate{d: wide(visited), hd: gradient}
	for i := range c.d {
		c.d[i] -= q.w[i]
		c.hd[i] -= q.gradient[i]
	}
	for _, e := range q.directions {
		along := dots(c.d, e.hd, k)
		for i := range c.d {
			if f := along[i%k] / e.curvature[i%k]; e.curvature[i%k] > 0 {
				c.d[i] -= f * e.d[i]
				c.hd[i] -= f * e.hd[i]
			}
		}
	}
	c.curvature = dots(c.d, c.hd, k)
	slope := dots(q.gradient, c.d, k)
	for class, curvature := range c.curvature {
		if !(curvature > 0) || math.IsInf(curvature, 0) {
			c.curvature[class] = 0 // nothing but rounding is left of this class
			continue
		}
		q.objective -= slope[class] * slope[class] / curvature / 2
	}
	for i := range c.d {
		if curvature := c.curvature[i%k]; curvature > 0 {
			length := slope[i%k] / curvature
			q.w[i] -= length * c.d[i]
			q.gradient[i] -= length * c.hd[i]
		}
	}
	q.directions = append(q.directions, c)
}

func (q *quadratic) Next() (Step, error) {
	full := make([]float32, len(q.w))
	for i, x := range q.w {
		full[i] = float32(x - q.preconditioned[i])
	}
	switch {
	case !q.sampled:
		// the Hessian is S+λI, so this is the minimum, ½ the decrement below what was measured
		return Step{W: full, Final: true, Of: q.visit + 1}, nil
	case q.done || q.passes >= q.stage.Passes:
		for i, x := range q.w {
			full[i] = float32(x)
		}
		return Step{W: full, Final: true, Of: q.visit + 1}, nil
	}
	return Step{W: full}, nil
}

// dots are the inner products of the columns of two p × k matrices.
func dots(a, b []float64, k int) []float64 {
	sums := make([]float64, k)
	for i, x := range a {
		sums[i%k] += x * b[i]
	}
	return sums
}
