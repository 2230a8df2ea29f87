package solve

import (
	"math"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// counted computes the weights of a stage from counts, without a fit: those of multinomial naive Bayes, each scaled by
// the information of its input about the class (Σ w x yᵀ is a sum, so one visit suffices). A ridge regression handles
// correlated words well but rare ones poorly; naive Bayes is the opposite, so their sum predicts better than either.
// See fit_text in the oracle sparse.py for the sources. Another visit chooses the factor of the scores by holdout rows,
// which neither has seen.
//
// It uses no ridge, no method and no passes.
type counted struct {
	common
	visit  int
	w      []float32 // p × k, before the factor
	counts []float64 // p × k, in a run of a chain
	weight schemas.Weight
}

const (
	// smoothing is added to each count, to avoid the logarithm of 0. The values of NEWS20, scaled to unit length, have
	// a mean of 0.08. There, after a ridge regression, the mean error of six random splits is the same within 0.03
	// points for 0.0001 to 0.003, and larger by 0.06 for 0.01, and by 0.14 for 0.03.
	smoothing = 0.001
	// trials is the number of factors that are tried besides 0, from 2^firstTrial on, each √2 times the previous one:
	// rows may have length 1, or be counts of thousands of words.
	trials     = 41
	firstTrial = -16
)

// CountWeights returns the factors that are tried with holdout rows, ascending from 0.
func CountWeights() []float64 {
	weights := make([]float64, 1, 1+trials)
	for i := range trials {
		weights = append(weights, math.Exp2(firstTrial+float64(i)/2))
	}
	return weights
}

// TrialFields is the number of columns of the tensor trials: Σw, Σw of wrong rows, Σw·loss.
const TrialFields = 3

// NoTrialsError means that there are no rows to choose a factor by.
type NoTrialsError struct{}

func (NoTrialsError) Error() string {
	return "no holdout row has a label and a weight above 0, so the weight of class_counts can't be chosen: set " +
		"examples.holdout, or the weight"
}

// ChainWeight returns the factor of the logarithms of a counted stage of a chain; 1 if it is auto: the next stage is
// fitted to the residuals, so the predictions of this stage alone are no criterion.
func ChainWeight(w schemas.Weight) schemas.Weight {
	if w == schemas.WeightAuto {
		return 1
	}
	return w
}

// countsOf returns the counts of a column (k).
func (c *counted) countsOf(column int) []float64 {
	return c.counts[column*c.shape.Classes:][:c.shape.Classes]
}

// Ridge returns 0: the weights are not fitted.
func (c *counted) Ridge() schemas.Ridge { return 0 }

// Weight returns the factor of the logarithms.
func (c *counted) Weight() schemas.Weight { return c.weight }

func (c *counted) Observe(v int, _ Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses := statistics.LossesOf(sums)
	if c.visit = v; losses[examples.Train].Weight <= 0 {
		return nil, NoWeightError{}
	}
	var err error
	if c.shape.Chained {
		c.weight = ChainWeight(c.stage.Features.Weight)
		c.counts, err = sums.Shaped(statistics.FieldCounts, c.shape.Columns, c.shape.Classes)
	} else if v == 0 {
		c.weight = c.stage.Features.Weight
		c.w, err = c.logarithms(sums)
	} else {
		c.weight, err = bestWeight(sums)
	}
	return &Evaluation{Number: v + 1, Objective: losses[examples.Train].MeanLoss(), Accepted: true}, err
}

func (c *counted) Next() (Step, error) {
	if c.shape.Chained {
		w, err := countWeights(c.countsOf, c.shape, float64(c.weight))
		return Step{W: w, Counts: narrow(c.counts), Final: true, Of: c.visit}, err
	}
	if c.weight == schemas.WeightAuto {
		return Step{W: c.w}, nil
	}
	scaled := make([]float32, len(c.w))
	for i, w := range c.w {
		scaled[i] = float32(float64(w) * float64(c.weight))
	}
	return Step{W: scaled, Final: true, Of: c.visit + 1}, nil
}

// logarithms returns the weights before the factor (p × k): for each input the logarithms of its smoothed share of each
// class's counts, minus their mean; scaled so that all classes have the same mean magnitude; multiplied by √(1 − H/log
// k), where H is the entropy of the class given the input. The counts of H include one more row, the class shares, so
// that a rare input does not seem more informative than it is. The intercept has the logarithms of the class weights.
func (c *counted) logarithms(sums wire.Tensors[float64]) ([]float32, error) {
	p, inputs, k := c.shape.Columns, c.shape.Penalised, c.shape.Classes
	counts, err := sums.Shaped(statistics.FieldCounts, p, k)
	if err != nil {
		return nil, err
	}
	totals, all := make([]float64, k), 0.0
	for i, n := range counts[:inputs*k] {
		if n < 0 {
			return nil, &NegativeCountError{Input: i / k, Class: i % k}
		}
		totals[i%k] += n
	}
	for _, n := range totals {
		all += n
	}
	if !Finite(all) {
		return nil, &NotFiniteError{What: "the sum of the inputs"}
	}
	w, classes := make([]float64, p*k), make([]float64, k)
	for class, n := range totals {
		classes[class] = math.Log(n + smoothing*float64(inputs))
	}
	onCores(p, k, func(from, to int) {
		for j := from; j < to; j++ {
			row := w[j*k : (j+1)*k]
			for class := range row {
				row[class] = math.Log(counts[j*k+class] + smoothing)
				if j < inputs {
					row[class] -= classes[class]
				}
			}
			centre(row)
		}
	})
	if all == 0 {
		clear(w[:inputs*k]) // inputs without counts have no information
	} else {
		scaleCounted(w[:inputs*k], counts, totals, all)
	}
	return narrow(w), nil
}

// scaleCounted scales the weights of inputs (inputs × k), given their counts, the counts of all inputs (k) and the
// total, which is above 0.
func scaleCounted(w, counts, totals []float64, all float64) {
	k := len(totals)
	inputs := float64(len(w) / k)
	parts, magnitudes, mean := make([]float64, k), make([]float64, k), 0.0
	for class, total := range totals {
		parts[class] = total / all
	}
	for i, v := range w {
		magnitudes[i%k] += math.Abs(v) / inputs
	}
	for _, m := range magnitudes {
		mean += m / float64(k)
	}
	onCores(len(w)/k, k, func(first, end int) {
		for from := first * k; from < end*k; from += k {
			tells := math.Sqrt(information(counts[from:from+k], parts))
			for class, m := range magnitudes {
				if m > 0 {
					w[from+class] *= mean / m * tells
				}
			}
		}
	})
}

// information returns 1 − H/log k of the counts (k) of an input, and 0 for a single class. parts are the shares of the
// classes, with sum 1.
func information(counts, parts []float64) float64 {
	if len(counts) < 2 {
		return 0
	}
	sum := 0.0
	for class, n := range counts {
		sum += n + parts[class]
	}
	entropy := 0.0
	for class, n := range counts {
		if part := (n + parts[class]) / sum; part > 0 {
			entropy -= part * math.Log(part)
		}
	}
	return max(1-entropy/math.Log(float64(len(counts))), 0)
}

// bestWeight returns the factor with the fewest wrong holdout rows; ties go to the smallest loss.
func bestWeight(sums wire.Tensors[float64]) (schemas.Weight, error) {
	weights := CountWeights()
	tried, err := sums.Shaped(statistics.FieldTrials, len(weights), TrialFields)
	if err != nil {
		return 0, err
	}
	if tried[0] <= 0 {
		return 0, NoTrialsError{}
	}
	best := 0
	for i := range weights {
		wrong, loss := tried[i*TrialFields+1], tried[i*TrialFields+2]
		if least := tried[best*TrialFields+1]; wrong < least || wrong == least && loss < tried[best*TrialFields+2] {
			best = i
		}
	}
	return schemas.Weight(weights[best]), nil
}
