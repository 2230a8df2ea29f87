package solve

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
