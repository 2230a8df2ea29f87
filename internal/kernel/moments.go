package kernel

import (
	"math"

	"gonum.org/v1/gonum/blas"
)

// Moments sums Gᵀ·diag(w)·G and Gᵀ·diag(w)·Y of float32 rows in float64, for the small systems that are solved with little
// regularisation. The zero value with a shape from Begin is the sum over nothing.
type Moments struct {
	Size, Targets int       // p, k
	Gram          []float64 // p×p, its lower triangle
	Cross         []float64 // p×k

	x, y []float64 // a message's rows times √w
}

// Begin starts a sum over no rows.
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

// Add sums the rows of g (n×p) and y (n×k) with weights (n) ≥ 0. A row of weight 0 may hold anything.
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

// rootScaled appends to dst the rows of x whose weight isn't 0, times the roots of their weights.
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
