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
	// maxPairs is the number of steps that L-BFGS learns from.
	maxPairs = 8
	// armijo is the fraction of the slope that a trial must gain (Nocedal and Wright 2006, 3.1).
	armijo = 1e-4
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
	step    []float64 // the next trial is at.w − size · step
	size    float64
	slope   float64
	pairs   []pair
	visits  int
	ends    bool // nothing is left to gain
	terms   statistics.Occurring
	kept    bool // terms are those of the best point, which the last visit was made with
}

// point is the weights of the columns that occur, with their evaluation.
type point struct {
	visit     int
	w         []float32 // m × k
	objective float64
	gradient  []float64
}

// pair is an accepted step and the change of the gradient along it.
type pair struct {
	step, change []float64
	inner        float64 // ⟨step, change⟩
	square       float64 // ⟨change, its product with the inverse metric⟩
}

// NewUpdate returns the fit of a stage, given the sums of its window without those of increments that leave, and the
// columns of the examples in the order of the block. passes is the number of steps to try. memory provides the
// matrices, and receives the memory of visits.
func NewUpdate(stage schemas.Stage, shape solve.Shape, sums *Sums, columns []int32, passes int, memory *Memory) *Update {
	return &Update{stage: stage, link: link.Named(stage.Link), shape: shape, passes: passes, sums: sums, all: columns, memory: memory, size: 1}
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
	here := point{visit: visit, w: w.Rows, objective: v.Losses.Loss, gradient: v.Gradient.Values}
	if visit == 0 {
		here.w = u.start
	} else if !slices.Equal(w.Occurring, u.columns) {
		return nil, fmt.Errorf("%w: weights of %d columns, expected %d", wire.ErrDamaged, len(w.Occurring), len(u.columns))
	}
	u.addPast(&here)
	evaluation := &solve.Evaluation{Number: u.visits, Objective: here.objective / max(u.weight, math.SmallestNonzeroFloat64)}
	repeats := visit > 0 && slices.Equal(here.w, u.at.w) // to obtain the curvature there
	sufficient := here.objective <= u.at.objective-armijo*u.size*u.slope
	if evaluation.Accepted = visit == 0 || repeats || sufficient; !evaluation.Accepted {
		u.size /= 2
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
		err = u.precondition()
	default:
		u.learn(&here)
	}
	u.at = here
	if err != nil {
		return nil, err
	}
	u.choose()
	if visit == 0 {
		u.size, err = u.firstSize(v.Reach)
	}
	return evaluation, err
}

// addPast adds the quadratic of past rows to the objective and the gradient of a point, whose gradient holds the sums of
// y − g; after the last trial it may be nil.
func (u *Update) addPast(here *point) {
	if here.visit == 0 { // at W₀ the quadratic is 0, and so is its slope
		for i, sum := range here.gradient {
			here.gradient[i] = 0 - sum
		}
		return
	}
	objective, start, past := here.objective, u.start[:len(here.w)], u.past[:len(here.w)]
	if here.gradient == nil {
		for i, at := range here.w {
			d := float64(at) - float64(start[i])
			objective += past[i] * d * d / 2
		}
	} else {
		gradient := here.gradient[:len(here.w)]
		for i, at := range here.w {
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
	for i, s := range u.step {
		curvature += (u.past[i] + u.link.Smoothness*reach.Values[i/k]) * s * s
	}
	if !(curvature > 0) {
		return 1, nil
	}
	return min(1, u.slope/curvature), nil
}

// learn keeps the pair of the step to an accepted point, in the memory of the previous gradient.
func (u *Update) learn(here *point) {
	p := pair{u.take(len(here.w)), u.at.gradient, 0, 0}
	step, change, metric, before := p.step, p.change[:len(p.step)], u.metric[:len(p.step)], u.at.w[:len(p.step)]
	for i, gradient := range here.gradient[:len(step)] {
		v := gradient - change[i]
		step[i], change[i] = float64(here.w[i])-float64(before[i]), v
		p.square += v * v * metric[i]
	}
	if p.inner = floats.Dot(p.step, p.change); p.inner > 0 && p.square > 0 {
		u.pairs = append(u.pairs, p)
		u.pairs = u.pairs[max(0, len(u.pairs)-maxPairs):]
	}
}

// choose computes the step from the best point by the two loops of L-BFGS (Nocedal and Wright 2006, algorithm 7.4).
func (u *Update) choose() {
	u.size = 1
	if u.step == nil {
		u.step = u.take(len(u.at.gradient))
	}
	q, alphas := append(u.step[:0], u.at.gradient...), make([]float64, len(u.pairs))
	for i, p := range slices.Backward(u.pairs) {
		alphas[i] = floats.Dot(p.step, q) / p.inner
		floats.AddScaled(q, -alphas[i], p.change)
	}
	if n := len(u.pairs); n > 0 {
		scale := u.pairs[n-1].inner / u.pairs[n-1].square
		for i, m := range u.metric[:len(q)] {
			q[i] = q[i] * m * scale
		}
	} else {
		floats.Mul(q, u.metric)
	}
	for i, p := range u.pairs {
		floats.AddScaled(q, alphas[i]-floats.Dot(p.change, q)/p.inner, p.step)
	}
	u.step, u.slope = q, floats.Dot(u.at.gradient, q)
	u.ends = !(u.slope > minDecrement*(1+math.Abs(u.at.objective)))
}

// tried reports whether all steps have been tried.
func (u *Update) tried() bool { return u.visits-1 >= u.passes }

// Next returns the weights of the next trial. It returns the final weights once a visit with them has summed their
// curvature.
func (u *Update) Next() (solve.Step, error) {
	if (u.ends || u.tried()) && u.kept {
		return u.final(), nil
	}
	step := solve.Step{Occurring: u.columns, Rows: u.at.w}
	if u.ends || u.tried() {
		return step, nil
	}
	step.Rows = make([]float32, len(u.at.w))
	for i, v := range u.at.w {
		step.Rows[i] = float32(float64(v) - u.size*u.step[i])
	}
	return step, nil
}

// final returns the step that ends the stage.
func (u *Update) final() solve.Step {
	return solve.Step{Occurring: append([]int32{}, u.columns...), Rows: u.at.w, Final: true, Of: u.visits - 1}
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
