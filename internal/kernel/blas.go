// Package kernel does the floating-point work: products of dense matrices (features × weights, featuresᵀ × residuals, Gram
// matrices) on the system's BLAS, and the elementwise functions of features and links.
//
// The BLAS is opened at run time, without cgo, so one binary runs everywhere. If no BLAS is found, or none can be opened (build
// tag noblas), gonum's Go code does the same work about ten times slower.
//
// The same calls give the same bits. The bits depend on the arithmetic that [BLAS.Name] and [BLAS.Vector] name, and on GOARCH;
// they do not depend on the alignment of a slice, on concurrent calls, or on the number of cores. The value of an elementwise
// function depends on its argument alone. A row of a product also depends on the shape of the call: BLAS libraries use
// different code for different shapes.
package kernel

import (
	"errors"
	"fmt"
	"runtime"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// errNotBLAS is wrapped by the [OpenError] of a library that was opened but lacks a routine of the BLAS.
var errNotBLAS = errors.New("not a BLAS")

// OpenError means that the chosen library is unusable.
type OpenError struct {
	// Choice is the argument of Open.
	Choice string
	// Err is the reason.
	Err error
}

func (e *OpenError) Error() string {
	return fmt.Sprintf("open BLAS %q: %v: expected openblas, blis, mkl, accelerate, gonum or the path of a library", e.Choice, e.Err)
}

// Unwrap returns Err.
func (e *OpenError) Unwrap() error { return e.Err }

// routines are the BLAS routines that the package needs, row-major, with gonum's arguments and checks. Both backends
// embed gonum's implementation and override the routines that they do faster.
type routines interface {
	blas.Float64
	Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)
	lapack() lapack.Float64
	Ssyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float32, a []float32, lda int, beta float32, c []float32, ldc int)
}

// BLAS is an opened library, or gonum's Go code. Create it with [Open] or [Gonum]; the zero value is not usable. A BLAS
// is safe for concurrent use. Its float32 products run on the caller's thread only: to use all cores, call it from as
// many goroutines.
type BLAS struct {
	routines routines
	name     string
	fast     bool // whether the library is known to be tuned for the machine
	inPlace  int  // the most multiplications of a float32 product for which the library does not copy the operands
}

// Open opens a BLAS. choice is a path, the name of a shared library ("libopenblas.so.0"), or a family ("openblas",
// "blis", "mkl", "accelerate"). "gonum" is the BLAS in Go. "" selects the best library that is found, or gonum's code
// if there is none. Open returns an [OpenError] if a chosen library is unusable.
//
// Call Open when the program starts: it sets the library to one thread for the whole process, the library stays loaded, and
// while it loads Open may set environment variables that it reads.
func Open(choice string) (*BLAS, error) {
	switch choice {
	case "gonum":
		return Gonum(), nil
	case "":
		if b := openBest(); b != nil {
			return b, nil
		}
		return Gonum(), nil
	}
	b, err := openChoice(choice)
	if err != nil {
		return nil, &OpenError{Choice: choice, Err: err}
	}
	return b, nil
}

// Gonum returns the BLAS in Go, which is always available.
func Gonum() *BLAS { return &BLAS{routines: goRoutines{}, name: "gonum"} }

// Name names the arithmetic of the products: library, version and the core type that the code is tuned for, as in
// "OpenBLAS 0.3.21 SkylakeX", or "gonum".
func (b *BLAS) Name() string { return b.name }

// Vector names the arithmetic of the elementwise functions, and of products that bypass the BLAS: "avx2" or "go".
func (b *BLAS) Vector() string {
	if hasAVX2() {
		return vectorAVX2
	}
	return "go"
}

// Hint returns a sentence on how to get a fast BLAS, or "" if b is known to be tuned for the machine.
func (b *BLAS) Hint() string {
	switch {
	case b.fast:
		return ""
	case !canOpen:
		return "This build can't open a BLAS: matrix products run in Go, about ten times slower."
	case runtime.GOOS == "darwin":
		return "Matrix products are about ten times faster with OpenBLAS: brew install openblas."
	}
	return "Matrix products are about ten times faster with OpenBLAS: apt-get install libopenblas0-pthread (dnf install openblas)."
}

