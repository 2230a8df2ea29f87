package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// Factors, condition numbers, solutions and traces of inverses equal those of gonum/mat, and values above the diagonal are ignored.
func TestCholesky(t *testing.T) {
	defer Gonum().UseForSolves()
	for _, b := range backends(t) {
		b.UseForSolves()
		for _, n := range append([]int{1, 2, 200}, sizes...) {
			t.Run(fmt.Sprint(b.Name(), " ", n), func(t *testing.T) {
				r := rand.New(rand.NewPCG(uint64(n), 1))
				x := mat.NewDense(2*n, n, nil)
				x.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, x)
				var s mat.SymDense
				s.SymOuterK(1/float64(2*n), x.T())
				a := make([]float64, n*n)
				for i := range n {
					for j := range n {
						if a[i*n+j] = s.At(i, j); j > i {
							a[i*n+j] = math.NaN()
						}
					}
				}
				c, ok := Factor(a, n)
				if !ok {
					t.Fatal("not positive definite")
				}
				var oracle mat.Cholesky
				if !oracle.Factorize(&s) {
					t.Fatal("not positive definite for gonum")
				}
				if want := oracle.Cond(); math.Abs(c.Cond()-want) > 1e-6*want {
					t.Errorf("a condition number of %g, want %g", c.Cond(), want)
				}
				for _, k := range []int{1, 10, 65} {
					y := mat.NewDense(n, k, nil)
					y.Apply(func(int, int, float64) float64 { return r.NormFloat64() }, y)
					var want mat.Dense
					arrowtest.NoError(t, oracle.SolveTo(&want, y))
					c.Solve(y.RawMatrix().Data, k)
					if y.Sub(y, &want); mat.Max(y) > 1e-8*mat.Norm(&want, math.Inf(1)) || mat.Min(y) < -1e-8*mat.Norm(&want, math.Inf(1)) {
						t.Errorf("%d columns are off by %g", k, mat.Max(y))
					}
				}
				var inverse mat.SymDense
				arrowtest.NoError(t, oracle.InverseTo(&inverse))
				if got, want := c.InverseTrace(), mat.Trace(&inverse); math.Abs(got-want) > 1e-8*want {
					t.Errorf("the trace of the inverse is %g, want %g", got, want)
				}
				if a[n*n-1] = -1; n > 1 {
					a[0] = -1
				}
				if _, ok := Factor(a, n); ok {
					t.Error("an indefinite matrix has a factor")
				}
			})
		}
	}
}

// A matrix that is factored by blocks on all cores has the same solutions and trace as one that is not, on any number
// of cores.
func TestCholeskyOnCores(t *testing.T) {
	defer Gonum().UseForSolves()
	for _, b := range backends(t) {
		b.UseForSolves()
		for _, n := range []int{oneCore, oneCore + 1, 4*coreBlock - 1, 4 * coreBlock, 4*coreBlock + 1} {
			r := rand.New(rand.NewPCG(uint64(n), 1))
			matrix := make([]float64, n*n)
			for i := range n {
				for j := range i {
					matrix[i*n+j], matrix[j*n+i] = r.NormFloat64(), math.NaN()
				}
				matrix[i*n+i] = 3 * float64(n)
			}
			y := make([]float64, 3*n)
			for i := range y {
				y[i] = r.NormFloat64()
			}
			whole, ok := Factor(slices.Clone(matrix), n)
			if !ok {
				t.Fatal("not positive definite")
			}
			want := slices.Clone(y)
			whole.Solve(want, 3)
			trace := 0.0
			lapack64.Trtri(whole.factor)
			for i := range n {
				row := whole.factor.Data[i*n : i*n+i+1]
				trace += floats.Dot(row, row)
			}
			cores := func(n int) { runtime.GOMAXPROCS(n) }
			defer cores(runtime.GOMAXPROCS(0))
			var first []float64
			for _, count := range []int{1, 3} {
				cores(count)
				got, ok := FactorOnCores(slices.Clone(matrix), n)
				if !ok {
					t.Fatalf("%s %d: not positive definite", b.Name(), n)
				}
				x := slices.Clone(y)
				got.Solve(x, 3)
				if !floats.EqualApprox(x, want, 1e-10) {
					t.Errorf("%s %d: other solutions", b.Name(), n)
				}
				x = append(x, got.InverseTrace())
				if at := x[len(x)-1]; math.Abs(at-trace) > 1e-10*trace {
					t.Errorf("%s %d: the trace of the inverse is %g, expected %g", b.Name(), n, at, trace)
				}
				if first == nil {
					first = x
				} else if !slices.Equal(x, first) {
					t.Errorf("%s %d: other bits on %d cores", b.Name(), n, count)
				}
			}
			matrix[(n-1)*n+n-1] = -1
			if _, ok := FactorOnCores(matrix, n); ok {
				t.Error("an indefinite matrix has a factor")
			}
		}
	}
}
