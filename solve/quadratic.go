package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// quadratic is Algorithm 1 for a quadratic loss, where J is quadratic too. With the Gram matrix of all rows one pass finds the
// minimum. With the Gram matrix of a sample it makes preconditioned conjugate gradients: each visit is at a full step from the
// minimum over all steps before it. The gradients at both ends of a step give the curvature of J along it, and so the exact
// length that moves the minimum. The classes are independent problems, each with its own lengths.
type quadratic struct {
	common
	visit          int
	w              []float64 // the minimum so far, p × k
	objective      float64   // J there
	gradient       []float64 // ∇J there
	preconditioned []float64 // (S+λI)⁻¹ ∇J
	directions     []conjugate
	most           int // of these that are kept; 0: as maxDirectionValues says
	done           bool
}

// conjugate is a direction d with the product H d of the Hessian and it.
type conjugate struct {
	d, hd     []float64 // p × k
	curvature []float64 // ⟨d, H d⟩ of each class; 0 if only rounding is left of it
}

// maxDecrement is the decrement per class that ends the stage. The decrement is about the mean squared error of the
// predictions, so this is an RMS error of some 3e-5.
const maxDecrement = 1e-9

func (q *quadratic) Observe(v int, w Step, sums schemas.Tensors[float64]) (*Evaluation, error) {
	losses, err := q.open(sums)
	if err != nil {
		return nil, err
	}
	k := q.shape.Classes
	q.preconditioned = nil // of the visit before: of ten million columns, hundreds of megabytes
	weights, penalised, ridge := q.start(w)
	gradient, err := q.ridgeGradient(sums, penalised)
	if err != nil {
		return nil, err
	}
	q.visit, q.passes = v, q.passes+1
	if q.w == nil {
		q.w, q.gradient = wide(weights), gradient
		q.objective = losses[schemas.Train].MeanLoss() + ridge
	} else {
		q.step(weights, gradient)
	}
	q.preconditioned = q.factor.Solve(q.gradient, k)
	decrement := 0.0
	for _, x := range dots(q.gradient, q.preconditioned, k) {
		decrement += x
	}
	q.done = !(decrement > maxDecrement*float64(k))
	return &Evaluation{Number: q.passes, Objective: q.objective, Accepted: true}, nil
}

// step moves the minimum along the step to the visited weights, which it makes conjugate to the steps before.
func (q *quadratic) step(visited []float32, gradient []float64) {
	k := q.shape.Classes
	c := conjugate{d: make([]float64, len(visited)), hd: gradient}
	onCores(len(c.d), 1, func(from, to int) {
		for i := from; i < to; i++ {
			c.d[i] = float64(visited[i]) - q.w[i]
			c.hd[i] -= q.gradient[i]
		}
	})
	for _, e := range q.directions {
		lengths := quotients(dots(c.d, e.hd, k), e.curvature)
		addByClass(c.d, lengths, e.d)
		addByClass(c.hd, lengths, e.hd)
	}
	c.curvature = dots(c.d, c.hd, k)
	slope := dots(q.gradient, c.d, k)
	for class, curvature := range c.curvature {
		if !(curvature > 0) || math.IsInf(curvature, 0) {
			c.curvature[class] = 0 // only rounding is left of this class
			continue
		}
		q.objective -= slope[class] * slope[class] / curvature / 2
	}
	lengths := quotients(slope, c.curvature)
	addByClass(q.w, lengths, c.d)
	addByClass(q.gradient, lengths, c.hd)
	q.directions = append(q.directions, c)
	if most := cmp.Or(q.most, max(1, maxDirectionValues/(2*len(c.d)))); len(q.directions) > most {
		q.directions = slices.Delete(q.directions, 0, 1)
	}
}

// maxDirectionValues bounds the directions that are kept, and so the memory of a stage: to 256 MiB, or one direction if that has more. Conjugate
// gradients need one, if nothing is rounded. Each more takes out again what rounding has put in. Of 7.2 million columns and 2 classes, the
// objective after 12 visits has the same nine digits with one direction as with all.
const maxDirectionValues = 1 << 25

// quotients returns −a/b of each class, and 0 where b is not above 0.
func quotients(a, b []float64) []float64 {
	q := make([]float64, len(a))
	for c, v := range b {
		if v > 0 {
			q[c] = -a[c] / v
		}
	}
	return q
}

// addByClass adds x (p × k) to dst, each column times the length of its class. Where the length is 0, x may hold anything.
func addByClass(dst, lengths, x []float64) {
	k := len(lengths)
	onCores(len(dst)/k, k, func(first, end int) {
		for i := first * k; i < end*k; i += k {
			to, from := dst[i:i+k:i+k], x[i:i+k:i+k]
			for c, length := range lengths {
				if length != 0 {
					to[c] += length * from[c]
				}
			}
		}
	})
}

func (q *quadratic) Next() (Step, error) {
	full := make([]float32, len(q.w))
	onCores(len(q.w), 1, func(from, to int) {
		for i := from; i < to; i++ {
			full[i] = float32(q.w[i] - q.preconditioned[i])
		}
	})
	switch {
	case !q.sampled:
		// the Hessian is S+λI, so this is the minimum: J there is half the decrement below the measured one
		return Step{W: full, Final: true, Of: q.visit + 1}, nil
	case q.done || q.passes >= q.stage.Passes:
		for i, x := range q.w {
			full[i] = float32(x)
		}
		return Step{W: full, Final: true, Of: q.visit + 1}, nil
	}
	return Step{W: full}, nil
}

// dots returns the inner products of the columns of two p × k matrices.
func dots(a, b []float64, k int) []float64 {
	sums := make([]float64, k)
	for i := 0; i < len(a); i += k {
		x, y := a[i:i+k:i+k], b[i:i+k:i+k]
		for c := range sums {
			sums[c] += x[c] * y[c]
		}
	}
	return sums
}