// Mul computes dst = x·w, or with add dst += x·w: x is n×p, w is p×k, dst is n×k and must not overlap with either.
func (b *BLAS) Mul(dst, x, w Dense, add bool) {
	n, p, k := x.Rows, x.Cols, w.Cols
	x.check("Mul", "x", n, p)
	w.check("Mul", "w", p, k)
	dst.check("Mul", "dst", n, k)
	if p == 0 && !add {
		clear(dst.Data)
	}
	if n == 0 || p == 0 || k == 0 {
		return
	}
	b.mulInto(dst, 0, x, w, add)
}

// MulInto computes x·w into the columns of dst that begin at column first. The others do not change. x is not empty.
func (b *BLAS) MulInto(dst Dense, first int, x, w Dense) {
	x.check("MulInto", "x", x.Rows, w.Rows)
	w.check("MulInto", "w", x.Cols, w.Cols)
	dst.check("MulInto", "dst", x.Rows, max(dst.Cols, first+w.Cols))
	b.mulInto(dst, first, x, w, false)
}

func (b *BLAS) mulInto(dst Dense, first int, x, w Dense, add bool) {
	n, p, k := x.Rows, x.Cols, w.Cols
	for from, step := 0, b.step(n, p*k); from < n; from += step {
		rows := min(step, n-from)
		b.routines.Sgemm(blas.NoTrans, blas.NoTrans, rows, k, p, 1, x.Data[from*p:], p, w.Data, k, beta(add),
			dst.Data[from*dst.Cols+first:], dst.Cols)
	}
}

// step returns the number of rows to multiply per call, out of n rows that take each multiplications: as many as the
// library multiplies without copying if that is at least eight, otherwise n. Measured on 64 × 50 by 50 × 1024 with
// OpenBLAS 0.3.21 SkylakeX: 57 µs in steps of 16, 83 µs in one call.
func (b *BLAS) step(n, each int) int {
	if step := b.inPlace / each &^ 7; step > 0 {
		return step
	}
	return n
}

// Gram computes the lower triangle, including the diagonal, of dst = xᵀ·x, or with add of dst += xᵀ·x: x is n×p, dst is
// p×p and must not overlap with x. The values above the diagonal do not change.
func (b *BLAS) Gram(dst, x Dense, add bool) {
	n, p := x.Rows, x.Cols
	x.check("Gram", "x", n, p)
	dst.check("Gram", "dst", p, p)
	if n == 0 && !add {
		for i := range p {
			clear(dst.Row(i)[:i+1])
		}
	}
	if n == 0 || p == 0 {
		return
	}
	b.routines.Ssyrk(blas.Lower, blas.Trans, p, n, 1, x.Data, p, beta(add), dst.Data, p)
}

// AddMoments adds the lower triangle of xᵀ·x to gram (p×p), and xᵀ·y to cross (p×k), in double precision: x is n×p, y is n×k, and all
// are row-major. p, k and n are above 0.
func (b *BLAS) AddMoments(gram, cross, x, y []float64, p, k int) {
	n := len(x) / p
	b.routines.Dsyrk(blas.Lower, blas.Trans, p, n, 1, x, p, 1, gram, p)
	b.routines.Dgemm(blas.Trans, blas.NoTrans, p, k, n, 1, x, p, y, k, 1, cross, k)
}

// UseForSolves makes gonum's float64 code (gonum/mat and gonum/lapack, such as Cholesky and EigenSym) use b, and the LAPACK of
// b's library if it has one. It calls gonum's blas64.Use and lapack64.Use, which change the whole process without a lock, so
// call it before anything uses gonum.
func (b *BLAS) UseForSolves() {
	if _, ok := b.routines.(goRoutines); ok {
		blas64.Use(gonum.Implementation{})
	} else {
		blas64.Use(b.routines)
	}
	lapack64.Use(b.routines.lapack())
}

// beta returns BLAS's factor for the old values of dst. With 0, BLAS overwrites them, even a NaN.
func beta(add bool) float32 {
	if add {
		return 1
	}
	return 0
}
