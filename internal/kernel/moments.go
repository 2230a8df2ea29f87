package kernel

import (
	"math"

	"gonum.org/v1/gonum/blas"
)

// Moments sums Gᵀ·diag(w)·G and Gᵀ·diag(w)·Y of float32 rows in float64, for small systems that are solved with little
// regularisation. Call Begin before the first Add.
type Moments struct {
	// Size is p, the columns of G, and Targets is k, the columns of Y.
	Size, Targets int
	// Gram is Gᵀ·diag(w)·G, p×p and row-major. Only its lower triangle is computed.
	Gram []float64
	// Cross is Gᵀ·diag(w)·Y, p×k and row-major.
	Cross []float64

	x, y []float64 // the rows of one Add times √w
}

// Begin sets the sums to zero, of shapes p×p and p×k. It reuses their memory.
func (m *Moments) Begin(p, k int) {
	m.Size, m.Targets = p, k
	m.Gram, m.Cross = zeros(m.Gram, p*p), zeros(m.Cross, p*k)
}

func zeros(s []float64, n int) []float64 {
	if cap(s) < n {
		return make([]float64, n)
	}
	s = s[:n]
	clear(s)
	return s
}

// Add adds the rows of g (n×p) and y (n×k) with n weights ≥ 0. Rows of weight 0 add nothing, even if they hold an
// infinity.
func (m *Moments) Add(b *BLAS, g, y Dense, weights []float32) {
	n := g.Rows
	g.check("Moments", "g", n, m.Size)
	y.check("Moments", "y", n, m.Targets)
	if n == 0 || m.Size == 0 || m.Targets == 0 {
		return
	}
	m.x, m.y = rootScaled(m.x[:0], g, weights), rootScaled(m.y[:0], y, weights)
	if n = len(m.x) / m.Size; n == 0 {
		return
	}
	b.routines.Dsyrk(blas.Lower, blas.Trans, m.Size, n, 1, m.x, m.Size, 1, m.Gram, m.Size)
	b.routines.Dgemm(blas.Trans, blas.NoTrans, m.Size, m.Targets, n, 1, m.x, m.Size, m.y, m.Targets, 1, m.Cross, m.Targets)
}

// rootScaled appends to dst the rows of x of nonzero weight, each times the square root of its weight.
func rootScaled(dst []float64, x Dense, weights []float32) []float64 {
	for i := range x.Rows {
		if weights[i] == 0 {
			continue
		}
		root := math.Sqrt(float64(weights[i]))
		for _, v := range x.Row(i) {
			dst = append(dst, root*float64(v))
		}
	}
	return dst
}
