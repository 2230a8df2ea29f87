package solve

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/arrowtest"
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

// byQR is the oracle: least squares by QR on all rows times √(w/Σw), with rows √λ·I below for the penalised columns.
func (pr *problem) byQR(lambda float64) *mat.Dense {
	n, p, k := len(pr.class), pr.shape.Columns, pr.shape.Classes
	a, b, total := mat.NewDense(n+p, p, nil), mat.NewDense(n+p, k, nil), 0.0
	for _, w := range pr.weight {
		total += w
	}
	for i, w := range pr.weight {
		root := math.Sqrt(w / total)
		for j := range p {
			a.Set(i, j, root*pr.x.At(i, j))
		}
		for c := range k {
			b.Set(i, c, root*(indicator(c == pr.class[i])-pr.offset.At(i, c)))
		}
	}
	for j := range pr.shape.Penalised {
		a.Set(n+j, j, math.Sqrt(lambda))
	}
	var qr mat.QR
	qr.Factorize(a)
	w := mat.NewDense(p, k, nil)
	if err := qr.SolveTo(w, false, b); err != nil {
		panic(err)
	}
	return w
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
				if len(visits) != 1 || final.Of != 1 {
					t.Errorf("%d visits, the final weights are of visit %d", len(visits), final.Of)
				}
				if want := pr.wantLambda(1e-3); math.Abs(lambdaOf(fit)-want) > 1e-12*want {
					t.Errorf("λ is %v, expected %v", lambdaOf(fit), want)
				}
				want := pr.byQR(lambdaOf(fit))
				for i, v := range final.W {
					if w := want.RawMatrix().Data[i]; math.Abs(float64(v)-w) > 1e-6 {
						t.Fatalf("weight %d is %v, by QR %v", i, v, w)
					}
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
		arrowtest.Must(observe(fit, 0, Step{W: narrow}, pr.sums(l, pr.scores(narrow))))(t)
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
		if math.Abs(j-g.accepted.objective) > 1e-12 {
			t.Errorf("%s: J is %v, expected %v", l, g.accepted.objective, j)
		}
		step := solved(g.factor, slices.Clone(own.RawMatrix().Data), 3)
		decrement := 0.0
		for i, s := range step {
			decrement += s * own.RawMatrix().Data[i]
			if math.Abs(s-g.accepted.preconditioned[i]) > 1e-9 {
				t.Fatalf("%s: step %d is %v, expected %v", l, i, g.accepted.preconditioned[i], s)
			}
			const h = 1e-5
			at := w.RawMatrix().Data[i]
			w.RawMatrix().Data[i] = at + h
			up, _ := pr.objective(l, lambda, w)
			w.RawMatrix().Data[i] = at - h
			down, _ := pr.objective(l, lambda, w)
			w.RawMatrix().Data[i] = at
			if got, want := gradient.RawMatrix().Data[i], (up-down)/(2*h); math.Abs(got-want) > 1e-8 {
				t.Fatalf("%s: gradient %d is %v, by differences %v", l, i, got, want)
			}
		}
		if math.Abs(decrement-g.accepted.decrement) > 1e-9 {
			t.Errorf("%s: the decrement is %v, expected %v", l, g.accepted.decrement, decrement)
		}
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
		if at.pass.Number != v+1 || math.Abs(at.pass.Objective-j) > 1e-12*(1+j) {
			t.Errorf("visit %d is pass %d with J = %v, expected %v", v, at.pass.Number, at.pass.Objective, j)
		}
		if at.pass.Accepted != (at.pass.Objective <= best) {
			t.Errorf("pass %d with J = %v after %v: accepted %v", at.pass.Number, at.pass.Objective, best, at.pass.Accepted)
		}
		best = min(best, at.pass.Objective)
	}
	named := visits[final.Of]
	if !named.pass.Accepted || named.step.W != nil && !slices.Equal(named.step.W, final.W) {
		t.Errorf("the final weights are not those of visit %d, or it was not accepted", final.Of)
	}
}

// A Gram matrix that is too small, as from a sample, makes steps too long. The safeguard halves them.
func TestSafeguard(t *testing.T) {
	pr := problemOf(4, 300, 8, 3)
	pr.gramFactor = 0.01
	stage := stageOf(link.Softmax, 2000, 1e-2)
	visits, final, fit := pr.run(t, stage, nil)
	pr.mustDescend(t, visits, final, lambdaOf(fit))
	rejected := 0
	for _, v := range visits {
		rejected += int(indicator(!v.pass.Accepted))
	}
	if rejected < 3 {
		t.Errorf("%d passes were rejected, with a Gram matrix 100 times too small", rejected)
	}
	_, gradient := pr.objective(link.Softmax, lambdaOf(fit), wideMatrix(8, 3, final.W))
	if norm := mat.Norm(gradient, 2); norm > 1e-5 {
		t.Errorf("|∇J| is %v after %d passes", norm, len(visits))
	}
}

