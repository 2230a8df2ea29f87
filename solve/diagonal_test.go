package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// sparseProblem draws a problem with sparse rows: two of three values are 0, and the last column is 0 in all rows.
func sparseProblem(seed uint64, n, p, k int) *problem {
	pr := problemOf(seed, n, p, k)
	pr.shape.Sparse = true
	for i := range n {
		for j := range p - 1 {
			if (i+2*j)%3 != 0 || j == p-2 {
				pr.x.Set(i, j, 0)
			}
		}
	}
	return pr
}

// sparseSums returns the sums of a visit of sparse rows with the weights w.
func (pr *problem) sparseSums(l schemas.Link, w []float32) wire.Tensors[float64] {
	squares, bounds := make([]float64, pr.shape.Columns), make([]float64, pr.shape.Columns)
	for i, weight := range pr.weight {
		length := 0.0
		for _, v := range pr.x.RawRowView(i) {
			length += math.Abs(v)
		}
		for j, v := range pr.x.RawRowView(i) {
			squares[j] += weight * v * v
			bounds[j] += weight * math.Abs(v) * length
		}
	}
	sums := wire.Tensors[float64]{wire.Vector(statistics.FieldDiagonal, squares), wire.Vector(statistics.FieldBounds, bounds)}
	for _, t := range pr.sums(l, pr.scores(w)) {
		if t.Name != statistics.FieldGram && t.Name != statistics.FieldGramRows {
			sums = append(sums, t)
		}
	}
	return sums
}

// sparseVisit is one visit of a fit of sparse rows: its weights, its block, its losses and its evaluation.
type sparseVisit struct {
	w      []float32
	block  []int32
	losses [examples.Splits]statistics.Losses
	pass   *Evaluation
}

// sparseVisits makes the visits of a fit of sparse rows, in blocks of size inputs or, if size is 0, of all.
func sparseVisits(t *testing.T, pr *problem, stage schemas.Stage, size int) (visits []sparseVisit, final Step, f Fit) {
	t.Helper()
	pr.shape.AtATime = size
	f = NewFit([]schemas.Stage{stage}, 0, false, pr.shape, &Buffer{})
	w := make([]float32, pr.shape.Columns*pr.shape.Classes)
	for step := (Step{}); ; {
		if step.W != nil {
			w = step.W
		} else if step.Changed != nil {
			w = slices.Clone(w)
			pr.shape.apply(w, step.Changed, step.Change)
		}
		sums := pr.blockSums(stage.Link, Step{W: w, Block: step.Block})
		e := assert.Must(f.Observe(len(visits), step, sums))(t)
		visits = append(visits, sparseVisit{w, step.Block, statistics.LossesOf(sums), e})
		step = assert.Must(f.Next())(t)
		if step.Final {
			return visits, step, f
		}
		whole := step.Block == nil || size >= pr.shape.Penalised-1
		assert.Need(t, (step.W != nil) == whole, "visit %d of %v: whole %v, changes of %v", len(visits), step.Block, step.W != nil, step.Changed)
		step = assert.Must(StepOf(step.Tensors(pr.shape), pr.shape))(t) // as another process reads it
	}
}

// evaluations returns those of visits.
func evaluations(visits []sparseVisit) (passes []*Evaluation) {
	for _, v := range visits {
		passes = append(passes, v.pass)
	}
	return passes
}

// fitSparse makes the visits of a fit, and returns its weights and the evaluations.
func fitSparse(t *testing.T, pr *problem, stage schemas.Stage) (w []float32, passes []*Evaluation, ridge schemas.Ridge) {
	t.Helper()
	visits, final, f := sparseVisits(t, pr, stage, 0)
	return final.W, evaluations(visits), f.Ridge()
}

// Conjugate gradients on sparse rows find the ridge regression of the normal equations.
func TestSparseIdentityIsRidgeRegression(t *testing.T) {
	pr := sparseProblem(1, 300, 12, 3)
	stage := Defaults()
	stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Identity, MethodCG, 30, 0.2
	w, passes, _ := fitSparse(t, pr, stage)
	want := pr.ridgeRegression(pr.wantLambda(0.2)).RawMatrix().Data
	for i, v := range w {
		assert.Near(t, float64(v), want[i], 1e-4, "weight %d", i)
	}
	n := len(passes)
	assert.True(t, n <= pr.shape.Columns+2, "%d passes for %d columns", n, pr.shape.Columns)
}

// On sparse rows the log loss falls in every pass, as the first step is bounded, to a point with zero gradient.
func TestSparseSoftmaxConverges(t *testing.T) {
	pr := sparseProblem(2, 400, 10, 3)
	stage := Defaults()
	stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Softmax, MethodLBFGS, 60, 0.01
	w, passes, _ := fitSparse(t, pr, stage)
	assert.True(t, passes[1].Accepted, "the first step raised J")
	f := &generalized{common: common{settings: settings{stage}, link: link.Named(link.Softmax), shape: pr.shape, stop: newStop(nil)}}
	sums := pr.sparseSums(link.Softmax, w)
	assert.Must(f.open(sums))(t)
	gradient := assert.Must(f.gradient(sums, w[:pr.shape.Penalised*pr.shape.Classes]))(t)
	for i, g := range gradient {
		assert.Near(t, g, 0, 1e-4, "gradient %d at the minimum", i)
	}
}

