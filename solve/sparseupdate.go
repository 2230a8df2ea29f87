package solve

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// leastMetric prevents infinite steps of columns without curvature, such as an intercept's before the first row.
const leastMetric = 1e-12

// SparseUpdate is a [Fit] of a stage of columns in an update of a chain on sparse rows. It fits the new rows, and approximates the
// loss of past rows by a quadratic around the initial weights, with their accumulated diagonal curvature:
//
//	minimise over W   Σ w ℓ(offset + xW, y) + ½ Σ D (W − W₀)²,   then   D ← D + Σ w x² h
//
// where h is the second derivative of the loss in each score at the final W of the update (a diagonal Laplace
// approximation; its relatives are Graepel et al., Web-scale Bayesian click-through rate prediction, ICML 2010, and
// McMahan et al., Ad click prediction, KDD 2013). D is a sum over rows, kept per increment, so the part of an increment
// that leaves the window is subtracted. The time and memory of an update depend on the columns that occur in it.
//
// L-BFGS starts from the inverse of D plus the curvature of the new rows. Its first step is the longest one guaranteed to
// lower the objective. Each trial is a visit. The update ends with a visit to its final weights, whose curvature is added to
// D. It is not safe for concurrent use.
type SparseUpdate struct {
	settings
	link   link.Link
	shape  Shape
	passes int
	sums   *SparseSums
	all    []int32 // columns of the examples, in the order of the block

	columns []int32   // columns that occur
	start   []float32 // m × k: the initial weights W₀ there
	past    []float64 // m × k: D there
	metric  []float64 // m × k: the inverse of D + the curvature of the new rows at W₀
	weight  float64   // Σw of the new training rows
	at      point     // the best so far, of the columns that occur (m × k)
	lbfgs   lbfgs
	visits  int
	ends    bool // nothing is left to gain
	terms   statistics.Occurring
	kept    bool // terms are those of the best point, which the last visit used
}

// NewSparseUpdate returns the fit of a stage, given the sums of its window without those of increments that leave, and the
// columns of the examples in the order of the block. passes is the number of steps to try.
func NewSparseUpdate(stage schemas.Stage, shape Shape, sums *SparseSums, columns []int32, passes int) *SparseUpdate {
	return &SparseUpdate{settings: settings{stage}, link: link.Named(stage.Link), shape: shape, passes: passes, sums: sums, all: columns}
}

// HasCurvature reports whether a visit of an update with the given passes sums the curvature: the first, which provides
// L-BFGS with its initial matrix, and those that may be made with the final weights.
func HasCurvature(visit, passes int) bool { return visit == 0 || visit >= passes }