// A trial with a non-finite loss counts as an increase of J.
func TestTrialThatOverflowsIsTakenBack(t *testing.T) {
	pr := problemOf(4, 100, 8, 3)
	fit := pr.fit(stageOf(link.Softmax, 10, 1e-2))
	arrowtest.Must(observe(fit, 0, Step{}, pr.sums(link.Softmax, pr.scores(nil))))(t)
	first, _ := fit.Next()
	for _, overflow := range []float64{math.NaN(), math.Inf(1)} {
		sums := pr.sums(link.Softmax, pr.scores(first.W))
		sums[0].Data[3], sums[2].Data[0] = overflow, math.NaN()
		if pass, err := observe(fit, 1, first, sums); err != nil || pass.Accepted {
			t.Fatalf("a loss of %v: %+v, %v", overflow, pass, err)
		}
	}
	second, _ := fit.Next()
	for i, w := range second.W {
		if want := first.W[i] / 4; math.Abs(float64(w-want)) > 1e-6 {
			t.Fatalf("weight %d is %v after two halvings of %v", i, w, first.W[i])
		}
	}
}

func TestPassesAreALimit(t *testing.T) {
	pr := problemOf(5, 200, 10, 3)
	for _, passes := range []int{1, 2, 7} {
		visits, final, _ := pr.run(t, stageOf(link.Softmax, passes, 1e-4), nil)
		if len(visits) != passes || final.Of != passes-1 {
			t.Errorf("%d passes: %d visits, final is visit %d", passes, len(visits), final.Of)
		}
	}
}

func TestSingleClassIsDoneAtOnce(t *testing.T) {
	pr := problemOf(6, 50, 4, 1)
	visits, final, _ := pr.run(t, stageOf(link.Softmax, 10, 1e-4), nil)
	if len(visits) != 1 || final.Of != 0 || len(final.W) != 4 {
		t.Errorf("%d visits, final is %+v", len(visits), final)
	}
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
			if since == patience && v != len(visits)-1 {
				t.Errorf("patience %d: did not stop at visit %d", patience, v)
			}
		}
		if since != patience || final.Of != at || at == 0 {
			t.Errorf("patience %d: %d visits, the best is %d, final is %d", patience, len(visits), at, final.Of)
		}
	}
}

func TestStopRuleOfAnEmptySplitEndsNothing(t *testing.T) {
	pr := problemOf(8, 60, 5, 2)
	stage := stageOf(link.Softmax, 5, 1e-4)
	stage.Stop = &schemas.Stop{Split: "holdout", Patience: 1}
	if visits, final, _ := pr.run(t, stage, nil); len(visits) != 5 || final.Of != 4 {
		t.Errorf("%d visits, final is %d", len(visits), final.Of)
	}
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
			arrowtest.Must(observe(fit, v, visit.step, visit.sums))(t)
		}
		want := final
		if upTo < len(visits) {
			want = visits[upTo].step
		}
		if next, _ := fit.Next(); !slices.Equal(next.W, want.W) {
			t.Errorf("after %d visits another solver continues with other weights", upTo)
		}
	}
}

func TestErrors(t *testing.T) {
	for name, test := range map[string]struct {
		ridge float64
		spoil func(wire.Tensors[float64])
		want  any
	}{
		"fewer rows than features": {0, func(wire.Tensors[float64]) {}, new(*SingularError)},
		"no weight":                {1e-3, func(s wire.Tensors[float64]) { clear(s[0].Data) }, new(NoWeightError)},
		"loss":                     {1e-3, func(s wire.Tensors[float64]) { s[0].Data[3] = math.NaN() }, new(*NotFiniteError)},
		"Gram matrix":              {1e-3, func(s wire.Tensors[float64]) { s[1].Data[0] = math.Inf(1) }, new(*NotFiniteError)},
		"cross moment":             {1e-3, func(s wire.Tensors[float64]) { s[2].Data[5] = math.NaN() }, new(*NotFiniteError)},
		"no features":              {1e-3, func(s wire.Tensors[float64]) { clear(s[1].Data) }, new(*SingularError)},
		"other shape": {1e-3, func(s wire.Tensors[float64]) { s[1] = wire.Vector(statistics.FieldGram, []float64{1}) },
			new(*wire.ShapeError)},
	} {
		for _, l := range []schemas.Link{link.Identity, link.Softmax, link.Calibrated} {
			pr := problemOf(10, 10, 20, 3)
			sums := pr.sums(l, pr.scores(nil))
			test.spoil(sums)
			_, err := observe(pr.fit(stageOf(l, 10, test.ridge)), 0, Step{}, sums)
			if !errors.As(err, test.want) || err.Error() == "" {
				t.Errorf("%s, %s: %v", name, l, err)
			}
		}
	}
}
