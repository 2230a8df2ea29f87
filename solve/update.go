package solve

import (
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Update is the state of a stage in an update: it continues from the previous version's weights, and sees the rows of
// only a few increments. The loss of an increment c is approximated around the weights V_c of its last visit by the
// quadratic of curvature L·S_c that Algorithm 1 uses. The minimum over the window is
//
//	W = (L·S + nλI)⁻¹ (L·A − G),  S = Σ w_c S_c,  A = Σ w_c S_c V_c,  G = Σ w_c G_c,
//
// where G_c = Σ x (g(offset + xᵀV_c) − y)ᵀ is the gradient at V_c. A visit to an increment replaces its A_c and G_c:
// this is incremental majorisation-minimisation (Mairal, ICML 2013). A visit to all increments at the same W gives the
// step of Algorithm 1; then L-BFGS chooses the steps, as the quadratic is the only approximation.
//
// It is a [Fit]. An update is not safe for concurrent use.
type Update struct {
	settings
	link     link.Link
	shape    Shape
	passes   int
	buffer   *Buffer
	before   *statistics.Moments // of the window, without the terms of visited increments; with the new rows' Gram matrix
	visited  []Visited
	weights  []float64 // Σw of the training rows of each visited increment
	weight   float64   // n: Σ w_c Σw over the window
	share    float64   // ρ: its visited fraction
	scale    float64   // nλ
	most     float64   // the largest curvature, L of the link
	used     float64   // L of this update
	factor   *preconditioner
	met      []float64 // curvatures along the steps of this update
	seen     int       // visits
	restarts bool      // the window keeps only visited increments
	at       tangent   // the last accepted visit
	judges   bool      // the last visit uses the final weights
	final    []float32 // the final weights, once visited
	lbfgs    *lbfgs    // chooses the steps if the whole window is visited; otherwise nil
}

// Decay multiplies the sums of a stage's window by a factor.
func Decay(m *statistics.Moments, by float64) {
	for _, sums := range [][]float64{m.Gram, m.Scores, m.Gradient} {
		floats.Scale(by, sums)
	}
}

// AddTerms adds the terms of an increment, times a weight, to the sums of a stage's window.
func AddTerms(m *statistics.Moments, weight float64, t statistics.Terms) {
	if t.Scores != nil {
		floats.AddScaled(m.Scores, weight, t.Scores)
		floats.AddScaled(m.Gradient, weight, t.Gradient)
	}
}

// Visited is an increment that an update visits.
type Visited struct {
	Weight float64          // w_c
	Rows   float64          // Σw of its training rows; Precondition sets it for the new increment
	Terms  statistics.Terms // of its last visit
}

// Constants of an update; see [Update].
const (
	// earlyRidge strengthens the ridge by earlyRidge · p / n while that is above 1: as many rows as columns are the
	// worst case of a least squares fit (11 % error of MNIST at n = p without, as `make stream` shows).
	earlyRidge = 10
	// minStepLength is the mean squared change of the scores below which the curvature along a step is rounding.
	minStepLength = 1e-6
	// riseTolerance is the relative rise of the objective due to rounding: scores are float32.
	riseTolerance = 1e-6
)

// NewUpdate starts the update of a stage. It takes over before, the moments of the window before the update, decayed
// and without the increments that leave. weight is Σ w_c Σw over all remaining increments, without the new one, which
// is the first of visited. The update uses buffer until the next fit starts with it.
func NewUpdate(stage schemas.Stage, shape Shape, before *statistics.Moments, weight float64, visited []Visited, passes int,
	buffer *Buffer) *Update {
	l := link.Named(stage.Link)
	if l.Learnt {
		panic(fmt.Sprintf("solve: an update of a stage with link %s", l.Name))
	}
	u := &Update{
		settings: settings{stage}, link: l, shape: shape, passes: passes, buffer: buffer, before: before, weight: weight, visited: visited,
		most: l.Smoothness,
	}
	for _, v := range visited {
		AddTerms(before, -v.Weight, v.Terms)
	}
	return u
}

// NewRestart starts the update of a stage after a change of the stream, when the window keeps only visited increments.
// The field gram of Precondition then covers all visited rows, whose weights are 1.
func NewRestart(stage schemas.Stage, shape Shape, visited []Visited, passes int, buffer *Buffer) *Update {
	weight := 0.0
	for _, v := range visited[1:] {
		weight += v.Rows
	}
	u := NewUpdate(stage, shape, statistics.NewMoments(shape.Columns, shape.Classes), weight, visited, passes, buffer)
	u.restarts = true
	return u
}

// EndVisited makes the update end with one more visit, with the final weights, to measure their loss. It changes
// nothing else: a rebuild of the version does not depend on the gate. Call it before the first visit.
func (u *Update) EndVisited() { u.judges = true }

// Precondition adds the Gram matrix of the new rows, the field gram, to that of the window, and subtracts that of
// increments that leave, the field leave, which is already weighted. Both may be absent. The field gram_rows is Σw of
// the new training rows. It factors the matrix of the update's steps.
func (u *Update) Precondition(sums wire.Tensors[float64]) error {
	for _, part := range []struct {
		field  string
		weight float64
	}{{statistics.FieldGram, u.visited[0].Weight}, {statistics.FieldLeave, -1}} {
		gram, err := sums.Optional(part.field, len(u.before.Gram))
		if err != nil {
			return err
		}
		if gram != nil {
			floats.AddScaled(u.before.Gram, part.weight, gram)
		}
	}
	rows, err := sums.Shaped(statistics.FieldGramRows, 1)
	if err != nil {
		return err
	}
	if u.visited[0].Rows = rows[0]; u.restarts {
		u.visited[0].Rows = max(rows[0]-u.weight, 0)
	}
	return u.begin()
}

// Observe takes the reduced sums of a visit: the losses and the terms of each visited increment, in their order: see
// [statistics.Increment]. Unless [schemas.KeepsTerms], the terms of increment 0 are the sum over all. Accepted is false if the
// objective rose at the weights of the visit: the next step starts from the previous weights, with the link's full curvature.
func (u *Update) Observe(visit int, w Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	p, k, m := u.shape.Columns, u.shape.Classes, 1
	apart := schemas.KeepsTerms(visit, u.passes)
	if apart {
		m = len(u.visited)
	}
	here := tangent{w: make([]float64, p*k)}
	if w.W != nil {
		here.w = wide(w.W)
	}
	terms := make([]statistics.Terms, m)
	for i := range terms {
		var err error
		if terms[i], err = statistics.Increment(i).TermsIn(sums, p, k); err != nil {
			return nil, err
		}
	}
	if apart {
		here.keep(terms, u.visited)
	} else {
		here.scores, here.gradient = terms[0].Scores, terms[0].Gradient
	}
	losses := make([]statistics.Losses, len(u.visited))
	for i, v := range u.visited {
		losses[i] = statistics.Increment(i).VisitedIn(sums)
		here.loss += v.Weight * losses[i].Loss
	}
	if u.judges && u.at.terms != nil {
		u.final = w.W
		u.seen++
		return &Evaluation{Number: u.seen, Objective: u.objective(&here) / u.weight, Accepted: true}, nil
	}
	return u.observe(here, losses)
}

// keep stores the terms of each visited increment.
func (t *tangent) keep(terms []statistics.Terms, visited []Visited) {
	t.terms, t.scores, t.gradient = terms, make([]float64, len(t.w)), make([]float64, len(t.w))
	for i, at := range terms {
		floats.AddScaled(t.scores, visited[i].Weight, at.Scores)
		floats.AddScaled(t.gradient, visited[i].Weight, at.Gradient)
	}
}

// observe evaluates a visit, given the losses of each visited increment.
func (u *Update) observe(here tangent, losses []statistics.Losses) (*Evaluation, error) {
	if !Finite(here.loss) || !Finite(floats.Sum(here.gradient)) {
		return nil, &NotFiniteError{What: "the loss of the visited rows"}
	}
	if u.seen == 0 {
		for _, l := range losses {
			u.weights = append(u.weights, l.Weight)
		}
	}
	u.seen++
	here.objective = u.objective(&here)
	evaluation := &Evaluation{Number: u.seen, Objective: here.objective / u.weight, Accepted: true}
	if u.seen > 1 {
		if h, ok := u.at.curvature(&here, u.share*u.weight); ok {
			u.met = append(u.met, h)
		}
		if u.canShorten() && here.objective > u.at.objective+riseTolerance*math.Abs(u.at.objective) {
			evaluation.Accepted = false
			u.used = u.most
			if err := u.refactor(); err != nil {
				return nil, err
			}
			u.at.objective = u.objective(&u.at)
			if u.lbfgs != nil {
				u.lbfgs = &lbfgs{}
				u.choose(nil, &u.at)
			}
			return evaluation, nil
		}
	}
	if u.lbfgs != nil {
		var before *point
		if u.seen > 1 {
			before = u.at.point
		}
		u.choose(before, &here)
	}
	u.at = here
	return evaluation, nil
}

// canShorten reports whether a rejected step has an alternative: that of Algorithm 1 with the link's full curvature.
func (u *Update) canShorten() bool {
	return u.used < u.most || u.lbfgs != nil && u.lbfgs.learnt()
}

// choose lets L-BFGS choose the step from a visit. If the whole window is visited, the objective is J, and its gradient
// is known without S. before is the last accepted point, or nil.
func (u *Update) choose(before *point, t *tangent) {
	k := u.shape.Classes
	t.point = &point{w: narrow(t.w), gradient: make([]float64, len(t.w))}
	for i, g := range t.gradient {
		if t.point.gradient[i] = g / u.weight; i < u.shape.Penalised*k {
			t.point.gradient[i] += u.scale / u.weight * t.w[i]
		}
	}
	t.point.preconditioned = solved(u.factor, t.point.gradient, k)
	u.lbfgs.accept(before, t.point)
}

// begin computes n, ρ, λ and L, and factors the matrix of the step.
func (u *Update) begin() error {
	visited := 0.0
	for _, v := range u.visited {
		visited += v.Weight * v.Rows
	}
	u.weight += u.visited[0].Weight * u.visited[0].Rows
	if u.weight <= 0 {
		return errNoWeight
	}
	if u.share = visited / u.weight; u.share > 1-1e-9 { // up to rounding, all is visited
		u.share = 1
	}
	p, trace := float64(u.shape.Penalised), sumOf(packedDiagonal(u.before.Gram, u.shape.Penalised))
	if trace == 0 { // see common.ridge
		trace = u.weight * p
	}
	u.scale = float64(u.stage.Ridge) * u.early() * trace / p
	u.used = u.most
	if !u.link.Quadratic {
		// Where the curvature is h·S_c, a pass multiplies the error of the visited rows by ρ(1 − h/L): below hρ/(1+ρ)
		// it oscillates.
		least, met := u.most*u.share/(1+u.share), u.before.Curvature
		if met == 0 {
			met = u.most / 2
		}
		u.used = min(u.most, max(met, least))
		if u.share == 1 {
			u.lbfgs = &lbfgs{}
		}
	}
	return u.refactor()
}

// early returns the factor of the ridge while rows are few. It exempts trees, whose [schemas.Stage.RidgeRows] already
// accounts for few rows: ten times that undid what the previous version had learnt, so that a gate withheld the
// updates.
func (u *Update) early() float64 {
	if u.shape.Trees > 0 && u.stage.RidgeRows > 0 {
		return 1
	}
	return max(1, earlyRidge*float64(u.shape.Penalised)/u.weight)
}

// refactor factors (L·S + nλI)/n.
func (u *Update) refactor() (err error) {
	u.factor, err = newPreconditioner(u.before.Gram, u.shape.Columns, u.shape.Penalised, u.weight, u.scale/u.weight, u.used, u.buffer)
	return err
}

// tangent is a visit: its weights, and the weighted sums over the visited increments.
type tangent struct {
	w                []float64
	terms            []statistics.Terms // of each increment; nil: the visit summed them over the increments
	scores, gradient []float64
	loss             float64
	objective        float64 // with the currently factored matrix
	point            *point  // for L-BFGS
}

// curvature returns the mean curvature of the visited rows' loss along the step between two visits: h = 2 (loss(W') −
// loss(W) − ⟨∇, W' − W⟩) / Σ w |x'(W' − W)|². The sum is ⟨W' − W, A' − A⟩, as A is linear in W. It returns false if the
// step is so short that the result would be rounding.
func (t *tangent) curvature(next *tangent, weight float64) (h float64, ok bool) {
	step := floats.SubTo(make([]float64, len(t.w)), next.w, t.w)
	length := floats.Dot(step, next.scores) - floats.Dot(step, t.scores)
	if !(length > minStepLength*weight) {
		return 0, false
	}
	return 2 * (next.loss - t.loss - floats.Dot(step, t.gradient)) / length, true
}

// objective returns the objective of an update: the loss of the visited rows, and the quadratics of the others, L/2
// tr(WᵀSW) − ⟨W, L·A − G⟩ − L/2 Σ w|Wᵀx|² + loss(W) + nλ/2 |W|², with A and G of the unvisited rows, and the third term
// of the visited ones. It is bounded below, as S includes the visited rows with the same weights.
func (u *Update) objective(t *tangent) float64 {
	k, l := u.shape.Classes, u.used
	return u.weight*u.factor.Energy(t.w, k)/2 - l*floats.Dot(t.w, u.before.Scores) +
		floats.Dot(t.w, u.before.Gradient) - l/2*floats.Dot(t.w, t.scores) + t.loss
}

// Next returns the weights after the visits so far. The last step is that of Algorithm 1, as no visit checks whether it
// raises the objective. The weights are final after the last pass, or after one more if the last was rejected: only the
// visit of [Update.EndVisited] uses them before the next update.
func (u *Update) Next() (Step, error) {
	if u.final != nil {
		return Step{W: u.final, Final: true, Of: u.seen}, nil
	}
	k, final := u.shape.Classes, u.at.terms != nil
	if u.lbfgs != nil && !final {
		return Step{W: trialFrom(u.at.point.w, 1, u.lbfgs.step)}, nil
	}
	target := make([]float64, len(u.at.w))
	for i := range target {
		target[i] = (u.used*(u.before.Scores[i]+u.at.scores[i]) - u.before.Gradient[i] - u.at.gradient[i]) / u.weight
	}
	return Step{W: narrow(solved(u.factor, target, k)), Final: final && !u.judges, Of: u.seen}, nil
}

// After returns the moments of the window after the update, and the terms of each visited increment and Σw of its
// training rows. The update must not be used afterwards.
func (u *Update) After() (*statistics.Moments, []statistics.Terms, []float64) {
	after := u.before
	for i, v := range u.visited {
		AddTerms(after, v.Weight, u.at.terms[i])
	}
	if h := slices.Max(append(u.met, 0)); h > 0 {
		after.Curvature = h
	}
	return after, u.at.terms, u.weights
}
