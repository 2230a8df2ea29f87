package solve

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

func stageOf(l schemas.Link, passes int, ridge float64) schemas.Stage {
	s := Defaults()
	s.Link, s.Passes, s.Ridge, s.Method = l, passes, schemas.Ridge(ridge), MethodPaper
	return s
}

// wantLambda returns ridge · trace(S)/p over the penalised columns.
func (pr *problem) wantLambda(ridge float64) float64 {
	trace, weight := 0.0, 0.0
	for i, w := range pr.weight {
		if pr.split[i] != examples.Train {
			continue
		}
		weight += w
		for j := range pr.shape.Penalised {
			trace += w * pr.x.At(i, j) * pr.x.At(i, j)
		}
	}
	return pr.gramFactor * ridge * trace / weight / float64(pr.shape.Penalised)
}

func TestIdentityIsRidgeRegression(t *testing.T) {
	for _, size := range []struct{ n, p, k int }{{200, 20, 3}, {200, 20, 1}, {300, 65, 2}, {400, 10, 100}, {30, 64, 4}} {
		for _, initial := range []float64{0, 2} {
			t.Run(fmt.Sprint(size, initial), func(t *testing.T) {
				pr := problemOf(1, size.n, size.p, size.k)
				var start []float32
				if initial > 0 {
					start = random(1, size.p*size.k, initial)
				}
				visits, final, fit := pr.run(t, stageOf(link.Identity, 12, 1e-3), start)
				assert.Equal(t, len(visits), 1, "visits")
				assert.Equal(t, final.Of, 1, "the visit of the final weights")
				assert.Near(t, lambdaOf(fit)/pr.wantLambda(1e-3), 1, 1e-12, "λ, of what is expected")
				want := pr.ridgeRegression(lambdaOf(fit))
				for i, v := range final.W {
					assert.Near(t, float64(v), want.RawMatrix().Data[i], 1e-6, "weight %d, and by QR", i)
				}
			})
		}
	}
}

func TestGradientAgainstFiniteDifferences(t *testing.T) {
	pr := problemOf(2, 60, 7, 3)
	for _, l := range []schemas.Link{link.Identity, link.Softmax} {
		w, lambda := wideMatrix(7, 3, random(2, 21, 1)), 0.1
		_, gradient := pr.objective(l, lambda, w)
		// the fit computes the same gradient from the sums
		fit, narrow := pr.fit(stageOf(l, 12, 1e-2)), random(2, 21, 1)
		assert.Must(observe(fit, 0, Step{W: narrow}, pr.sums(l, pr.scores(narrow))))(t)
		var g struct {
			common
			accepted point
		}
		switch f := fit.(type) {
		case *generalized:
			g.common, g.accepted = f.common, f.accepted
		case *quadratic:
			g.common, g.accepted = f.common, point{preconditioned: make([]float64, 7*3), objective: f.objective}
			g.accepted.decrement = f.steps.Turn(g.accepted.preconditioned)
		}
		j, own := pr.objective(l, g.lambda, w)
		assert.Near(t, j, g.accepted.objective, 1e-12, "%s: J", l)
		step := solved(g.factor, slices.Clone(own.RawMatrix().Data), 3)
		decrement := 0.0
		for i, s := range step {
			decrement += s * own.RawMatrix().Data[i]
			assert.Near(t, s, g.accepted.preconditioned[i], 1e-9, "%s: step %d", l, i)
			const h = 1e-5
			at := w.RawMatrix().Data[i]
			w.RawMatrix().Data[i] = at + h
			up, _ := pr.objective(l, lambda, w)
			w.RawMatrix().Data[i] = at - h
			down, _ := pr.objective(l, lambda, w)
			w.RawMatrix().Data[i] = at
			assert.Near(t, gradient.RawMatrix().Data[i], (up-down)/(2*h), 1e-8, "%s: gradient %d, and by differences", l, i)
		}
		assert.Near(t, decrement, g.accepted.decrement, 1e-9, "%s: the decrement", l)
	}
}

