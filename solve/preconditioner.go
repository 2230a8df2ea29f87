package solve

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
)

// preconditioner is the Cholesky factor of L·S + λI. Algorithm 1 (line 2) multiplies every step by the inverse of this fixed
// matrix of second moments. The intercept, if there is one, is the last column and not penalised.
//
// The paper has no ridge; its step (1/L) S⁻¹ would become (1/L) (S+λI)⁻¹. But the curvature of J is up to L·S + λI,
// which L (S+λI) does not bound where L < 1: in the null space of S the iterates would oscillate between W and −W
// forever, at the same J.
type preconditioner struct {
	factor kernel.Cholesky // of D (L·S + λI) D
	scale  []float64       // diagonal of D, which scales the diagonal of the product to 1
}

// SingularError says that L·S + λI, or the matrix of a calibration, is singular or close to it.
type SingularError struct {
	Size   int     // columns of the matrix
	Weight float64 // Σw of the rows behind S
	Lambda float64 // λ
	Cond   float64 // lower bound of the condition number; 0: the matrix is not positive definite
}

func (e *SingularError) Error() string {
	what := "is not positive definite"
	if e.Cond > 0 {
		what = fmt.Sprintf("has a condition number of at least %.1g", e.Cond)
	}
	return fmt.Sprintf("the Gram matrix of %d features over a weight of %g, λ = %.3g, %s: set a larger ridge, or fewer features",
		e.Size, e.Weight, e.Lambda, what)
}

// maxCondition is the condition number that leaves three digits of a float64 solve.
const maxCondition = 1e13

// Buffer is memory for the matrices of successive fits. Mapping and clearing new memory for each would take a quarter
// of the time of the factorization. The zero value is ready. Only one fit at a time may use it.
type Buffer struct{ matrix []float64 }

// Square returns p × p unspecified values.
func (b *Buffer) Square(p int) []float64 {
	if cap(b.matrix) < p*p {
		b.matrix = make([]float64, p*p)
	}
	return b.matrix[:p*p]
}

// newPreconditioner factors L·S + λI. S is gram/weight, where gram is the packed lower triangle of Σ w x xᵀ over p
// columns; λ applies to the first penalised columns. It does not change gram. The result is valid until the buffer is
// reused.
func newPreconditioner(gram []float64, p, penalised int, weight, lambda, smoothness float64, buffer *Buffer) (*preconditioner, error) {
	if len(gram) != p*(p+1)/2 || penalised > p || penalised < 1 {
		panic(fmt.Sprintf("solve: a Gram matrix of %d values for %d columns, %d penalised", len(gram), p, penalised))
	}
	// The condition number of a matrix with a unit diagonal is independent of the units of the features (van der Sluis 1969).
	scale, f := packedDiagonal(gram, p), smoothness/weight
	for i, v := range scale {
		d := f * v
		if i < penalised {
			d += lambda
		}
		if !Finite(d) { // if a Gram matrix has a value that is not finite, its diagonal has one
			return nil, &NotFiniteError{"the Gram matrix"}
		}
		if d <= 0 {
			return nil, &SingularError{Size: p, Weight: weight, Lambda: lambda}
		}
		scale[i] = 1 / math.Sqrt(d)
	}
	c := &preconditioner{scale: scale}
	full := buffer.Square(p)
	singular := &SingularError{Size: p, Weight: weight, Lambda: lambda}
	for i, at := 0, 0; i < p; i, at = i+1, at+i+1 {
		row, packed, d := full[i*p:i*p+i], gram[at:at+i], f*c.scale[i]
		for j, s := range c.scale[:i] {
			row[j] = d * s * packed[j]
		}
		full[i*p+i] = 1
	}
	ok := false
	if c.factor, ok = kernel.Factor(full, p); !ok {
		return nil, singular
	}
	if cond := c.factor.Cond(); !(cond < maxCondition) {
		singular.Cond = cond
		return nil, singular
	}
	return c, nil
}

// SolveTo writes (L·S + λI)⁻¹ g into dst, for a matrix g (p × k, row-major).
func (c *preconditioner) SolveTo(dst, g []float64, k int) {
	scaleRows(dst, c.scale, g, k)
	c.factor.Solve(dst, k)
	scaleRows(dst, c.scale, dst, k)
}

// Energy returns the trace of Wᵀ (L·S + λI) W for W (p × k, row-major).
func (c *preconditioner) Energy(w []float64, k int) float64 {
	scaled := make([]float64, len(w))
	for i, s := range c.scale {
		for j := i * k; j < (i+1)*k; j++ {
			scaled[j] = w[j] / s
		}
	}
	return c.factor.Energy(scaled, k)
}

// metric approximates the curvature of J. Gradients are multiplied by its inverse.
type metric interface {
	// SolveTo writes its inverse times g (p × k, row-major) into dst, which may be g.
	SolveTo(dst, g []float64, k int)
}

// solved returns the inverse of a metric times g.
func solved(m metric, g []float64, k int) []float64 {
	dst := make([]float64, len(g))
	m.SolveTo(dst, g, k)
	return dst
}
