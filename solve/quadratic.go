package solve

import (
	"cmp"
	"math"
	"slices"

	"github.com/stagewise/stagewise/schemas"
)

// quadratic is Algorithm 1 for a quadratic loss, where J is quadratic too. With the Gram matrix of all rows one pass finds the
// minimum. With the Gram matrix of a sample, or a diagonal matrix, it makes preconditioned conjugate gradients: each visit is at a step from the
// minimum over all steps before it. The gradients at both ends of a step give the curvature of J along it, and so the exact
// length that moves the minimum. The classes are independent problems, each with its own lengths. A visit goes as far as the step before should have
// gone, which is nearly to the next minimum, so its losses are nearly those there, and a stop rule can choose among the visits.
type quadratic struct {
	common
	visit      int
	w          []float64 // the minimum so far, p × k
	objective  float64   // J there
	gradient   []float64 // ∇J there
	direction  []float64 // (S+λI)⁻¹ ∇J there, made conjugate to the last direction
	lengths    []float64 // how far the next visit goes against it, of each class
	directions []conjugate
	most       int // of these that are kept; 0: as maxDirectionValues says
	done       bool
	chosen     Step // the visit that is best by the stop rule's split; without a rule it has no weights
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
	q.direction = nil // of the visit before: of ten million columns, hundreds of megabytes
	weights, penalised, ridge := q.start(w)
	gradient, err := q.ridgeGradient(sums, penalised)
	if err != nil {
		return nil, err
	}
	q.visit, q.passes = v, q.passes+1
	if q.w == nil {
		q.w, q.gradient = wide(weights), gradient
		q.objective = losses[schemas.Train].MeanLoss() + ridge
		if q.lengths, err = q.firstLengths(sums); err != nil {
			return nil, err
		}
	} else {
		q.step(weights, gradient)
	}
	if q.stop.observe(losses) && q.stop.watching() {
		q.chosen = Step{W: weights, Final: true, Of: v}
	}
	q.direction = q.factor.Solve(q.gradient, k)
	q.done = !(sum(dots(q.gradient, q.direction, k)) > maxDecrement*float64(k))
	if last := len(q.directions) - 1; last >= 0 {
		e := q.directions[last]
		addByClass(q.direction, quotients(dots(q.direction, e.hd, k), e.curvature), e.d)
	}
	return &Evaluation{Number: q.passes, Objective: q.objective, Accepted: true}, nil
}

// firstLengths returns how far the first step goes, of each class. A Gram matrix, also of a sample, is about the curvature
// of J: the step goes all of it. From a diagonal matrix it would go much too far, on texts to a hundred times the loss, so it goes as far as J surely
// falls.
func (q *quadratic) firstLengths(sums schemas.Tensors[float64]) ([]float64, error) {
	length := 1.0
	if own, ok := q.factor.(*diagonal); ok {
		above, err := q.above(sums)
		if err != nil {
			return nil, err
		}
		length = own.length(q.gradient, q.shape.Classes, above)
	}
	return slices.Repeat([]float64{length}, q.shape.Classes), nil
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
	for class, length := range lengths {
		if length > 0 {
			q.lengths[class] *= length
		}
	}
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
	ended := q.sampled && (q.done || q.passes >= q.stage.Passes || q.stop.ended())
	switch {
	case ended && q.stop.watching():
		return q.chosen, nil
	case ended:
		return Step{W: narrow(q.w), Final: true, Of: q.visit + 1}, nil
	case !q.sampled: // the Hessian is S+λI, so this is the minimum: J there is half the decrement below the measured one
		return Step{W: q.trial(), Final: true, Of: q.visit + 1}, nil
	}
	return Step{W: q.trial()}, nil
}

// trial returns the weights at the end of the next step.
func (q *quadratic) trial() []float32 {
	w, k := make([]float32, len(q.w)), q.shape.Classes
	onCores(len(w)/k, k, func(from, to int) {
		for i := from * k; i < to*k; i += k {
			for c, length := range q.lengths {
				w[i+c] = float32(q.w[i+c] - length*q.direction[i+c])
			}
		}
	})
	return w
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
