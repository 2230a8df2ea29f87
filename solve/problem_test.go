package solve

import (
	"math"
	"math/rand/v2"
	"runtime"
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

// problem is a small data set in memory, whose visits are computed in float64.
type problem struct {
	shape      Shape
	x          *mat.Dense // n × p; the last column is 1 if not all are penalised
	class      []int
	weight     []float64
	split      []examples.Split
	offset     *mat.Dense // n × k: the scores before the stage
	gramFactor float64    // factor of the Gram matrix; 1: the true matrix
}

// problemOf draws n rows of p features, the last of them an intercept, and labels that depend on the features.
func problemOf(seed uint64, n, p, k int) *problem {
	r := rand.New(rand.NewPCG(seed, 1))
	pr := &problem{
		shape: Shape{Columns: p, Penalised: max(p-1, 1), Classes: k},
		x:     mat.NewDense(n, p, nil), offset: mat.NewDense(n, k, nil),
		class: make([]int, n), weight: make([]float64, n), split: make([]examples.Split, n), gramFactor: 1,
	}
	truth := mat.NewDense(p, k, nil)
	truth.Apply(func(_, _ int, _ float64) float64 { return r.NormFloat64() }, truth)
	for i := range n {
		for j := range p {
			pr.x.Set(i, j, float64(float32(r.NormFloat64())))
		}
		if p > 1 {
			pr.x.Set(i, p-1, 1)
		}
		pr.weight[i] = float64(1 + r.IntN(3))
		best := math.Inf(-1)
		for c := range k {
			if v := mat.Dot(pr.x.RowView(i), truth.ColView(c)) + 2*r.NormFloat64(); v > best {
				best, pr.class[i] = v, c
			}
			if k > 10 || i < k {
				pr.class[i] = i % k // no class is empty: its intercept would diverge
			}
			pr.offset.Set(i, c, 0.3*r.NormFloat64())
		}
	}
	return pr
}

// scores returns offset + XW.
func (pr *problem) scores(w []float32) *mat.Dense {
	z := mat.DenseCopyOf(pr.offset)
	if w != nil {
		var step mat.Dense
		step.Mul(pr.x, wideMatrix(pr.shape.Columns, pr.shape.Classes, w))
		z.Add(z, &step)
	}
	return z
}

func wideMatrix(rows, cols int, w []float32) *mat.Dense {
	m := mat.NewDense(rows, cols, nil)
	for i, v := range w {
		m.RawMatrix().Data[i] = float64(v)
	}
	return m
}

func softmax(z []float64) []float64 {
	top, sum, p := math.Inf(-1), 0.0, make([]float64, len(z))
	for _, v := range z {
		top = max(top, v)
	}
	for c, v := range z {
		p[c] = math.Exp(v - top)
		sum += p[c]
	}
	for c := range p {
		p[c] /= sum
	}
	return p
}

// sums returns the sums of a visit with the scores z: losses, cross moment, and Gram matrix.
func (pr *problem) sums(l schemas.Link, z *mat.Dense) wire.Tensors[float64] {
	n, k := z.Dims()
	p := pr.shape.Columns
	splits, residual := make([]float64, examples.Splits*statistics.LossFields), mat.NewDense(n, k, nil)
	for i := range n {
		row, loss, best := z.RawRowView(i), 0.0, 0
		g := row
		if l == link.Softmax {
			g = softmax(row)
			loss = -math.Log(g[pr.class[i]])
		}
		for c, v := range g {
			if y := indicator(c == pr.class[i]); l == link.Softmax {
				residual.Set(i, c, y-v)
			} else {
				residual.Set(i, c, y-v)
				loss += (y - v) * (y - v) / 2
			}
			if v > g[best] {
				best = c
			}
		}
		at := splits[int(pr.split[i])*statistics.LossFields:]
		at[0] += pr.weight[i]
		at[1]++
		at[2] += pr.weight[i] * indicator(best != pr.class[i])
		at[3] += pr.weight[i] * loss
	}
	squares := make([]float64, 2)
	for i, w := range pr.weight {
		if pr.split[i] == examples.Train {
			row := residual.RawRowView(i)
			squares[0] += w * floats.Dot(row, row)
			squares[1] += w * w
		}
	}
	gram, cross := pr.moments(pr.x, residual)
	for i := range gram {
		gram[i] *= pr.gramFactor
	}
	return wire.Tensors[float64]{
		{Name: statistics.FieldSplits, Shape: []int{examples.Splits, statistics.LossFields}, Data: splits},
		wire.Vector(statistics.FieldGram, gram), wire.Matrix(statistics.FieldCross, p, k, cross),
		wire.Vector(statistics.FieldGramRows, []float64{splits[int(examples.Train)*statistics.LossFields]}),
		wire.Vector(statistics.FieldResidual, squares),
	}
}

func indicator(is bool) float64 {
	if is {
		return 1
	}
	return 0
}

// moments returns the packed Σ w x xᵀ and Σ w x rᵀ of the training rows.
func (pr *problem) moments(x, r *mat.Dense) (gram, cross []float64) {
	n, p := x.Dims()
	_, k := r.Dims()
	wx := mat.DenseCopyOf(x)
	for i := range n {
		w := pr.weight[i]
		if pr.split[i] != examples.Train {
			w = 0
		}
		for j := range p {
			wx.Set(i, j, w*x.At(i, j))
		}
	}
	var full mat.Dense
	full.Mul(wx.T(), x)
	for i := range p {
		for j := range i + 1 {
			gram = append(gram, full.At(i, j))
		}
	}
	product := mat.NewDense(p, k, nil)
	product.Mul(wx.T(), r)
	return gram, product.RawMatrix().Data
}

// observe gives the sums of a visit to a fit, the Gram matrix of visit 0 first.
func observe(fit Fit, v int, w Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	sums = slices.Clone(sums) // the fit overwrites the cross moment
	for i, f := range sums {
		sums[i].Data = slices.Clone(f.Data)
	}
	if v == 0 {
		if err := fit.Precondition(sums); err != nil {
			return nil, err
		}
	}
	return fit.Observe(v, w, sums)
}

// lambdaOf returns the λ of a fit.
func lambdaOf(fit Fit) float64 {
	switch fit := fit.(type) {
	case *quadratic:
		return fit.lambda
	case *generalized:
		return fit.lambda
	}
	panic("solve: no λ of this fit is tested")
}

// visited is one visit of a fit: its step, its sums, and their evaluation.
type visited struct {
	step Step
	pass *Evaluation
	sums wire.Tensors[float64]
}

// fit starts the fit of a run's only stage.
func (pr *problem) fit(stage schemas.Stage) Fit {
	return NewFit([]schemas.Stage{stage}, 0, false, pr.shape, new(Buffer))
}

// run makes all visits of the fit of a run's only stage, which has a known link.
func (pr *problem) run(t *testing.T, stage schemas.Stage, initial []float32) (visits []visited, final Step, fit Fit) {
	t.Helper()
	return pr.runAmong(t, []schemas.Stage{stage}, 0, initial)
}

// runAmong makes all visits of the fit of one of the stages of a run.
func (pr *problem) runAmong(t *testing.T, stages []schemas.Stage, number int, initial []float32) (visits []visited, final Step, fit Fit) {
	t.Helper()
	stage := stages[number]
	fit = NewFit(stages, number, false, pr.shape, new(Buffer))
	for v, step := 0, (Step{W: initial}); ; v++ {
		sums := pr.sums(stage.Link, pr.scores(step.W))
		if v > 0 {
			sums = slices.Delete(sums, 1, 2) // only visit 0 has the Gram matrix
		}
		pass := assert.Must(observe(fit, v, step, sums))(t)
		visits = append(visits, visited{step, pass, sums})
		next := assert.Must(fit.Next())(t)
		if next.Final {
			return visits, next, fit
		}
		// the next visit is made with the record that was published
		step = assert.Must(StepOf(next.Tensors(pr.shape), pr.shape))(t)
	}
}

// objective returns J(W) in float64, and its gradient.
func (pr *problem) objective(l schemas.Link, lambda float64, w *mat.Dense) (float64, *mat.Dense) {
	z := mat.DenseCopyOf(pr.offset)
	var step mat.Dense
	step.Mul(pr.x, w)
	z.Add(z, &step)
	sums := pr.sums(l, z)
	train := statistics.LossesOf(sums)[examples.Train]
	cross, _ := sums.Find(statistics.FieldCross)
	gradient, j := mat.NewDense(pr.shape.Columns, pr.shape.Classes, nil), train.MeanLoss()
	for i, v := range cross.Data {
		gradient.RawMatrix().Data[i] = -v / train.Weight
		if i < pr.shape.Penalised*pr.shape.Classes {
			x := w.RawMatrix().Data[i]
			gradient.RawMatrix().Data[i] += lambda * x
			j += lambda / 2 * x * x
		}
	}
	return j, gradient
}

func random(seed uint64, n int, scale float64) []float32 {
	r, w := rand.New(rand.NewPCG(seed, 9)), make([]float32, n)
	for i := range w {
		w[i] = float32(scale * r.NormFloat64())
	}
	return w
}

// Sums have the same bits on any number of cores, and include each row once.
func TestSumsOnCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, k := range []int{1, 13, minPart + 1} {
		size := max(1, minPart/k)
		for _, n := range []int{0, 1, size - 1, size, size + 1, 5*size + 3} {
			rows := make([]float64, n)
			for i := range rows {
				rows[i] = 1 / float64(i+3)
			}
			on := func(cores int) []float64 {
				runtime.GOMAXPROCS(cores)
				return sumsByClass(n, k, func(from, to int, sums []float64) {
					for _, v := range rows[from:to] {
						sums[0] += v
						sums[k-1]++
					}
				})
			}
			one := on(1)
			assert.True(t, len(one) == k && slices.Equal(one, on(4)), "%d rows of %d: the sums of four cores have other bits", n, k)
			assert.True(t, k <= 1 || one[k-1] == float64(n), "%d rows of %d: %v of them are in the sums", n, k, one[k-1])
		}
	}
}

