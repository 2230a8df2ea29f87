package kernel

import (
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/lapack"
	lapackgonum "gonum.org/v1/gonum/lapack/gonum"
)

// goRoutines is gonum's Go code with the float32 products cut into blocks. gonum cuts large products itself, but in
// goroutines that compete with the callers and allocate. It does not block Ssyrk at all, so large products exceed the
// cache.
type goRoutines struct{ gonum.Implementation }

func (goRoutines) lapack() lapack.Float64 { return lapackgonum.Implementation{} }

// block is gonum's own block size. gonum computes a product of one block in the calling goroutine.
const block = 64

// Sgemm computes C = alpha·op(A)·B + beta·C in blocks of C, each summed over k in order. This package never transposes B.
func (g goRoutines) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int,
	beta float32, c []float32, ldc int) {
	if tB != blas.NoTrans {
		panic("kernel: Sgemm: B is transposed")
	}
	for i := 0; i < m; i += block {
		for j := 0; j < n; j += block {
			g.sum(tA, i, j, min(block, m-i), min(block, n-j), k, alpha, a, lda, b, ldb, beta, c, ldc)
		}
	}
}

// Ssyrk computes the lower triangle of C = alpha·Aᵀ·A + beta·C. Blocks left of the diagonal are ordinary products.
func (g goRoutines) Ssyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float32, a []float32, lda int, beta float32, c []float32,
	ldc int) {
	if ul != blas.Lower || t != blas.Trans {
		panic("kernel: Ssyrk: only the lower triangle of Aᵀ·A")
	}
	if beta == 0 {
		// gonum multiplies C by beta, and 0·NaN is NaN.
		for i := range n {
			clear(c[i*ldc : i*ldc+i+1])
		}
		beta = 1
	}
	for i := 0; i < n; i += block {
		rows := min(block, n-i)
		for j := 0; j < i; j += block {
			g.sum(t, i, j, rows, block, k, alpha, a, lda, a, lda, beta, c, ldc)
		}
		g.Implementation.Ssyrk(ul, t, rows, k, alpha, a[i:], lda, beta, c[i*ldc+i:], ldc)
	}
}

// sum computes the rows×cols block of C at (i, j).
func (g goRoutines) sum(tA blas.Transpose, i, j, rows, cols, k int, alpha float32, a []float32, lda int, b []float32, ldb int,
	beta float32, c []float32, ldc int) {
	for l := 0; l < k; l += block {
		from := i*lda + l
		if tA == blas.Trans {
			from = l*lda + i
		}
		g.Implementation.Sgemm(tA, blas.NoTrans, rows, cols, min(block, k-l), alpha, a[from:], lda, b[l*ldb+j:], ldb, beta, c[i*ldc+j:], ldc)
		beta = 1
	}
}
