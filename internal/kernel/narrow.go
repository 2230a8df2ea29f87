package kernel

import (
	"fmt"

	"gonum.org/v1/gonum/blas"
)

// panel is the number of columns of the narrow product loops: two registers of float32 values. Products with more columns are split
// into panels.
const panel = 16

// maxNarrow is the largest number of columns of a narrow product. A product with the k columns of scores is bound by
// reading x, and a BLAS copies x before it multiplies. The products below read each value of x once per panel, without
// a copy. The gain over a BLAS shrinks from a half at 10 columns to a few percent at 128.
const maxNarrow = 128

const (
	// blockRows is the number of rows of x that a product multiplies by all panels before it takes the next rows, so
	// that they stay in the second-level cache.
	blockRows = 64
	// blockColumns is the number of columns of x that a cross moment of several panels takes at a time, so that their
	// sums stay in the first-level cache.
	blockColumns = 128
)

// Weights is a p×k matrix laid out for [BLAS.MulAdd]. The zero value is the 0×0 matrix.
type Weights struct {
	// Dense is the matrix. Callers must not change it.
	Dense
	padded []float32 // p rows of 16 values for each panel, the last padded with 0, if k is narrow; otherwise nil
}

// NewWeights lays out w. The result shares w's memory, so w must not change afterwards.
func NewWeights(w Dense) Weights {
	w.check("NewWeights", "w", w.Rows, w.Cols)
	l := Weights{Dense: w}
	if isNarrow(w.Cols) {
		l.padded = panels(w)
	}
	return l
}

func isNarrow(k int) bool { return hasAVX2() && k > 0 && k <= maxNarrow }

// padded returns the columns of all panels of k columns.
func padded(k int) int { return (k + panel - 1) / panel * panel }

// MulAdd computes dst += x·w: x is n×p, dst is n×k and must not overlap with x.
func (b *BLAS) MulAdd(dst, x Dense, w Weights) {
	n, p, k := x.Rows, w.Rows, w.Cols
	x.check("MulAdd", "x", n, p)
	dst.check("MulAdd", "dst", n, k)
	if w.padded == nil {
		b.Mul(dst, x, w.Dense, true)
		return
	}
	addPanels(dst, x, w)
}

// panels returns w with the layout of Weights.padded.
func panels(w Dense) []float32 {
	all := make([]float32, w.Rows*padded(w.Cols))
	for from := 0; from < w.Cols; from += panel {
		to := all[from*w.Rows:]
		for j := range w.Rows {
			copy(to[panel*j:], w.Row(j)[from:min(from+panel, w.Cols)])
		}
	}
	return all
}

func addPanels(dst, x Dense, w Weights) {
	n, p, k := x.Rows, x.Cols, w.Cols
	if p == 0 {
		return
	}
	rows := blockRows
	if k <= panel {
		rows = n
	}
	for row := 0; row < n; row += rows {
		for from := 0; from < k; from += panel {
			mulNarrow(&dst.Data[row*k+from], &x.Data[row*p], &w.padded[from*p], min(rows, n-row), p, min(panel, k-from), k)
		}
	}
}

// Cross sums the cross moment xᵀ·diag(w)·r over rows, in single precision. Call Begin before the first Add.
type Cross struct {
	rows, cols int
	sum        []float32
	narrow     bool
	x, r       Dense // scratch: the rows of nonzero weight, and their weighted residuals
}

// Begin sets the sum to zero, of shape p×k. It reuses its memory.
func (c *Cross) Begin(p, k int) {
	c.rows, c.cols, c.narrow = p, k, isNarrow(k)
	size := p * k
	if c.narrow {
		size = p * padded(k)
	}
	if cap(c.sum) < size {
		c.sum = make([]float32, size)
	}
	c.sum = c.sum[:size]
	clear(c.sum)
}

// Shape returns p and k.
func (c *Cross) Shape() (p, k int) { return c.rows, c.cols }

// Add adds the rows of x (n×p) and r (n×k) with n weights ≥ 0. Rows of weight 0 add nothing, even if they hold an
// infinity.
func (c *Cross) Add(b *BLAS, x, r Dense, weights []float32) {
	n := x.Rows
	x.check("Cross", "x", n, c.rows)
	r.check("Cross", "r", n, c.cols)
	if len(weights) != n {
		panic(fmt.Sprintf("kernel: Cross: %d weights for %d rows", len(weights), n))
	}
	if c.rows == 0 || c.cols == 0 {
		return
	}
	x, r = c.withWeight(x, r, weights)
	if x.Rows == 0 {
		return
	}
	if c.narrow {
		c.addPanels(x, r)
		return
	}
	b.routines.Sgemm(blas.Trans, blas.NoTrans, c.rows, c.cols, x.Rows, 1, x.Data, c.rows, r.Data, c.cols, 1, c.sum, c.cols)
}

// withWeight returns the rows of x of nonzero weight, and the same rows of r times their weights. Other rows are
// omitted instead of multiplied by 0: rows that are not fitted may hold an infinity.
func (c *Cross) withWeight(x, r Dense, weights []float32) (Dense, Dense) {
	n, ones := 0, true
	for _, w := range weights {
		if w != 0 {
			n++
		}
		ones = ones && w == 1
	}
	if ones {
		return x, r
	}
	kept, omits := x, n < len(weights)
	if omits {
		c.x.Reshape(n, c.rows)
		kept = c.x
	}
	c.r.Reshape(n, c.cols)
	at := 0
	for i, w := range weights {
		if w == 0 {
			continue
		}
		if omits {
			copy(kept.Row(at), x.Row(i))
		}
		to := c.r.Row(at)
		for j, v := range r.Row(i) {
			to[j] = w * v
		}
		at++
	}
	return kept, c.r
}

func (c *Cross) addPanels(x, r Dense) {
	p, k := c.rows, c.cols
	columns := blockColumns
	if k <= panel {
		columns = p
	}
	for j := 0; j < p; j += columns {
		for from := 0; from < k; from += panel {
			crossNarrow(&c.sum[from*p+j*panel], &x.Data[j], &r.Data[from], x.Rows, min(columns, p-j), min(panel, k-from), p, k)
		}
	}
}

// AddTo adds the sum to dst, which has p×k values, row-major.
func (c *Cross) AddTo(dst []float64) {
	if len(dst) != c.rows*c.cols {
		panic(fmt.Sprintf("kernel: Cross: dst has %d values, want %d×%d", len(dst), c.rows, c.cols))
	}
	if !c.narrow {
		addTo(dst, c.sum)
		return
	}
	for from := 0; from < c.cols; from += panel {
		sum, n := c.sum[from*c.rows:], min(panel, c.cols-from)
		for j := range c.rows {
			addTo(dst[j*c.cols+from:][:n], sum[j*panel:][:n])
		}
	}
}
