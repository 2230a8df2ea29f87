package solve

import (
	"errors"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// Shape is what a fit has to know of its block.
type Shape struct {
	Columns   int // p, intercept included
	Penalised int // the first so many columns
	Classes   int // k
}

// Step is what a solver publishes next.
type Step struct {
	W           []float32 // p × k; nil in a calibration's record
	Calibration []float32 // 3k × k; nil in a weights' record
	// Final ends the stage with W, whose loss is known, or with the first Passes passes of a stage with a learnt link.
	Final  bool
	Of     int // visit whose weights are final
	Passes int // passes of Algorithm 2 that count; 0 if the link is known
}

// Tensors of the step's record.
func (s Step) Tensors(shape Shape) (t schemas.Tensors[float32]) {
	if s.W != nil {
		t = append(t, schemas.Matrix(schemas.TensorW, shape.Columns, shape.Classes, s.W))
	}
	if s.Calibration != nil {
		t = append(t, schemas.Matrix(schemas.TensorCalibration, 3*shape.Classes, shape.Classes, s.Calibration))
	}
	return t
}

// StepOf is the inverse of Tensors, for a record that was read back.
func StepOf(t schemas.Tensors[float32], shape Shape) (s Step, err error) {
	if _, ok := t.Find(schemas.TensorW); ok {
		if s.W, err = t.Shaped(schemas.TensorW, shape.Columns, shape.Classes); err != nil {
			return s, err
		}
	}
	if _, ok := t.Find(schemas.TensorCalibration); ok {
		s.Calibration, err = t.Shaped(schemas.TensorCalibration, 3*shape.Classes, shape.Classes)
	}
	return s, err
}

// Pass is what a visit with a gradient said.
type Evaluation struct {
	Number    int     // 1, 2, …
	Objective float64 // J; for a calibrated stage its loss
	Accepted  bool    // J has not risen
}

// Fit is the state of one stage's fit. Observe takes the visits in order, each
// with the weights that it was made with as they were published; Next says
// what to publish after the last.
type Fit interface {
	// Precondition takes the Gram matrix of visit 0, which may be there before that has ended, and the weight of the rows
	// behind it: the fields gram and gram_rows.
	Precondition(sums schemas.Tensors[float64]) error
	// Observe takes visit v, made with the published step w, and its reduced
	// sums, and tells what it said if it had a gradient.
	Observe(v int, w Step, sums schemas.Tensors[float64]) (*Evaluation, error)
	Next() (Step, error)
	// Lambda is λ; 0 before the first visit.
	Lambda() float64
}

// NewFit starts a stage's fit. Another that is started in the same buffer ends it.
func NewFit(stage schemas.Stage, shape Shape, buffer *Buffer) Fit {
	common := common{stage: stage, link: link.Named(stage.Link), shape: shape, stop: newStop(stage.Stop), buffer: buffer}
	switch {
	case common.link.Learnt:
		return &calibrated{common: common}
	case common.link.Quadratic:
		return &quadratic{common: common}
	}
	return &generalized{common: common}
}

// NoWeightError says that there is nothing to fit.
type NoWeightError struct{}

func (NoWeightError) Error() string {
	return "no training row has a label and a weight above 0"
}

// NotFiniteError says that a sum is not a finite number: features or scores
// have overflown single precision.
type NotFiniteError struct{ What string }

func (e *NotFiniteError) Error() string {
	return fmt.Sprintf("%s is not a finite number: features of that size overflow; scale them", e.What)
}

type common struct {
	stage   schemas.Stage
	link    link.Link
	shape   Shape
	stop    stop
	buffer  *Buffer
	factor  *Preconditioner
	pending *pending // a sample that its own λ does not make invertible
	lambda  float64
	opened  bool
	sampled bool // the Gram matrix is of a sample
	weight  float64
	passes  int
}

func (c *common) Lambda() float64 {
	if !c.opened {
		return 0
	}
	return c.lambda
}

// Precondition factors the Gram matrix. That of a sample has the sample's λ,
// which is near that of all rows.
func (c *common) Precondition(sums schemas.Tensors[float64]) error {
	p, penalised := c.shape.Columns, c.shape.Penalised
	gram, err := sums.Shaped(schemas.FieldGram, p*(p+1)/2)
	if err != nil {
		return err
	}
	weight, err := sums.Shaped(schemas.FieldGramRows, 1)
	if err != nil {
		return err
	}
	if weight[0] <= 0 {
		return nil // the visit tells why
	}
	trace := 0.0
	for i, at := 0, 0; i < penalised; i, at = i+1, at+i+2 {
		trace += gram[at]
	}
	c.lambda = c.ridge(trace, weight[0])
	c.factor, err = c.preconditioner(gram, weight[0])
	if errors.As(err, new(*SingularError)) {
		c.pending, err = &pending{gram, weight[0], err}, nil
	}
	return err
}

// pending is a Gram matrix that waits for the λ of all rows: a sample may be of
// rows that have nothing in the columns that others have.
type pending struct {
	gram   []float64
	weight float64
	why    error
}

func (c *common) preconditioner(gram []float64, weight float64) (*Preconditioner, error) {
	return NewPreconditioner(gram, c.shape.Columns, c.shape.Penalised, weight, c.lambda, c.link.Smoothness, c.buffer)
}

// ridge is λ, of the second moments' trace over the penalised columns.
func (c *common) ridge(trace, weight float64) float64 {
	return c.stage.Ridge * trace / weight / float64(c.shape.Penalised)
}

// open reads what every visit has. A loss that is not finite is an error where
// the stage begins; later it is one that has risen.
func (c *common) open(sums schemas.Tensors[float64]) (scores [schemas.Splits]schemas.Losses, err error) {
	scores = schemas.LossesOf(sums)
	c.weight = scores[schemas.Train].Weight
	if c.weight <= 0 {
		return scores, NoWeightError{}
	}
	if !c.opened {
		for split, s := range scores {
			if split := schemas.Split(split); !finite(s.Loss) && (split == schemas.Train || c.stop.watches(split)) {
				return scores, &NotFiniteError{fmt.Sprintf("the loss of the %s rows", split)}
			}
		}
		if c.factor == nil && c.pending == nil {
			return scores, &NoSampleError{c.stage.GramRows}
		}
		// λ is of all rows, whatever rows the Gram matrix is of: it is a part of J.
		if trace, ok := sums.Find(schemas.FieldTrace); ok {
			if len(trace.Data) != 1 {
				return scores, &schemas.ShapeError{Tensor: schemas.FieldTrace, Got: trace.Shape, Want: []int{1}}
			}
			if c.sampled, c.lambda = true, c.ridge(trace.Data[0], c.weight); !finite(c.lambda) {
				return scores, &NotFiniteError{"the Gram matrix"}
			}
		}
		if p := c.pending; p != nil {
			if !c.sampled {
				return scores, p.why
			}
			if c.factor, err = c.preconditioner(p.gram, p.weight); err != nil {
				return scores, err
			}
			c.pending = nil
		}
		c.opened = true
	}
	return scores, nil
}

// NoSampleError says that the messages which a Gram matrix was to be made of
// have no training rows.
type NoSampleError struct{ GramRows string }

func (e *NoSampleError) Error() string {
	return fmt.Sprintf("gram_rows: %s: the messages that this chooses have no training row with a weight: gram_rows: all would help", e.GramRows)
}

// cross is the mean cross moment Ê[x rᵀ] of the visit, p × k.
func (c *common) cross(sums schemas.Tensors[float64]) ([]float64, error) {
	sum, err := sums.Shaped(schemas.FieldCross, c.shape.Columns, c.shape.Classes)
	if err != nil {
		return nil, err
	}
	mean := make([]float64, len(sum))
	for i, v := range sum {
		mean[i] = v / c.weight
		if !finite(mean[i]) {
			return nil, &NotFiniteError{"the cross moment"}
		}
	}
	return mean, nil
}

// ridgeGradient is ∇J = Ê[(g(Wx) − y) xᵀ] + λW at these penalised weights; the
// sums have y − g(Wx).
func (c *common) ridgeGradient(sums schemas.Tensors[float64], penalised []float32) ([]float64, error) {
	gradient, err := c.cross(sums)
	if err != nil {
		return nil, err
	}
	for i, r := range gradient {
		gradient[i] = -r
	}
	for i, x := range penalised {
		gradient[i] += c.lambda * float64(x)
	}
	return gradient, nil
}

// start is the weights of a visit, which are none when a stage begins, those of
// them that are penalised, and what these add to J.
func (c *common) start(step Step) (w, penalised []float32, ridge float64) {
	k := c.shape.Classes
	if w = step.W; w == nil {
		w = make([]float32, c.shape.Columns*k)
	}
	penalised = w[:c.shape.Penalised*k]
	norm := 0.0
	for _, x := range penalised {
		norm += float64(x) * float64(x)
	}
	return w, penalised, c.lambda / 2 * norm
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

// stop is the rule that ends a stage when a split's loss stops falling. A split
// without rows ends nothing.
type stop struct {
	rule  *schemas.Stop
	split schemas.Split
	best  float64
	since int // passes since best
}

func newStop(rule *schemas.Stop) stop {
	s := stop{rule: rule, best: math.Inf(1)}
	if rule != nil {
		s.split, _ = schemas.ParseSplit(rule.Split) // checked with the configuration
	}
	return s
}

// watches tells whether there is a rule for that split.
func (s *stop) watches(split schemas.Split) bool { return s.rule != nil && s.split == split }

// observe tells whether this is the best pass so far, by the rule's split if
// there is a rule. Without one the last pass is, because J or the loss falls.
func (s *stop) observe(scores [schemas.Splits]schemas.Losses) (best bool) {
	if s.rule != nil && scores[s.split].Weight == 0 {
		s.rule = nil
	}
	if s.rule == nil {
		return true
	}
	if loss := scores[s.split].MeanLoss(); loss < s.best {
		s.best, s.since = loss, 0
		return true
	}
	s.since++
	return false
}

func (s *stop) ended() bool { return s.rule != nil && s.since >= s.rule.Patience }
