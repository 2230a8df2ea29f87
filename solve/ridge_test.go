package solve

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// penalty returns μ on the diagonal of the penalised columns.
func (pr *problem) penalty(mu float64) *mat.DiagDense {
	d := mat.NewDiagDense(pr.shape.Columns, nil)
	for i := range pr.shape.Penalised {
		d.SetDiag(i, mu)
	}
	return d
}

// weighted returns √w x and √w r of all training rows except one; r are the residuals before the stage.
func (pr *problem) weighted(l schemas.Link, without int) (x, r *mat.Dense) {
	n, k, p := len(pr.weight), pr.shape.Classes, pr.shape.Columns
	x, r = mat.NewDense(n, p, nil), mat.NewDense(n, k, nil)
	for i := range n {
		if i == without || pr.split[i] != examples.Train {
			continue
		}
		g := pr.offset.RawRowView(i)
		if l == link.Softmax {
			g = softmax(g)
		}
		root := math.Sqrt(pr.weight[i])
		for j := range p {
			x.Set(i, j, root*pr.x.At(i, j))
		}
		for c := range k {
			r.Set(i, c, root*(indicator(c == pr.class[i])-g[c]))
		}
	}
	return x, r
}

// leastSquares returns (XᵀX + Σw·D)⁻¹ XᵀR and (XᵀX + Σw·D)⁻¹ XᵀX by LU.
func leastSquares(x, r *mat.Dense, weight float64, penalty *mat.DiagDense) (w, hat *mat.Dense, err error) {
	var a, xr, xx mat.Dense
	xx.Mul(x.T(), x)
	xr.Mul(x.T(), r)
	a.Scale(weight, penalty)
	a.Add(&a, &xx)
	w, hat = new(mat.Dense), new(mat.Dense)
	if err := w.Solve(&a, &xr); err != nil {
		return nil, nil, err
	}
	return w, hat, hat.Solve(&a, &xx)
}

// total returns Σw of the training rows.
func (pr *problem) total() (weight, squares float64) {
	for i, w := range pr.weight {
		if pr.split[i] == examples.Train {
			weight, squares = weight+w, squares+w*w
		}
	}
	return weight, squares
}

// validationOf returns the criterion of a problem as computed by a fit.
func (pr *problem) validationOf(t *testing.T, l schemas.Link) *validation {
	t.Helper()
	sums := pr.sums(l, pr.scores(nil))
	weight, _ := pr.total()
	gram, _ := sums.Find(statistics.FieldGram)
	cross, _ := sums.Find(statistics.FieldCross)
	residual, _ := sums.Find(statistics.FieldResidual)
	v := &validation{
		shape: pr.shape, gram: gram.Data, weight: weight, cross: slices.Clone(cross.Data), residual: residual.Data[0] / weight,
		rows: effectiveRows(weight, residual.Data[1]), sampled: 1, unit: pr.wantLambda(1), curvature: 1, buffer: new(Buffer),
	}
	for i := range v.cross {
		v.cross[i] /= weight
	}
	return v
}

// The criterion matches its definition with hat matrices in float64.
func TestValidationAgainstItsDefinition(t *testing.T) {
	for _, size := range []struct{ n, p, k int }{{200, 7, 3}, {100, 64, 1}, {40, 65, 5}, {3, 10, 2}, {50, 1, 2}} {
		for _, l := range []schemas.Link{link.Identity, link.Softmax} {
			for _, curvature := range []float64{1, 0.2} {
				t.Run(fmt.Sprint(size, l, curvature), func(t *testing.T) {
					pr := problemOf(3, size.n, size.p, size.k)
					x, r := pr.weighted(l, -1)
					weight, squares := pr.total()
					n := max(weight, weight*weight/squares)
					v := pr.validationOf(t, l)
					v.curvature = curvature
					v.eliminate()
					for _, ridge := range []float64{1e-4, 0.01, 0.3, 10} {
						w, hat, err := leastSquares(x, r, weight, pr.penalty(pr.wantLambda(ridge)/curvature))
						assert.NoError(t, err)
						var rest mat.Dense
						rest.Mul(x, w)
						rest.Sub(r, &rest)
						square := mat.Norm(&rest, 2)
						freedom := 1 - mat.Trace(hat)/n
						want := square * square / weight / (freedom * freedom)
						if freedom < minFreedom || square == 0 {
							want = math.Inf(1)
						}
						got := v.score(ridge)
						assert.True(t, got == want || math.Abs(got-want) <= 1e-6*want, "ridge %v: the criterion is %v, expected %v", ridge, got, want)
					}
				})
			}
		}
	}
}

// rounded rounds the Gram matrix to float32, like its record.
func rounded(sums wire.Tensors[float64]) wire.Tensors[float64] {
	for i, t := range sums {
		if t.Name == statistics.FieldGram {
			for j, v := range t.Data {
				sums[i].Data[j] = float64(float32(v))
			}
		}
	}
	return sums
}

