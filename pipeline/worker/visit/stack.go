package visit

import (
	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// AddTerms makes the terms of the increments in the sums of a share those of increment 0: their sum, weighted by increment. Their memory
// is returned to crosses, which may be nil.
func AddTerms(u *schemas.Update, sum *accumulate.Sum, crosses *accumulate.CrossPool) {
	weights := []float64{1}
	for _, c := range u.Refresh {
		if u.Restart {
			c.Weight = 1
		}
		weights = append(weights, c.Weight)
	}
	for _, name := range []func(statistics.Increment) string{statistics.Increment.Scores, statistics.Increment.Cross} {
		var shape []int
		var all []float64
		for i, weight := range weights {
			of := name(statistics.Increment(i))
			part, any := sum.Tensors().Find(of)
			if !any {
				continue
			}
			if all == nil {
				shape, all = part.Shape, make([]float64, len(part.Data))
			}
			floats.AddScaled(all, weight, part.Data)
			crosses.PutField(sum, of)
		}
		if all != nil {
			copy(sum.Field(name(0), shape...), all)
		}
	}
}

// LeavingGram removes the Gram matrices of the rows that leave the window from the sums of a partition, and returns their
// weighted sum. Each is rounded as it was when the rows were added, so that exactly the added values are subtracted.
func LeavingGram(u *schemas.Update, sum *accumulate.Sum) (matrix []float64) {
	for i, c := range u.Leave {
		field, any := sum.Take(statistics.Increment(i).Leaving())
		if !any {
			continue
		}
		if matrix == nil {
			matrix = make([]float64, len(field.Data))
		}
		accumulate.AddRounded(matrix, c.Weight, field.Data)
	}
	return matrix
}
