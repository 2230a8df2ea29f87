package solve

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mat"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// countSums returns the sums of the first visit of a counted stage.
func countSums(counts *mat.Dense) wire.Tensors[float64] {
	p, k := counts.Dims()
	losses := make([]float64, examples.Splits*statistics.LossFields)
	losses[0] = 1 // Σw of the training rows
	return wire.Tensors[float64]{
		wire.Matrix(statistics.FieldSplits, examples.Splits, statistics.LossFields, losses),
		wire.Matrix(statistics.FieldCounts, p, k, slices.Clone(counts.RawMatrix().Data)),
	}
}

// trialSums returns the sums of the second visit: the wrong rows and the loss of each factor, over ten rows.
func trialSums(wrong, loss func(weight float64) float64) wire.Tensors[float64] {
	var tried []float64
	for _, weight := range CountWeights() {
		tried = append(tried, 10, wrong(weight), loss(weight))
	}
	return append(countSums(mat.NewDense(1, 1, nil)), wire.Matrix(statistics.FieldTrials, len(tried)/TrialFields, TrialFields, tried))
}

func countedFit(inputs, columns, k int, weight schemas.Weight) Fit {
	stage := Defaults()
	stage.Features.Weight = weight
	return NewFit([]schemas.Stage{stage}, 0, false, Shape{Columns: columns, Penalised: inputs, Classes: k, Sparse: true,
		Counted: true}, &Buffer{})
}

// naiveBayes is nb_weights · entropy_weight^½ of the oracle sparse.py, in matrix form.
func naiveBayes(counts *mat.Dense) *mat.Dense {
	p, k := counts.Dims()
	column := func(c int) float64 { return mat.Sum(counts.ColView(c)) }
	logs := mat.NewDense(p, k, nil)
	logs.Apply(func(_, c int, n float64) float64 {
		return math.Log((n + smoothing) / (column(c) + smoothing*float64(p)))
	}, counts)
	means := mat.NewVecDense(p, nil)
	means.MulVec(logs, mat.NewVecDense(k, slices.Repeat([]float64{1 / float64(k)}, k)))
	logs.Apply(func(j, _ int, v float64) float64 { return v - means.AtVec(j) }, logs)
	magnitudes := make([]float64, k)
	for c := range k {
		magnitudes[c] = mat.Norm(logs.ColView(c), 1) / float64(p)
	}
	all := mat.Sum(counts)
	logs.Apply(func(j, c int, v float64) float64 {
		if v == 0 {
			return 0 // so have all inputs of a class if there is one input
		}
		entropy, sum := 0.0, mat.Sum(counts.RowView(j))+1
		for class := range k {
			q := (counts.At(j, class) + column(class)/all) / sum
			entropy -= q * math.Log(math.Max(q, 1e-300))
		}
		return v / magnitudes[c] * floats.Sum(magnitudes) / float64(k) * math.Sqrt(math.Max(1-entropy/math.Log(float64(k)), 0))
	}, logs)
	return logs
}

func TestCountedWeights(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, shape := range [][2]int{{1, 2}, {7, 2}, {64, 20}, {65, 3}} {
		p, k := shape[0], shape[1]
		counts := mat.NewDense(p, k, nil)
		counts.Apply(func(j, c int, _ float64) float64 { return float64(r.IntN(3)) * r.Float64() * float64(1+j%k*c) }, counts)
		counts.Set(0, 0, 1) // at least one is nonzero
		fit := countedFit(p, p, k, 0.25)
		assert.Must(fit.Observe(0, Step{}, countSums(counts)))(t)
		step, err := fit.Next()
		assert.Need(t, err == nil && step.Final && step.Of == 1 && fit.Weight() == 0.25 && fit.Ridge() == 0,
			"%+v, weight %v, ridge %v: %v", step.Final, fit.Weight(), fit.Ridge(), err)
		want := naiveBayes(counts).RawMatrix().Data
		for i, w := range step.W {
			assert.Near(t, float64(w), want[i]/4, 1e-6*(1+math.Abs(want[i])), "%d inputs, %d classes: weight %d", p, k, i)
		}
	}
}

// The intercept has the logarithms of the class weights. Inputs that are equally frequent in each class, and a class
// without inputs, get finite weights.
func TestCountedWeightsOfOddCounts(t *testing.T) {
	counts := mat.NewDense(3, 3, []float64{
		2, 2, 0,
		0, 0, 0,
		3, 1, 0, // the intercept
	})
	fit := countedFit(2, 3, 3, 1)
	assert.Must(fit.Observe(0, Step{}, countSums(counts)))(t)
	step, _ := fit.Next()
	for i, w := range step.W {
		assert.True(t, Finite(float64(w)), "weight %d is %v", i, w)
	}
	assert.Near(t, float64(step.W[6]-step.W[7]), math.Log((3+smoothing)/(1+smoothing)), 1e-6,
		"the difference of the first two classes in the intercept")
	assert.Equal(t, step.W[0], step.W[1], "the weights of an input that is as often in two classes")
}

// The factor has the fewest wrong rows; ties go to the smallest loss, then to the smallest factor.
func TestCountedWeightIsChosen(t *testing.T) {
	weights := CountWeights()
	assert.Need(t, weights[0] == 0 && slices.IsSorted(weights), "weights %v", weights)
	at := weights[20]
	none := func(float64) float64 { return 3 }
	for name, test := range map[string]struct {
		wrong, loss func(float64) float64
		want        float64
	}{
		"errors":   {func(w float64) float64 { return math.Abs(w - at) }, func(w float64) float64 { return -w }, at},
		"losses":   {none, func(w float64) float64 { return math.Abs(w - at) }, at},
		"equal":    {none, none, 0},
		"no sense": {none, func(w float64) float64 { return w }, 0},
	} {
		fit := countedFit(1, 1, 2, schemas.WeightAuto)
		assert.Must(fit.Observe(0, Step{}, countSums(mat.NewDense(1, 2, []float64{1, 2}))))(t)
		first, err := fit.Next()
		assert.Need(t, err == nil && !first.Final, "%s: the first step ends the stage: %v", name, err)
		assert.Must(fit.Observe(1, first, trialSums(test.wrong, test.loss)))(t)
		last, err := fit.Next()
		assert.Need(t, err == nil && last.Final && last.Of == 2 && float64(fit.Weight()) == test.want,
			"%s: weight %v, expected %v: %v", name, fit.Weight(), test.want, err)
		for i, w := range last.W {
			assert.Equal(t, w, float32(float64(first.W[i])*test.want), "%s: weight %d", name, i)
		}
	}
}

func TestCountedRefusals(t *testing.T) {
	fit := countedFit(1, 1, 2, schemas.WeightAuto)
	assert.MustFail(fit.Observe(0, Step{}, countSums(mat.NewDense(1, 2, []float64{1, -2}))))(t, "input 0 in class 1")
	assert.MustFail(fit.Observe(0, Step{}, countSums(mat.NewDense(1, 2, []float64{1, math.Inf(1)}))))(t, new(*NotFiniteError))
	sums := trialSums(func(float64) float64 { return 0 }, func(float64) float64 { return 0 })
	tried, _ := sums.Find(statistics.FieldTrials)
	clear(tried.Data)
	assert.MustFail(fit.Observe(1, Step{}, sums))(t, errNoTrials)
	empty := countSums(mat.NewDense(1, 2, []float64{1, 2}))
	empty[0].Data[0] = 0
	assert.MustFail(fit.Observe(0, Step{}, empty))(t, errNoWeight)
}
