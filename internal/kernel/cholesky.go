package kernel

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// Cholesky is the factor L of a matrix A = L·Lᵀ, in the memory of A. Create it with [Factor]; the zero value is not
// usable. It computes on the BLAS of [BLAS.UseForSolves].
type Cholesky struct {
	factor blas64.Triangular
	norm   float64 // the 1-norm of A
}

// Factor factors the symmetric n×n matrix whose lower triangle is in a, row-major. The factor uses the memory of a, so
// the caller must not use a afterwards. The result is false if the matrix is not positive definite. gonum/mat's
// Cholesky would copy the matrix and needs the upper triangle; a Gram matrix has the lower one.
func Factor(a []float64, n int) (Cholesky, bool) {
	if len(a) != n*n {
		panic(fmt.Sprintf("kernel: Factor: %d values, want %d×%d", len(a), n, n))
	}
	norm := norm1(a, n)
	factor, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: a})
	if !ok {
		return Cholesky{}, false
	}
	return Cholesky{factor, norm}, true
}

// norm1 returns the 1-norm of a symmetric matrix.
func norm1(a []float64, n int) float64 {
	sums := make([]float64, n) // Σ |value| of each column, over both triangles
	for i := range n {
		sum := 0.0
		for j, v := range a[i*n : i*n+i] {
			sum += math.Abs(v)
			sums[j] += math.Abs(v)
		}
		sums[i] += sum + math.Abs(a[i*n+i])
	}
	return floats.Max(sums)
}

// Cond returns an estimate of A's condition number in the 1-norm. It takes a third of the time of Factor.
func (c *Cholesky) Cond() float64 {
	n := c.factor.N
	matrix := blas64.Symmetric{Uplo: blas.Lower, N: n, Stride: n, Data: c.factor.Data}
	return 1 / lapack64.Pocon(matrix, c.norm, make([]float64, 3*n), make([]int, n))
}

// InverseTrace returns the trace of A⁻¹ = L⁻ᵀ·L⁻¹, the sum of the squares of L⁻¹. It may overwrite the factor with L⁻¹,
// so c must not be used afterwards. A large matrix is inverted on all cores.
func (c *Cholesky) InverseTrace() float64 {
	n := c.factor.N
	if n > oneCore {
		return c.inverseTraceOnCores()
	}
	lapack64.Trtri(c.factor) // fails only if a diagonal value is 0, and those of a factor are positive
	trace := 0.0
	for i := range n {
		row := c.factor.Data[i*n : i*n+i+1]
		trace += floats.Dot(row, row)
	}
	return trace
}

// Solve overwrites B, n×k and row-major, with A⁻¹·B.
func (c *Cholesky) Solve(b []float64, k int) {
	if len(b) != c.factor.N*k {
		panic(fmt.Sprintf("kernel: Solve: %d values, want %d×%d", len(b), c.factor.N, k))
	}
	lapack64.Potrs(c.factor, blas64.General{Rows: c.factor.N, Cols: k, Stride: max(k, 1), Data: b})
}

// Energy returns the trace of Bᵀ·A·B = |Lᵀ·B|², where B is n×k and row-major. It overwrites b.
func (c *Cholesky) Energy(b []float64, k int) float64 {
	if len(b) != c.factor.N*k {
		panic(fmt.Sprintf("kernel: Energy: %d values, want %d×%d", len(b), c.factor.N, k))
	}
	blas64.Trmm(blas.Left, blas.Trans, 1, c.factor, blas64.General{Rows: c.factor.N, Cols: k, Stride: max(k, 1), Data: b})
	return floats.Dot(b, b)
}