// mustDescend checks the safeguard: J does not rise along the accepted passes, a pass is accepted if and only if J has
// not risen, and the final weights are those of the accepted visit that they name.
func (pr *problem) mustDescend(t *testing.T, visits []visited, final Step, lambda float64) {
	t.Helper()
	best := math.Inf(1)
	for v, at := range visits {
		j := 0.0
		if at.step.W == nil {
			j, _ = pr.objective(link.Softmax, lambda, mat.NewDense(pr.shape.Columns, pr.shape.Classes, nil))
		} else {
			j, _ = pr.objective(link.Softmax, lambda, wideMatrix(pr.shape.Columns, pr.shape.Classes, at.step.W))
		}
		assert.True(t, at.pass.Number == v+1 && math.Abs(at.pass.Objective-j) <= 1e-12*(1+j),
			"visit %d is pass %d with J = %v, expected %v", v, at.pass.Number, at.pass.Objective, j)
		assert.Equal(t, at.pass.Accepted, at.pass.Objective <=
			best,
			"pass %d with J = %v after %v is accepted", at.pass.Number, at.pass.Objective, best)
		best = min(best, at.pass.Objective)
	}
	named := visits[final.Of]
	assert.True(t, named.pass.Accepted && (named.step.W == nil || slices.Equal(named.step.W, final.W)),
		"the final weights are not those of visit %d, or it was not accepted", final.Of)
}

// A Gram matrix that is too small, as from a sample, makes steps too long. The safeguard halves them.
func TestSafeguard(t *testing.T) {
	pr := problemOf(4, 300, 8, 3)
	pr.gramFactor = 0.01
	visits, final, fit := pr.run(t, stageOf(link.Softmax, 2000, 1e-2), nil)
	pr.mustDescend(t, visits, final, lambdaOf(fit))
	rejected := 0
	for _, v := range visits {
		rejected += int(indicator(!v.pass.Accepted))
	}
	assert.True(t, rejected >= 3, "%d passes were rejected, with a Gram matrix 100 times too small", rejected)
	_, gradient := pr.objective(link.Softmax, lambdaOf(fit), wideMatrix(8, 3, final.W))
	norm := mat.Norm(gradient, 2)
	assert.True(t, norm <= 1e-5, "|∇J| is %v after %d passes", norm, len(visits))
}

// A trial with a non-finite loss counts as an increase of J.
func TestTrialThatOverflowsIsTakenBack(t *testing.T) {
	pr := problemOf(4, 100, 8, 3)
	fit := pr.fit(stageOf(link.Softmax, 10, 1e-2))
	assert.Must(observe(fit, 0, Step{}, pr.sums(link.Softmax, pr.scores(nil))))(t)
	first, _ := fit.Next()
	for _, overflow := range []float64{math.NaN(), math.Inf(1)} {
		sums := pr.sums(link.Softmax, pr.scores(first.W))
		sums[0].Data[3], sums[2].Data[0] = overflow, math.NaN()
		assert.Equal(t, assert.Must(observe(fit, 1, first, sums))(t).Accepted, false, "a loss of %v is accepted", overflow)
	}
	second, _ := fit.Next()
	for i, w := range second.W {
		assert.Near(t, float64(w), float64((first.W[i] / 4)), 1e-6, "weight %d after two halvings", i)
	}
}

func TestPassesAreALimit(t *testing.T) {
	pr := problemOf(5, 200, 10, 3)
	for _, passes := range []int{1, 2, 7} {
		visits, final, _ := pr.run(t, stageOf(link.Softmax, passes, 1e-4), nil)
		assert.Equal(t, len(visits), passes, "visits of %d passes", passes)
		assert.Equal(t, final.Of, passes-1, "the visit of the final weights of %d passes", passes)
	}
}

func TestSingleClassIsDoneAtOnce(t *testing.T) {
	visits, final, _ := problemOf(6, 50, 4, 1).run(t, stageOf(link.Softmax, 10, 1e-4), nil)
	assert.True(t, len(visits) == 1 && final.Of == 0 && len(final.W) == 4, "%d visits, final is %+v", len(visits), final)
}

