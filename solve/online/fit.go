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
	// maxPairs is how many steps L-BFGS learns from.
	maxPairs = 8
	// armijo is the share of the slope that a trial must gain (Nocedal and Wright 2006, 3.1).
	armijo = 1e-4
	// leastMetric keeps columns without curvature, such as an intercept's before the first row, from infinite steps.
	leastMetric = 1e-12
	// minDecrement is the gain relative to the objective below which float32 scores can't tell a step from none.
	minDecrement = 1e-12
)

// Update is a [solve.Fit] of a stage of columns in an update of a chain on sparse rows. L-BFGS starts from the inverse of D and the
// curvature of the new rows. Its first step is as long as surely lowers the objective. Each trial is a visit, and the update ends with a
// visit to the weights that it leaves, whose curvature is added to D. It is not safe for concurrent use.
type Update struct {
	stage  schemas.Stage
	link   link.Link
	shape  solve.Shape
	passes int
	sums   *Sums
	all    []int32 // columns of the examples, in the order of the block

	initial []float32 // p × k: W₀
	columns []int32   // that occur
	start   []float64 // m × k: W₀ there
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
	kept    bool // terms are those of the best point, and the last visit was made with it
}

// point is weights of the columns that occur, with what is known there.
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

// NewUpdate returns the fit of a stage, given the sums of its window without those of increments that leave, and the columns of the
// examples in the order of the block. passes is how many steps it tries.
func NewUpdate(stage schemas.Stage, shape solve.Shape, sums *Sums, columns []int32, passes int) *Update {
	return &Update{stage: stage, link: link.Named(stage.Link), shape: shape, passes: passes, sums: sums, all: columns, size: 1}
}

// Precondition does nothing: an update on sparse rows has no Gram matrix.
func (u *Update) Precondition(wire.Tensors[float64]) error { return nil }

// Ridge returns the ridge of the stage.
func (u *Update) Ridge() schemas.Ridge { return u.stage.Ridge }

// Weight returns 0: weights that are fitted are multiplied by nothing.
func (u *Update) Weight() schemas.Weight { return 0 }

// HasCurvature reports whether a visit of an update with so many passes sums the curvature: the first, whose curvature L-BFGS starts from,
// and those that may be made with the weights that the update ends with.
func HasCurvature(visit, passes int) bool { return visit == 0 || visit >= passes }

// Observe takes the reduced sums of a visit.
func (u *Update) Observe(visit int, w solve.Step, sums wire.Tensors[float64]) (*solve.Evaluation, error) {
	v, err := VisitOf(sums, u.shape)
	if err != nil {
		return nil, err
	}
	return u.ObserveVisit(visit, w, v)
}

