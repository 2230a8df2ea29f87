// Package solve turns statistics into weights, and decides whether another visit is worth its cost:
//
//	reduced sums of a visit, the weights it was made with ──Fit──▶ the next weights, or the final ones
//
// Before them, sums of the survey become the preparation of features and targets:
//
//	reduced sums of the survey ──PrepareDense, PrepareSparse──▶ centre, scale and principal directions of features, or factors of columns
//	their sums of the targets ──PrepareTargets──▶ centre and scale of what is predicted
//	prepared rows of the sample ──Spread──▶ the scale of the kernels
//
// Package accumulate computes sums over rows. Only Spread takes rows: it multiplies them in float64, as only a solver does.
//
// A Fit is a fold over published records, which determine all of its state, so a solver that takes over continues with
// the same bits. Sums are float64. Errors in the data have their own types.
package solve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"sync/atomic"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Shape is the shape of a stage's block and scores.
type Shape struct {
	Columns   int // p, including the intercept
	Penalised int // the leading columns of the block, to which λ applies: all but the intercept
	Classes   int // k
	// Sparse means that the block has sparse rows: it has no Gram matrix, and Precondition is not called.
	Sparse bool
	// Curved means that the Gram matrix weights each row by its curvature: it needs no bound of the curvature.
	Curved bool
	// Trees is the number of trees of the block: each row has one feature per tree. 0: the block is of another kind.
	Trees int
	// AtATime is the number of inputs per block of a blockwise fit; 0: all.
	AtATime int
	// Rounds is the largest number of turns of each input; 0: only the passes limit it.
	Rounds int
	// Counted means that the weights are computed from counts instead of fitted: see [CountWeights].
	Counted bool
	// Chained means that updates on sparse rows follow the run.
	Chained bool
	// Calibration is the split whose rows calibrate a learnt link, and whose loss decides whether a pass is accepted.
	// The weights are fitted to training rows.
	Calibration examples.Split
	// Basis is the powers of predictions that the calibration uses.
	Basis link.Basis
}

// Step is the content of one weights record: the weights of a visit, or the end of a stage.
type Step struct {
	W           []float32 // weights (p × k); nil in the record of a calibration, and if Changed lists the differences
	Calibration []float32 // calibration (k for each power of the basis × k); nil in all other records
	// Changed are inputs, ascending, and Change is added to their weights, and then to the weights of the intercept (a
	// row of k for each). All other weights are those of the previous visit. Both are nil if W is not, or if no weights
	// change.
	Changed []int32
	Change  []float32
	// Occurring are columns, ascending, and Rows their weights (a row of k for each), if W is nil. Other weights are
	// those of the version that the update continues.
	Occurring []int32
	Rows      []float32
	Shift     []float32 // added to the weights of all other inputs (k); nil: nothing
	Counts    []float32 // the counts behind W (p × k) in a counted stage of a full run of a chain; otherwise nil
	// Block are the inputs whose gradient and Gram matrix the visit sums, ascending; nil: it sums the gradient of all
	// inputs.
	Block []int32
	// Final ends the stage: with W, or with the first Passes passes of a learnt link.
	Final  bool
	Of     int // the visit (0, 1, …) made with the final weights, or the one that would be
	Passes int // passes of Algorithm 2 that count; 0 if the link is known
}

// Tensors returns the tensors of the step's record.
func (s Step) Tensors(shape Shape) (t wire.Tensors[float32]) {
	if s.W != nil {
		t = append(t, wire.Matrix(statistics.TensorW, shape.Columns, shape.Classes, s.W))
	}
	if s.Calibration != nil {
		t = append(t, wire.Matrix(statistics.TensorCalibration, shape.Basis.Len()*shape.Classes, shape.Classes, s.Calibration))
	}
	if s.Changed != nil {
		t = append(t, statistics.InputsTensor(statistics.TensorChanged, s.Changed), wire.Matrix(statistics.TensorChange, shape.changes(s.Changed),
			shape.Classes, s.Change))
	}
	if s.Occurring != nil {
		t = append(t, statistics.InputsTensor(statistics.TensorOccurring, s.Occurring), wire.Matrix(statistics.TensorRows, len(s.Occurring),
			shape.Classes, s.Rows))
	}
	if s.Shift != nil {
		t = append(t, wire.Vector(statistics.TensorShift, s.Shift))
	}
	if s.Counts != nil {
		t = append(t, wire.Matrix(statistics.TensorCounts, shape.Columns, shape.Classes, s.Counts))
	}
	if s.Block != nil {
		t = append(t, statistics.InputsTensor(statistics.TensorBlock, s.Block))
	}
	return t
}

// changes returns the number of rows of weights that a step changes: one per input, and one for the intercept, if any.
func (s Shape) changes(inputs []int32) int { return len(inputs) + s.Columns - s.Penalised }

