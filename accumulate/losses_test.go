package accumulate

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// predicted is the rows of a message with their probabilities, losses and predicted classes.
type predicted struct {
	Rows
	probabilities kernel.Dense
	loss          []float32
	class         []int32
}

func predictions(r *rand.Rand, n, k int) predicted {
	p := predicted{
		Rows{Truth: link.Truth{Classes: make([]int32, n)}, Weights: make([]float32, n), Splits: make([]examples.Split, n),
			Fitted: make([]float32, n)},
		kernel.NewDense(n, k), make([]float32, n), make([]int32, n),
	}
	for i := range n {
		p.Classes[i] = int32(r.IntN(k+1)) - 1
		p.Weights[i], p.Splits[i] = float32(r.IntN(4))/2, examples.Split(r.IntN(examples.Splits))
		p.loss[i] = r.Float32()
		sum, row := float32(0), p.probabilities.Row(i)
		for c := range row {
			row[c] = float32(r.ExpFloat64() * r.ExpFloat64())
			sum += row[c]
		}
		for c := range row {
			if row[c] /= sum; row[c] > row[p.class[i]] {
				p.class[i] = int32(c)
			}
		}
		if i%10 == 0 && k > 1 { // a wrong prediction of probability 1
			clear(row)
			row[1], p.class[i], p.Classes[i] = 1, 1, 0
		}
	}
	return p
}

func TestLossesAndQualityAgainstTheirDefinitions(t *testing.T) {
	for _, k := range []int{1, 2, 7} {
		r := rand.New(rand.NewPCG(uint64(k), 1))
		sum, all := &Sum{}, []predicted{}
		for _, n := range []int{100, 0, 301} {
			p := predictions(r, n, k)
			sum.AddLosses(p.Rows, p.loss, p.class, p.probabilities)
			sum.AddQuality(p.Rows, p.probabilities, p.class)
			all = append(all, p)
		}
		for split := range examples.Split(examples.Splits) {
			var want statistics.Losses
			var quality Quality
			var bins [15][2]float64
			confusion := make([][]int64, k)
			for c := range confusion {
				confusion[c] = make([]int64, k)
			}
			for _, p := range all {
				for i, class := range p.Classes {
					if class < 0 || p.Splits[i] != split {
						continue
					}
					w, right := float64(p.Weights[i]), p.class[i] == class
					want.Weight, want.Rows, want.Loss = want.Weight+w, want.Rows+1, want.Loss+w*float64(p.loss[i])
					if !right {
						want.Errors += w
					}
					row := p.probabilities.Row(i)
					quality.LogLoss -= w * math.Log(max(float64(row[class]), 1e-6))
					for c, v := range row {
						y := 0.0
						if c == int(class) {
							y = 1
						}
						d := (float64(v) - y) * (float64(v) - y)
						if k == 2 { // scikit-learn's brier_score_loss takes the probability of one of two classes
							d /= 2
						}
						quality.Brier += w * d
					}
					confidence := float64(row[p.class[i]])
					bin := int(min(math.Floor(15*confidence), 14))
					bins[bin][0] += w * confidence
					if right {
						bins[bin][1] += w
					}
					confusion[class][p.class[i]]++
				}
			}
			for _, b := range bins {
				quality.ECE += math.Abs(b[0]-b[1]) / want.Weight
			}
			near := func(what string, got, want float64) {
				assert.Near(t, got, want, 1e-9*(1+want), "%d classes, %v: %s", k, split, what)
			}
			got, q := statistics.LossesOf(sum.Tensors())[split], sum.QualityOf(split, k)
			near("weight", got.Weight, want.Weight)
			near("rows", got.Rows, want.Rows)
			near("errors", got.Errors, want.Errors)
			near("loss", got.Loss, want.Loss)
			near("log loss", q.LogLoss, quality.LogLoss/want.Weight)
			near("Brier score", q.Brier, quality.Brier/want.Weight)
			near("calibration error", q.ECE, quality.ECE)
			for c, row := range confusion {
				for d, n := range row {
					assert.Equal(t, q.Confusion[c][d], n, "rows of class %d that are predicted as %d", c, d)
				}
			}
		}
	}
}

func TestQualityOfNothing(t *testing.T) {
	sum := &Sum{}
	q := sum.QualityOf(examples.Test, 3)
	assert.True(t, q.LogLoss == 0 && q.Confusion == nil, "the quality of no rows is %+v", q)
	p := predictions(rand.New(rand.NewPCG(1, 1)), 50, 2)
	for i := range p.Splits {
		p.Splits[i] = examples.Train
	}
	sum.AddLosses(p.Rows, p.loss, p.class, p.probabilities)
	sum.AddQuality(p.Rows, p.probabilities, p.class)
	q = sum.QualityOf(examples.Test, 2)
	assert.True(t, q.LogLoss == 0 && q.Confusion == nil, "the quality of an empty split is %+v", q)
}

func TestVeryManyClassesHaveNoConfusion(t *testing.T) {
	const k = maxConfusionClasses + 1
	sum, p := &Sum{}, predictions(rand.New(rand.NewPCG(1, 1)), 20, k)
	sum.AddLosses(p.Rows, p.loss, p.class, p.probabilities)
	sum.AddQuality(p.Rows, p.probabilities, p.class)
	q := sum.QualityOf(examples.Train, k)
	assert.True(t, q.Confusion == nil && q.LogLoss > 0, "the quality is %+v", q)
}

