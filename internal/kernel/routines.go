//go:build !noblas && (linux || darwin) && (amd64 || arm64)

package kernel

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/ebitengine/purego"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/gonum"
)

// library holds the addresses of an opened BLAS's routines, by their Fortran names, which every BLAS has. Fortran
// passes all arguments by address, so a call is purego.SyscallN on pointers: it needs no reflection, allocates nothing,
// and uses no floating-point registers, which SyscallN can't fill.
//
// Fortran stores columns, so it sees a row-major matrix as its transpose. C = A·B is therefore computed as Cᵀ = Bᵀ·Aᵀ, and
// upper, left and transposed become lower, right and not transposed.
//
// gonum's Go code runs the routines that are not overridden, and all empty matrices, which C libraries treat
// differently.
type library struct {
	gonum.Implementation
	sgemm, ssyrk               uintptr
	dgemm, dsyrk, dtrsm, dtrmm uintptr
	dpotrf, dsyevd             uintptr   // 0 if the library has no LAPACK
	calls                      sync.Pool // of *call
}

// call holds the arguments of one call, in memory that C may read and that the garbage collector tracks.
type call struct {
	side, uplo, transA, transB, diag byte
	// 64 bits wide. A library with 32-bit integers reads the lower half, because these machines are little-endian.
	m, n, k, lda, ldb, ldc int64
	alpha, beta            float64 // or a float32 at the same address

	arguments [13]unsafe.Pointer // keeps the memory that C uses alive until the call returns
	words     [13 + maxLengths]uintptr
}

// maxLengths is the largest number of character arguments of a routine. Fortran compilers append the length of each to
// the arguments.
const maxLengths = 4

func (l *library) call() *call {
	if c, ok := l.calls.Get().(*call); ok {
		return c
	}
	return new(call)
}

// do calls the routine and returns c to the pool.
func (l *library) do(routine uintptr, c *call, arguments ...unsafe.Pointer) {
	n := copy(c.arguments[:], arguments)
	for i, argument := range c.arguments[:n] {
		c.words[i] = uintptr(argument)
	}
	for i := range maxLengths {
		c.words[n+i] = 1
	}
	purego.SyscallN(routine, c.words[:n+maxLengths]...)
	clear(c.arguments[:n])
	l.calls.Put(c)
}