// StepOf reads a step from the tensors of its record. It returns a *[wire.ShapeError] for wrong shapes.
func StepOf(t wire.Tensors[float32], shape Shape) (s Step, err error) {
	k := shape.Classes
	if s.W, err = t.Optional(statistics.TensorW, shape.Columns, k); err != nil {
		return s, err
	}
	if s.Calibration, err = t.Optional(statistics.TensorCalibration, shape.Basis.Len()*k, k); err != nil {
		return s, err
	}
	if s.Changed, err = statistics.InputsOf(t, statistics.TensorChanged, shape.Penalised); err != nil {
		return s, err
	}
	if s.Changed != nil {
		if s.Change, err = t.Shaped(statistics.TensorChange, shape.changes(s.Changed), k); err != nil {
			return s, err
		}
	}
	if s.Occurring, s.Rows, err = statistics.RowsOf(t, shape.Columns, k); err != nil {
		return s, err
	}
	s.Block, err = statistics.InputsOf(t, statistics.TensorBlock, shape.Penalised)
	return s, err
}

// Evaluation is the result of a visit that gives a loss and a gradient.
type Evaluation struct {
	Number    int     // number of the pass: 1, 2, …
	Objective float64 // J at the visit's weights; for a learnt link the mean loss
	Accepted  bool    // whether the objective has not risen
}

// Fit is the state of one stage's fit. Call Precondition once, then Observe for each visit in order, and Next after the last
// visit. It is not safe for concurrent use.
type Fit interface {
	// Precondition factors the Gram matrix of visit 0, which may be complete before the rest of the visit. sums has the
	// fields gram and gram_rows.
	Precondition(sums wire.Tensors[float64]) error
	// Observe takes the reduced sums of visit v, made with the published step w. It may overwrite and keep the cross moment, and
	// the diagonals of the first visit. It returns nil if the visit gives no gradient.
	Observe(v int, w Step, sums wire.Tensors[float64]) (*Evaluation, error)
	// Ridge returns the ridge of the fit. The first call of Observe chooses a ridge that is auto.
	Ridge() schemas.Ridge
	// Weight returns the factor of the weights of counted features; 0 for other features. The second call of Observe
	// chooses a factor that is auto.
	Weight() schemas.Weight
	// Prior returns nλ of a fit that has observed its first visit: the initial curvature sum of a chain on sparse rows.
	// It is 0 for counts and for updates.
	Prior() float64
	// Next returns the step to publish after the visits observed so far.
	Next() (Step, error)
}

// NewFit starts the fit of a stage, given the stages of its run, which must pass [Check], and its index among them.
// updated means that updates with many more rows follow: the fit then makes at most [updatedPasses]. The fit uses
// buffer until the next fit starts with it.
func NewFit(stages []schemas.Stage, number int, updated bool, shape Shape, buffer *Buffer) Fit {
	fit := newFit(stages, number, updated, shape, buffer)
	if rate := stages[number].Rate; rate != 0 && rate != 1 {
		return &rated{fit, float32(rate), shape}
	}
	return fit
}

func newFit(stages []schemas.Stage, number int, updated bool, shape Shape, buffer *Buffer) Fit {
	stage := stages[number]
	if updated {
		stage.Passes = min(stage.Passes, updatedPasses)
	}
	common := common{
		settings: settings{stage}, position: position{last: number == len(stages)-1, only: len(stages) == 1},
		link: link.Named(stage.Link), shape: shape, stop: newStop(stage.Stop), buffer: buffer,
	}
	switch {
	case shape.AtATime > 0:
		return &blockwise{common: common}
	case shape.Counted:
		common.stage.Ridge = 0
		return &counted{common: common}
	case common.link.Learnt:
		return &calibrated{common: common}
	case common.link.Quadratic:
		return &quadratic{common: common}
	}
	return &generalized{common: common}
}

// updatedPasses is the number of passes of the first version of a chain. At the minimum its few rows would be
// overfitted, and the quadratics of updates would preserve that: on MNIST as a stream, 2 to 5 passes have the same
// error, and a fit to the minimum up to a tenth more.
const updatedPasses = 3

// errNoWeight means that there are no rows to fit to.
var errNoWeight = errors.New("no training row has a label and a weight above 0")

// settings is the configuration of a fit. Its methods are those of a [Fit] without a Gram matrix, a factor and a prior.
type settings struct{ stage schemas.Stage }

// Precondition does nothing: a fit of sparse rows has no Gram matrix.
func (*settings) Precondition(wire.Tensors[float64]) error { return nil }

// Ridge returns the ridge of the fit: [schemas.RidgeAuto] until it is chosen.
func (s *settings) Ridge() schemas.Ridge { return s.stage.Ridge }

// Weight returns 0: fitted weights have no factor.
func (*settings) Weight() schemas.Weight { return 0 }

