package solve

import (
	"errors"
	"math"
	"slices"

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
	w      []float32 // p × k; without the factor while the factor is auto
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

// errNoTrials means that there are no rows to choose a factor by.
var errNoTrials = errors.New("no holdout row has a label and a weight above 0, so the weight of class_counts can't be chosen: set " +
	"examples.holdout, or the weight")

// ChainWeight returns the factor of the logarithms of a counted stage of a chain; 1 if it is auto: the next stage is
// fitted to the residuals, so the predictions of this stage alone are not a criterion.
func ChainWeight(w schemas.Weight) schemas.Weight {
	if w == schemas.WeightAuto {
		return 1
	}
	return w
}

// Weight returns the factor of the logarithms.
func (c *counted) Weight() schemas.Weight { return c.weight }

func (c *counted) Observe(v int, _ Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses := statistics.LossesOf(sums)
	if c.visit = v; losses[examples.Train].Weight <= 0 {
		return nil, errNoWeight
	}
	var err error
	if v == 0 {
		c.weight = c.stage.Features.Weight
		if c.counts, err = sums.Shaped(statistics.FieldCounts, c.shape.Columns, c.shape.Classes); err == nil {
			err = c.count()
		}
	} else if c.weight, err = bestWeight(sums); err == nil {
		c.multiply()
	}
	return &Evaluation{Number: v + 1, Objective: losses[examples.Train].MeanLoss(), Accepted: true}, err
}

// count computes the weights, without an auto factor. Outside a chain, the logarithms are scaled so that all classes have the same mean
// magnitude, and multiplied by √(1 − H/log k), where H is the entropy of the class given the input. The counts of H include one more row,
// the class shares, so that a rare input does not seem more informative than it is. The intercept has the logarithms of the class weights.
func (c *counted) count() error {
	k, smoothing := c.shape.Classes, float64(smoothing)
	if c.shape.Chained {
		c.weight, smoothing = ChainWeight(c.weight), ChainSmoothing
	}
	sums := make([]float64, k)
	for i, n := range c.counts[:c.shape.Penalised*k] {
		sums[i%k] += n
	}
	rows := func(column int) []float64 { return c.counts[column*k:][:k] }
	of, err := newBayes(rows, sums, c.shape, smoothing)
	if err != nil {
		return err
	}
	if c.shape.Chained {
		c.w, err = of.weights(allColumns(c.shape.Columns), times(float64(c.weight)))
		return err
	}
	if c.w, err = of.weights(allColumns(c.shape.Columns), informed(of, sums)); err == nil && c.weight != schemas.WeightAuto {
		c.multiply()
	}
	return err
}

// multiply multiplies the weights by the factor. A configured factor gives the same bits as an equal chosen one.
func (c *counted) multiply() {
	w := slices.Clone(c.w) // those without the factor may be published
	for i, v := range w {
		w[i] = float32(float64(v) * float64(c.weight))
	}
	c.w = w
}

func (c *counted) Next() (Step, error) {
	switch {
	case c.weight == schemas.WeightAuto:
		return Step{W: c.w}, nil
	case c.shape.Chained:
		return Step{W: c.w, Counts: narrow(c.counts), Final: true, Of: c.visit}, nil
	}
	return Step{W: c.w, Final: true, Of: c.visit + 1}, nil
}

// informed returns the function that scales the logarithms of inputs by magnitude and information, given the counts of each class over all
// inputs. Inputs without any counts have no information.
func informed(of *bayes, sums []float64) func(column int, row []float64) {
	k, all := len(sums), sumOf(sums)
	parts := make([]float64, k)
	for class, n := range sums {
		parts[class] = n / all
	}
	magnitudes := sumsByClass(of.inputs, k, func(from, to int, sums []float64) {
		row := make([]float64, k)
		for j := from; j < to; j++ {
			of.write(row, j)
			for class, v := range row {
				sums[class] += math.Abs(v)
			}
		}
	})
	mean := sumOf(magnitudes) / float64(k)
	return func(column int, row []float64) {
		if column >= of.inputs {
			return
		}
		tells := 0.0
		if all > 0 {
			tells = math.Sqrt(information(of.counts(column), parts))
		}
		for class, m := range magnitudes {
			if m > 0 {
				row[class] *= mean / m * tells
			}
		}
	}
}

// information returns 1 − H/log k of the counts (k) of an input, and 0 for a single class. parts are the shares of the
// classes, with sum 1.
func information(counts, parts []float64) float64 {
	if len(counts) < 2 {
		return 0
	}
	sum, entropy := sumOf(counts)+1, 0.0
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
		return 0, errNoTrials
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
