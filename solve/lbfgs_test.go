package solve

import (
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/floats/scalar"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/solve/linear"
)

// keptMetric hides a diagonal matrix from L-BFGS, so that it keeps the products with its inverse.
type keptMetric struct{ *linear.Diagonal }

// With a diagonal, L-BFGS keeps no products with its inverse, and reuses the memory of its arguments. Its steps are the
// same, and it drops pairs beyond maxPairs.
func TestLBFGSFromADiagonal(t *testing.T) {
	const p, k, n = 70, 3, 210
	r := rand.New(rand.NewPCG(5, 1))
	hessian, squares := mat.NewSymDense(p, nil), make([]float64, p)
	for range 40 {
		row := mat.NewVecDense(p, nil)
		for j := range p {
			row.SetVec(j, r.NormFloat64())
		}
		hessian.SymRankOne(hessian, 1, row)
	}
	for j := range p {
		hessian.SetSym(j, j, hessian.At(j, j)+1)
		squares[j] = hessian.At(j, j)
	}
	own, err := linear.NewDiagonal(squares, p, 1, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	target := mat.NewDense(p, k, nil)
	target.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, target)
	pointAt := func(w []float32) *point {
		var gradient mat.Dense
		gradient.Mul(hessian, mat.NewDense(p, k, wide(w)))
		gradient.Sub(&gradient, target)
		at := &point{w: w, gradient: gradient.RawMatrix().Data, size: 1}
		at.preconditioned = linear.Solved(own, at.gradient, k)
		at.decrement = floats.Dot(at.gradient, at.preconditioned)
		return at
	}
	known, kept := newLBFGS(own, Shape{}).(*lbfgs), newLBFGS(keptMetric{own}, Shape{}).(*lbfgs)
	var beforeKnown, beforeKept *point
	w := make([]float32, n)
	for pass := range maxPairs + 5 {
		atKnown, atKept := pointAt(w), pointAt(slices.Clone(w))
		atKnown.step, atKept.step = known.accept(beforeKnown, atKnown), kept.accept(beforeKept, atKept)
		if most := min(pass, maxPairs); len(known.pairs) != most || len(kept.pairs) != most {
			t.Fatalf("pass %d: %d and %d pairs, expected %d", pass, len(known.pairs), len(kept.pairs), most)
		}
		for i, step := range atKept.step {
			if !scalar.EqualWithinAbsOrRel(atKnown.step[i], step, 1e-10, 1e-8) {
				t.Fatalf("pass %d: step %d is %v, with the products kept %v", pass, i, atKnown.step[i], step)
			}
		}
		w = atKept.trial()
		beforeKnown, beforeKept = atKnown, atKept
	}
	if kept.pairs[0].preconditioned == nil || known.pairs[0].preconditioned != nil {
		t.Error("products are kept with a diagonal, or not without")
	}
}

// The pairs of a block of sparse columns take at most 256 MiB for any number of columns, or there is a single pair.
func TestPairsAreBounded(t *testing.T) {
	for values, want := range map[int]int{1: 10, 1 << 20: 10, 2 << 20: 8, 3 << 20: 5, 16 << 20: 1, 17 << 20: 1, 100 << 20: 1} {
		if got := mostPairs(values); got != want {
			t.Errorf("%d pairs of %d values, expected %d", got, values, want)
		}
	}
}
