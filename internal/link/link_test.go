package link

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/oracle"
)

func clone(x kernel.Dense) kernel.Dense {
	x.Data = slices.Clone(x.Data)
	return x
}

// classesOf returns classes of n rows, one of them without a label.
func classesOf(n, k int) []int32 {
	classes := make([]int32, n)
	for i := range classes {
		classes[i] = int32(i % k)
	}
	classes[n/2] = -1
	return classes
}

func TestEveryLinkIsComplete(t *testing.T) {
	seen := map[string]bool{}
	for _, l := range All() {
		assert.True(t, l.Name != "" && l.Doc != "" && l.Smoothness > 0 && l.unit != "" && l.measure != nil && !seen[l.Name],
			"%q lacks a part, or has the name of another link", l.Name)
		assert.True(t, (l.predict.rows == nil) == (l.invert.rows == nil), "%s: predict and invert are not both there or both absent", l.Name)
		for _, f := range []transform{l.predict, l.invert} {
			assert.True(t, (f.rows == nil) == (f.node == nil), "%s: a function of rows and its node are not both there or both absent", l.Name)
		}
		seen[l.Name] = true
		assert.True(t, Named(l.Name).Name == l.Name, "%s is not found by its name", l.Name)
	}
	defer func() { assert.True(t, recover() != nil, "an unknown name has a link") }()
	Named("probit")
}

// A score keeps the class that it predicts in every unit.
func TestConvertKeepsWhatWasLearnt(t *testing.T) {
	for _, k := range []int{1, 2, 10, 100, 5000} {
		for _, from := range All() {
			for _, to := range All() {
				score := oracle.Normals(1, 50, k, 0.01)
				for i := range score.Rows {
					score.Row(i)[i%k] += 0.5 / float32(k)
				}
				want := make([]int32, 50)
				for i := range want {
					want[i] = Largest(score.Row(i))
				}
				before := clone(score)
				Convert(score, from, to, new(Scratch))
				for i := range want {
					got := Largest(score.Row(i))
					assert.Need(t, got == want[i], "%d classes, %s to %s: row %d predicts %d, before %d", k, from.Name, to.Name, i, got, want[i])
				}
				assert.True(t, from.unit != to.unit || slices.Equal(score.Data, before.Data),
					"%s to %s changes scores of the same unit", from.Name, to.Name)
			}
		}
	}
}

// Probabilities survive the way from softmax to identity and back, unless they are below the threshold of the logarithm.
func TestConvertThereAndBack(t *testing.T) {
	score, s := oracle.Normals(2, 64, 5, 1), new(Scratch)
	want := clone(score)
	kernel.SoftmaxRows(want, nil, nil)
	Convert(score, softmax(), identity(), s)
	assert.True(t, slices.Equal(score.Data, want.Data), "predictions are not the probabilities")
	Convert(score, identity(), softmax(), s)
	kernel.SoftmaxRows(score, nil, nil)
	for i, p := range score.Data {
		assert.Near(t, float64(p), float64(want.Data[i]), 2e-3, "probability %d", i)
	}
	certain := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{1, 0, 0}}
	Convert(certain, calibrated(), softmax(), s)
	for c, want := range []float64{0, math.Log(1e-3), math.Log(1e-3)} {
		assert.Near(t, float64(certain.Data[c]), want, 1e-6, "the score of a certain prediction")
	}
}

func TestProbabilities(t *testing.T) {
	for _, l := range All() {
		score := oracle.Normals(3, 30, 4, 1)
		got := clone(score)
		l.Predict(got)
		l.Probabilities(got, new(Scratch))
		for i := range got.Rows {
			predicted := oracle.Wide(score.Row(i))
			if l.unit == odds {
				for c, v := range predicted {
					predicted[c] = 1 / (1 + math.Exp(-v))
				}
			}
			want := oracle.Simplex(predicted)
			if l.unit == logits {
				sum := 0.0
				for _, v := range score.Row(i) {
					sum += math.Exp(float64(v))
				}
				for c, v := range score.Row(i) {
					want[c] = math.Exp(float64(v)) / sum
				}
			}
			for c, p := range got.Row(i) {
				assert.Near(t, float64(p), want[c], 1e-6, "%s", l.Name)
			}
		}
	}
}