// A loss that has overflown makes the losses of its own split NaN. If its row has weight 0 it changes nothing.
func TestOverflow(t *testing.T) {
	nan := float32(math.NaN())
	rows := Rows{Truth: link.Truth{Classes: []int32{0, 1, 0}}, Weights: []float32{1, 1, 0}, Splits: []examples.Split{examples.Train,
		examples.Test, examples.Train}}
	probabilities := kernel.Dense{Rows: 3, Cols: 2, Data: []float32{0.5, 0.5, nan, nan, nan, nan}}
	sum := &Sum{}
	sum.AddLosses(rows, []float32{0.5, nan, nan}, []int32{0, 0, 0}, probabilities)
	sum.AddQuality(rows, probabilities, []int32{0, 0, 0})
	losses := statistics.LossesOf(sum.Tensors())
	assert.Equal(t, losses[examples.Train], statistics.Losses{Weight: 1, Rows: 2, Loss: 0.5}, "the training rows")
	assert.True(t, math.IsNaN(losses[examples.Test].Loss), "the test rows are %+v", losses[examples.Test])
	q := sum.QualityOf(examples.Train, 2)
	assert.True(t, math.Abs(q.LogLoss-math.Ln2) <= 1e-12 && math.Abs(q.Brier-0.25) <= 1e-12, "the training rows' quality is %+v", q)
}

// The squares of residuals and weights are summed over the rows that are fitted, whatever the others hold.
func TestResidual(t *testing.T) {
	residual := kernel.Dense{Rows: 4, Cols: 2, Data: []float32{3, 4, float32(math.NaN()), 1, 0.5, 0, float32(math.Inf(1)), 0}}
	sum := &Sum{}
	sum.AddResidual(residual.Slice(0, 3), []float32{2, 0, 0.5})
	sum.AddResidual(residual.Slice(3, 4), []float32{0})
	assert.Equal(t, sum.Field(statistics.FieldResidual, 2), []float64{2*25 + 0.5*0.25, 4.25}, "the sums")
}

// Distances are those of their definitions, in the units of the numbers, over two messages. Rows without weight or numbers count nowhere.
func TestDistances(t *testing.T) {
	rows := func(targets []float32, weights []float32, classes []int32) Rows {
		n := len(weights)
		return Rows{
			Truth: link.Truth{Classes: classes, Targets: kernel.Dense{Rows: n, Cols: 2, Data: targets}}, Task: examples.Numbers, Weights: weights,
			Splits: make([]examples.Split, n),
		}
	}
	nan := float32(math.NaN())
	sum := &Sum{}
	for _, m := range []struct {
		Rows
		prediction []float32
	}{
		{rows([]float32{1, 0, 3, 0, 9, 9}, []float32{1, 1, 0}, []int32{0, 0, 0}), []float32{2, 0, 3, 0, nan, nan}},
		{rows([]float32{5, 0, 0, 0}, []float32{2, 1}, []int32{0, examples.Unlabelled}), []float32{4, 0, nan, nan}},
	} {
		prediction := kernel.Dense{Rows: len(m.Weights), Cols: 2, Data: m.prediction}
		sum.AddLosses(m.Rows, make([]float32, len(m.Weights)), nil, prediction)
		sum.AddQuality(m.Rows, prediction, nil)
	}
	l := statistics.LossesOf(sum.Tensors())[examples.Train]
	assert.True(t, l.Weight == 4 && l.Rows == 4 && math.Abs(l.Errors-1.5) <= 1e-12, "%+v", l)
	// The first number: y is 1, 3, 5, 5, errors are −1, 0, 1, 1.
	all, each := sum.DistancesOf(examples.Train, []float32{10, 1})
	want := statistics.Distances{RMSE: 10 * math.Sqrt(0.75), MAE: 7.5, R2: 1 - 3.0/11}
	d := each[0]
	assert.True(t, max(math.Abs(d.RMSE-want.RMSE), math.Abs(d.MAE-want.MAE), math.Abs(d.R2-want.R2)) <= 1e-9, "%+v, expected %+v", d, want)
	assert.Equal(t, each[1], statistics.Distances{R2: 1}, "distances without an error")
	off := max(math.Abs(all.RMSE-want.RMSE/2), math.Abs(all.MAE-want.MAE/2), math.Abs(all.R2-(want.R2+1)/2))
	assert.True(t, off <= 1e-9, "the means are %+v", all)
	all, each = sum.DistancesOf(examples.Test, []float32{10, 1})
	assert.True(t, all == nil && each == nil, "a split without rows has %+v", all)
}

// overconfident returns rows with scores that are three times as large as the odds of their classes.
func overconfident(r *rand.Rand, n, k int) (Rows, kernel.Dense) {
	rows, scores := Rows{Task: examples.OneLabel, Fitted: make([]float32, n)}, kernel.NewDense(n, k)
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
	assert.Need(t, ok && temperature == 3, "temperature %v, %v, expected 3", temperature, ok)
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
	want /= weight
	assert.Near(t, loss, want, 1e-5, "loss")
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
		temperature, _, ok := sum.TemperedOf()
		assert.True(t, !ok, "%s: temperature %v", name, temperature)
	}
	_, _, ok := (&Sum{}).TemperedOf()
	assert.True(t, !ok, "no sums have a temperature")
}