func (l *library) Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32,
	c []float32, ldc int) {
	if m <= 0 || n <= 0 || k <= 0 {
		l.Implementation.Sgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	gemm(l, l.sgemm, tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

func (l *library) Dgemm(tA, tB blas.Transpose, m, n, k int, alpha float64, a []float64, lda int, b []float64, ldb int, beta float64,
	c []float64, ldc int) {
	if m <= 0 || n <= 0 || k <= 0 {
		l.Implementation.Dgemm(tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
		return
	}
	gemm(l, l.dgemm, tA, tB, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)
}

func gemm[T float32 | float64](l *library, routine uintptr, tA, tB blas.Transpose, m, n, k int, alpha T, a []T, lda int, b []T,
	ldb int, beta T, c []T, ldc int) {
	checkOperand("gemm: A", a, tA, m, k, lda)
	checkOperand("gemm: B", b, tB, k, n, ldb)
	checkOperand("gemm: C", c, blas.NoTrans, m, n, ldc)
	f := l.call()
	f.transA, f.transB = byte(tB), byte(tA)
	f.m, f.n, f.k, f.lda, f.ldb, f.ldc = int64(n), int64(m), int64(k), int64(ldb), int64(lda), int64(ldc)
	set(&f.alpha, alpha)
	set(&f.beta, beta)
	l.do(routine, f, unsafe.Pointer(&f.transA), unsafe.Pointer(&f.transB), unsafe.Pointer(&f.m), unsafe.Pointer(&f.n), unsafe.Pointer(&f.k),
		unsafe.Pointer(&f.alpha), unsafe.Pointer(&b[0]), unsafe.Pointer(&f.lda), unsafe.Pointer(&a[0]), unsafe.Pointer(&f.ldb),
		unsafe.Pointer(&f.beta), unsafe.Pointer(&c[0]), unsafe.Pointer(&f.ldc))
}

func (l *library) Ssyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float32, a []float32, lda int, beta float32, c []float32, ldc int) {
	if n <= 0 || k <= 0 {
		l.Implementation.Ssyrk(ul, t, n, k, alpha, a, lda, beta, c, ldc)
		return
	}
	syrk(l, l.ssyrk, ul, t, n, k, alpha, a, lda, beta, c, ldc)
}

func (l *library) Dsyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float64, a []float64, lda int, beta float64, c []float64, ldc int) {
	if n <= 0 || k <= 0 {
		l.Implementation.Dsyrk(ul, t, n, k, alpha, a, lda, beta, c, ldc)
		return
	}
	syrk(l, l.dsyrk, ul, t, n, k, alpha, a, lda, beta, c, ldc)
}

func syrk[T float32 | float64](l *library, routine uintptr, ul blas.Uplo, t blas.Transpose, n, k int, alpha T, a []T, lda int,
	beta T, c []T, ldc int) {
	checkOperand("syrk: A", a, t, n, k, lda)
	checkOperand("syrk: C", c, blas.NoTrans, n, n, ldc)
	f := l.call()
	f.uplo, f.transA = otherTriangle(ul), otherTranspose(t)
	f.n, f.k, f.lda, f.ldc = int64(n), int64(k), int64(lda), int64(ldc)
	set(&f.alpha, alpha)
	set(&f.beta, beta)
	l.do(routine, f, unsafe.Pointer(&f.uplo), unsafe.Pointer(&f.transA), unsafe.Pointer(&f.n), unsafe.Pointer(&f.k),
		unsafe.Pointer(&f.alpha), unsafe.Pointer(&a[0]), unsafe.Pointer(&f.lda),
		unsafe.Pointer(&f.beta), unsafe.Pointer(&c[0]), unsafe.Pointer(&f.ldc))
}

func (l *library) Dtrsm(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64, a []float64, lda int,
	b []float64, ldb int) {
	if m <= 0 || n <= 0 {
		l.Implementation.Dtrsm(s, ul, tA, d, m, n, alpha, a, lda, b, ldb)
		return
	}
	l.triangular(l.dtrsm, s, ul, tA, d, m, n, alpha, a, lda, b, ldb)
}

func (l *library) Dtrmm(s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64, a []float64, lda int,
	b []float64, ldb int) {
	if m <= 0 || n <= 0 {
		l.Implementation.Dtrmm(s, ul, tA, d, m, n, alpha, a, lda, b, ldb)
		return
	}
	l.triangular(l.dtrmm, s, ul, tA, d, m, n, alpha, a, lda, b, ldb)
}

// triangular calls dtrsm or dtrmm, which take the same arguments. The triangle A is of order m if it is on the left of
// the m×n matrix B, and of order n if it is on the right.
func (l *library) triangular(routine uintptr, s blas.Side, ul blas.Uplo, tA blas.Transpose, d blas.Diag, m, n int, alpha float64,
	a []float64, lda int, b []float64, ldb int) {
	order := m
	if s == blas.Right {
		order = n
	}
	checkOperand("triangular: A", a, blas.NoTrans, order, order, lda)
	checkOperand("triangular: B", b, blas.NoTrans, m, n, ldb)
	f := l.call()
	f.side, f.uplo, f.transA, f.diag = otherSide(s), otherTriangle(ul), byte(tA), byte(d)
	f.m, f.n, f.lda, f.ldb = int64(n), int64(m), int64(lda), int64(ldb)
	f.alpha = alpha
	l.do(routine, f, unsafe.Pointer(&f.side), unsafe.Pointer(&f.uplo), unsafe.Pointer(&f.transA), unsafe.Pointer(&f.diag),
		unsafe.Pointer(&f.m), unsafe.Pointer(&f.n), unsafe.Pointer(&f.alpha),
		unsafe.Pointer(&a[0]), unsafe.Pointer(&f.lda), unsafe.Pointer(&b[0]), unsafe.Pointer(&f.ldb))
}

// set stores a scalar as C expects it, as a float32 or as a float64.
func set[T float32 | float64](at *float64, value T) { *(*T)(unsafe.Pointer(at)) = value }

// checkOperand panics unless a holds an operand of rows×cols values, or cols×rows if t transposes it, with a row stride
// of stride values. C code does not check.
func checkOperand[T float32 | float64](operand string, a []T, t blas.Transpose, rows, cols, stride int) {
	if t != blas.NoTrans {
		rows, cols = cols, rows
	}
	if stride < cols || len(a) < (rows-1)*stride+cols {
		panic(fmt.Sprintf("kernel: %s has %d values with stride %d, want %d×%d", operand, len(a), stride, rows, cols))
	}
}

func otherTranspose(t blas.Transpose) byte {
	if t == blas.NoTrans {
		return byte(blas.Trans)
	}
	return byte(blas.NoTrans)
}

func otherTriangle(ul blas.Uplo) byte {
	if ul == blas.Lower {
		return byte(blas.Upper)
	}
	return byte(blas.Lower)
}

func otherSide(s blas.Side) byte {
	if s == blas.Left {
		return byte(blas.Right)
	}
	return byte(blas.Left)
}