// naive returns the loss of one row in float64.
func naive(l Link, row []float64, class int32) float64 {
	sum, squared, each := 0.0, 0.0, -row[class]
	for c, v := range row {
		sum += math.Exp(v)
		each += math.Log(1 + math.Exp(v))
		if int32(c) == class {
			v--
		}
		squared += v * v / 2
	}
	switch l.unit {
	case logits:
		return math.Log(sum) - row[class]
	case odds:
		return each
	}
	return squared
}

// y − g(score) is minus the gradient of the loss in the score, by finite differences.
func TestResidualsAreTheGradientOfTheLoss(t *testing.T) {
	const n, k = 9, 4
	for _, l := range All() {
		score, classes := oracle.Normals(4, n, k, 1), classesOf(n, k)
		loss, predicted := make([]float32, n), make([]int32, n)
		measured, prediction := clone(score), clone(score)
		l.Measure(measured, Truth{Classes: classes}, loss, predicted, new(Scratch))
		l.Predict(prediction)
		assert.True(t, slices.Equal(measured.Data, prediction.Data), "%s: Measure and Predict differ", l.Name)
		for i, class := range classes {
			row := oracle.Wide(score.Row(i))
			if class < 0 {
				assert.Equal(t, loss[i], 0, "%s: a row without a label has loss", l.Name)
				continue
			}
			assert.Near(t, float64(loss[i]), naive(l, row, class), 1e-5, "the loss")
			want := Largest(score.Row(i))
			assert.True(t, predicted[i] == want && slices.Max(row) == row[want], "%s: row %d predicts %d", l.Name, i, predicted[i])
			for c := range row {
				residual := -float64(prediction.Row(i)[c])
				if int32(c) == class {
					residual++
				}
				const h = 1e-5
				row[c] += h
				up := naive(l, row, class)
				row[c] -= 2 * h
				down := naive(l, row, class)
				row[c] += h
				assert.Near(t, residual, -(up-down)/(2*h), 1e-6, "the residual")
			}
		}
	}
}

// The Hessian of the loss in the scores, by finite differences along random directions, is at most Smoothness.
func TestSmoothnessBoundsTheCurvature(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 1))
	for _, l := range All() {
		largest := 0.0
		for range 2000 {
			k := 2 + r.IntN(4)
			row, direction, length := make([]float64, k), make([]float64, k), 0.0
			for c := range row {
				row[c], direction[c] = 2*r.NormFloat64(), r.NormFloat64()
				length += direction[c] * direction[c]
			}
			const h = 1e-3
			at := func(t float64) float64 {
				moved := slices.Clone(row)
				for c := range moved {
					moved[c] += t * direction[c] / math.Sqrt(length)
				}
				return naive(l, moved, 0)
			}
			largest = max(largest, (at(h)-2*at(0)+at(-h))/(h*h))
		}
		assert.True(t, largest <= l.Smoothness+1e-6 && largest >= 0.8*l.Smoothness,
			"%s: curvatures are up to %v, the smoothness is %v", l.Name, largest, l.Smoothness)
	}
}