// For any defect of the features, the chosen ridge exceeds the rounding of the Gram matrix and makes it factorable.
func TestRidgeIsAboveRounding(t *testing.T) {
	problems := map[string]*problem{"fewer rows than columns": problemOf(1, 30, 65, 3), "one row": problemOf(1, 1, 5, 2)}
	duplicated := problemOf(2, 300, 64, 3)
	for i := range 300 {
		for j := 32; j < 63; j++ {
			duplicated.x.Set(i, j, duplicated.x.At(i, j-32))
		}
	}
	problems["duplicated columns"] = duplicated
	constant := problemOf(3, 100, 20, 3)
	for i := range 100 {
		constant.x.Set(i, 0, 0)
		constant.x.Set(i, 1, 1000) // like the intercept
	}
	problems["constant columns"] = constant
	absent := problemOf(4, 100, 20, 3)
	for i, class := range absent.class {
		if absent.split[i] = examples.Train; class == 2 {
			absent.split[i] = examples.Holdout
		} else if i%4 == 0 {
			absent.split[i] = examples.Test
		}
	}
	problems["a class only in the holdout"] = absent
	explained := problemOf(5, 50, 10, 2)
	for i, class := range explained.class {
		for c := range 2 {
			explained.offset.Set(i, c, indicator(c == class)) // no residual of the identity
		}
	}
	problems["nothing to fit"] = explained
	for name, pr := range problems {
		for _, l := range []schemas.Link{link.Identity, link.Softmax, link.Calibrated} {
			t.Run(fmt.Sprint(name, " ", l), func(t *testing.T) {
				fit := pr.fit(stageOf(l, 5, float64(schemas.RidgeAuto)))
				assert.Must(observe(fit, 0, Step{}, rounded(pr.sums(l, pr.scores(nil)))))(t)
				r := fit.Ridge()
				assert.True(t, slices.Contains(ridges(), float64(r)), "ridge %v", r)
				step := assert.Must(fit.Next())(t)
				for _, w := range step.W {
					assert.Need(t, math.Abs(float64(w)) < 1e6, "a weight of %v, with the ridge %v", w, fit.Ridge())
				}
			})
		}
	}
}

// A stage with an auto ridge is bitwise equal to one with the ridge that it chooses, with every method and link.
func TestAutoRidgeIsThatNumber(t *testing.T) {
	for _, l := range []schemas.Link{link.Identity, link.Softmax} {
		for _, m := range methods() {
			if m.quadratic && l != link.Identity {
				continue
			}
			pr := problemOf(7, 200, 33, 4)
			auto := stageOf(l, 6, float64(schemas.RidgeAuto))
			auto.Method = m.name
			_, final, fit := pr.run(t, auto, nil)
			number := auto
			number.Ridge = fit.Ridge()
			_, want, _ := pr.run(t, number, nil)
			assert.True(t, slices.Equal(final.W, want.W) && fit.Ridge() > 0, "%s, %s: other weights than with the ridge %v", l, m.name, fit.Ridge())
		}
	}
}

// With the Gram matrix of a sample the choice is within a factor of ten of the choice with all rows.
func TestRidgeWithASampledGramMatrix(t *testing.T) {
	for _, size := range []struct{ n, p, k, rows int }{{4000, 40, 3, 800}, {4000, 64, 10, 500}, {1000, 20, 2, 1000}} {
		pr := problemOf(9, size.n, size.p, size.k)
		chosen := func(sums wire.Tensors[float64]) float64 {
			fit := pr.fit(stageOf(link.Softmax, 5, float64(schemas.RidgeAuto)))
			assert.Must(observe(fit, 0, Step{}, rounded(sums)))(t)
			return float64(fit.Ridge())
		}
		sums := func() wire.Tensors[float64] { return pr.sums(link.Softmax, pr.scores(nil)) }
		all, part := chosen(sums()), chosen(pr.sampled(sums(), size.rows))
		assert.True(t, part <= 10.01*all && all <= 10.01*part && (size.rows != size.n || part == all),
			"%v: ridge %v with a sample, %v with all rows", size, part, all)
	}
}

// The candidate ridges are round numbers.
func TestRidgesAreShortNumbers(t *testing.T) {
	for _, r := range ridges() {
		text := schemas.Ridge(r).String()
		assert.True(t, len(text) <= 6, "ridge %s", text)
	}
}

// Weights count rows, or have any unit.
func TestEffectiveRows(t *testing.T) {
	for _, test := range []struct {
		weights []float64
		want    float64
	}{
		{[]float64{1, 1, 1}, 3}, {[]float64{2, 1, 0}, 3}, {[]float64{0.25, 0.25, 0.5}, 1 / 0.375}, {[]float64{0.01, 0.01, 0}, 2},
		{[]float64{1000, 1000}, 2},
	} {
		weight, squares := 0.0, 0.0
		for _, w := range test.weights {
			weight, squares = weight+w, squares+w*w
		}
		assert.Near(t, effectiveRows(weight, squares), test.want, 1e-12, "the rows of the weights %v", test.weights)
	}
}