// Prior returns 0: an update has the prior of its chain.
func (*settings) Prior() float64 { return 0 }

// common is the state shared by all fits.
type common struct {
	settings
	position position
	link     link.Link
	shape    Shape
	stop     stop
	buffer   *Buffer
	factor   metric
	pending  *pending // the Gram matrix until it is factored
	lambda   float64
	opened   bool    // whether the first visit was observed
	sampled  bool    // whether the Gram matrix is of a sample
	weight   float64 // Σw of the training rows
	passes   int
}

// Precondition factors the Gram matrix. For a sample, λ is that of the sample, which is close to that of all rows.
func (c *common) Precondition(sums wire.Tensors[float64]) error {
	p, penalised := c.shape.Columns, c.shape.Penalised
	gram, err := sums.Shaped(statistics.FieldGram, p*(p+1)/2)
	if err != nil {
		return err
	}
	weight, err := sums.Shaped(statistics.FieldGramRows, 1)
	if err != nil {
		return err
	}
	if weight[0] <= 0 {
		return nil // Observe returns the error
	}
	c.pending = &pending{gram, weight[0], sumOf(packedDiagonal(gram, penalised)), nil}
	if c.stage.Ridge == schemas.RidgeAuto { // the choice needs the rest of the visit
		return nil
	}
	return c.factorPending()
}

// pending is a Gram matrix that is not factored yet: the ridge is not chosen, or factoring waits for the λ of all rows.
// The rows of a sample may be 0 in columns where others are not.
type pending struct {
	gram   []float64
	weight float64 // Σw of the rows behind it
	trace  float64 // over the penalised columns
	why    error   // error of factoring it with the λ of the sample; nil before
}

// factorPending factors the Gram matrix with the λ of its own rows.
func (c *common) factorPending() (err error) {
	p := c.pending
	c.lambda = c.ridge(p.trace, p.weight)
	c.factor, err = c.factored(p.gram, p.weight)
	if errors.As(err, new(*SingularError)) {
		p.why = err
		return nil
	}
	c.pending = nil
	return err
}

// chooseRidge chooses the ridge of the stage, and factors the Gram matrix with it. sums are those of the first visit.
func (c *common) chooseRidge(sums wire.Tensors[float64]) error {
	squares, err := sums.Shaped(statistics.FieldResidual, 2)
	if err != nil {
		return err
	}
	cross, err := c.cross(sums)
	if err != nil {
		return err
	}
	p, residual := c.pending, squares[0]/c.weight
	if !Finite(p.trace) {
		return &NotFiniteError{What: "the Gram matrix"}
	}
	v := validation{
		shape: c.shape, gram: p.gram, weight: p.weight, cross: cross, residual: residual, rows: effectiveRows(c.weight, squares[1]),
		sampled: c.weight / p.weight,
		unit:    p.trace / p.weight / float64(c.shape.Penalised), curvature: c.curvature(residual), buffer: c.buffer,
	}
	c.stage.Ridge = v.choose()
	return c.factorPending()
}

// curvature returns the mean curvature of the loss in a score, given Ê|r|². For a log loss it has the expectation of
// the squared residual (the second identity of Bartlett 1953). Other links are fitted by least squares.
func (c *common) curvature(residual float64) float64 {
	if c.link.Quadratic || c.link.Learnt {
		return 1
	}
	return min(residual/float64(c.shape.Classes), c.link.Smoothness)
}

func (c *common) factored(gram []float64, weight float64) (metric, error) {
	smoothness := c.link.Smoothness
	if c.shape.Curved {
		smoothness = 1
	}
	return newPreconditioner(gram, c.shape.Columns, c.shape.Penalised, weight, c.lambda, smoothness, c.buffer)
}

// ridge returns λ = ridge · trace(S)/p over the penalised columns. trace is that of Σ w x xᵀ. If all features are 0, as
// when rows do not differ, any λ gives weights of 0, and λ is the ridge.
func (c *common) ridge(trace, weight float64) float64 {
	if trace == 0 {
		return float64(c.stage.Ridge)
	}
	return max(float64(c.stage.Ridge)*trace/weight/float64(c.shape.Penalised), c.leastRidge(weight))
}

