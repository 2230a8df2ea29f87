package kernel

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Cholesky is the factor L of a matrix A = L·Lᵀ, in the memory that A had. Made by [Factor]; the zero value can't be used.
// It runs on what UseForSolves has chosen.
type Cholesky struct {
	factor blas64.Triangular
	cond   float64
}

// Factor factors the symmetric n×n matrix whose lower triangle a has, row-major, and keeps a. It answers false if that is not
// positive definite. gonum/mat's Cholesky works on a copy, and on the upper triangle: what is summed row by row would have to
// be transposed.
func Factor(a []float64, n int) (Cholesky, bool) {
	if len(a) != n*n {
		panic(fmt.Sprintf("kernel: Factor: %d values, want %d×%d", len(a), n, n))
	}
	sums := make([]float64, n) // of the columns' absolute values, of both triangles
	for i := range n {
		sum := 0.0
		for j, v := range a[i*n : i*n+i] {
			sum += math.Abs(v)
			sums[j] += math.Abs(v)
		}
		sums[i] += sum + math.Abs(a[i*n+i])
	}
	matrix := blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: a}
	factor, ok := lapack64.Potrf(matrix)
	if !ok {
		return Cholesky{}, false
	}
	return Cholesky{factor, 1 / lapack64.Pocon(matrix, floats.Max(sums), make([]float64, 3*n), make([]int, n))}, true
}

// Cond is an estimate of A's condition number, in the norm of the largest column sum.
func (c *Cholesky) Cond() float64 { return c.cond }

// Solve writes A⁻¹·B over B, n×k and row-major.
func (c *Cholesky) Solve(b []float64, k int) {
	if len(b) != c.factor.N*k {
		panic(fmt.Sprintf("kernel: Solve: %d values, want %d×%d", len(b), c.factor.N, k))
	}
	lapack64.Potrs(c.factor, blas64.General{Rows: c.factor.N, Cols: k, Stride: max(k, 1), Data: b})
}
