package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

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
		metric := arrowtest.Must(newDiagonal(squares, n, 1, 0, 1))(t)
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
				if want := min(i, maxPairs); len(q.pairs) != want || q.learnt() != (want > 0) {
					t.Fatalf("%d variables: %d pairs after %d steps", n, len(q.pairs), i)
				}
				d := mat.NewVecDense(n, q.step)
				length := q.slope / mat.Inner(d, hessian, d)
				for j := range w {
					w[j] -= length * q.step[j]
				}
				before = here
			}
			if left := dot(at().gradient, at().gradient); left > 1e-8 {
				t.Errorf("%d variables, unscaled %v: the squared gradient is %v", n, unscaled, left)
			}
		}
	}
}

// Trials are halved until too short, and must gain a fraction of the slope.
func TestLBFGSHalves(t *testing.T) {
	var q lbfgs
	from := &point{objective: 1}
	q.accept(nil, &point{w: []float32{0}, gradient: []float64{2}, preconditioned: []float64{4}})
	if q.slope != 8 || q.size != 1 || !q.sufficient(from, 1-8e-4) || q.sufficient(from, 1-7e-4) ||
		q.sufficient(from, math.NaN()) {
		t.Errorf("%+v", q)
	}
	halved := 0
	for _, step := q.reject(nil); step != nil; _, step = q.reject(nil) {
		halved++
	}
	if halved != 20 || trialFrom([]float32{1}, 0.5, q.step)[0] != -1 {
		t.Errorf("a trial is halved %d times, expected 20", halved)
	}
}

// The pairs take at most 384 MiB for any number of values, or there is a single pair.
func TestPairsAreBounded(t *testing.T) {
	for values, want := range map[int]int{1: 10, 1 << 20: 10, 2 << 20: 8, 3 << 20: 5, 16 << 20: 1, 17 << 20: 1, 100 << 20: 1} {
		if got := mostPairs(values); got != want {
			t.Errorf("%d pairs of %d values, expected %d", got, values, want)
		}
	}
}