// The stop rule ends the stage with the weights at which the split's loss was smallest.
func TestStopRule(t *testing.T) {
	pr := problemOf(7, 150, 20, 2)
	for i := range pr.split {
		pr.split[i] = examples.Split(i % 2) // with half of the rows held out the fit overfits
	}
	for _, patience := range []int{1, 3} {
		stage := stageOf(link.Softmax, 200, 1e-6)
		stage.Stop = &schemas.Stop{Split: "holdout", Patience: patience}
		visits, final, fit := pr.run(t, stage, nil)
		pr.mustDescend(t, visits, final, lambdaOf(fit))
		best, since, at := math.Inf(1), 0, 0
		for v, visit := range visits {
			if !visit.pass.Accepted {
				continue
			}
			if loss := statistics.LossesOf(visit.sums)[examples.Holdout].MeanLoss(); loss < best {
				best, since, at = loss, 0, v
			} else {
				since++
			}
			assert.True(t, since != patience || v == len(visits)-1, "patience %d: did not stop at visit %d", patience, v)
		}
		assert.True(t, since == patience && final.Of == at && at != 0,
			"patience %d: %d visits, the best is %d, final is %d", patience, len(visits), at, final.Of)
	}
}

func TestStopRuleOfAnEmptySplitEndsNothing(t *testing.T) {
	pr := problemOf(8, 60, 5, 2)
	stage := stageOf(link.Softmax, 5, 1e-4)
	stage.Stop = &schemas.Stop{Split: "holdout", Patience: 1}
	visits, final, _ := pr.run(t, stage, nil)
	assert.True(t, len(visits) == 5 && final.Of == 4, "%d visits, final is %d", len(visits), final.Of)
}

// A solver that takes over observes the same visits and continues with the same bits.
func TestFitIsAFold(t *testing.T) {
	pr := problemOf(9, 100, 6, 3)
	pr.gramFactor = 0.1
	stage := stageOf(link.Softmax, 12, 1e-3)
	visits, final, _ := pr.run(t, stage, nil)
	for upTo := 1; upTo <= len(visits); upTo++ {
		fit := pr.fit(stage)
		for v, visit := range visits[:upTo] {
			assert.Must(observe(fit, v, visit.step, visit.sums))(t)
		}
		want := final
		if upTo < len(visits) {
			want = visits[upTo].step
		}
		next, _ := fit.Next()
		assert.True(t, slices.Equal(next.W, want.W), "after %d visits another solver continues with other weights", upTo)
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		ridge float64
		spoil func(wire.Tensors[float64])
		want  any
	}{
		"fewer rows than features": {0, func(wire.Tensors[float64]) {}, new(*SingularError)},
		"no weight":                {1e-3, func(s wire.Tensors[float64]) { clear(s[0].Data) }, errNoWeight},
		"a sample without rows":    {1e-3, func(s wire.Tensors[float64]) { s[3].Data[0] = 0 }, "gram_rows: auto: the chosen messages have no"},
		"loss":                     {1e-3, func(s wire.Tensors[float64]) { s[0].Data[3] = math.NaN() }, new(*NotFiniteError)},
		"Gram matrix":              {1e-3, func(s wire.Tensors[float64]) { s[1].Data[0] = math.Inf(1) }, new(*NotFiniteError)},
		"cross moment":             {1e-3, func(s wire.Tensors[float64]) { s[2].Data[5] = math.NaN() }, new(*NotFiniteError)},
		"no features":              {1e-3, func(s wire.Tensors[float64]) { clear(s[1].Data) }, new(*SingularError)},
		"other shape":              {1e-3, func(s wire.Tensors[float64]) { s[1] = wire.Vector(statistics.FieldGram, []float64{1}) }, new(*wire.ShapeError)},
	} {
		for _, l := range []schemas.Link{link.Identity, link.Softmax, link.Calibrated} {
			pr := problemOf(10, 10, 20, 3)
			sums := pr.sums(l, pr.scores(nil))
			test.spoil(sums)
			_, err := observe(pr.fit(stageOf(l, 10, test.ridge)), 0, Step{}, sums)
			assert.Fails(t, fmt.Errorf("%s, %s: %w", name, l, err), test.want)
		}
	}
}

// autoStages returns the given number of equal stages with the method auto.
func autoStages(stages, passes int, ridge float64) []schemas.Stage {
	s := stageOf(link.Softmax, passes, ridge)
	s.Method = MethodAuto
	return slices.Repeat([]schemas.Stage{s}, stages)
}

