package solve

import (
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// quadratic is Algorithm 1 for a quadratic loss, where J is quadratic too. With the Gram matrix of all rows, one pass
// finds the minimum. With the Gram matrix of a sample, or a diagonal matrix, it uses preconditioned conjugate
// gradients: each visit is one step away from the minimum over all earlier steps. The gradients at both ends of a step
// give the curvature of J along it, and so the exact step length to the minimum. The classes are independent problems,
// each with its own lengths. A visit uses the ideal length of the previous step, which leads nearly to the next
// minimum, so its losses are nearly those there, and a stop rule can choose among the visits.
type quadratic struct {
	common
	visit     int
	steps     *conjugate // nil before the first visit
	objective float64    // J at the minimum so far
	next      []float32  // the weights of the next visit
	done      bool
	chosen    Step // the best visit by the stop rule's split; without a rule it has no weights
}

// maxDecrement is the decrement per class that ends the stage. The decrement is about the mean squared error of the
// predictions, so this is an RMS error of some 3e-5.
const maxDecrement = 1e-9

func (q *quadratic) Observe(v int, w Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses, err := q.open(sums)
	if err != nil {
		return nil, err
	}
	q.next = nil // the weights of this visit, which the caller has
	weights, penalised, square := q.start(w)
	gradient, err := q.gradient(sums, penalised)
	if err != nil {
		return nil, err
	}
	q.visit, q.passes = v, q.passes+1
	if q.steps == nil {
		q.objective = losses[examples.Train].MeanLoss() + q.lambda/2*square
		length := 1.0
		if length, err = q.firstLength(gradient, sums); err == nil {
			q.steps = newConjugate(weights, gradient, q.shape.Classes, q.factor, length)
		}
	} else {
		q.objective = q.steps.Step(weights, gradient, q.objective)
	}
	if err != nil {
		return nil, err
	}
	if q.stop.observe(losses) && q.stop.watching() {
		q.chosen = Step{W: weights, Final: true, Of: v}
	}
	direction := gradient // reuses its memory
	decrement := q.steps.Turn(direction)
	if q.done = !(decrement > maxDecrement*float64(q.shape.Classes)); !q.ended() {
		q.next = q.steps.Next(direction)
	}
	return &Evaluation{Number: q.passes, Objective: q.objective, Accepted: true}, nil
}

// firstLength returns the length of the first step. A Gram matrix, even of a sample, approximates the curvature of J:
// the step is 1. With a diagonal matrix, a step of 1 would overshoot, on texts to a hundred times the loss, so its
// length is bounded to guarantee a decrease of J.
func (q *quadratic) firstLength(gradient []float64, sums wire.Tensors[float64]) (float64, error) {
	own, ok := q.factor.(*diagonal)
	if !ok {
		return 1, nil
	}
	above, err := q.above(sums)
	if err != nil {
		return 0, err
	}
	return own.Length(gradient, q.shape.Classes, above), nil
}

// ended reports whether no visit follows those observed so far.
func (q *quadratic) ended() bool {
	return q.sampled && (q.done || q.passes >= q.stage.Passes || q.stop.ended())
}

func (q *quadratic) Next() (Step, error) {
	switch {
	case q.ended() && q.stop.watching():
		return q.chosen, nil
	case q.ended():
		return Step{W: narrow(q.steps.minimum), Final: true, Of: q.visit + 1}, nil
	case !q.sampled: // the Hessian is S+λI, so this is the minimum: J there is half the decrement below the measured one
		return Step{W: q.next, Final: true, Of: q.visit + 1}, nil
	}
	return Step{W: q.next}, nil
}
