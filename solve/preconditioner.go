package solve

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/mat"
)

// Preconditioner is the Cholesky factor of L·S + λI, the fixed second-moment
// matrix by whose inverse every step of Algorithm 1 is multiplied (its line 2).
// The intercept, if there is one, is the last column and not penalised.
//
// The paper has no ridge; its step (1/L) S⁻¹ would become (1/L) (S+λI)⁻¹. But J
// curves up to L·S + λI, which L (S+λI) does not bound where L < 1: directions
// that S does not see would go from W to −W and back, at the same J for ever.
type Preconditioner struct {
	Lambda float64
	factor mat.Cholesky // of D (L·S + λI) D
	scale  []float64    // D: what makes the diagonal ones
	size   int
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

// worstCondition leaves three digits of a float64 solve.
const worstCondition = 1e13

// NewPreconditioner factors L·S + λI, S = gram/weight with gram the packed lower
// triangle of Σ w x xᵀ over p columns, of which the first penalised count in
// λ = ridge · trace(S)/penalised and get it. gram is not changed.
func NewPreconditioner(gram []float64, p, penalised int, weight, ridge, smoothness float64) (*Preconditioner, error) {
	if len(gram) != p*(p+1)/2 || penalised > p || penalised < 1 {
		panic(fmt.Sprintf("solve: a Gram matrix of %d values for %d columns, %d penalised", len(gram), p, penalised))
	}
	full := make([]float64, p*p)
	trace, all := 0.0, 0.0
	for i, at := 0, 0; i < p; i++ {
		for j := 0; j <= i; j++ {
			full[j*p+i] = gram[at] / weight // gonum reads the upper triangle
			at++
		}
		if all += full[i*p+i]; i < penalised {
			trace += full[i*p+i]
		}
	}
	// what is not finite in a sum of squares is on its diagonal too
	if math.IsNaN(all) || math.IsInf(all, 0) {
		return nil, &NotFiniteError{"the Gram matrix"}
	}
	c := &Preconditioner{Lambda: ridge * trace / float64(penalised), size: p}
	for i := range full {
		full[i] *= smoothness
	}
	for i := range penalised {
		full[i*p+i] += c.Lambda
	}
	singular := &SingularError{Size: p, Weight: weight, Lambda: c.Lambda}
	// Features of other units than the intercept's 1 are no trouble once the
	// diagonal is (van der Sluis 1969).
	c.scale = make([]float64, p)
	for i := range p {
		if full[i*p+i] <= 0 {
			return nil, singular
		}
		c.scale[i] = 1 / math.Sqrt(full[i*p+i])
	}
	for i := range p {
		for j := i; j < p; j++ {
			full[i*p+j] *= c.scale[i] * c.scale[j]
		}
	}
	if !c.factor.Factorize(mat.NewSymDense(p, full)) {
		return nil, singular
	}
	if cond := c.factor.Cond(); !(cond < worstCondition) {
		singular.Cond = cond
		return nil, singular
	}
	return c, nil
}

// Solve is (L·S + λI)⁻¹ g for a p × k matrix g, row-major.
func (c *Preconditioner) Solve(g []float64, k int) []float64 {
	scaled := make([]float64, len(g))
	c.rescale(scaled, g, k)
	out := mat.NewDense(c.size, k, nil)
	if err := c.factor.SolveTo(out, mat.NewDense(c.size, k, scaled)); err != nil {
		panic(fmt.Sprintf("solve: %v", err)) // the condition was checked when it was made
	}
	c.rescale(out.RawMatrix().Data, out.RawMatrix().Data, k)
	return out.RawMatrix().Data
}

// rescale writes D g into dst.
func (c *Preconditioner) rescale(dst, g []float64, k int) {
	for i, s := range c.scale {
		for j := i * k; j < (i+1)*k; j++ {
			dst[j] = s * g[j]
		}
	}
}