// open reads the losses of a visit, and in the first visit computes λ and the preconditioner. A loss that is not finite
// is an error in the first visit; in later ones it counts as an increase.
func (c *common) open(sums wire.Tensors[float64]) (losses [examples.Splits]statistics.Losses, err error) {
	losses = statistics.LossesOf(sums)
	c.weight = losses[examples.Train].Weight
	if c.weight <= 0 {
		return losses, errNoWeight
	}
	if !c.opened {
		for split, s := range losses {
			if split := examples.Split(split); !Finite(s.Loss) && (split == examples.Train || c.stop.watches(split)) {
				return losses, &NotFiniteError{What: fmt.Sprintf("the loss of the %s rows", split)}
			}
		}
		if c.shape.Sparse {
			c.opened = true
			return losses, c.openSparse(sums)
		}
		if c.factor == nil && c.pending == nil {
			return losses, fmt.Errorf("gram_rows: %s: the chosen messages have no training row with a weight above 0: set gram_rows to all",
				c.stage.GramRows)
		}
		if c.stage.Ridge == schemas.RidgeAuto {
			if err := c.chooseRidge(sums); err != nil {
				return losses, err
			}
		}
		// λ is a part of J, so it is that of all rows, even if the Gram matrix is of a sample.
		trace, err := sums.Optional(statistics.FieldTrace, 1)
		if err != nil {
			return losses, err
		}
		if trace != nil {
			if c.sampled, c.lambda = true, c.ridge(trace[0], c.weight); !Finite(c.lambda) {
				return losses, &NotFiniteError{What: "the Gram matrix"}
			}
		}
		if p := c.pending; p != nil {
			if !c.sampled {
				return losses, p.why
			}
			if c.factor, err = c.factored(p.gram, p.weight); err != nil {
				return losses, err
			}
			c.pending = nil
		}
		c.opened = true
	}
	return losses, nil
}

// cross returns the mean cross moment Ê[x rᵀ] of a visit (p × k).
func (c *common) cross(sums wire.Tensors[float64]) ([]float64, error) {
	sum, err := sums.Shaped(statistics.FieldCross, c.shape.Columns, c.shape.Classes)
	if err != nil {
		return nil, err
	}
	mean := slices.Clone(sum)
	return mean, c.meanCross(mean)
}

// meanCross divides the cross moment of a visit by the weight of its rows.
func (c *common) meanCross(cross []float64) error {
	var overflown atomic.Bool
	onCores(len(cross), 1, func(from, to int) {
		for i := from; i < to; i++ {
			if cross[i] /= c.weight; !Finite(cross[i]) {
				overflown.Store(true)
			}
		}
	})
	if overflown.Load() {
		return &NotFiniteError{What: "the cross moment"}
	}
	return nil
}

// gradient returns ∇J = Ê[x (g(Wx) − y)ᵀ] + λW (p × k) at the penalised weights, in the memory of the sums' cross moment, whose
// residuals are y − g(Wx): with ten million columns it takes hundreds of megabytes.
func (c *common) gradient(sums wire.Tensors[float64], penalised []float32) ([]float64, error) {
	gradient, err := sums.Shaped(statistics.FieldCross, c.shape.Columns, c.shape.Classes)
	if err == nil {
		err = c.meanCross(gradient)
	}
	if err != nil {
		return nil, err
	}
	onCores(len(gradient), 1, func(from, to int) {
		for i := from; i < to; i++ {
			if gradient[i] = -gradient[i]; i < len(penalised) {
				gradient[i] += c.lambda * float64(penalised[i])
			}
		}
	})
	return gradient, nil
}

// start returns the weights W of a visit (zeros if the step has none), the penalised weights, and |W|² of the penalised weights.
func (c *common) start(step Step) (w, penalised []float32, square float64) {
	k := c.shape.Classes
	if w = step.W; w == nil {
		w = make([]float32, c.shape.Columns*k)
	}
	penalised = w[:c.shape.Penalised*k]
	for _, x := range penalised {
		square += float64(x) * float64(x)
	}
	return w, penalised, square
}

// stop ends a stage when the loss of a split stops falling. It never ends a stage by a split without rows.
type stop struct {
	rule  *schemas.Stop
	split examples.Split
	best  float64
	since int // accepted passes since the best
}

func newStop(rule *schemas.Stop) stop {
	s := stop{rule: rule, best: math.Inf(1)}
	if rule != nil {
		s.split, _ = examples.ParseSplit(rule.Split) // checked with the configuration
	}
	return s
}

// watches reports whether the rule uses the given split.
func (s *stop) watches(split examples.Split) bool { return s.rule != nil && s.split == split }

// observe reports whether this accepted pass is the best so far by the rule. Without a rule the latest one is the best,
// as J or the loss has not risen.
func (s *stop) observe(losses [examples.Splits]statistics.Losses) (best bool) {
	if s.rule != nil && losses[s.split].Weight == 0 {
		s.rule = nil
	}
	if s.rule == nil {
		return true
	}
	if loss := losses[s.split].MeanLoss(); loss < s.best {
		s.best, s.since = loss, 0
		return true
	}
	s.since++
	return false
}

// watching reports whether there is a rule whose split has rows.
func (s *stop) watching() bool { return s.rule != nil }

// ended reports whether the rule ends the stage.
func (s *stop) ended() bool { return s.rule != nil && s.since >= s.rule.Patience }