// A row of a class that the model does not have loses what it would lose if the model had the class, and predicted it with the smallest
// probability. It is no such row to sums of losses: its residual is 0.
func TestUnknownClassesLoseTheSmallestProbability(t *testing.T) {
	prediction := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 0, 0.25, 0.75, 0.5, 0.5}}
	with := kernel.Dense{Rows: 3, Cols: 3, Data: []float32{1, 0, LeastProbability, 0.25, 0.75, LeastProbability, 0.5, 0.5, LeastProbability}}
	for _, l := range All() {
		loss, want, predicted := make([]float32, 3), make([]float32, 3), make([]int32, 3)
		l.MeasurePredictions(prediction, Truth{Classes: []int32{Unknown, 1, -1}}, loss, predicted)
		l.MeasurePredictions(with, Truth{Classes: []int32{2, 1, -1}}, want, predicted)
		assert.Near(t, float64(loss[0]), float64(want[0]), 1e-6, "%s", l.Name)
		assert.True(t, loss[0] >= 0.9 && loss[2] == 0, "%s: losses of an unknown class, a class and no label are %v", l.Name, loss)
		score := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{2, -1, 0.5, 0.5}}
		of, predicted := make([]float32, 2), predicted[:2]
		l.Measure(score, Truth{Classes: []int32{Unknown, Unknown}}, of, predicted, new(Scratch))
		l.MeasurePredictions(score, Truth{Classes: []int32{Unknown, Unknown}}, loss[:2], predicted)
		assert.True(t, slices.Equal(of, loss[:2]), "%s: scores lose %v, their predictions %v", l.Name, of, loss[:2])
	}
}

// What predictions lose is what the scores lose that they are of, for rows of one label and for targets. Predictions stay as they are.
func TestMeasurePredictions(t *testing.T) {
	const n, k = 65, 3
	targets := kernel.NewDense(n, k)
	for i := range targets.Data {
		targets.Data[i] = float32(i % 2)
	}
	for _, l := range All() {
		for _, truth := range []Truth{{Classes: classesOf(n, k)}, {Classes: classesOf(n, k), Targets: targets}} {
			if truth.Targets.Rows > 0 && !l.Suits(Hypercube) {
				continue
			}
			prediction, s := oracle.Normals(4, n, k, 1), new(Scratch)
			losses, measured, of, predicted := make([]float32, n), make([]float32, n), make([]int32, n), make([]int32, n)
			l.Measure(prediction, truth, losses, of, s)
			before := clone(prediction)
			l.MeasurePredictions(prediction, truth, measured, predicted)
			assert.True(t, slices.Equal(predicted, of) && slices.Equal(prediction.Data, before.Data),
				"%s: other classes, or other predictions", l.Name)
			for i := range losses {
				assert.Near(t, float64(measured[i]), float64(losses[i]), 1e-5, "%s: loss of row %d", l.Name, i)
			}
		}
	}
	certain := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{0, 1}}
	for _, l := range []Link{softmax(), logistic()} {
		loss := make([]float32, 1)
		l.MeasurePredictions(certain, Truth{Classes: []int32{0}}, loss, make([]int32, 1))
		assert.True(t, loss[0] > 13 && !math.IsInf(float64(loss[0]), 0), "%s: a certain mistake loses %v", l.Name, loss[0])
	}
}

// A temperature above 1 makes predictions less confident, and one below 1 more, of the links whose scores are logarithms. The order of the
// classes stays, and 1 changes no bit.
func TestTemperature(t *testing.T) {
	for _, l := range All() {
		want := l.Name == "softmax" || l.Name == "logistic"
		assert.True(t, l.HasTemperature() == want, "%s has a temperature: %v", l.Name, l.HasTemperature())
		if !l.HasTemperature() {
			continue
		}
		predicted := func(temperature float64) []float32 {
			score := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{2, -1, 0.5}}
			Temper(score, temperature)
			l.Predict(score)
			return score.Data
		}
		plain := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{2, -1, 0.5}}
		l.Predict(plain)
		got := predicted(1)
		assert.True(t, slices.Equal(got, plain.Data), "%s: at temperature 1 %v is predicted, without %v", l.Name, got, plain.Data)
		hot, cold := predicted(2), predicted(0.5)
		assert.True(t, hot[0] < plain.Data[0] && plain.Data[0] < cold[0] && Largest(hot) == 0 && Largest(cold) == 0,
			"%s: %v at temperature 2, %v at 1, %v at 0.5", l.Name, hot, plain.Data, cold)
	}
	score := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{3, 0}}
	Temper(score, 1.5)
	assert.True(t, math.Abs(float64(score.Data[0]-2)) <= 1e-6, "3 at temperature 1.5 is %v", score.Data[0])
}