// ObserveVisit takes what a visit has summed, and keeps its memory.
func (u *Update) ObserveVisit(visit int, w solve.Step, v Visit) (_ *solve.Evaluation, err error) {
	u.visits++
	u.kept = false
	if visit == 0 {
		if err := u.begin(w, &v); err != nil {
			return nil, err
		}
	} else if !slices.Equal(v.Gradient.Columns, u.columns) {
		return nil, fmt.Errorf("%w: visit %d has %d columns, not the %d of the first", wire.ErrDamaged, visit, len(v.Gradient.Columns),
			len(u.columns))
	}
	here := point{visit: visit, w: w.Rows, objective: v.Losses.Loss, gradient: v.Gradient.Values}
	if visit == 0 {
		here.w = linear.Narrow(u.start)
	} else if !slices.Equal(w.Occurring, u.columns) {
		return nil, fmt.Errorf("%w: weights of %d columns, expected %d", wire.ErrDamaged, len(w.Occurring), len(u.columns))
	}
	for i, at := range here.w {
		d := float64(at) - u.start[i]
		here.objective += u.past[i] * d * d / 2
		here.gradient[i] = -here.gradient[i] + u.past[i]*d // sums are of y − g
	}
	evaluation := &solve.Evaluation{Number: u.visits, Objective: here.objective / max(u.weight, math.SmallestNonzeroFloat64)}
	repeats := visit > 0 && slices.Equal(here.w, u.at.w) // for the curvature there
	sufficient := here.objective <= u.at.objective-armijo*u.size*u.slope
	if evaluation.Accepted = visit == 0 || repeats || sufficient; !evaluation.Accepted {
		u.size /= 2
		return evaluation, nil
	}
	if HasCurvature(visit, u.passes) {
		u.terms, u.kept = v.Curvature, true
	}
	if repeats {
		return evaluation, nil
	}
	if visit == 0 {
		err = u.precondition()
	} else {
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

// begin takes what the first visit has of columns.
func (u *Update) begin(w solve.Step, v *Visit) error {
	k, gradient := u.shape.Classes, v.Gradient
	if len(w.W) != u.shape.Columns*k {
		return errors.New("an update without the weights that it starts from")
	}
	if !linear.Finite(v.Losses.Loss) || !linear.Finite(floats.Sum(gradient.Values)) {
		return &linear.NotFiniteError{What: "the loss of the new rows"}
	}
	u.initial, u.columns, u.weight = w.W, gradient.Columns, v.Losses.Weight
	u.start, u.past = make([]float64, 0, len(gradient.Values)), make([]float64, 0, len(gradient.Values))
	for _, column := range u.columns {
		at := int(column) * k
		for _, v := range u.initial[at : at+k] {
			u.start = append(u.start, float64(v))
		}
		u.past = u.sums.appendRow(u.past, u.all[column])
	}
	return nil
}

// precondition computes the metric from the curvature of the first visit.
func (u *Update) precondition() error {
	if !slices.Equal(u.terms.Columns, u.columns) {
		return fmt.Errorf("%w: curvature of %d columns, expected %d", wire.ErrDamaged, len(u.terms.Columns), len(u.columns))
	}
	u.metric = make([]float64, len(u.past))
	for i, h := range u.terms.Values {
		if !linear.Finite(h) {
			return &linear.NotFiniteError{What: "the curvature of the new rows"}
		}
		u.metric[i] = 1 / max(u.past[i]+h, leastMetric)
	}
	return nil
}

// firstSize returns the size of the first step: the longest that surely lowers the objective, whose curvature is at most that of D and of
// Σ w |x| |row|₁ in each column, times the most that the link has.
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

// learn keeps the pair of the step to an accepted point, in the memory of the gradient at the point before.
func (u *Update) learn(here *point) {
	p := pair{make([]float64, len(here.w)), floats.SubTo(u.at.gradient, here.gradient, u.at.gradient), 0, 0}
	for i, v := range here.w {
		p.step[i] = float64(v) - float64(u.at.w[i])
	}
	for i, v := range p.change {
		p.square += v * v * u.metric[i]
	}
	if p.inner = floats.Dot(p.step, p.change); p.inner > 0 && p.square > 0 {
		u.pairs = append(u.pairs, p)
		u.pairs = u.pairs[max(0, len(u.pairs)-maxPairs):]
	}
}

// choose chooses the step from the best point: the two loops of L-BFGS (Nocedal and Wright 2006, algorithm 7.4).
func (u *Update) choose() {
	u.size = 1
	q, alphas := append(u.step[:0], u.at.gradient...), make([]float64, len(u.pairs))
	for i, p := range slices.Backward(u.pairs) {
		alphas[i] = floats.Dot(p.step, q) / p.inner
		floats.AddScaled(q, -alphas[i], p.change)
	}
	floats.Mul(q, u.metric)
	if n := len(u.pairs); n > 0 {
		floats.Scale(u.pairs[n-1].inner/u.pairs[n-1].square, q)
	}
	for i, p := range u.pairs {
		floats.AddScaled(q, alphas[i]-floats.Dot(p.change, q)/p.inner, p.step)
	}
	u.step, u.slope = q, floats.Dot(u.at.gradient, q)
	u.ends = !(u.slope > minDecrement*(1+math.Abs(u.at.objective)))
}

// Next returns the weights of the next trial, or those that the update ends with, once a visit was made with them that summed their
// curvature.
func (u *Update) Next() (solve.Step, error) {
	tried := u.visits - 1 // steps
	if (u.ends || tried >= u.passes) && u.kept {
		return u.final(), nil
	}
	step := solve.Step{Occurring: u.columns, Rows: u.at.w}
	if u.ends || tried >= u.passes {
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

// After adds the terms of the new rows to the sums, and returns them, and Σw of the new training rows. The update must not be used
// afterwards.
func (u *Update) After() (Terms, float64) { return after(u.sums, u.terms, u.all), u.weight }

func after(sums *Sums, o statistics.Occurring, columns []int32) Terms {
	terms := sums.Terms(o, columns, 1)
	sums.Add(1, terms)
	return terms
}
