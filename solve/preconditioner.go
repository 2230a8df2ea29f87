package solve

import (
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Preconditioner is the Cholesky factor of L·S + λI, the fixed second-moment
// matrix by whose inverse every step of Algorithm 1 is multiplied (its line 2).
// The intercept, if there is one, is the last column and not penalised.
//
// The paper has no ridge; its step (1/L) S⁻¹ would become (1/L) (S+λI)⁻¹. But J
// curves up to L·S + λI, which L (S+λI) does not bound where L < 1: directions
// that S does not see would go from W to −W and back, at the same J for ever.
type Preconditioner struct {
	factor kernel.Cholesky // of D (L·S + λI) D
	scale  []float64       // D: what makes the diagonal ones
}

// SingularError says that L·S + λI can't be inverted with any use.
type SingularError struct {
	Size   int
	Weight float64 // Σw of the rows behind S
	Lambda float64
	Cond   float64 // estimate of the condition number; 0: not even positive definite
}

func (e *SingularError) Error() string {
	what := "is not positive definite"
	if e.Cond > 0 {
		what = fmt.Sprintf("has a condition number of about %.1g", e.Cond)
	}
	return fmt.Sprintf("the Gram matrix of %d features over a weight of %g, λ = %.3g, %s: a larger ridge or fewer features would help",
		e.Size, e.Weight, e.Lambda, what)
}

// maxCondition leaves three digits of a float64 solve.
const maxCondition = 1e13

// Buffer is memory in which the matrices of fits that follow each other are
// factored: where it is new each time, mapping and clearing it takes as long as a
// quarter of that. The zero value is ready.
type Buffer struct{ matrix []float64 }

// square is p × p values, which may be anything.
func (r *Buffer) square(p int) []float64 {
	if cap(r.matrix) < p*p {
		r.matrix = make([]float64, p*p)
	}
	return r.matrix[:p*p]
}

// NewPreconditioner factors L·S + λI, S = gram/weight with gram the packed lower
// triangle of Σ w x xᵀ over p columns, of which the first penalised get λ. gram
// is not changed. It may be used until another is made in the same buffer.
func NewPreconditioner(gram []float64, p, penalised int, weight, lambda, smoothness float64, buffer *Buffer) (*Preconditioner, error) {
	if len(gram) != p*(p+1)/2 || penalised > p || penalised < 1 {
		panic(fmt.Sprintf("solve: a Gram matrix of %d values for %d columns, %d penalised", len(gram), p, penalised))
	}
	c := &Preconditioner{scale: make([]float64, p)}
	// Features of other units than the intercept's 1 are no trouble once the
	// diagonal is (van der Sluis 1969).
	full, f := buffer.square(p), smoothness/weight
	singular := &SingularError{Size: p, Weight: weight, Lambda: lambda}
	for i, at := 0, 0; i < p; i, at = i+1, at+i+2 {
		d := f * gram[at]
		if i < penalised {
			d += lambda
		}
		// what is not finite in a sum of squares is on its diagonal too
		if math.IsNaN(d) || math.IsInf(d, 0) {
			return nil, &NotFiniteError{"the Gram matrix"}
		}
		if d <= 0 {
			return nil, singular
		}
		c.scale[i] = 1 / math.Sqrt(d)
	}
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
	if !(c.factor.Cond() < maxCondition) {
		singular.Cond = c.factor.Cond()
		return nil, singular
	}
	return c, nil
}

// Solve is (L·S + λI)⁻¹ g for a p × k matrix g, row-major.
func (c *Preconditioner) Solve(g []float64, k int) []float64 {
	scaled := make([]float64, len(g))
	c.rescale(scaled, g, k)
	c.factor.Solve(scaled, k)
	c.rescale(scaled, scaled, k)
	return scaled
}

// rescale writes D g into dst.
func (c *Preconditioner) rescale(dst, g []float64, k int) {
	for i, s := range c.scale {
		for j := i * k; j < (i+1)*k; j++ {
			dst[j] = s * g[j]
		}
	}
}
