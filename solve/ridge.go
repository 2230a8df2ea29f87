package solve

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// ridges returns the candidate ridges: 1 and 3 times the powers of ten. They are round numbers that users may write, and few enough that
// rounding hardly ever changes the choice. Below 1e-4, no measured data set has an error that is smaller by a tenth. But the criterion may
// fall there without end: the Gram matrix of a sample lacks rarely nonzero features, which the cross moment of all rows includes. On the
// pixels of MNIST it fell until 3e-7, with an error of 8.5 % where 1e-4 has 7.4 %.
func ridges() []float64 { return []float64{1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1, 3, 10} }

const (
	middleRidge = 2 // among the candidates, where the search begins
	decade      = 2 // candidates per power of ten
)

const (
	// roundingFactor is the margin of λ above the eigenvalues that are only the float32 rounding of a Gram matrix. If
	// the features are rank-deficient, as with fewer rows than columns, the other directions contain only rounding.
	// Fitting these would count as fitting the data: on breast cancer, wine and iris with 1024 features, the criterion
	// falls again below this floor, and the test error rises.
	roundingFactor = 10
	// minFreedom is the smallest fraction of the rows that a fit may leave as degrees of freedom. Near 0 the criterion
	// is 0/0.
	minFreedom = 0.01
	// maxWeight exceeds the mean of weights that count rows.
	maxWeight = 10
)

// validation is generalized cross-validation (Golub, Heath and Wahba 1979) of the first step of a fit: RSS/(1 − df/n)²,
// over n rows, where df = Σ wᵢ/(wᵢ+μ) is the degrees of freedom of the step, and wᵢ are the eigenvalues of S. It needs
// only the Gram matrix and the cross moment of the first visit.
//
// The step is that of least squares with residuals as targets. Its penalty μ differs from λ if the loss is not
// quadratic: the step with curvature h is (h·S+λI)⁻¹, which is 1/h times that of least squares with μ = λ/h.
type validation struct {
	shape     Shape
	gram      []float64 // packed lower triangle of Σ w x xᵀ
	weight    float64   // Σw of the rows behind it
	cross     []float64 // Ê[x rᵀ] (p × k)
	residual  float64   // Ê|r|²
	rows      float64   // n
	sampled   float64   // Σw of all rows over that of the rows behind the Gram matrix
	unit      float64   // λ of the ridge 1
	curvature float64   // h
	buffer    *Buffer
	definite  float64 // S + definite·I is positive definite; 0: not known, +Inf: for no value that was tried
}

// effectiveRows returns the number of rows of a sum, given Σw and Σw². A row of weight 2 counts as two. The weights may
// have another unit, for example if they add up to 1: if they add up to less than the effective number of rows (Kish
// 1965), or to more than maxWeight times that, it returns the effective number.
func effectiveRows(weight, squares float64) float64 {
	effective := weight * weight / squares
	if weight > maxWeight*effective {
		return effective
	}
	return max(weight, effective)
}

// choose returns the ridge with the smallest criterion. It walks down from a middle ridge by powers of ten, and then
// tries the ridges in between. That takes some seven trials, each a Cholesky factor and its inverse, on all cores. The
// tridiagonal form of S would serve all ridges with a third of the operations, but half of them read the remaining
// matrix for each column: 90 GB at p = 4096.
func (v *validation) choose() schemas.Ridge {
	all := ridges()
	if !(v.curvature > 0 && v.unit > 0) {
		return schemas.Ridge(all[middleRidge]) // no residual to fit, or no feature to fit it with
	}
	v.eliminate()
	scores := map[int]float64{}
	score := func(i int) float64 {
		if i < 0 || i >= len(all) {
			return math.Inf(1)
		}
		if _, known := scores[i]; !known {
			scores[i] = v.score(all[i])
		}
		return scores[i]
	}
	best := middleRidge
	for best < len(all)-1 && math.IsInf(score(best), 1) {
		best++ // below the floor
	}
	for _, step := range []int{decade, -decade, 1, -1} {
		for score(best+step) < score(best) {
			best += step
		}
	}
	return schemas.Ridge(all[best])
}