// The temperatures that are compared ascend, and have 1 among them: a choice may leave scores as they are.
func TestTemperaturesHaveOne(t *testing.T) {
	all := Temperatures()
	assert.True(t, slices.IsSorted(all) && slices.Contains(all, 1), "temperatures %v", all)
}

// A row whose truth is not known has no residual.
func TestResiduals(t *testing.T) {
	classes := Truth{Classes: []int32{1, -1, 0}}
	r := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{0.25, 0.75, 0.5, 0.5, 2, -1}}
	classes.Residuals(r)
	assert.Equal(t, r.Data, []float32{-0.25, 0.25, 0, 0, -1, 1}, "the residuals")
	numbers := Truth{Classes: []int32{0, -1, 0}, Targets: kernel.Dense{Rows: 3, Cols: 2, Data: []float32{1, 2, 3, 4, 5, 6}}}
	r = kernel.Dense{Rows: 3, Cols: 2, Data: []float32{0.25, 0.75, 0.5, 0.5, 2, -1}}
	numbers.Residuals(r)
	assert.Equal(t, r.Data, []float32{0.75, 1.25, 0, 0, 3, 7}, "the residuals of numbers")
	classes.Write(r)
	assert.Equal(t, r.Data, []float32{0, 1, 0, 0, 1, 0}, "the indicators")
	numbers.Write(r)
	assert.Equal(t, r.Data, []float32{1, 2, 0, 0, 5, 6}, "the numbers")
}

func TestProjections(t *testing.T) {
	for region, want := range map[Region][]float32{
		Simplex:   {0, 1, 0.25, 0.75},
		Hypercube: {0, 1, 0.25, 0.75},
		Space:     {-1, 2, 0.25, 0.75},
	} {
		x := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{-1, 2, 0.25, 0.75}}
		region.Project(x, new(Scratch))
		assert.Equal(t, x.Data, want, "region %d", region)
	}
}

// The residual of a softmax is y − softmax(score). A row without a label has none.
func ExampleTruth_Residuals() {
	score := kernel.Dense{Rows: 2, Cols: 4, Data: []float32{0, 0, 0, 0, 1, 2, 3, 4}}
	Named(Softmax).Predict(score)
	Truth{Classes: []int32{2, -1}}.Residuals(score)
	fmt.Printf("%.2f\n", score.Data)
	// Output: [-0.25 -0.25 0.75 -0.25 0.00 0.00 0.00 0.00]
}

// Algorithm 2 learns the link in the basis (z, z², z³).
func ExampleBasis_Expand() {
	var g kernel.Dense
	Basis(nil).Expand(&g, kernel.Dense{Rows: 1, Cols: 2, Data: []float32{2, -1}})
	fmt.Println(g.Data)
	// Output: [2 -1 4 1 8 -1]
}

func TestBasis(t *testing.T) {
	z := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{2, -3, 0, 0.5}}
	for _, test := range []struct {
		basis Basis
		want  []float32
	}{
		{nil, []float32{2, -3, 4, 9, 8, -27, 0, 0.5, 0, 0.25, 0, 0.125}},
		{Basis{1, 2, 3}, []float32{2, -3, 4, 9, 8, -27, 0, 0.5, 0, 0.25, 0, 0.125}},
		{Basis{1}, z.Data},
		{Basis{3}, []float32{8, -27, 0, 0.125}},
		{Basis{1, 3}, []float32{2, -3, 8, -27, 0, 0.5, 0, 0.125}},
	} {
		var g kernel.Dense
		test.basis.Expand(&g, z)
		assert.True(t, slices.Equal(g.Data, test.want) && g.Cols == 2*test.basis.Len(), "%v: G is %v, expected %v", test.basis, g.Data, test.want)
	}
	for _, basis := range []Basis{{}, {0}, {2, 1}, {1, 1}, {1, MaxPower + 1}} {
		assert.True(t, !basis.Valid(), "%v is valid", basis)
	}
}
