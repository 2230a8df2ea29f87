package solve

import (
	"errors"
	"math"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/internal/oracle"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// reference is Algorithm 2 in float64, written from the paper: for each pass its W, its M, and the predictions after it.
type reference struct {
	w, m, shown []*mat.Dense
	loss        []float64 // half the mean squared distance before each pass, and after the last
}

func (pr *problem) algorithm2(passes int, lambda float64) (r reference) {
	n, k := pr.offset.Dims()
	shown, y := mat.DenseCopyOf(pr.offset), pr.labels()
	for range passes {
		r.loss = append(r.loss, pr.squared(y, shown))
		var residual mat.Dense
		residual.Sub(y, shown)
		w := pr.ridge(pr.x, &residual, lambda, pr.shape.Penalised)
		z := mat.DenseCopyOf(shown)
		var step mat.Dense
		step.Mul(pr.x, w)
		z.Add(z, &step)
		g := cubic(z)
		m := pr.ridge(g, y, 1e-6, 3*k)
		shown = mat.NewDense(n, k, nil)
		shown.Mul(g, m)
		for i := range n {
			copy(shown.RawRowView(i), oracle.Simplex(shown.RawRowView(i)))
		}
		r.w, r.m, r.shown = append(r.w, w), append(r.m, m), append(r.shown, mat.DenseCopyOf(shown))
	}
	r.loss = append(r.loss, pr.squared(y, shown))
	return r
}

// squared returns half the weighted mean of |y − shown|² over the training rows.
func (pr *problem) squared(y, shown *mat.Dense) float64 {
	total, weight := 0.0, 0.0
	for i, w := range pr.weight {
		if pr.split[i] != examples.Train {
			continue
		}
		for c := range pr.shape.Classes {
			d := y.At(i, c) - shown.At(i, c)
			total += w * d * d / 2
		}
		weight += w
	}
	return total / weight
}

// ridge returns least squares by QR on the training rows times √(w/Σw), with rows √λ·I below for the penalised columns. It forms no Gram
// matrix, as the solver does.
func (pr *problem) ridge(x, r *mat.Dense, lambda float64, penalised int) *mat.Dense {
	n, p := x.Dims()
	_, k := r.Dims()
	rows, targets := mat.NewDense(n+penalised, p, nil), mat.NewDense(n+penalised, k, nil)
	weight, _ := pr.total()
	for i, w := range pr.weight {
		if pr.split[i] == examples.Train {
			floats.AddScaled(rows.RawRowView(i), math.Sqrt(w/weight), x.RawRowView(i))
			floats.AddScaled(targets.RawRowView(i), math.Sqrt(w/weight), r.RawRowView(i))
		}
	}
	for j := range penalised {
		rows.Set(n+j, j, math.Sqrt(lambda))
	}
	var qr mat.QR
	qr.Factorize(rows)
	w := new(mat.Dense)
	if err := qr.SolveTo(w, false, targets); err != nil {
		panic(err)
	}
	return w
}

// ridgeRegression returns the weights of least squares to the labels, beside the scores before the stage.
func (pr *problem) ridgeRegression(lambda float64) *mat.Dense {
	return pr.ridge(pr.x, pr.residuals(), lambda, pr.shape.Penalised)
}

// labels returns 1 for the class of each row, and 0 for the others.
func (pr *problem) labels() *mat.Dense {
	n, k := pr.offset.Dims()
	y := mat.NewDense(n, k, nil)
	for i, c := range pr.class {
		y.Set(i, c, 1)
	}
	return y
}

// residuals returns the labels without the scores before the stage.
func (pr *problem) residuals() *mat.Dense {
	y := pr.labels()
	y.Sub(y, pr.offset)
	return y
}

func cubic(z *mat.Dense) *mat.Dense {
	n, k := z.Dims()
	g := mat.NewDense(n, 3*k, nil)
	for i := range n {
		for c, v := range z.RawRowView(i) {
			g.Set(i, c, v)
			g.Set(i, k+c, v*v)
			g.Set(i, 2*k+c, v*v*v)
		}
	}
	return g
}

// calibrate makes all visits of a calibrated fit in float64. bounds are the fit's upper bounds of the loss after each pass.
func (pr *problem) calibrate(t *testing.T, stage schemas.Stage) (chain []Step, passes []*Evaluation, final Step, bounds []float64) {
	t.Helper()
	fit := pr.fit(stage)
	n, k := pr.offset.Dims()
	y := pr.labels()
	shown, step := mat.DenseCopyOf(pr.offset), Step{}
	for v := 0; ; v++ {
		var sums wire.Tensors[float64]
		var g *mat.Dense
		if v%2 == 0 {
			sums = pr.sums(link.Calibrated, shown)
		} else {
			var product mat.Dense
			product.Mul(pr.x, wideMatrix(pr.shape.Columns, k, step.W))
			shown.Add(shown, &product)
			g = cubic(shown)
			gram, cross := pr.moments(g, y)
			sums = wire.Tensors[float64]{wire.Vector(statistics.FieldGram, gram), wire.Matrix(statistics.FieldCross, 3*k, k, cross)}
		}
		pass := assert.Must(observe(fit, v, step, sums))(t)
		assert.Need(t, (pass != nil) == (v%2 == 0), "visit %d is pass %v", v, pass)
		if pass != nil {
			passes = append(passes, pass)
		} else {
			bounds = append(bounds, fit.(*calibrated).bound)
		}
		next := assert.Must(fit.Next())(t)
		step = assert.Must(StepOf(next.Tensors(pr.shape), pr.shape))(t)
		if next.W != nil || next.Calibration != nil {
			chain = append(chain, step)
		}
		if next.Calibration != nil {
			shown = mat.NewDense(n, k, nil)
			shown.Mul(g, wideMatrix(3*k, k, step.Calibration))
			for i := range n {
				copy(shown.RawRowView(i), oracle.Simplex(shown.RawRowView(i)))
			}
		}
		if next.Final {
			return chain, passes, next, bounds
		}
	}
}

func TestCalibratedIsAlgorithm2(t *testing.T) {
	for _, size := range []struct{ n, p, k int }{{300, 8, 2}, {400, 12, 3}, {800, 6, 20}, {40, 64, 3}} {
		const passes = 4
		pr := problemOf(1, size.n, size.p, size.k)
		want := pr.algorithm2(passes, pr.wantLambda(1e-2))
		falling := 0 // passes until the loss no longer falls
		for falling < passes && (falling == 0 || want.loss[falling] < want.loss[falling-1]) {
			falling++
		}
		chain, got, final, bounds := pr.calibrate(t, stageOf(link.Calibrated, passes, 1e-2))
		for i, pass := range got {
			assert.True(t, pass.Number == i+1 && math.Abs(pass.Objective-want.loss[i]) <= 1e-4*want.loss[i]+1e-9,
				"%v: pass %d has loss %v, the algorithm %v", size, pass.Number, pass.Objective, want.loss[i])
		}
		for i, bound := range bounds {
			assert.True(t, want.loss[i+1] <= bound+1e-9, "%v: the loss after pass %d is %v, its bound is %v", size, i+1, want.loss[i+1], bound)
		}
		assert.True(t, falling != passes || len(got) == passes && len(chain) == 2*passes,
			"%v: %d passes, %d records, expected %d passes", size, len(got), len(chain), passes)
		// only the first W: later ones amplify the float32 rounding of the first
		for i, w := range chain[0].W {
			v := want.w[0].RawMatrix().Data[i]
			assert.Near(t, float64(w), v, 1e-6*(1+math.Abs(v)), "%v: weight %d, and that of the algorithm", size, i)
		}
		assert.True(t, final.Of == 2*final.Passes && final.Passes >= len(got)-1 && final.Passes <= passes,
			"%v: %d passes are final, visit %d, after %d passes", size, final.Passes, final.Of, len(got))
	}
}

func TestCalibratedStopsWhenItsLossNoLongerFalls(t *testing.T) {
	pr := problemOf(2, 60, 4, 2)
	for _, again := range []float64{1, 1.5, math.NaN(), math.Inf(1)} {
		fit := pr.fit(stageOf(link.Calibrated, 10, 1e-2))
		gram, cross := pr.moments(cubic(pr.offset), mat.NewDense(60, 2, nil))
		moments := wire.Tensors[float64]{wire.Vector(statistics.FieldGram, gram), wire.Matrix(statistics.FieldCross, 6, 2, cross)}
		for v, loss := range []float64{2, 0, 1, 0, again} { // the mean loss of even visits
			sums := moments
			if v%2 == 0 {
				sums = pr.sums(link.Calibrated, pr.offset)
				sums[0].Data[3] = loss * sums[0].Data[0]
			}
			pass := assert.Must(observe(fit, v, Step{}, sums))(t)
			assert.True(t, pass == nil || pass.Number == v/2+1 && pass.Accepted == (v < 4), "visit %d with loss %v is %+v", v, loss, pass)
			next, _ := fit.Next()
			assert.True(t, next.Final == (v == 4) && (v != 4 || next.Passes == 1 && next.Of == 2), "after visit %d, loss %v: %+v", v, loss, next)
		}
	}
}

func TestCalibratedOfOneClass(t *testing.T) {
	_, passes, final, _ := problemOf(3, 50, 4, 1).calibrate(t, stageOf(link.Calibrated, 10, 1e-2))
	assert.True(t, len(passes) <= 4 && final.Passes >= 1 && passes[len(passes)-1].Objective <= 1e-9, "%+v, %d are final", passes, final.Passes)
}

// With a stop rule, the passes up to the smallest loss of the split count.
func TestCalibratedStopRule(t *testing.T) {
	pr := problemOf(4, 150, 60, 2)
	for i := range pr.split {
		pr.split[i] = examples.Split(i % 2)
	}
	stage := stageOf(link.Calibrated, 50, 1e-6)
	stage.Stop = &schemas.Stop{Split: "holdout", Patience: 2}
	_, passes, final, _ := pr.calibrate(t, stage)
	want := pr.algorithm2(len(passes), pr.wantLambda(1e-6))
	y, best, at := pr.labels(), math.Inf(1), 0
	held := *pr // the same rows with the two splits swapped
	held.split = slices.Clone(pr.split)
	for i, s := range pr.split {
		held.split[i] = examples.Holdout - s
	}
	for made := range passes {
		shown := pr.offset
		if made > 0 {
			shown = want.shown[made-1]
		}
		if loss := held.squared(y, shown); loss < best && passes[made].Accepted {
			best, at = loss, made
		}
	}
	assert.True(t, final.Passes == at && len(passes) != 50,
		"%d passes: %d passes are final, the holdout's best is %d", len(passes), final.Passes, at)
	for i := range pr.split {
		pr.split[i] = examples.Train
	}
	stage.Passes = 1
	_, _, final, _ = pr.calibrate(t, stage)
	assert.Equal(t, final.Passes, 1, "passes with a rule for a split without rows")
}

func TestCalibrationErrors(t *testing.T) {
	pr := problemOf(5, 100, 6, 2)
	for name, test := range map[string]struct {
		value float64
		want  any
	}{
		"not finite": {math.NaN(), new(*NotFiniteError)},
		"negative":   {-1e9, new(*SingularError)},
	} {
		fit := pr.fit(stageOf(link.Calibrated, 3, 1e-3))
		assert.Must(observe(fit, 0, Step{}, pr.sums(link.Calibrated, pr.offset)))(t)
		gram, cross := pr.moments(cubic(pr.offset), mat.NewDense(100, 2, nil))
		gram[0] = test.value
		_, err := observe(fit, 1, Step{}, wire.Tensors[float64]{wire.Vector(statistics.FieldGram, gram),
			wire.Matrix(statistics.FieldCross, 6, 2, cross)})
		assert.True(t, errors.As(err, test.want), "%s: %v", name, err)
		_, err = observe(fit, 1, Step{}, nil)
		var shape *wire.ShapeError
		assert.True(t, errors.As(err, &shape), "without moments: %v", err)
	}
}

func TestClassWeights(t *testing.T) {
	classes, rows := []string{"a", "b", "c"}, map[string]int64{"a": 6, "b": 2}
	factors, err := ClassWeights(schemas.ClassWeight{Balanced: true}, classes, rows)
	assert.True(t, err == nil && slices.Equal(factors, []float32{8.0 / 12, 2, 1}), "balanced: %v, %v", factors, err)
	factors, err = ClassWeights(schemas.ClassWeight{By: map[string]float64{"b": 3, "c": 0}}, classes, rows)
	assert.True(t, err == nil && slices.Equal(factors, []float32{1, 3, 0}), "by label: %v, %v", factors, err)
	factors, err = ClassWeights(schemas.ClassWeight{}, classes, rows)
	assert.True(t, factors == nil && err == nil, "none: %v, %v", factors, err)
	factors, err = ClassWeights(schemas.ClassWeight{By: map[string]float64{"b": 3, "d": 3}}, classes, rows)
	assert.Fails(t, err, `"d"`)
	assert.Equal(t, factors, []float32{1, 3, 1}, "no class: ")
}

// Mean and deviation do not depend on the shift of the moments, as long as it is near the numbers; the survey's record
// holds the mean with float64 precision.
func TestTargetsFarFromZero(t *testing.T) {
	for _, offset := range []float64{0, 1764000000, -1e12} {
		for _, from := range []float64{-30, 0, 59} {
			shift, sums := offset+from, make([]float64, 3)
			for i := range 60 {
				y := offset + float64(i) - shift
				sums[0], sums[1], sums[2] = sums[0]+1, sums[1]+y, sums[2]+y*y
			}
			center, scale, err := PrepareTargets(wire.Tensors[float64]{wire.Matrix(statistics.FieldTargets, 3, 1, sums)}, []float64{shift}, []string{"y"})
			assert.NoError(t, err)
			assert.Equal(t, center[0], offset+29.5, "offset %v, about %v: the mean", offset, shift)
			assert.Near(t, float64(scale[0]), math.Sqrt((60*60-1)/12.0), 1e-5, "offset %v, about %v: the deviation", offset, shift)
			p := &Preparation{Center: []float32{0}, Scale: []float32{1}, TargetCenter: center, TargetScale: scale}
			sum := 0.0
			for _, name := range []string{statistics.TensorTargetCenter, statistics.TensorTargetRest} {
				if part, there := p.Tensors(1).Find(name); there {
					sum += float64(part.Data[0])
				}
			}
			assert.Equal(t, sum, center[0], "the mean of the record")
			_, there := p.Tensors(1).Find(statistics.TensorTargetRest)
			assert.Equal(t, there, offset != 0, "offset %v: there is a rest", offset)
		}
	}
}
