package solve

import (
	"math"
	"slices"

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
//
// Of ten million columns each p × k matrix is hundreds of megabytes. So a visit changes the four that are kept where they are, and has
// the gradient, and then the direction of the next step, in the memory of the sums.
type quadratic struct {
	common
	visit     int
	w         []float64 // the minimum so far, p × k; nil before the first visit
	objective float64   // J there
	gradient  []float64 // ∇J there
	last      conjugate // to which the next direction is made conjugate. So it is to all before, if nothing is rounded
	lengths   []float64 // how far the next visit goes along its direction, of each class
	next      []float32 // the weights that it is made with
	done      bool
	chosen    Step // the visit that is best by the stop rule's split; without a rule it has no weights
}

// conjugate is a direction d with the product H d of the Hessian and it. Without one they are nil.
type conjugate struct {
	d, hd     []float64 // p × k
	curvature []float64 // ⟨d, H d⟩ of each class; 0 if only rounding is left of it
}

// maxDecrement is the decrement per class that ends the stage. The decrement is about the mean squared error of the
// predictions, so this is an RMS error of some 3e-5.
const maxDecrement = 1e-9

func (q *quadratic) Observe(v int, w Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses, err := q.open(sums)
	if err != nil {
		return nil, err
	}
	k := q.shape.Classes
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
	if q.w == nil {
		q.w, q.gradient = wide(weights), slices.Clone(gradient)
		q.objective = losses[examples.Train].MeanLoss() + ridge
		if q.lengths, err = q.firstLengths(sums); err != nil {
			return nil, err
		}
	} else {
		q.step(weights, gradient)
	}
	if q.stop.observe(losses) && q.stop.watching() {
		q.chosen = Step{W: weights, Final: true, Of: v}
	}
	direction := gradient // whose memory is free by now
	q.factor.SolveTo(direction, q.gradient, k)
	q.done = !(linear.Sum(linear.Dots(q.gradient, direction, k)) > maxDecrement*float64(k))
	if q.last.d != nil {
		linear.AddByClass(direction, linear.Quotients(linear.Dots(direction, q.last.hd, k), q.last.curvature), q.last.d)
	}
	if !q.ended() {
		q.next = q.trial(direction)
	}
	return &Evaluation{Number: q.passes, Objective: q.objective, Accepted: true}, nil
}

// crossMemory returns the memory of a visit's cross moment (p × k), if the rows are sparse; otherwise other memory of
// that size, as the sums are kept.
func (c *common) crossMemory(sums wire.Tensors[float64]) ([]float64, error) {
	if !c.shape.Sparse {
		return make([]float64, c.shape.Columns*c.shape.Classes), nil
	}
	return sums.Shaped(statistics.FieldCross, c.shape.Columns, c.shape.Classes)
}

// firstLengths returns how far the first step goes, of each class. A Gram matrix, also of a sample, is about the curvature
// of J: the step goes all of it. From a diagonal matrix it would go much too far, on texts to a hundred times the loss,
// so it goes as far as J surely falls.
func (q *quadratic) firstLengths(sums wire.Tensors[float64]) ([]float64, error) {
	length := 1.0
	if own, ok := q.factor.(*linear.Diagonal); ok {
		above, err := q.above(sums)
		if err != nil {
			return nil, err
		}
		length = own.Length(q.gradient, q.shape.Classes, above)
	}
	return slices.Repeat([]float64{length}, q.shape.Classes), nil
}

// step moves the minimum along the step to the visited weights, made conjugate to the step before.
func (q *quadratic) step(visited []float32, gradient []float64) {
	k, last := q.shape.Classes, &q.last
	if last.d == nil {
		*last = conjugate{make([]float64, len(q.w)), make([]float64, len(q.w)), make([]float64, k)}
	}
	along := linear.SumsByClass(len(q.w)/k, k, func(from, to int, sums []float64) { // ⟨visited − w, H d⟩ of the direction before
		for i := from * k; i < to*k; i += k {
			for c := range sums {
				sums[c] += (float64(visited[i+c]) - q.w[i+c]) * last.hd[i+c]
			}
		}
	})
	lengths := linear.Quotients(along, last.curvature)
	linear.OnCores(len(q.w)/k, k, func(from, to int) {
		for i := from * k; i < to*k; i += k {
			for c, length := range lengths {
				d, hd := float64(visited[i+c])-q.w[i+c], gradient[i+c]-q.gradient[i+c]
				if length != 0 {
					d += length * last.d[i+c]
					hd += length * last.hd[i+c]
				}
				last.d[i+c], last.hd[i+c] = d, hd
			}
		}
	})
	last.curvature = linear.Dots(last.d, last.hd, k)
	slope := linear.Dots(q.gradient, last.d, k)
	for class, curvature := range last.curvature {
		if !(curvature > 0) || math.IsInf(curvature, 0) {
			last.curvature[class] = 0 // only rounding is left of this class
			continue
		}
		q.objective -= slope[class] * slope[class] / curvature / 2
	}
	lengths = linear.Quotients(slope, last.curvature)
	linear.AddByClass(q.w, lengths, last.d)
	linear.AddByClass(q.gradient, lengths, last.hd)
	for class, length := range lengths {
		if length > 0 {
			q.lengths[class] *= length
		}
	}
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
		return Step{W: linear.Narrow(q.w), Final: true, Of: q.visit + 1}, nil
	case !q.sampled: // the Hessian is S+λI, so this is the minimum: J there is half the decrement below the measured one
		return Step{W: q.next, Final: true, Of: q.visit + 1}, nil
	}
	return Step{W: q.next}, nil
}

// trial returns the weights at the end of the next step.
func (q *quadratic) trial(direction []float64) []float32 {
	w, k := make([]float32, len(q.w)), q.shape.Classes
	linear.OnCores(len(w)/k, k, func(from, to int) {
		for i := from * k; i < to*k; i += k {
			for c, length := range q.lengths {
				w[i+c] = float32(q.w[i+c] - length*direction[i+c])
			}
		}
	})
	return w
}
