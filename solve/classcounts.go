package solve

import (
	"errors"
	"fmt"
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

// Weights from counts are those of multinomial naive Bayes. In a stage that is trained alone, each is scaled by the information of its
// input: see [counted]. In a chain they are not: the next stage is fitted to their residuals, on rows whose own counts are excluded, so it
// learns the importance of each input. Measured on NEWS20 as a stream of 500 rows an update, the prequential error is 16.2 % with them,
// and 17.9 % without (the oracle online.py).

// ChainSmoothing is added to each count in a chain, which starts with few rows.
const ChainSmoothing = 0.1

// bayes turns counts into weights.
type bayes struct {
	counts    func(column int) []float64 // of a column (k); nil: it has none
	inputs    int                        // the leading columns; the intercept may follow
	smoothing float64                    // added to each count
	totals    []float64                  // the logarithms of each class's counts over all inputs, minus their mean
}

// newBayes returns the weights of a shape's counts. sums are the counts of each class over all inputs.
func newBayes(counts func(column int) []float64, sums []float64, shape Shape, smoothing float64) (*bayes, error) {
	totals, err := totalLogs(sums, shape.Penalised, smoothing)
	return &bayes{counts, shape.Penalised, smoothing, totals}, err
}

// totalLogs returns the logarithms of the counts of each class over the given number of inputs (k), minus their mean.
func totalLogs(sums []float64, inputs int, smoothing float64) ([]float64, error) {
	logs := make([]float64, len(sums))
	for class, n := range sums {
		if !Finite(n) {
			return nil, &NotFiniteError{What: "the sum of the inputs"}
		}
		logs[class] = math.Log(max(n, 0) + smoothing*float64(inputs))
	}
	centre(logs)
	return logs, nil
}

// write writes the logarithms of each class's share of the counts of a column, minus their mean, into row (k).
func (b *bayes) write(row []float64, column int) {
	clear(row)
	if counts := b.counts(column); slices.ContainsFunc(counts, func(n float64) bool { return n != 0 }) {
		none := math.Log(b.smoothing)
		for class, n := range counts {
			if row[class] = none; n != 0 { // most counts are 0
				row[class] = math.Log(n + b.smoothing)
			}
		}
		centre(row)
	}
	if column < b.inputs {
		for class, total := range b.totals {
			row[class] -= total
		}
	}
}

// weights returns the weights of columns (a row of k for each). scale multiplies the logarithms of a column by their factors. An error
// means that a count is negative.
func (b *bayes) weights(columns []int32, scale func(column int, row []float64)) ([]float32, error) {
	for _, j := range columns {
		for class, n := range b.counts(int(j)) {
			if n < 0 {
				return nil, fmt.Errorf("the sum of the values of input %d in class %d is negative: features of counts need nonnegative values",
					j, class)
			}
		}
	}
	k := len(b.totals)
	w := make([]float32, len(columns)*k)
	onCores(len(columns), k, func(from, to int) {
		row := make([]float64, k)
		for i := from; i < to; i++ {
			b.write(row, int(columns[i]))
			scale(int(columns[i]), row)
			for class, v := range row {
				w[i*k+class] = float32(v)
			}
		}
	})
	return w, nil
}

// times returns the function for [bayes.weights] that multiplies all logarithms by a factor.
func times(factor float64) func(int, []float64) {
	return func(_ int, row []float64) {
		for class := range row {
			row[class] *= factor
		}
	}
}

// allColumns returns 0 … n−1.
func allColumns(n int) []int32 {
	columns := make([]int32, n)
	for j := range columns {
		columns[j] = int32(j)
	}
	return columns
}

// CountsUpdate is a [Fit] of a counted stage in an update of a chain: one visit adds the counts of the new rows. The
// new weights predict from the next update on; the next stage is fitted to the residuals of the previous weights. It is
// not safe for concurrent use.
type CountsUpdate struct {
	settings
	shape  Shape
	sums   *SparseSums
	all    []int32              // columns of the examples, in the order of the block
	before *CountsBefore        // nil: all counts have changed
	terms  statistics.Occurring // the counts of the new training rows
	weight float64              // Σw of these
}

// CountsBefore is the state behind the previous version's weights, if few columns have changed since.
type CountsBefore struct {
	Totals  []float64 // k: over all inputs
	Inputs  int
	Changed []int32 // columns of the examples whose counts have changed since
}

// NewCountsUpdate returns the fit of a counted stage, given the counts of its window without those of increments that leave,
// and the columns of the examples in the order of the block.
func NewCountsUpdate(stage schemas.Stage, shape Shape, sums *SparseSums, columns []int32, before *CountsBefore) *CountsUpdate {
	stage.Ridge = 0
	return &CountsUpdate{settings: settings{stage}, shape: shape, sums: sums, all: columns, before: before}
}

// Weight returns the factor of the logarithms.
func (c *CountsUpdate) Weight() schemas.Weight { return ChainWeight(c.stage.Features.Weight) }

// Observe takes the reduced sums of the visit, and adds the counts of the new rows.
func (c *CountsUpdate) Observe(_ int, _ Step, sums wire.Tensors[float64]) (*Evaluation, error) {
	losses := statistics.LossesOf(sums)[examples.Train]
	counted, err := statistics.OccurringOf(sums, statistics.FieldCounted, c.shape.Columns, c.shape.Classes)
	if err != nil {
		return nil, err
	}
	c.terms, c.weight = c.sums.Terms(counted, c.all, 1), losses.Weight
	c.sums.Add(1, c.terms)
	return &Evaluation{Number: 1, Objective: losses.MeanLoss(), Accepted: true}, nil
}

// Next returns the weights that include the new rows: if the previous state is known, those of columns with changed counts, and the
// shift of all others.
func (c *CountsUpdate) Next() (step Step, err error) {
	weight := float64(c.Weight())
	of, err := newBayes(c.countsOf, c.sums.Totals(), c.shape, ChainSmoothing)
	if err != nil {
		return step, err
	}
	step.Final = true
	if c.before == nil {
		step.W, err = of.weights(allColumns(c.shape.Columns), times(weight))
		return step, err
	}
	before, err := totalLogs(c.before.Totals, c.before.Inputs, ChainSmoothing)
	if err != nil {
		return step, err
	}
	step.Shift, step.Occurring = make([]float32, len(before)), []int32{}
	for class, l := range before {
		step.Shift[class] = float32(weight * (l - of.totals[class]))
	}
	changed := slices.Concat(c.before.Changed, c.terms.Columns)
	slices.Sort(changed)
	for _, column := range slices.Compact(changed) {
		if at, is := slices.BinarySearch(c.all[:c.shape.Columns], column); is {
			step.Occurring = append(step.Occurring, int32(at))
		}
	}
	step.Rows, err = of.weights(step.Occurring, times(weight))
	return step, err
}

// countsOf returns the counts of a column of the block (k); nil: there are none.
func (c *CountsUpdate) countsOf(column int) []float64 { return c.sums.Row(c.all[column]) }

// After returns the counts of the new rows, which are now part of the sums, and Σw of these rows.
func (c *CountsUpdate) After() (statistics.Occurring, float64) { return c.terms, c.weight }
