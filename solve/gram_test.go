package solve

import (
	"fmt"
	"math"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/arrowtest"
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
				pass, err := observe(fit, v, step, pr.sampled(pr.sums(stage.Link, pr.scores(step.W)), size.rows))
				arrowtest.NoError(t, err)
				if pass.Objective > before+1e-12 {
					t.Errorf("pass %d raises J from %v to %v", pass.Number, before, pass.Objective)
				}
				before = pass.Objective
				if step, err = fit.Next(); err != nil {
					t.Fatal(err)
				}
				if v >= size.passes {
					t.Fatalf("%d passes", v+1)
				}
			}
			if want := pr.wantLambda(1e-3); math.Abs(lambdaOf(fit)-want) > 1e-12*want {
				t.Errorf("λ is %v, expected %v", lambdaOf(fit), want)
			}
			w := wideMatrix(size.p, size.k, step.W)
			j, _ := pr.objective(stage.Link, lambdaOf(fit), w)
			if math.Abs(j-before) > 1e-6 {
				t.Errorf("J is %v, the last pass reported %v", j, before)
			}
			w.Sub(w, pr.byQR(lambdaOf(fit)))
			var off mat.Dense
			off.Mul(pr.x, w)
			if rms := mat.Norm(&off, 2) / math.Sqrt(float64(size.n*size.k)); !(rms <= 1e-4) {
				t.Errorf("predictions are off by %v", rms)
			}
		})
	}
}

func TestSampleWithoutTrainingRows(t *testing.T) {
	pr := problemOf(1, 50, 5, 2)
	fit, sums := pr.fit(stageOf(link.Softmax, 3, 1e-3)), pr.sampled(pr.sums(link.Softmax, pr.scores(nil)), 10)
	rows, _ := sums.Find(statistics.FieldGramRows)
	rows.Data[0] = 0
	if _, err := observe(fit, 0, Step{}, sums); err == nil {
		t.Error("no error")
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
	if err != nil || !pass.Accepted {
		t.Fatalf("%+v, %v", pass, err)
	}
	if want := pr.wantLambda(1e-3); math.Abs(lambdaOf(fit)-want) > 1e-12*want {
		t.Errorf("λ is %v, expected %v", lambdaOf(fit), want)
	}
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
		if got := GramRows(s, c.p, c.curved, c.of); got != c.expects {
			t.Errorf("%+v: %d", c, got)
		}
	}
}
