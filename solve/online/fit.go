package online

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/solve/linear"
)

const (
	// leastMetric prevents infinite steps of columns without curvature, such as an intercept's before the first row.
	leastMetric = 1e-12
	// minDecrement is the gain relative to the objective below which float32 scores can't resolve a step.
	minDecrement = 1e-12
)

// Update is a [solve.Fit] of a stage of columns in an update of a chain on sparse rows. L-BFGS starts from the inverse
// of D plus the curvature of the new rows. Its first step is the longest one guaranteed to lower the objective. Each
// trial is a visit. The update ends with a visit to its final weights, whose curvature is added to D. It is not safe
// for concurrent use.
type Update struct {
	stage  schemas.Stage
	link   link.Link
	shape  solve.Shape
	passes int
	sums   *Sums
	all    []int32 // columns of the examples, in the order of the block
	memory *Memory
	used   [][]float64 // memory to return after the update

	initial []float32 // p × k: W₀
	columns []int32   // columns that occur
	start   []float32 // m × k: W₀ there
	past    []float64 // m × k: D there
	metric  []float64 // m × k: the inverse of D + the curvature of the new rows at W₀
	weight  float64   // Σw of the new training rows
	at      point     // the best so far
	lbfgs   linear.LBFGS
	visits  int
	ends    bool // nothing is left to gain
	terms   statistics.Occurring
	kept    bool // terms are those of the best point, which the last visit was made with
}

// point is the weights of the columns that occur (m × k), with their evaluation.
type point struct {
	linear.Point
	visit     int
	objective float64
}

// NewUpdate returns the fit of a stage, given the sums of its window without those of increments that leave, and the
// columns of the examples in the order of the block. passes is the number of steps to try. memory provides the
// matrices, and receives the memory of visits.
func NewUpdate(stage schemas.Stage, shape solve.Shape, sums *Sums, columns []int32, passes int, memory *Memory) *Update {
	return &Update{stage: stage, link: link.Named(stage.Link), shape: shape, passes: passes, sums: sums, all: columns, memory: memory}
}

// Precondition does nothing: an update on sparse rows has no Gram matrix.
func (u *Update) Precondition(wire.Tensors[float64]) error { return nil }

// Ridge returns the ridge of the stage.
func (u *Update) Ridge() schemas.Ridge { return u.stage.Ridge }

// Weight returns 0: fitted weights have no factor.
func (u *Update) Weight() schemas.Weight { return 0 }

// HasCurvature reports whether a visit of an update with the given passes sums the curvature: the first, which provides
// L-BFGS with its initial matrix, and those that may be made with the final weights.
func HasCurvature(visit, passes int) bool { return visit == 0 || visit >= passes }

// Observe takes the reduced sums of a visit.
func (u *Update) Observe(visit int, w solve.Step, sums wire.Tensors[float64]) (*solve.Evaluation, error) {
	v, err := VisitOf(sums, u.shape)
	if err != nil {
		return nil, err
	}
	return u.ObserveVisit(visit, w, v)
}

// ObserveVisit takes the sums of a visit, and keeps their memory.
func (u *Update) ObserveVisit(visit int, w solve.Step, v Visit) (_ *solve.Evaluation, err error) {
	u.visits++
	u.kept = false
	u.used = append(u.used, v.Gradient.Values, v.Curvature.Values, v.Reach.Values)
	if visit == 0 {
		if err := u.begin(w, &v); err != nil {
			return nil, err
		}
	} else if columns := v.columns(); !slices.Equal(columns, u.columns) || len(v.Gradient.Values) < len(u.past) && !u.tried() {
		return nil, fmt.Errorf("%w: visit %d has %d columns, not the %d of the first", wire.ErrDamaged, visit, len(columns), len(u.columns))
	}
	here := point{Point: linear.Point{W: w.Rows, Gradient: v.Gradient.Values}, visit: visit, objective: v.Losses.Loss}
	if visit == 0 {
		here.W = u.start
	} else if !slices.Equal(w.Occurring, u.columns) {
		return nil, fmt.Errorf("%w: weights of %d columns, expected %d", wire.ErrDamaged, len(w.Occurring), len(u.columns))
	}
	u.addPast(&here)
	evaluation := &solve.Evaluation{Number: u.visits, Objective: here.objective / max(u.weight, math.SmallestNonzeroFloat64)}
	repeats := visit > 0 && slices.Equal(here.W, u.at.W) // to obtain the curvature there
	evaluation.Accepted = visit == 0 || repeats || u.lbfgs.Sufficient(u.at.objective, here.objective)
	if !evaluation.Accepted {
		u.lbfgs.Size /= 2
		return evaluation, nil
	}
	if HasCurvature(visit, u.passes) {
		u.terms, u.kept = v.Curvature, true
	}
	switch {
	case repeats:
		return evaluation, nil
	case visit > 0 && u.tried():
		u.at = here
		return evaluation, nil // no step follows
	case visit == 0:
		if err := u.precondition(); err != nil {
			return nil, err
		}
	}
	here.Preconditioned = floats.MulTo(u.take(len(here.Gradient)), here.Gradient, u.metric)
	if visit == 0 {
		u.lbfgs.Accept(nil, &here.Point)
		u.lbfgs.Size, err = u.firstSize(v.Reach)
	} else {
		u.lbfgs.Accept(&u.at.Point, &here.Point)
	}
	u.at, u.ends = here, !(u.lbfgs.Slope > minDecrement*(1+math.Abs(here.objective)))
	return evaluation, err
}