// accepted returns J after each accepted pass.
func accepted(visits []visited) (objectives []float64) {
	for _, v := range visits {
		if v.pass.Accepted {
			objectives = append(objectives, v.pass.Objective)
		}
	}
	return objectives
}

// For any position of the stage, auto makes the passes of L-BFGS and ends at the first one that its rule selects.
func TestAutoEndsWhenPassesGainLittle(t *testing.T) {
	for _, size := range []struct {
		n, p, k int
		ridge   float64
	}{{2000, 40, 3, 1e-3}, {300, 40, 3, 1e-4}, {150, 6, 10, 1e-2}} {
		pr := problemOf(9, size.n, size.p, size.k)
		stages := autoStages(3, 100, size.ridge)
		stages[0].Method = MethodLBFGS
		visits, _, _ := pr.runAmong(t, stages, 0, nil)
		all := accepted(visits)
		gain := func(i, passes int) float64 { return all[i-passes] - all[i] }
		for name, c := range map[string]struct {
			number, of int
			ends       func(i int) bool // whether the rule ends the stage after all[i]
		}{
			"first of three": {0, 3, func(i int) bool { return gain(i, 1) < 0.04*all[i-1] }},
			"last of three":  {2, 3, func(i int) bool { return gain(i, 1) < 0.04*all[i-1] && gain(i, 3) < 0.001*max(all[i-3], 0.5) }},
			"only":           {0, 1, func(i int) bool { return gain(i, 1) < 0.04*all[i-1] && gain(i, 3) < 0.001*all[i-3] }},
		} {
			t.Run(fmt.Sprint(size, " ", name), func(t *testing.T) {
				visits, final, _ := pr.runAmong(t, autoStages(c.of, 100, size.ridge), c.number, nil)
				got := accepted(visits)
				assert.Need(t, len(got) >= 4 && len(got) < len(all) && slices.Equal(got, all[:len(got)]), "J by pass is %v, of L-BFGS %v", got, all)
				last := len(got) - 1
				for i := 3; i <= last; i++ {
					assert.Equal(t, c.ends(i), i == last, "of %d passes, pass %d is the last by the rule", len(got), i+1)
				}
				assert.Equal(t, final.Of, len(visits)-1, "the visit of the final weights")
			})
		}
	}
}

// The configured passes are a limit in the last stage too.
func TestAutoKeepsToThePassesThatAreSet(t *testing.T) {
	visits, final, _ := problemOf(9, 400, 65, 5).run(t, autoStages(1, 9, 1e-4)[0], nil)
	assert.True(t, len(visits) == 9 && final.Of == 8, "%d visits, the final weights are of visit %d", len(visits), final.Of)
}

// A stage that begins at fitted weights ends as soon as possible.
func TestAutoFromFittedWeights(t *testing.T) {
	pr := problemOf(9, 400, 65, 5)
	for number, of := range []int{1, 2} {
		stages := autoStages(of, 200, 1e-4)
		_, fitted, _ := pr.runAmong(t, autoStages(1, 200, 1e-4), 0, nil)
		visits, _, _ := pr.runAmong(t, stages, number, fitted.W)
		assert.True(t, len(visits) <= firstPasses+1, "stage %d of %d: %d passes", number, of, len(visits))
	}
}

func TestLastPasses(t *testing.T) {
	for _, c := range []struct {
		link   schemas.Link
		method string
		want   int
	}{
		{link.Softmax, MethodAuto, 200}, {link.Softmax, MethodLBFGS, 12}, {link.Softmax, MethodPaper, 12},
		{link.Identity, MethodAuto, 12}, {link.Calibrated, MethodAuto, 12},
	} {
		s := Defaults()
		s.Link, s.Method = c.link, c.method
		assert.Equal(t, LastPasses(s), c.want, "passes of %s, %s", c.link, c.method)
	}
}