// An auto ridge weighs as much as one row.
func TestSparseAutoRidge(t *testing.T) {
	pr := sparseProblem(3, 200, 8, 2)
	stage := Defaults()
	stage.Link = link.Identity
	total := 0.0
	for _, weight := range pr.weight {
		total += weight
	}
	_, _, ridge := fitSparse(t, pr, stage)
	assert.Near(t, float64(ridge), 7/total, 1e-12, "ridge")
}

// normalEquations returns H = Ê[x xᵀ] + λI, with λ on the penalised columns, and Ê[x rᵀ].
func (pr *problem) normalEquations(lambda float64) (hessian, cross *mat.Dense) {
	gram, moment := pr.moments(pr.x, pr.residuals())
	p, k := pr.shape.Columns, pr.shape.Classes
	weight, _ := pr.total()
	hessian, cross = mat.NewDense(p, p, nil), mat.NewDense(p, k, moment)
	for i, at := 0, 0; i < p; i++ {
		for j := 0; j <= i; j++ {
			hessian.Set(i, j, gram[at]/weight)
			hessian.Set(j, i, gram[at]/weight)
			at++
		}
		if i < pr.shape.Penalised {
			hessian.Set(i, i, hessian.At(i, i)+lambda)
		}
	}
	cross.Scale(1/weight, cross)
	return hessian, cross
}

// Each visit lowers J like an iteration of the textbook (Nocedal and Wright 2006, algorithm 5.3), which uses H itself and does not round to
// single precision. So the last direction is sufficient, and using the ideal length of the previous step does no harm.
func TestConjugateGradientsAgainstTheTextbook(t *testing.T) {
	pr := sparseProblem(6, 300, 40, 3)
	stage := Defaults()
	stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Identity, MethodCG, 15, 0.01
	_, passes, _ := fitSparse(t, pr, stage)
	assert.Need(t, len(passes) >= 10, "%d visits: too few to tell", len(passes))
	hessian, cross := pr.normalEquations(pr.wantLambda(0.01))
	want := slices.Repeat([]float64{pr.squared(pr.labels(), pr.offset)}, len(passes))
	for c := range pr.shape.Classes {
		var d, hd mat.VecDense
		rest := mat.VecDenseCopyOf(cross.ColView(c)) // −∇J
		solve := func() *mat.VecDense {              // by the diagonal of H
			solved := mat.VecDenseCopyOf(rest)
			for j := range solved.Len() {
				solved.SetVec(j, solved.AtVec(j)/hessian.At(j, j))
			}
			return solved
		}
		y := solve()
		d.CloneFromVec(y)
		for v, gained := 1, 0.0; v < len(want); v++ {
			hd.MulVec(hessian, &d)
			before, curvature := mat.Dot(rest, y), mat.Dot(&d, &hd)
			length := before / curvature
			gained += length * before / 2
			want[v] -= gained
			rest.AddScaledVec(rest, -length, &hd)
			y = solve()
			d.AddScaledVec(y, mat.Dot(rest, y)/before, &d)
		}
	}
	for v, pass := range passes {
		assert.Near(t, pass.Objective, want[v], 1e-7*want[v], "visit %d: the objective, and that of the textbook", v)
	}
}

// The first step from a diagonal matrix, or from its root, lowers a quadratic loss by as much as its bound guarantees,
// for any gradient. The same step without the bound is longer, and may raise it.
func TestShortenedStepLowersJ(t *testing.T) {
	const rows, p, k, lambda = 200, 30, 2, 0.01
	r := rand.New(rand.NewPCG(1, 3))
	x, squares, bounds := mat.NewDense(rows, p, nil), make([]float64, p), make([]float64, p)
	for i := range rows {
		length := 0.0
		for j := range p {
			if r.IntN(j+1) < 3 {
				x.Set(i, j, r.Float64()) // positive, so that columns are correlated
				length += x.At(i, j)
			}
		}
		for j, v := range x.RawRowView(i) {
			squares[j] += v * v
			bounds[j] += v * length
		}
	}
	gradient := make([]float64, p*k)
	for range 10 {
		for i := range gradient {
			gradient[i] = r.NormFloat64() + 1
		}
		change := func(step []float64) float64 { // of |x d|²/2n + λ/2 |d|² − ⟨gradient, d⟩
			var scores mat.Dense
			scores.Mul(x, mat.NewDense(p, k, step))
			return floats.Dot(scores.RawMatrix().Data, scores.RawMatrix().Data)/2/rows + lambda/2*floats.Dot(step, step) - floats.Dot(gradient, step)
		}
		own := assert.Must(newDiagonal(slices.Clone(squares), p, rows, lambda, 1))(t)
		above := assert.Must(newDiagonal(slices.Clone(bounds), p, rows, lambda, 1))(t)
		whole := change(solved(own, gradient, k))
		assert.True(t, whole >= 0, "a step that is not bounded changes J by %v: the test does not need the bound", whole)
		for range 2 {
			floats.Scale(own.Length(gradient, k, above), own.Inverse)
			step := solved(own, gradient, k)
			got, want := change(step), -floats.Dot(gradient, step)/2
			assert.True(t, got <= want*(1-1e-12), "the step changes J by %v, expected %v at most", got, want)
			own.Root()
		}
	}
}

// A fixed step length needs a matrix that bounds S on sparse rows too: J falls in every pass.
func TestSparsePaperStepIsBounded(t *testing.T) {
	pr := sparseProblem(4, 300, 12, 3)
	stage := Defaults()
	stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Softmax, MethodPaper, 20, 0.01
	_, passes, _ := fitSparse(t, pr, stage)
	for _, e := range passes {
		assert.True(t, e.Accepted, "pass %d raised J to %v", e.Number, e.Objective)
	}
}
