package accumulate

import (
	"math"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Rows describes the n rows of a message, or of a part of it.
type Rows struct {
	link.Truth                  // true class or targets of each row; unknown for a row with a negative class
	Task       examples.Task    // the type of the predictions
	Weights    []float32        // weight of each row, of any split
	Splits     []examples.Split // split of each row
	Fitted     []float32        // training weight of each row, 0 for other rows
}

// Slice returns the rows from (included) to to (excluded). It shares their memory.
func (r Rows) Slice(from, to int) Rows {
	part := Rows{Truth: link.Truth{Classes: r.Classes[from:to]}, Task: r.Task, Weights: r.Weights[from:to], Splits: r.Splits[from:to],
		Fitted: r.Fitted[from:to]}
	if r.Targets.Rows > 0 {
		part.Targets = r.Targets.Slice(from, to)
	}
	return part
}

// Repeat appends a copy of row i.
func (r *Rows) Repeat(i int) {
	r.Classes, r.Splits = append(r.Classes, r.Classes[i]), append(r.Splits, r.Splits[i])
	r.Weights, r.Fitted = append(r.Weights, r.Weights[i]), append(r.Fitted, r.Fitted[i])
	if r.Targets.Rows > 0 {
		r.Targets.Data = append(r.Targets.Data, r.Targets.Row(i)...)
		r.Targets.Rows++
	}
}

// AddRows counts the labelled rows of each split, with no loss and no wrong row.
func (s *Sum) AddRows(rows Rows) {
	s.AddLosses(rows, make([]float32, len(rows.Classes)), rows.Classes, rows.Targets)
}

// AddLosses adds the labelled rows to the losses of their splits. loss is the loss of each row, predicted its predicted
// class, and prediction its prediction (n × k), which is not used for rows with one label.
func (s *Sum) AddLosses(rows Rows, loss []float32, predicted []int32, prediction kernel.Dense) {
	splits := s.Field(statistics.FieldSplits, examples.Splits, statistics.LossFields)
	for i, class := range rows.Classes {
		if class < 0 {
			continue
		}
		at := splits[int(rows.Splits[i])*statistics.LossFields:]
		w := float64(rows.Weights[i])
		at[1]++
		if w == 0 {
			continue // 0 times an overflowed loss would be NaN
		}
		at[0] += w
		at[2] += w * rows.Wrong(i, predicted, prediction)
		at[3] += w * float64(loss[i])
	}
}

// Wrong returns the error of the prediction of a labelled row: 0 or 1 with one label; with several labels, the fraction
// of labels on the wrong side of 1/2; with standardised numbers, the mean squared error, which is about 1 if each
// prediction is the mean.
func (r Rows) Wrong(row int, predicted []int32, prediction kernel.Dense) float64 {
	if r.Task == examples.OneLabel {
		if predicted[row] != r.Classes[row] {
			return 1
		}
		return 0
	}
	target, guess, sum := r.Targets.Row(row), prediction.Row(row), 0.0
	for c, y := range target {
		if r.Task == examples.Numbers {
			d := float64(y) - float64(guess[c])
			sum += d * d
		} else if guess[c] > 0.5 != (y > 0.5) {
			sum++
		}
	}
	return sum / float64(len(target))
}

// AddResidual adds the squared lengths of the residuals (n × k) of n rows, and the squares of their weights, to the field
// residual. Rows that are not fitted have weight 0 and may hold any values.
func (s *Sum) AddResidual(residual kernel.Dense, weights []float32) {
	sums := s.Field(statistics.FieldResidual, 2)
	for i, w := range weights {
		if w := float64(w); w != 0 {
			sums[0] += w * float64(kernel.SquaredLength(residual.Row(i)))
			sums[1] += w * w
		}
	}
}

// distanceFields is the number of sums of the errors of a number.
const distanceFields = 4

// AddDistances adds the errors of the predictions (n × k) of standardised numbers in the labelled rows.
func (s *Sum) AddDistances(rows Rows, prediction kernel.Dense) {
	k := prediction.Cols
	sums := s.Field(statistics.FieldDistances, examples.Splits, k, distanceFields)
	for i, class := range rows.Classes {
		w := float64(rows.Weights[i])
		if class < 0 || w == 0 {
			continue
		}
		at := sums[int(rows.Splits[i])*k*distanceFields:]
		target, predicted := rows.Targets.Row(i), prediction.Row(i)
		for c := range target {
			y, sum := float64(target[c]), at[c*distanceFields:][:distanceFields]
			e := y - float64(predicted[c])
			sum[0] += w * e * e
			sum[1] += w * math.Abs(e)
			sum[2] += w * y
			sum[3] += w * y * y
		}
	}
}

// DistancesOf returns the errors of the predictions of k numbers in the rows of a split, in units of scale (k): the
// means over all numbers, and the errors of each number. It returns nil if the split has no labelled rows.
func (s *Sum) DistancesOf(split examples.Split, scale []float32) (all *statistics.Distances, each []statistics.Distances) {
	weight, k := statistics.LossesOf(s.fields)[split].Weight, len(scale)
	if weight == 0 {
		return nil, nil
	}
	sums := s.read(statistics.FieldDistances, examples.Splits, k, distanceFields)[int(split)*k*distanceFields:]
	all = &statistics.Distances{}
	for c, unit := range scale {
		at, unit := sums[c*distanceFields:], float64(unit)
		d := statistics.Distances{RMSE: unit * math.Sqrt(at[0]/weight), MAE: unit * at[1] / weight}
		// Constant numbers have no variance: R2 is 1 if all predictions are right, otherwise 0, as in scikit-learn's r2_score.
		switch variance := at[3] - at[2]*at[2]/weight; {
		case variance > 1e-12*at[3]:
			d.R2 = 1 - at[0]/variance
		case at[0] == 0:
			d.R2 = 1
		}
		each = append(each, d)
		all.RMSE, all.MAE, all.R2 = all.RMSE+d.RMSE/float64(k), all.MAE+d.MAE/float64(k), all.R2+d.R2/float64(k)
	}
	return all, each
}

// AddTargets adds the weights of the rows, and the weighted sums of their numbers (n × k) minus shift (k) and of the
// squares of these differences. Rows that are not fitted have weight 0. Moments about a point near the mean keep the
// digits that raw moments lose.
func (s *Sum) AddTargets(targets, shift []float64, weights []float32) {
	k := len(shift)
	sums := s.Field(statistics.FieldTargets, 3, k)
	for i, w := range weights {
		if w == 0 {
			continue
		}
		for c, y := range targets[i*k : (i+1)*k] {
			y -= shift[c]
			sums[c] += float64(w)
			sums[k+c] += float64(w) * y
			sums[2*k+c] += float64(w) * y * y
		}
	}
}

// Chosen is a subset of the rows of a message, which is measured separately. The zero value is ready. It reuses its
// memory, and is not safe for concurrent use.
type Chosen struct {
	Places    []int // of the rows in the message, ascending
	Truth     link.Truth
	Loss      []float32 // space for the loss of each row
	Predicted []int32   // space for the class that each row predicts
}

// Choose chooses the rows of a split that have a label and a weight. truth has the true classes or targets of all rows.
func (c *Chosen) Choose(rows Rows, truth link.Truth, split examples.Split) {
	c.Places, c.Truth.Classes = c.Places[:0], c.Truth.Classes[:0]
	for i, class := range truth.Classes {
		if class != examples.Unlabelled && rows.Splits[i] == split && rows.Weights[i] > 0 {
			c.Places, c.Truth.Classes = append(c.Places, i), append(c.Truth.Classes, class)
		}
	}
	n := len(c.Places)
	c.Loss, c.Predicted = slices.Grow(c.Loss[:0], n)[:n], slices.Grow(c.Predicted[:0], n)[:n]
	if c.Truth.Targets.Reshape(0, 0); truth.Targets.Rows > 0 {
		c.Gather(&c.Truth.Targets, truth.Targets)
	}
}

// Gather copies the chosen rows of a matrix with a row for each row of the message.
func (c *Chosen) Gather(dst *kernel.Dense, from kernel.Dense) {
	dst.Reshape(len(c.Places), from.Cols)
	for j, i := range c.Places {
		copy(dst.Row(j), from.Row(i))
	}
}

// Tempered sums the losses of holdout rows at several temperatures. The zero value is ready. It is not safe for concurrent
// use.
type Tempered struct {
	chosen   Chosen
	tempered kernel.Dense
	scratch  link.Scratch
}

// Add adds the losses of the labelled holdout rows among rows to a sum, at each of [link.Temperatures]. scores (n × k)
// are the scores behind the predictions.
func (t *Tempered) Add(sum *Sum, rows Rows, scores kernel.Dense, l link.Link) {
	c, temperatures := &t.chosen, link.Temperatures()
	c.Choose(rows, rows.Truth, examples.Holdout)
	sums := sum.Field(statistics.FieldTempered, len(temperatures))
	if len(c.Places) == 0 {
		return
	}
	for i, temperature := range temperatures {
		c.Gather(&t.tempered, scores)
		link.Temper(t.tempered, temperature)
		l.Measure(t.tempered, c.Truth, c.Loss, c.Predicted, &t.scratch)
		for j, loss := range c.Loss {
			sums[i] += float64(rows.Weights[c.Places[j]]) * float64(loss)
		}
	}
}

// TemperedOf returns the temperature with the lowest loss of the holdout rows, and the loss, from the sums of
// [Tempered.Add] and AddLosses; false without such sums.
func (s *Sum) TemperedOf() (temperature, loss float64, ok bool) {
	temperatures, weight := link.Temperatures(), statistics.LossesOf(s.fields)[examples.Holdout].Weight
	sums, err := s.Tensors().Shaped(statistics.FieldTempered, len(temperatures))
	if err != nil || weight == 0 {
		return 0, 0, false
	}
	least := slices.Min(sums)
	at := slices.Index(sums, least)
	if at < 0 { // overflowed scores give NaN losses
		return 0, 0, false
	}
	return temperatures[at], least / weight, true
}