// On a quadratic function, with exact steps, L-BFGS takes the steps of preconditioned conjugate gradients: it finds the
// minimum of n variables in n steps, from any positive definite metric.
func TestLBFGSFindsTheMinimumOfAQuadratic(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, n := range []int{1, 5, maxPairs} {
		hessian, squares := mat.NewSymDense(n, nil), make([]float64, n)
		for range 2 * n {
			row := mat.NewVecDense(n, nil)
			for j := range n {
				row.SetVec(j, r.NormFloat64())
			}
			hessian.SymRankOne(hessian, 1, row)
		}
		for j := range n {
			squares[j] = hessian.At(j, j)
		}
		metric := assert.Must(newDiagonal(squares, n, 1, 0, 1))(t)
		w, target := make([]float64, n), mat.NewVecDense(n, nil)
		for j := range n {
			target.SetVec(j, r.NormFloat64())
		}
		at := func() *point {
			var gradient mat.VecDense
			gradient.MulVec(hessian, mat.NewVecDense(n, w))
			gradient.SubVec(&gradient, target)
			p := &point{w: narrow(w), gradient: slices.Clone(gradient.RawVector().Data)}
			p.preconditioned = solved(metric, p.gradient, 1)
			return p
		}
		for _, unscaled := range []bool{false, true} {
			clear(w)
			q := lbfgs{unscaled: unscaled}
			var before *point
			for i := range n {
				here := at()
				q.accept(before, here)
				want := min(i, maxPairs)
				assert.Need(t, len(q.pairs) == want && q.learnt() == (want > 0), "%d variables: %d pairs after %d steps", n, len(q.pairs), i)
				d := mat.NewVecDense(n, q.step)
				length := q.slope / mat.Inner(d, hessian, d)
				for j := range w {
					w[j] -= length * q.step[j]
				}
				before = here
			}
			left := dot(at().gradient, at().gradient)
			assert.True(t, left <= 1e-8, "%d variables, unscaled %v: the squared gradient is %v", n, unscaled, left)
		}
	}
}

// Trials are halved until too short, and must gain a fraction of the slope.
func TestLBFGSHalves(t *testing.T) {
	var q lbfgs
	from := &point{objective: 1}
	q.accept(nil, &point{w: []float32{0}, gradient: []float64{2}, preconditioned: []float64{4}})
	assert.True(t, q.slope == 8 && q.size == 1 && q.sufficient(from, 1-8e-4) && !q.sufficient(from, 1-7e-4) && !q.sufficient(from, math.NaN()),
		"%+v", q)
	halved := 0
	for _, step := q.reject(nil); step != nil; _, step = q.reject(nil) {
		halved++
	}
	assert.Equal(t, halved, 20, "how often a trial is halved")
	assert.Equal(t, trialFrom([]float32{1}, 0.5, q.step)[0], -1, "a trial of half a step")
}

// The pairs take at most 384 MiB for any number of values, or there is a single pair.
func TestPairsAreBounded(t *testing.T) {
	for values, want := range map[int]int{1: 10, 1 << 20: 10, 2 << 20: 8, 3 << 20: 5, 16 << 20: 1, 17 << 20: 1, 100 << 20: 1} {
		assert.Equal(t, mostPairs(values), want, "pairs of %d values", values)
	}
}

// Every method descends along its accepted passes to the same minimum of J, from zero weights and from others, also with a
// Gram matrix that does not bound the curvature of J.
func TestMethodsFindTheSameMinimum(t *testing.T) {
	for _, size := range []struct {
		n, p, k int
		warm    bool
	}{{300, 8, 2, false}, {300, 8, 2, true}, {150, 6, 10, false}, {40, 64, 3, false}} {
		for _, gramFactor := range []float64{0.01, 1} {
			lowest := math.Inf(1)
			for _, name := range []string{MethodPaper, MethodAccelerated, MethodLBFGS} {
				t.Run(fmt.Sprint(size, " ", gramFactor, " ", name), func(t *testing.T) {
					pr := problemOf(3, size.n, size.p, size.k)
					pr.gramFactor = gramFactor
					var start []float32
					if size.warm {
						start = random(3, size.p*size.k, 1)
					}
					slow := gramFactor < 1 && (name == MethodPaper || name == MethodAccelerated)
					stage := stageOf(link.Softmax, 2000, 1e-2)
					if stage.Method = name; slow {
						stage.Passes = 50
					}
					visits, final, fit := pr.run(t, stage, start)
					best := math.Inf(1)
					for _, v := range visits {
						assert.True(t, !v.pass.Accepted || v.pass.Objective <= best, "pass %d raises J from %v to %v", v.pass.Number, best, v.pass.Objective)
						if v.pass.Accepted {
							best = v.pass.Objective
						}
					}
					j, gradient := pr.objective(link.Softmax, lambdaOf(fit), wideMatrix(size.p, size.k, final.W))
					if slow {
						return // the step is halved to about 1 %, which is too short where the features are 0
					}
					norm := mat.Norm(gradient, 2)
					assert.True(t, norm <= 1e-5 && len(visits) != 2000, "|∇J| is %v after %d passes", norm, len(visits))
					lowest = min(lowest, j)
					assert.True(t, j <= lowest+1e-9, "J ends at %v, another method's at %v", j, lowest)
				})
			}
		}
	}
}

