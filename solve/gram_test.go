package solve

import (
	"errors"
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// sampled returns the sums with the Gram matrix of the first rows only, and the trace of all.
func (pr *problem) sampled(sums wire.Tensors[float64], rows int) wire.Tensors[float64] {
	p := pr.shape.Columns
	weight, trace := 0.0, 0.0
	for i, w := range pr.weight {
		if i < rows {
			weight += w
		}
		for j := range pr.shape.Penalised {
			trace += w * pr.x.At(i, j) * pr.x.At(i, j)
		}
	}
	part := *pr
	part.x = mat.DenseCopyOf(pr.x.Slice(0, rows, 0, p))
	gram, _ := part.moments(part.x, mat.NewDense(rows, 1, nil))
	for i, t := range sums {
		switch t.Name {
		case statistics.FieldGram:
			sums[i].Data = gram
		case statistics.FieldGramRows:
			sums[i].Data = []float64{weight}
		}
	}
	return append(sums, wire.Vector(statistics.FieldTrace, []float64{trace}))
}

// With the Gram matrix of a sample, the passes reach the minimum of a direct solve, and J never rises.
func TestIdentityWithASampledGramMatrix(t *testing.T) {
	for _, size := range []struct{ n, p, k, rows, passes int }{
		{500, 20, 3, 100, 12}, {500, 20, 1, 60, 15}, {2000, 65, 10, 400, 15}, {300, 10, 2, 300, 3}, {500, 20, 3, 8, 100},
	} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			pr := problemOf(1, size.n, size.p, size.k)
			stage := stageOf(link.Identity, size.passes, 1e-3)
			fit, before := pr.fit(stage), math.Inf(1)
			var step Step
			for v := 0; !step.Final; v++ {
				pass := assert.Must(observe(fit, v, step, pr.sampled(pr.sums(stage.Link, pr.scores(step.W)), size.rows)))(t)
				assert.True(t, pass.Objective <= before+1e-12, "pass %d raises J from %v to %v", pass.Number, before, pass.Objective)
				before = pass.Objective
				step = assert.Must(fit.Next())(t)
				assert.Need(t, v < size.passes, "%d passes", v+1)
			}
			assert.Near(t, lambdaOf(fit)/pr.wantLambda(1e-3), 1, 1e-12, "λ, of what is expected")
			w := wideMatrix(size.p, size.k, step.W)
			j, _ := pr.objective(stage.Link, lambdaOf(fit), w)
			assert.Near(t, j, before, 1e-6, "J, and that of the last pass")
			w.Sub(w, pr.ridgeRegression(lambdaOf(fit)))
			var off mat.Dense
			off.Mul(pr.x, w)
			rms := mat.Norm(&off, 2) / math.Sqrt(float64(size.n*size.k))
			assert.True(t, rms <= 1e-4, "predictions are off by %v", rms)
		})
	}
}

// If all features of the sample are 0, λ is that of all rows.
func TestSampleOfNothing(t *testing.T) {
	pr := problemOf(1, 50, 5, 2)
	for i := range 10 {
		for j := range pr.shape.Penalised {
			pr.x.Set(i, j, 0)
		}
	}
	fit := pr.fit(stageOf(link.Softmax, 3, 1e-3))
	pass, err := observe(fit, 0, Step{}, pr.sampled(pr.sums(link.Softmax, pr.scores(nil)), 10))
	assert.Need(t, err == nil && pass.Accepted, "%+v, %v", pass, err)
	assert.Near(t, lambdaOf(fit)/pr.wantLambda(1e-3), 1, 1e-12, "λ, of what is expected")
}

func TestGramRows(t *testing.T) {
	for _, c := range []struct {
		link    schemas.Link
		method  string
		rows    string
		passes  int
		p       int
		curved  bool
		of      int64
		expects int64
	}{
		{link.Softmax, MethodAuto, GramAll, 12, 1024, false, 60_000, 60_000},
		{link.Softmax, MethodAuto, GramAuto, 12, 1024, false, 60_000, 10_000},
		{link.Softmax, MethodLBFGS, GramAuto, 12, 4000, false, 60_000, 20_000},
		{link.Softmax, MethodAuto, GramAuto, 12, 1024, false, 19_999, 19_999},
		{link.Softmax, MethodAuto, GramAuto, 12, 1024, true, 102_399, 102_399},
		{link.Softmax, MethodAuto, GramAuto, 12, 1024, true, 200_000, 51_200},
		{link.Softmax, MethodPaper, GramAuto, 12, 1024, false, 60_000, 60_000},
		{link.Softmax, MethodPaper, "5000", 12, 1024, false, 60_000, 5000},
		{link.Softmax, MethodAuto, "100000", 12, 1024, false, 60_000, 60_000},
		{link.Identity, MethodAuto, GramAuto, 12, 1024, false, 60_000, 60_000},
		{link.Identity, MethodAuto, GramAuto, 12, 4000, false, 60_000, 20_000},
		{link.Identity, MethodAuto, "5000", 1, 1024, false, 60_000, 60_000},
		{link.Calibrated, MethodAuto, GramAuto, 12, 1024, false, 60_000, 60_000},
	} {
		s := Defaults()
		s.Link, s.Method, s.GramRows, s.Passes = c.link, c.method, c.rows, c.passes
		assert.Equal(t, GramRows(s, c.p, c.curved, c.of), c.expects, "%+v", c)
	}
}

