package accumulate

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// Rows describes the n rows of a message, or of a part of it.
type Rows struct {
	link.Truth                  // what each row should be predicted as; not known of a row whose class is negative
	Task       examples.Task    // what is predicted
	Weights    []float32        // weight of each row, whatever its split
	Splits     []examples.Split // split of each row
}

// Slice returns the rows from (included) to to (excluded). It shares their memory.
func (r Rows) Slice(from, to int) Rows {
	part := Rows{Truth: link.Truth{Classes: r.Classes[from:to]}, Task: r.Task, Weights: r.Weights[from:to], Splits: r.Splits[from:to]}
	if r.Targets.Rows > 0 {
		part.Targets = r.Targets.Slice(from, to)
	}
	return part
}

// Repeat adds row i once more.
func (r *Rows) Repeat(i int) {
	r.Classes, r.Weights, r.Splits = append(r.Classes, r.Classes[i]), append(r.Weights, r.Weights[i]), append(r.Splits, r.Splits[i])
	if r.Targets.Rows > 0 {
		r.Targets.Data = append(r.Targets.Data, r.Targets.Row(i)...)
		r.Targets.Rows++
	}
}

// AddRows counts the labelled rows of each split, with no loss and no wrong row.
func (s *Sum) AddRows(rows Rows) {
	s.AddLosses(rows, make([]float32, len(rows.Classes)), rows.Classes, rows.Targets)
}

// AddLosses adds the labelled rows to the losses of their splits. loss is the loss of each row, predicted the class that it
// predicts, prediction what it predicts (n × k). prediction is not used for rows of one label each.
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
			continue // 0 times a loss that has overflown would be NaN
		}
		at[0] += w
		at[2] += w * rows.Wrong(i, predicted, prediction)
		at[3] += w * float64(loss[i])
	}
}

// Wrong returns how wrong the prediction of a labelled row is: of one label 0 or 1, of several labels the part of them
// that is on the wrong side of 1/2, of standardised numbers their mean squared error, which is about 1 if they are
// predicted as their means.
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
