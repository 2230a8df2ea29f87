package kernel

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

// factorBlock is the number of rows and columns of the blocks by which a matrix is factored.
const factorBlock = 192

// Cholesky is the factor L of a matrix A = L·Lᵀ, in the memory of A. Create it with [Factor]; the zero value is not
// usable. It computes on the BLAS of [BLAS.UseForSolves].
type Cholesky struct{ factor blas64.Triangular }

// onCores calls do for 0 … n−1, on all cores. The effect of do must not depend on their order.
func onCores(n int, do func(i int)) {
	var next atomic.Int64
	var group sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n) {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				do(i)
			}
		})
	}
	group.Wait()
}

// Factor factors the symmetric n×n matrix whose lower triangle is in a, row-major, on all cores. The factor uses the memory of a, so
// the caller must not use a afterwards. The result is false if the matrix is not positive definite. The blocks and the order in which
// they are added do not depend on the number of cores. gonum/mat's Cholesky would copy the matrix and needs the upper triangle; a Gram
// matrix has the lower one.
func Factor(a []float64, n int) (Cholesky, bool) {
	if len(a) != n*n {
		panic(fmt.Sprintf("kernel: Factor: %d values, want %d×%d", len(a), n, n))
	}
	// block returns the block that begins at row i and column j; blocks at the end are smaller.
	block := func(i, j int) blas64.General {
		return blas64.General{Rows: min(factorBlock, n-i), Cols: min(factorBlock, n-j), Stride: n, Data: a[i*n+j:]}
	}
	for k := 0; k < n; k += factorBlock {
		diagonal, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: min(factorBlock, n-k), Stride: n, Data: a[k*n+k:]})
		if !ok {
			return Cholesky{}, false
		}
		below := (n - k - 1) / factorBlock // blocks of rows
		onCores(below, func(i int) {
			blas64.Trsm(blas.Right, blas.Trans, 1, diagonal, block(k+(i+1)*factorBlock, k))
		})
		onCores(below*(below+1)/2, func(at int) {
			i := 0
			for ; at > i; i++ { // the blocks of the lower triangle, row by row
				at -= i + 1
			}
			row, column := k+(i+1)*factorBlock, k+(at+1)*factorBlock
			if row == column {
				panel := block(row, k)
				blas64.Syrk(blas.NoTrans, -1, panel, 1, blas64.Symmetric{Uplo: blas.Lower, N: panel.Rows, Stride: n, Data: a[row*n+row:]})
				return
			}
			blas64.Gemm(blas.NoTrans, blas.Trans, -1, block(row, k), block(column, k), 1, block(row, column))
		})
	}
	return Cholesky{blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: a}}, true
}

// Cond returns a lower bound of A's condition number that is mostly near it: the ratio of the largest to the smallest pivot.
func (c *Cholesky) Cond() float64 {
	least, most := math.Inf(1), 0.0
	for i := range c.factor.N {
		pivot := c.factor.Data[i*c.factor.N+i]
		least, most = min(least, pivot), max(most, pivot)
	}
	return (most / least) * (most / least)
}

// InverseTrace returns the trace of A⁻¹ = L⁻ᵀ·L⁻¹, the sum of the squares of L⁻¹. Each core computes a few columns of L⁻¹ at a time.
func (c *Cholesky) InverseTrace() float64 {
	n := c.factor.N
	traces := make([]float64, (n+factorBlock-1)/factorBlock)
	var buffers sync.Pool
	onCores(len(traces), func(i int) {
		from := i * factorBlock
		rows, columns := n-from, min(factorBlock, n-from)
		buffer, _ := buffers.Get().(*[]float64)
		if buffer == nil {
			made := make([]float64, n*min(factorBlock, n))
			buffer = &made
		}
		defer buffers.Put(buffer)
		x := (*buffer)[:rows*columns]
		clear(x)
		for j := range columns {
			x[j*columns+j] = 1
		}
		below := c.factor
		below.N, below.Data = rows, c.factor.Data[from*n+from:]
		blas64.Trsm(blas.Left, blas.NoTrans, 1, below, blas64.General{Rows: rows, Cols: columns, Stride: columns, Data: x})
		traces[i] = floats.Dot(x, x)
	})
	return floats.Sum(traces)
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
