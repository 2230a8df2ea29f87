package solve

import (
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// occurringVisit is the sums of a visit over the new training rows, for the columns of the block that occur.
type occurringVisit struct {
	Losses    statistics.Losses
	Gradient  statistics.Occurring // m × k: Σ w x (y − g)ᵀ
	Curvature statistics.Occurring // m × k, of some visits
	Reach     statistics.Occurring // m × 1, of the first visit
	Counted   statistics.Occurring // m × k, of a counted stage
}

// occurringVisitOf reads the sums of a visit to a stage of the given shape. An error describes what is wrong with the sums.
func occurringVisitOf(sums wire.Tensors[float64], shape Shape) (v occurringVisit, err error) {
	v.Losses = statistics.LossesOf(sums)[examples.Train]
	for _, f := range []struct {
		name string
		k    int
		to   *statistics.Occurring
	}{{statistics.FieldGradient, shape.Classes, &v.Gradient}, {statistics.FieldCurvature, shape.Classes, &v.Curvature},
		{statistics.FieldReach, 1, &v.Reach}, {statistics.FieldCounted, shape.Classes, &v.Counted}} {
		if *f.to, err = statistics.OccurringOf(sums, f.name, shape.Columns, f.k); err != nil {
			return v, err
		}
	}
	return v, nil
}