// A stop rule ends conjugate gradients and blocks too, with the weights of the visit with the smallest loss of the split.
func TestStopRuleOnSparseRows(t *testing.T) {
	for _, size := range []int{0, 8} {
		for _, patience := range []int{1, 3} {
			pr := sparseProblem(7, 120, 40, 2)
			for i := range pr.split {
				pr.split[i] = examples.Split(i % 2) // with half of the rows held out the fit overfits
			}
			stage := Defaults()
			stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Identity, MethodCG, 50, 1e-6
			stage.Stop = &schemas.Stop{Split: "holdout", Patience: patience}
			visits, final, _ := sparseVisits(t, pr, stage, size)
			best, at := math.Inf(1), 0
			for v, visit := range visits {
				if loss := visit.losses[examples.Holdout].MeanLoss(); loss < best {
					best, at = loss, v
				}
			}
			worse := 0 // visits with other weights after the best
			for v := at + 1; v < len(visits); v++ {
				if !slices.Equal(visits[v].w, visits[v-1].w) {
					worse++
				}
			}
			assert.True(t, worse == patience && at != 0,
				"blocks of %d, patience %d: visit %d is the best, after which weights changed %d times", size, patience, at, worse)
			assert.True(t, final.Of == at && slices.Equal(final.W, visits[at].w),
				"blocks of %d, patience %d: the final weights are those of visit %d, expected %d", size, patience, final.Of, at)
		}
	}
}

// If the passes end the stage first, a rule still chooses among the visits. A split without rows disables the rule: the
// last minimum is final, which was not visited.
func TestStopRuleAtTheLastPass(t *testing.T) {
	for _, held := range []bool{true, false} {
		pr := sparseProblem(8, 200, 12, 2)
		for i := range pr.split {
			if held {
				pr.split[i] = examples.Split(i % 2)
			}
		}
		stage := Defaults()
		stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Identity, MethodCG, 3, 0.1
		stage.Stop = &schemas.Stop{Split: "holdout", Patience: 3}
		visits, final, _ := sparseVisits(t, pr, stage, 0)
		assert.True(t, len(visits) == 3 && (final.Of < len(visits)) == held, "held out %v: %d visits, final is %d", held, len(visits), final.Of)
	}
}
