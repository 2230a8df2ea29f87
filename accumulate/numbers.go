package accumulate

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// distanceFields is how many sums there are of the errors of a number.
const distanceFields = 4

// AddDistances adds how far the predictions (n × k) of the labelled rows are from their standardised numbers.
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

// DistancesOf returns how far the predictions of k numbers are from them in the rows of a split, in units of scale (k),
// and the means over all of them. It returns nil if the split has no labelled rows.
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
		// Numbers that are all the same have no variance: then 1 if they are predicted right, otherwise 0, as scikit-learn's r2_score has it.
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

// AddTargets adds the weights of the rows, and their numbers (n × k) less shift (k) and the squares of these, each
// times the weight. Rows that are not fitted have weight 0. Moments about a point near the mean keep the digits that
// raw moments lose.
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
