package kernel

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"

	"gonum.org/v1/gonum/blas"
	"gonum.org/v1/gonum/blas/blas64"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/lapack/lapack64"
)

const (
	oneCore   = 512 // the largest matrix for which one core is faster than several
	coreBlock = 192 // rows and columns of a block of a larger matrix
)

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

// FactorOnCores is [Factor] on all cores. A large matrix is factored by blocks, with its own order of summation: the
// factor differs from that of Factor by rounding, and does not depend on the number of cores.
func FactorOnCores(a []float64, n int) (Cholesky, bool) {
	if n <= oneCore {
		return Factor(a, n)
	}
	if len(a) != n*n {
		panic(fmt.Sprintf("kernel: FactorOnCores: %d values, want %d×%d", len(a), n, n))
	}
	norm := norm1(a, n)
	// block returns the block that begins at row i and column j; blocks at the end are smaller.
	block := func(i, j int) blas64.General {
		return blas64.General{Rows: min(coreBlock, n-i), Cols: min(coreBlock, n-j), Stride: n, Data: a[i*n+j:]}
	}
	for k := 0; k < n; k += coreBlock {
		size := min(coreBlock, n-k)
		diagonal, ok := lapack64.Potrf(blas64.Symmetric{Uplo: blas.Lower, N: size, Stride: n, Data: a[k*n+k:]})
		if !ok {
			return Cholesky{}, false
		}
		below := (n - k - 1) / coreBlock // blocks of rows
		onCores(below, func(i int) {
			blas64.Trsm(blas.Right, blas.Trans, 1, diagonal, block(k+(i+1)*coreBlock, k))
		})
		onCores(below*(below+1)/2, func(at int) {
			i := 0
			for ; at > i; i++ { // the blocks of the lower triangle, row by row
				at -= i + 1
			}
			row, column := k+(i+1)*coreBlock, k+(at+1)*coreBlock
			if row == column {
				panel := block(row, k)
				blas64.Syrk(blas.NoTrans, -1, panel, 1, blas64.Symmetric{Uplo: blas.Lower, N: panel.Rows, Stride: n, Data: a[row*n+row:]})
				return
			}
			blas64.Gemm(blas.NoTrans, blas.Trans, -1, block(row, k), block(column, k), 1, block(row, column))
		})
	}
	return Cholesky{blas64.Triangular{Uplo: blas.Lower, Diag: blas.NonUnit, N: n, Stride: n, Data: a}, norm}, true
}

// inverseTraceOnCores returns the trace of A⁻¹. Each core computes a few columns of L⁻¹ at a time.
func (c *Cholesky) inverseTraceOnCores() float64 {
	n := c.factor.N
	traces := make([]float64, (n+coreBlock-1)/coreBlock)
	var buffers sync.Pool
	onCores(len(traces), func(i int) {
		from := i * coreBlock
		rows, columns := n-from, min(coreBlock, n-from)
		buffer, _ := buffers.Get().(*[]float64)
		if buffer == nil {
			made := make([]float64, n*coreBlock)
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