// The nonzero values of a Gram matrix, each after its index, are the matrix. An invalid list is an error, and so is an invalid matrix.
func TestBlockGram(t *testing.T) {
	assert.Equal(t, assert.Must(blockGram([]float64{0, 4, 2, 5, 4, 6}, 3))(t), []float64{4, 0, 5, 0, 6, 0}, "the Gram matrix")
	many := func(pairs ...float64) []float64 { return append([]float64{0, 1, 2, 1}, pairs...) }
	for name, test := range map[string]struct {
		pairs []float64
		is    func(error) bool
	}{
		"a place twice":       {many(2, 1), func(err error) bool { return errors.Is(err, wire.ErrDamaged) }},
		"a place of no value": {many(20*21/2, 1), func(err error) bool { return errors.Is(err, wire.ErrDamaged) }},
		"no whole place":      {many(2.5, 1), func(err error) bool { return errors.Is(err, wire.ErrDamaged) }},
		"NaN":                 {many(5, math.NaN()), func(err error) bool { return errors.As(err, new(*NotFiniteError)) }},
		"an empty column":     {many(), func(err error) bool { return errors.As(err, new(*SingularError)) }},
	} {
		gram, err := blockGram(test.pairs, 20)
		if err == nil {
			_, err = newPreconditioner(gram, 20, 20, 1, 0, 1, &Buffer{})
		}
		assert.True(t, err != nil && test.is(err), "%s: %v", name, err)
	}
}

// W·(C + ridge·I)·W is the identity matrix, and W is symmetric.
func TestWhiten(t *testing.T) {
	const n, ridge = 7, 0.25
	draws := mat.NewDense(5, n, nil) // C has rank 5
	for i := range 5 {
		for j := range n {
			draws.Set(i, j, math.Sin(float64(7*i+3*j*j+1)))
		}
	}
	var covariance mat.Dense
	covariance.Mul(draws.T(), draws)
	whitening := assert.Must(Whiten(covariance.RawMatrix().Data, n, ridge))(t)
	w := mat.NewDense(n, n, nil)
	for i, v := range whitening {
		w.Set(i/n, i%n, float64(v))
	}
	for i := range n {
		covariance.Set(i, i, covariance.At(i, i)+ridge)
	}
	var unit mat.Dense
	unit.Product(w, &covariance, w)
	for i := range n {
		for j := range n {
			want := 0.0
			if i == j {
				want = 1
			}
			assert.True(t, math.Abs(unit.At(i, j)-want) <= 1e-5 && math.Abs(w.At(i, j)-w.At(j, i)) <= 1e-6,
				"W(C+rI)W at %d, %d is %v, expected %v", i, j, unit.At(i, j), want)
		}
	}
	assert.MustFail(Whiten([]float64{math.Inf(1)}, 1, ridge))(t, new(*NotFiniteError))
}

// The λ of trees falls with the curvature of their rows down to that of RidgeRows rows of even odds in each leaf of
// each tree, or 2/k of them with k classes. If all rows have even odds, or weigh next to nothing, it is that of the
// ridge. Plans without a number of rows have no bound, and neither have other blocks.
func TestRidgeOfTreesCountsRows(t *testing.T) {
	const trees, leaves, classes, rows = 8, 16, 4, 1000.
	trace := func(curvature float64) float64 { return curvature * trees * rows }
	lambdaOf := func(ridge schemas.Ridge, curvature, least, weight float64, curved bool) float64 {
		c := common{link: link.Named(link.Softmax), settings: settings{schemas.Stage{Ridge: ridge, RidgeRows: least}},
			shape: Shape{Columns: trees*leaves + 1, Penalised: trees * leaves, Classes: classes, Curved: curved, Trees: trees}}
		return c.ridge(trace(curvature)*weight/rows, weight)
	}
	const even = 1. / classes // the curvature of a row whose classes have equal probabilities
	for name, test := range map[string]struct {
		ridge                    schemas.Ridge
		curvature, least, weight float64
		curved                   bool
		want                     float64
	}{
		"even odds":            {1, even, 1, rows, true, even / leaves},
		"nearly sure":          {1, 1e-9, 1, rows, true, even * trees * (2. / classes) / rows},
		"nearly sure, 3 rows":  {1, 1e-9, 3, rows, true, even * trees * (6. / classes) / rows},
		"no bound":             {1, 1e-9, 0, rows, true, 1e-9 / leaves},
		"a block of features":  {1, 1e-9, 1, rows, false, 1e-9 / leaves},
		"few rows":             {1, 1e-9, 1, 10, true, even / leaves},
		"weights of sum 1":     {1, 1e-9, 1, 1, true, even / leaves},
		"a smaller ridge":      {1e-3, 1e-9, 1, rows, true, 1e-3 * even / leaves},
		"none, as is said":     {0, 1e-9, 1, rows, true, 0},
		"above, so as it is":   {1, 0.2, 1, rows, true, 0.2 / leaves},
		"a larger ridge holds": {3, 0.2, 1, rows, true, 0.6 / leaves},
	} {
		assert.Near(t, lambdaOf(test.ridge, test.curvature, test.least, test.weight, test.curved), test.want, 1e-6*test.want, "%s: λ", name)
	}
}

// While rows are few, the ridge of an update is larger, except for trees, whose ridge counts rows.
func TestEarlyRidge(t *testing.T) {
	for name, test := range map[string]struct {
		trees       int
		least, want float64
	}{"a block of features": {0, 0, 5}, "trees": {8, 1, 1}, "trees of earlier plans": {8, 0, 5}} {
		u := Update{settings: settings{schemas.Stage{RidgeRows: test.least}}, shape: Shape{Penalised: 64, Trees: test.trees}, weight: 128}
		assert.Equal(t, u.early(), test.want, "%s: the factor of the ridge", name)
	}
}