// addPast adds the quadratic of past rows to the objective and the gradient of a point, whose gradient holds the sums of
// y − g; after the last trial it may be nil.
func (u *Update) addPast(here *point) {
	if here.visit == 0 { // at W₀ the quadratic is 0, and so is its slope
		for i, sum := range here.Gradient {
			here.Gradient[i] = 0 - sum
		}
		return
	}
	objective, start, past := here.objective, u.start[:len(here.W)], u.past[:len(here.W)]
	if here.Gradient == nil {
		for i, at := range here.W {
			d := float64(at) - float64(start[i])
			objective += past[i] * d * d / 2
		}
	} else {
		gradient := here.Gradient[:len(here.W)]
		for i, at := range here.W {
			d := float64(at) - float64(start[i])
			objective += past[i] * d * d / 2
			gradient[i] = -gradient[i] + past[i]*d
		}
	}
	here.objective = objective
}

// begin reads the columns from the first visit.
func (u *Update) begin(w solve.Step, v *Visit) error {
	k, gradient := u.shape.Classes, v.Gradient
	if len(w.W) != u.shape.Columns*k {
		return errors.New("the update lacks its initial weights")
	}
	if !linear.Finite(v.Losses.Loss) || !linear.Finite(floats.Sum(gradient.Values)) {
		return &linear.NotFiniteError{What: "the loss of the new rows"}
	}
	u.initial, u.columns, u.weight = w.W, gradient.Columns, v.Losses.Weight
	u.start, u.past = make([]float32, 0, len(gradient.Values)), u.take(len(gradient.Values))[:0]
	for _, column := range u.columns {
		at := int(column) * k
		u.start = append(u.start, u.initial[at:at+k]...)
		u.past = u.sums.appendRow(u.past, u.all[column])
	}
	return nil
}

// precondition computes the metric from the curvature of the first visit.
func (u *Update) precondition() error {
	if !slices.Equal(u.terms.Columns, u.columns) {
		return fmt.Errorf("%w: curvature of %d columns, expected %d", wire.ErrDamaged, len(u.terms.Columns), len(u.columns))
	}
	u.metric = u.take(len(u.past))
	for i, h := range u.terms.Values {
		if !linear.Finite(h) {
			return &linear.NotFiniteError{What: "the curvature of the new rows"}
		}
		u.metric[i] = 1 / max(u.past[i]+h, leastMetric)
	}
	return nil
}

// firstSize returns the size of the first step: the longest one guaranteed to lower the objective. Per column, the
// curvature is at most that of D and of Σ w |x| |row|₁ times the link's largest.
func (u *Update) firstSize(reach statistics.Occurring) (float64, error) {
	if !slices.Equal(reach.Columns, u.columns) {
		return 0, fmt.Errorf("%w: bounds of %d columns, expected %d", wire.ErrDamaged, len(reach.Columns), len(u.columns))
	}
	k, curvature := u.shape.Classes, 0.0
	for i, s := range u.lbfgs.Step {
		curvature += (u.past[i] + u.link.Smoothness*reach.Values[i/k]) * s * s
	}
	if !(curvature > 0) {
		return 1, nil
	}
	return min(1, u.lbfgs.Slope/curvature), nil
}

// tried reports whether all steps have been tried.
func (u *Update) tried() bool { return u.visits-1 >= u.passes }

// Next returns the weights of the next trial. It returns the final weights once a visit with them has summed their
// curvature.
func (u *Update) Next() (solve.Step, error) {
	if (u.ends || u.tried()) && u.kept {
		return u.final(), nil
	}
	step := solve.Step{Occurring: u.columns, Rows: u.at.W}
	if u.ends || u.tried() {
		return step, nil
	}
	step.Rows = linear.Trial(u.at.W, u.lbfgs.Size, u.lbfgs.Step)
	return step, nil
}

// final returns the step that ends the stage.
func (u *Update) final() solve.Step {
	return solve.Step{Occurring: append([]int32{}, u.columns...), Rows: u.at.W, Final: true, Of: u.visits - 1}
}

// After adds the terms of the new rows to the sums, and returns them, and Σw of the new training rows. The update must
// not be used afterwards.
func (u *Update) After() (Terms, float64) {
	terms := u.sums.Terms(u.terms, u.all, 1)
	u.sums.Add(1, terms)
	u.memory.Put(u.used...)
	u.used = nil
	return terms, u.weight
}

// take returns memory that After puts back.
func (u *Update) take(size int) []float64 {
	values := u.memory.Take(size)
	u.used = append(u.used, values)
	return values
}