// Alike reports whether two stages, whose ridge is auto, should share it: they have the same features and the same
// loss. The residuals of a stage contain less signal and more noise than its targets, but the criterion does not count
// the degrees of freedom of earlier stages. On MNIST, ten stages that choose their own ridge end with an error of 1.85
// %; with the ridge of the first for all it is 1.53 %.
func Alike(a, b schemas.Stage) bool {
	return a.Ridge == schemas.RidgeAuto && b.Ridge == schemas.RidgeAuto && a.Features == b.Features && a.Link == b.Link && a.Scores == b.Scores
}

// eliminate removes the unpenalised intercept from the moments: they become those of the residuals of a fit to it.
func (v *validation) eliminate() {
	q, k := v.shape.Penalised, v.shape.Classes
	if v.shape.Columns == q {
		v.gram = v.gram[:q*(q+1)/2]
		return
	}
	last, own := v.gram[q*(q+1)/2:], v.cross[q*k:]
	square := last[q]
	gram, cross := slices.Clone(v.gram[:q*(q+1)/2]), slices.Clone(v.cross[:q*k])
	if square > 0 {
		for i, at := 0, 0; i < q; i, at = i+1, at+i+1 {
			floats.AddScaled(gram[at:at+i+1], -last[i]/square, last[:i+1])
			floats.AddScaled(cross[i*k:(i+1)*k], -last[i]/square, own)
		}
		v.residual -= floats.Dot(own, own) * v.weight / square
	}
	v.gram, v.cross = gram, cross
}

// score returns the criterion of a ridge; +Inf if the ridge is not eligible.
func (v *validation) score(ridge float64) float64 {
	k, lambda := v.shape.Classes, ridge*v.unit
	mu := lambda / v.curvature
	if !v.isDefinite(lambda / roundingFactor) {
		return math.Inf(1)
	}
	factor, ok := v.factor(mu)
	if !ok {
		return math.Inf(1)
	}
	w := slices.Clone(v.cross)
	factor.Solve(w, k)
	df := float64(v.shape.Columns) - mu*factor.InverseTrace()
	// The inverse of the S of a sample is too large, by 1/(1 − p/n) on average for normal rows and μ = 0 (the inverse
	// Wishart distribution). With μ, df replaces p. The cross moment shares the noise of these rows to the extent that
	// they are all rows.
	shrink := 1 - df/v.rows*(v.sampled-1)
	freedom := 1 - df/v.rows
	// With W = (S+μI)⁻¹ c the mean square is Ê|r|² − 2⟨c, W⟩ + ⟨W, S W⟩, and S W = c − μW.
	square := v.residual - shrink*(floats.Dot(v.cross, w)+mu*floats.Dot(w, w))
	if !(freedom >= minFreedom) || !(square > 0) {
		return math.Inf(1)
	}
	return square / (freedom * freedom)
}

// isDefinite reports whether S + shift·I is positive definite. It first tries the smallest shift of all candidate
// ridges: few matrices need a larger one.
func (v *validation) isDefinite(shift float64) bool {
	if v.definite == 0 {
		v.definite = math.Inf(1)
		if smallest := ridges()[0] * v.unit / roundingFactor; smallest < shift && v.isDefinite(smallest) {
			return true
		}
	}
	if shift >= v.definite {
		return true
	}
	_, definite := v.factor(shift)
	if definite {
		v.definite = shift
	}
	return definite
}

// factor factors S + shift·I over the penalised columns. It returns false if that is not positive definite.
func (v *validation) factor(shift float64) (kernel.Cholesky, bool) {
	q := v.shape.Penalised
	full := v.buffer.Square(q)
	for i, at := 0, 0; i < q; i, at = i+1, at+i+1 {
		row := full[i*q : i*q+i+1]
		floats.ScaleTo(row, 1/v.weight, v.gram[at:at+i+1])
		row[i] += shift
	}
	return kernel.Factor(full, q)
}