// The methods do not depend on the units of features: without a ridge they visit the same points for any scale of each feature.
func TestMethodsDoNotDependOnUnits(t *testing.T) {
	for _, name := range []string{MethodPaper, MethodAccelerated, MethodLBFGS} {
		objectives := func(scale float64) (list []float64) {
			pr := problemOf(9, 2000, 40, 3)
			for j := range pr.shape.Penalised {
				by := math.Exp2(math.Round(scale * float64(j%9-4))) // which changes no digits
				for i := range pr.class {
					pr.x.Set(i, j, by*pr.x.At(i, j))
				}
			}
			stage := stageOf(link.Softmax, 60, 0)
			stage.Method = name
			visits, _, _ := pr.run(t, stage, nil)
			for _, v := range visits {
				list = append(list, v.pass.Objective)
			}
			return list
		}
		plain, scaled := objectives(0), objectives(2)
		for i := range plain {
			assert.Need(t, len(scaled) == len(plain) && math.Abs(scaled[i]-plain[i]) <= 1e-9,
				"%s: %d and %d passes; J of pass %d is %v, and %v of features in other units", name, len(plain), len(scaled), i+1, plain[i],
				scaled[min(i, len(scaled)-1)])
		}
	}
}

// Equal rows have distance 0, not rounding, anywhere in the sample and with any BLAS. Most pairs are equal here, so the spread is the mean.
func TestSpreadOfEqualRows(t *testing.T) {
	assert.Must(kernel.Open(""))(t).UseForSolves()
	defer kernel.Gonum().UseForSolves()
	for _, m := range []int{1, 3, 37, 50, 63, 64, 65, 784} {
		const n = 3*rowsPerProduct + 8
		r := rand.New(rand.NewPCG(uint64(m), 2))
		usual, rows := make([]float32, m), kernel.NewDense(n, m)
		for j := range usual {
			usual[j] = r.Float32()
		}
		for i := range n {
			copy(rows.Row(i), usual)
			if i%7 == 3 { // six of seven rows are equal, and so are most pairs
				for j := range m {
					rows.Row(i)[j] = r.Float32()
				}
			}
		}
		s := Spread(rows)
		assert.True(t, s >= 0.01, "%d columns: spread %g, expected the mean of the distances", m, s)
	}
}

// The spread is the median of all pairwise distances by their definition, for few and many, close together and far apart.
func TestSpreadAgainstItsDefinition(t *testing.T) {
	for at, n := range []int{2, 3, 63, 64, 65, 300, 2, 3, 63, 64, 65, 300} {
		r, rows := rand.New(rand.NewPCG(uint64(n), 3)), kernel.NewDense(n, 5)
		for i := range rows.Data {
			rows.Data[i] = float32(r.NormFloat64() * math.Exp(float64(at/6)*10*r.NormFloat64()))
		}
		var distances []float64
		for i := range n {
			for j := range i {
				sum := 0.0
				for c, v := range rows.Row(i) {
					d := float64(v) - float64(rows.Row(j)[c])
					sum += d * d
				}
				distances = append(distances, sum)
			}
		}
		slices.Sort(distances)
		want := distances[(len(distances)-1)/2]
		got := Spread(rows)
		assert.True(t, math.Abs(float64(got)-want) <= 1e-6*want, "%d rows: %v, expected %v", n, got, want)
	}
}
