package solve

import (
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve/linear"
)

// quadratic is Algorithm 1 for a quadratic loss, where J is quadratic too. With the Gram matrix of all rows one pass finds the
// minimum. With the Gram matrix of a sample, or a diagonal matrix, it makes preconditioned conjugate gradients: each
// visit is at a step from the minimum over all steps before it. The gradients at both ends of a step give the curvature
// of J along it, and so the exact length that moves the minimum. The classes are independent problems, each with its
// own lengths. A visit goes as far as the step before should have gone, which is nearly to the next minimum, so its
// losses are nearly those there, and a stop rule can choose among the visits.
type quadratic struct {
	common
	visit     int
	steps     *linear.Conjugate // nil before the first visit
	objective float64           // J at the minimum so far
	next      []float32         // the weights that the next visit is made with
	done      bool
	chosen    Step // the visit that is best by the stop rule's split; without a rule it has no weights
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
	weights, penalised, ridge := q.start(w)
	gradient, err := q.crossMemory(sums)
	if err != nil {
		return nil, err
	}
	if err := q.ridgeGradientTo(gradient, sums, penalised); err != nil {
		return nil, err
	}
	q.visit, q.passes = v, q.passes+1
	if q.steps == nil {
		q.objective = losses[examples.Train].MeanLoss() + ridge
		length := 1.0
		if length, err = q.firstLength(gradient, sums); err == nil {
			q.steps, err = linear.NewConjugate(weights, gradient, q.shape.Classes, q.factor, length, q.buffer.File)
		}
	} else {
		q.objective, err = q.steps.Step(weights, gradient, q.objective)
	}
	if err != nil {
		return nil, err
	}
	if q.stop.observe(losses) && q.stop.watching() {
		q.chosen = Step{W: weights, Final: true, Of: v}
	}
	direction := gradient // whose memory is free by now
	decrement, err := q.steps.Turn(direction)
	if err != nil {
		return nil, err
	}
	if q.done = !(decrement > maxDecrement*float64(q.shape.Classes)); !q.ended() {
		q.next, err = q.steps.Next(direction)
	}
	return &Evaluation{Number: q.passes, Objective: q.objective, Accepted: true}, err
}

// crossMemory returns the memory of a visit's cross moment (p × k), if the rows are sparse; otherwise other memory of
// that size, as the sums are kept.
func (c *common) crossMemory(sums wire.Tensors[float64]) ([]float64, error) {
	if !c.shape.Sparse {
		return make([]float64, c.shape.Columns*c.shape.Classes), nil
	}
	return sums.Shaped(statistics.FieldCross, c.shape.Columns, c.shape.Classes)
}

// firstLength returns how far the first step goes. A Gram matrix, also of a sample, is about the curvature of J: the step goes all of it.
// From a diagonal matrix it would go much too far, on texts to a hundred times the loss, so it goes as far as J surely falls.
func (q *quadratic) firstLength(gradient []float64, sums wire.Tensors[float64]) (float64, error) {
	own, ok := q.factor.(*linear.Diagonal)
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
		w, err := q.steps.Minimum()
		return Step{W: w, Final: true, Of: q.visit + 1}, err
	case !q.sampled: // the Hessian is S+λI, so this is the minimum: J there is half the decrement below the measured one
		return Step{W: q.next, Final: true, Of: q.visit + 1}, nil
	}
	return Step{W: q.next}, nil
}
