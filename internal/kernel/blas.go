// Package kernel is where the floating-point work of the flow is done: products of dense matrices (features × weights,
// featuresᵀ × residuals, Gram matrices) on the system's BLAS, and the elementwise functions of features and links.
//
// The BLAS is opened at run time, without cgo, so one binary runs everywhere: where none is found, or where none can be
// opened (see the build tag noblas), gonum's Go does the same work some ten times slower.
//
// The same calls give the same bits. What decides them is named by [BLAS.Name] and [BLAS.Vector] (and GOARCH); neither the
// alignment of a slice, nor the calls at the same time, nor the number of cores does. An elementwise function's value depends
// on its argument alone. A row of a product depends also on the shape of the call: BLAS libraries take other paths for other
// shapes.
package kernel

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/viterin/vek/vek32"
	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/blas/gonum"
	"gonum.org/v1/gonum/lapack"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// ErrNotBLAS is in the chain of an [OpenError] whose library was opened but lacks a routine of the BLAS.
var ErrNotBLAS = errors.New("not a BLAS")

// An OpenError tells that the library that was asked for can't be used.
type OpenError struct {
	Choice string
	Err    error
}

func (e *OpenError) Error() string { return fmt.Sprintf("open BLAS %q: %v", e.Choice, e.Err) }
func (e *OpenError) Unwrap() error { return e.Err }

// routines are what the package needs, row-major and with the shapes and checks of gonum. Both backends embed gonum's
// implementation and override what is worth it.
type routines interface {
	blas.Float64
	Sgemm(tA, tB blas.Transpose, m, n, k int, alpha float32, a []float32, lda int, b []float32, ldb int, beta float32, c []float32, ldc int)
	lapack() lapack.Float64
	Ssyrk(ul blas.Uplo, t blas.Transpose, n, k int, alpha float32, a []float32, lda int, beta float32, c []float32, ldc int)
}

// BLAS is an opened library, or gonum's Go. It is made by [Open] or [Gonum]; the zero value can't be used. Goroutines may share
// it. Its float32 products run on one thread, that of the caller: to use all cores, call it from as many goroutines.
type BLAS struct {
	routines routines
	name     string
	fast     bool
	inPlace  int // how many multiplications a float32 product may have that copies nothing
}

// Open opens the BLAS of that name: a path, the name of a shared library ("libopenblas.so.0"), or a family ("openblas",
// "blis", "mkl", "accelerate"). "gonum" is the one in Go, and "" the best that is found, which is gonum's where there is no
// other. A choice by name that can't be used is an [OpenError].
//
// Open is for when a program starts: what it opens is set to one thread for the whole process and stays loaded, and while
// it loads it may set variables of the environment that the library reads.
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

// Gonum returns the BLAS in Go, which is always there.
func Gonum() *BLAS { return &BLAS{routines: goRoutines{}, name: "gonum"} }

// Name tells which arithmetic the products have: library, version and the core type that it chose its loops for, as in
// "OpenBLAS 0.3.21 SkylakeX", or "gonum".
func (b *BLAS) Name() string { return b.name }

// Vector tells which arithmetic the elementwise functions and the narrow products of this package have: "avx512", "avx2" or "go".
func (b *BLAS) Vector() string {
	if wide() {
		return "avx512"
	}
	if vek32.Info().Acceleration {
		return "avx2"
	}
	return "go"
}

// Fast tells whether the BLAS is one that is known to be tuned for the machine.
func (b *BLAS) Fast() bool { return b.fast }

// Hint is a sentence on how to get a fast BLAS, or "" if this is one.
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

// Mul computes dst = x·w, or dst += x·w: x is n×p, w p×k, dst n×k and apart from both.
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
	for from, step := 0, b.step(n, p*k); from < n; from += step {
		rows := min(step, n-from)
		b.routines.Sgemm(blas.NoTrans, blas.NoTrans, rows, k, p, 1, x.Data[from*p:], p, w.Data, k, keep(add), dst.Data[from*k:], k)
	}
}

// step is how many of n rows to multiply in one call, when each takes so many multiplications: as many as the library
// multiplies without copying, if it does that for eight. Measured on 64 × 50 by 50 × 1024 with OpenBLAS 0.3.21 SkylakeX: 57 µs
// in steps of 16, 83 µs in one.
func (b *BLAS) step(n, each int) int {
	if step := b.inPlace / each &^ 7; step > 0 {
		return step
	}
	return n
}

// Gram computes the lower triangle (with the diagonal) of dst = xᵀ·x, or of dst += xᵀ·x: x is n×p, dst p×p and apart from x.
// What is above the diagonal is not touched.
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
	b.routines.Ssyrk(blas.Lower, blas.Trans, p, n, 1, x.Data, p, keep(add), dst.Data, p)
}

// UseForSolves makes gonum's float64 matrices (Cholesky, EigenSym and all else in gonum/mat and gonum/lapack) run on b, and on
// the LAPACK of its library if that has one. The hooks are gonum's own, blas64.Use and lapack64.Use: they hold for the whole
// process and have no lock, so call it before anything uses gonum.
func (b *BLAS) UseForSolves() {
	if _, ok := b.routines.(goRoutines); ok {
		blas64.Use(gonum.Implementation{})
	} else {
		blas64.Use(b.routines)
	}
	lapack64.Use(b.routines.lapack())
}

// keep is the factor of what a product finds in dst. BLAS overwrites for 0, even a NaN.
func keep(add bool) float32 {
	if add {
		return 1
	}
	return 0
}