// Observe takes the reduced sums of a visit, and keeps their memory.
func (u *SparseUpdate) Observe(visit int, w Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses := statistics.LossesOf(sums)[examples.Train]
	gradient, err := statistics.OccurringOf(sums, statistics.FieldGradient, u.shape.Columns, u.shape.Classes)
	if err != nil {
		return nil, err
	}
	u.visits++
	u.kept = false
	if visit == 0 {
		if err := u.begin(w, losses, gradient); err != nil {
			return nil, err
		}
	} else if columns := gradient.Columns; !slices.Equal(columns, u.columns) {
		return nil, fmt.Errorf("%w: visit %d has %d columns, not the %d of the first", wire.ErrDamaged, visit, len(columns), len(u.columns))
	}
	here := point{w: w.Rows, gradient: gradient.Values, visit: visit, objective: losses.Loss}
	if visit == 0 {
		here.w = u.start
	} else if !slices.Equal(w.Occurring, u.columns) {
		return nil, fmt.Errorf("%w: weights of %d columns, expected %d", wire.ErrDamaged, len(w.Occurring), len(u.columns))
	}
	u.addPast(&here)
	evaluation := &Evaluation{Number: u.visits, Objective: here.objective / max(u.weight, math.SmallestNonzeroFloat64)}
	repeats := visit > 0 && slices.Equal(here.w, u.at.w) // to obtain the curvature there
	evaluation.Accepted = visit == 0 || repeats || u.lbfgs.sufficient(&u.at, here.objective)
	if !evaluation.Accepted {
		u.lbfgs.size /= 2
		return evaluation, nil
	}
	if HasCurvature(visit, u.passes) {
		u.kept = true
		if u.terms, err = statistics.OccurringOf(sums, statistics.FieldCurvature, u.shape.Columns, u.shape.Classes); err != nil {
			return nil, err
		}
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
	here.preconditioned = floats.MulTo(make([]float64, len(here.gradient)), here.gradient, u.metric)
	if visit == 0 {
		u.lbfgs.accept(nil, &here)
		u.lbfgs.size, err = u.firstSize(sums)
	} else {
		u.lbfgs.accept(&u.at, &here)
	}
	u.at, u.ends = here, !(u.lbfgs.slope > minDecrement*(1+math.Abs(here.objective)))
	return evaluation, err
}

// addPast adds the quadratic of past rows to the objective and the gradient of a point, whose gradient holds the sums of
// y − g.
func (u *SparseUpdate) addPast(here *point) {
	if here.visit == 0 { // at W₀ the quadratic is 0, and so is its slope
		for i, sum := range here.gradient {
			here.gradient[i] = 0 - sum
		}
		return
	}
	objective, start, past, gradient := here.objective, u.start[:len(here.w)], u.past[:len(here.w)], here.gradient[:len(here.w)]
	for i, at := range here.w {
		d := float64(at) - float64(start[i])
		objective += past[i] * d * d / 2
		gradient[i] = -gradient[i] + past[i]*d
	}
	here.objective = objective
}

// begin reads the columns from the first visit.
func (u *SparseUpdate) begin(w Step, losses statistics.Losses, gradient statistics.Occurring) error {
	k := u.shape.Classes
	if len(w.W) != u.shape.Columns*k {
		return errors.New("the update lacks its initial weights")
	}
	if !Finite(losses.Loss) || !Finite(floats.Sum(gradient.Values)) {
		return &NotFiniteError{What: "the loss of the new rows"}
	}
	u.columns, u.weight = gradient.Columns, losses.Weight
	u.start, u.past = make([]float32, 0, len(gradient.Values)), make([]float64, 0, len(gradient.Values))
	for _, column := range u.columns {
		at := int(column) * k
		u.start = append(u.start, w.W[at:at+k]...)
		u.past = u.sums.appendRow(u.past, u.all[column])
	}
	return nil
}

// precondition computes the metric from the curvature of the first visit.
func (u *SparseUpdate) precondition() error {
	if !slices.Equal(u.terms.Columns, u.columns) {
		return fmt.Errorf("%w: curvature of %d columns, expected %d", wire.ErrDamaged, len(u.terms.Columns), len(u.columns))
	}
	u.metric = make([]float64, len(u.past))
	for i, h := range u.terms.Values {
		if !Finite(h) {
			return &NotFiniteError{What: "the curvature of the new rows"}
		}
		u.metric[i] = 1 / max(u.past[i]+h, leastMetric)
	}
	return nil
}

// firstSize returns the size of the first step: the longest one guaranteed to lower the objective. Per column, the
// curvature is at most D + L · Σ w |x| |row|₁, with L the largest curvature of the link.
func (u *SparseUpdate) firstSize(sums wire.Tensors[float64]) (float64, error) {
	reach, err := statistics.OccurringOf(sums, statistics.FieldReach, u.shape.Columns, 1)
	if err != nil {
		return 0, err
	}
	if !slices.Equal(reach.Columns, u.columns) {
		return 0, fmt.Errorf("%w: bounds of %d columns, expected %d", wire.ErrDamaged, len(reach.Columns), len(u.columns))
	}
	k, curvature := u.shape.Classes, 0.0
	for i, s := range u.lbfgs.step {
		curvature += (u.past[i] + u.link.Smoothness*reach.Values[i/k]) * s * s
	}
	if !(curvature > 0) {
		return 1, nil
	}
	return min(1, u.lbfgs.slope/curvature), nil
}

// tried reports whether all steps have been tried.
func (u *SparseUpdate) tried() bool { return u.visits-1 >= u.passes }

// Next returns the weights of the next trial. It returns the final weights once a visit with them has summed their
// curvature.
func (u *SparseUpdate) Next() (Step, error) {
	if (u.ends || u.tried()) && u.kept {
		return Step{Occurring: append([]int32{}, u.columns...), Rows: u.at.w, Final: true, Of: u.visits - 1}, nil
	}
	step := Step{Occurring: u.columns, Rows: u.at.w}
	if u.ends || u.tried() {
		return step, nil
	}
	step.Rows = trialFrom(u.at.w, u.lbfgs.size, u.lbfgs.step)
	return step, nil
}

// After adds the terms of the new rows to the sums. It returns these terms, and Σw of the new training rows. The update
// must not be used afterwards.
func (u *SparseUpdate) After() (statistics.Occurring, float64) {
	terms := u.sums.Terms(u.terms, u.all, 1)
	u.sums.Add(1, terms)
	return terms, u.weight
}

// InterceptColumn represents the intercept among the columns of examples: it follows them.
const InterceptColumn = int32(examples.MaxColumns)

// SparseSums are the state of a stage's window: D, or the counts N. statistics.Occurring are multiples of a grid, so their sums are exact
// below 2⁵³ times the grid: they depend only on the increments of the window, not on earlier additions and
// subtractions.
type SparseSums struct {
	Prior  float64 // D without rows, in the penalised columns
	Grid   float64 // a power of 2
	k      int
	rows   map[int32][]float64 // the sums of each column that has any (k), without the prior
	free   []float64           // memory for the next rows
	totals []float64           // k: over all columns but the intercept
}

// NewSparseSums returns empty sums of k classes.
func NewSparseSums(k int, prior, grid float64) *SparseSums {
	return &SparseSums{Prior: prior, Grid: grid, k: k, rows: map[int32][]float64{}, totals: make([]float64, k)}
}

// Row returns the sums of a column of the examples (k), without the prior; nil: it has none.
func (s *SparseSums) Row(column int32) []float64 { return s.rows[column] }

// gridBits is the resolution of the grid relative to the mean contribution of a row over all columns. statistics.Occurring are kept as
// float32, so the grid adds little rounding; sums are exact up to 2²⁵ such rows.
const gridBits = 28

// GridOf returns the grid of sums, given the sum of the absolute values of all terms over rows with the given total weight.
func GridOf(total, weight float64) float64 {
	if !(total > 0 && weight > 0) || math.IsInf(total/weight, 1) {
		return math.Exp2(-gridBits)
	}
	return math.Exp2(math.Ceil(math.Log2(total/weight)) - gridBits)
}

// Terms returns the contribution of an increment to the sums, by column of the examples: o, the sums over its rows,
// whose weights were multiplied by weight, rounded to the grid. The last column may be [InterceptColumn]. Columns with
// zero sums are omitted. columns are the columns of the examples, in the order of the block.
func (s *SparseSums) Terms(o statistics.Occurring, columns []int32, weight float64) (t statistics.Occurring) {
	k, finer := s.k, 1/s.Grid // a power of 2 too: a product has the bits of the quotient
	t = statistics.Occurring{Columns: make([]int32, 0, len(o.Columns)), Values: make([]float64, 0, len(o.Columns)*k)}
	for i, column := range o.Columns {
		any := false
		begin := len(t.Values)
		for _, v := range o.Values[i*k : (i+1)*k] {
			if v == 0 { // true of most counts
				t.Values = append(t.Values, 0)
				continue
			}
			rounded := float64(float32(math.Round(v/weight*finer) * s.Grid))
			any = any || rounded != 0
			t.Values = append(t.Values, rounded)
		}
		if !any {
			t.Values = t.Values[:begin]
			continue
		}
		t.Columns = append(t.Columns, columns[column])
	}
	return t
}

// rowsAtOnce is the number of rows whose memory is allocated at once.
const rowsAtOnce = 1024

// Add adds the terms of an increment, times a weight.
func (s *SparseSums) Add(weight float64, t statistics.Occurring) {
	for i, column := range t.Columns {
		to := s.rows[column]
		if to == nil {
			if len(s.free) == 0 {
				s.free = make([]float64, rowsAtOnce*s.k)
			}
			to, s.free = s.free[:s.k:s.k], s.free[s.k:]
			s.rows[column] = to
		}
		for class, v := range t.Values[i*s.k:][:s.k] {
			to[class] += weight * v
			if column != InterceptColumn {
				s.totals[class] += weight * v
			}
		}
	}
}

// Totals returns the sums over all columns but the intercept (k).
func (s *SparseSums) Totals() []float64 { return slices.Clone(s.totals) }

// Clear empties s.
func (s *SparseSums) Clear() {
	clear(s.rows)
	clear(s.totals)
}

// appendRow appends D of a column of the examples.
func (s *SparseSums) appendRow(to []float64, column int32) []float64 {
	from := len(to)
	to = append(to, make([]float64, s.k)...)
	copy(to[from:], s.rows[column])
	if column != InterceptColumn {
		floats.AddConst(s.Prior, to[from:])
	}
	return to
}
