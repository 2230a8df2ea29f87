package accumulate

import (
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Rows describes the n rows of a message, or of a part of it.
type Rows struct {
	Classes []int32         // class of each row; schemas.Unlabelled where there is no label
	Weights []float32       // weight of each row, whatever its split
	Splits  []schemas.Split // split of each row
}

// Slice returns the rows from (included) to to (excluded). It shares their memory.
func (r Rows) Slice(from, to int) Rows {
	return Rows{r.Classes[from:to], r.Weights[from:to], r.Splits[from:to]}
}

// AddLosses adds the labelled rows to the losses of their splits. loss is the loss of each row, predicted the class that it
// predicts.
func (s *Sum) AddLosses(rows Rows, loss []float32, predicted []int32) {
	splits := s.Field(schemas.FieldSplits, schemas.Splits, schemas.LossFields)
	for i, class := range rows.Classes {
		if class == schemas.Unlabelled {
			continue
		}
		at := splits[int(rows.Splits[i])*schemas.LossFields:]
		w := float64(rows.Weights[i])
		at[1]++
		if w == 0 {
			continue // 0 times a loss that has overflown would be NaN
		}
		at[0] += w
		if predicted[i] != class {
			at[2] += w
		}
		at[3] += w * float64(loss[i])
	}
}

// AddResidual adds the squared lengths of the residuals (n × k) of n rows, and the squares of their weights, to the field
// residual. Rows that are not fitted have weight 0 and may hold any values.
func (s *Sum) AddResidual(residual kernel.Dense, weights []float32) {
	sums := s.Field(schemas.FieldResidual, 2)
	for i, w := range weights {
		if w := float64(w); w != 0 {
			sums[0] += w * float64(kernel.SquaredLength(residual.Row(i)))
			sums[1] += w * w
		}
	}
}
