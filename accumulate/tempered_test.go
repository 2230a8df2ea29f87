package accumulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
)

// overconfident returns rows with scores that are three times as large as the odds of their classes.
func overconfident(r *rand.Rand, n, k int) (Rows, kernel.Dense) {
	rows, scores := Rows{Task: examples.OneLabel}, kernel.NewDense(n, k)
	for i := range n {
		score, sum := scores.Row(i), 0.0
		for c := range score {
			score[c] = float32(1.5 * r.NormFloat64())
			sum += math.Exp(float64(score[c]))
		}
		class, left := int32(0), r.Float64()*sum
		for c := range score {
			if left -= math.Exp(float64(score[c])); left <= 0 {
				class = int32(c)
				break
			}
		}
		for c := range score {
			score[c] *= 3
		}
		rows.Classes, rows.Weights = append(rows.Classes, class), append(rows.Weights, float32(1+i%3))
		rows.Splits = append(rows.Splits, examples.Holdout)
	}
	return rows, scores
}

// The temperature with the lowest loss of the holdout rows is that by which their scores are too large, and the loss is that of tempered
// scores. Sums over parts are those over all rows. Rows of other splits, without a label or a weight do not count.
func TestTemperatureOfHoldoutRows(t *testing.T) {
	const n = 3000
	l := link.Named(link.Softmax)
	rows, scores := overconfident(rand.New(rand.NewPCG(1, 1)), n, 3)
	others, wrong := overconfident(rand.New(rand.NewPCG(2, 2)), n, 3)
	for i := range n {
		switch i % 3 {
		case 0:
			others.Splits[i] = []examples.Split{examples.Train, examples.Test}[i%2]
		case 1:
			others.Classes[i] = examples.Unlabelled
		default:
			others.Weights[i] = 0
		}
		wrong.Row(i)[0] = 100
	}
	sum, tempered := &Sum{}, &Tempered{}
	losses, predicted := make([]float32, n), make([]int32, n)
	tempered.Add(sum, others, wrong, l)
	for from := 0; from < n; from += 700 {
		to := min(from+700, n)
		tempered.Add(sum, rows.Slice(from, to), scores.Slice(from, to), l)
	}
	sum.AddLosses(rows, losses, predicted, scores)
	sum.AddLosses(others, losses, predicted, scores)
	temperature, loss, ok := sum.TemperedOf()
	if !ok || temperature != 3 {
		t.Fatalf("temperature %v, %v, expected 3", temperature, ok)
	}
	want, weight := 0.0, 0.0
	for i := range n {
		odds := 0.0
		for _, s := range scores.Row(i) {
			odds += math.Exp(float64(s) / 3)
		}
		w := float64(rows.Weights[i])
		want += w * (math.Log(odds) - float64(scores.Row(i)[rows.Classes[i]])/3)
		weight += w
	}
	if want /= weight; math.Abs(loss-want) > 1e-5 {
		t.Errorf("loss %v, expected %v", loss, want)
	}
}

// Without holdout rows, or with scores that overflow, there is no temperature.
func TestNoTemperature(t *testing.T) {
	l, tempered := link.Named(link.Softmax), &Tempered{}
	rows, scores := overconfident(rand.New(rand.NewPCG(3, 3)), 10, 2)
	for name, test := range map[string]struct {
		split examples.Split
		score float32
	}{"no holdout rows": {examples.Train, 1}, "overflow": {examples.Holdout, float32(math.NaN())}} {
		sum := &Sum{}
		rows.Splits = slices.Repeat([]examples.Split{test.split}, 10)
		scores.Row(4)[1] = test.score
		tempered.Add(sum, rows, scores, l)
		sum.AddLosses(rows, make([]float32, 10), make([]int32, 10), scores)
		if temperature, _, ok := sum.TemperedOf(); ok {
			t.Errorf("%s: temperature %v", name, temperature)
		}
	}
	if _, _, ok := (&Sum{}).TemperedOf(); ok {
		t.Error("no sums have a temperature")
	}
}
