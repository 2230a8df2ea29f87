//go:build !noblas && (linux || darwin) && (amd64 || arm64)

package kernel

import (
	"fmt"
	"unsafe"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/gonum"
)

// factorizations is gonum's LAPACK with the library's routines, where available, for the Cholesky factor of a stage's
// Gram matrix and for the eigenvectors of the survey's.
type factorizations struct {
	gonum.Implementation
	library *library
}

func (l *library) lapack() lapack.Float64 { return factorizations{library: l} }

// Dpotrf computes the Cholesky factor of A in its memory. It returns false if A is not positive definite.
func (f factorizations) Dpotrf(ul blas.Uplo, n int, a []float64, lda int) bool {
	if f.library.dpotrf == 0 || n <= 0 {
		return f.Implementation.Dpotrf(ul, n, a, lda)
	}
	checkOperand("Dpotrf: A", a, blas.NoTrans, n, n, lda)
	c := f.library.call()
	c.uplo, c.n, c.lda = otherTriangle(ul), int64(n), int64(lda)
	info := new(int64)
	f.library.do(f.library.dpotrf, c, unsafe.Pointer(&c.uplo), unsafe.Pointer(&c.n), unsafe.Pointer(&a[0]), unsafe.Pointer(&c.lda),
		unsafe.Pointer(info))
	return int32(*info) == 0
}

// Dsyev uses divide and conquer, which takes a tenth of the time of the QR iteration and has the same results.
func (f factorizations) Dsyev(job lapack.EVJob, ul blas.Uplo, n int, a []float64, lda int, w, work []float64, lwork int) bool {
	if f.library.dsyevd == 0 || n <= 0 || lwork == -1 || job != lapack.EVCompute {
		return f.Implementation.Dsyev(job, ul, n, a, lda, w, work, lwork)
	}
	checkOperand("Dsyev: A", a, blas.NoTrans, n, n, lda)
	if len(w) < n {
		panic(fmt.Sprintf("kernel: Dsyev: w has %d values, want %d", len(w), n))
	}
	c := f.library.call()
	c.transA, c.uplo, c.n, c.lda = 'V', otherTriangle(ul), int64(n), int64(lda)
	// the sizes of the work arrays that dsyevd documents
	own, integers := make([]float64, 1+6*n+2*n*n), make([]int64, 3+5*n)
	c.m, c.k = int64(len(own)), int64(len(integers))
	info := new(int64)
	f.library.do(f.library.dsyevd, c, unsafe.Pointer(&c.transA), unsafe.Pointer(&c.uplo), unsafe.Pointer(&c.n), unsafe.Pointer(&a[0]),
		unsafe.Pointer(&c.lda),
		unsafe.Pointer(&w[0]), unsafe.Pointer(&own[0]), unsafe.Pointer(&c.m), unsafe.Pointer(&integers[0]), unsafe.Pointer(&c.k),
		unsafe.Pointer(info))
	// Fortran returns the eigenvectors as its columns, which are rows here.
	for i := range n {
		for j := range i {
			a[i*lda+j], a[j*lda+i] = a[j*lda+i], a[i*lda+j]
		}
	}
	return int32(*info) == 0
}
