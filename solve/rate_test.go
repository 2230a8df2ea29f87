package solve

import (
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// The λ of trees falls with the curvature of their rows down to that of RidgeRows rows of even odds in each leaf of
// each tree, or 2/k of them with k classes. If all rows have even odds, or weigh next to nothing, it is that of the
// ridge. Plans without a number of rows have no bound, and neither have other blocks.
func TestRidgeOfTreesCountsRows(t *testing.T) {
	const trees, leaves, classes, rows = 8, 16, 4, 1000.
	trace := func(curvature float64) float64 { return curvature * trees * rows }
	lambdaOf := func(ridge schemas.Ridge, curvature, least, weight float64, curved bool) float64 {
		c := common{link: link.Named(link.Softmax), settings: settings{schemas.Stage{Ridge: ridge, RidgeRows: least}},
			shape: Shape{Columns: trees*leaves + 1, Penalised: trees * leaves, Classes: classes, Curved: curved, Trees: trees}}
		return c.ridge(trace(curvature)*weight/rows, weight)
	}
	const even = 1. / classes // the curvature of a row whose classes have equal probabilities
	for name, test := range map[string]struct {
		ridge                    schemas.Ridge
		curvature, least, weight float64
		curved                   bool
		want                     float64
	}{
		"even odds":            {1, even, 1, rows, true, even / leaves},
		"nearly sure":          {1, 1e-9, 1, rows, true, even * trees * (2. / classes) / rows},
		"nearly sure, 3 rows":  {1, 1e-9, 3, rows, true, even * trees * (6. / classes) / rows},
		"no bound":             {1, 1e-9, 0, rows, true, 1e-9 / leaves},
		"a block of features":  {1, 1e-9, 1, rows, false, 1e-9 / leaves},
		"few rows":             {1, 1e-9, 1, 10, true, even / leaves},
		"weights of sum 1":     {1, 1e-9, 1, 1, true, even / leaves},
		"a smaller ridge":      {1e-3, 1e-9, 1, rows, true, 1e-3 * even / leaves},
		"none, as is said":     {0, 1e-9, 1, rows, true, 0},
		"above, so as it is":   {1, 0.2, 1, rows, true, 0.2 / leaves},
		"a larger ridge holds": {3, 0.2, 1, rows, true, 0.6 / leaves},
	} {
		if got := lambdaOf(test.ridge, test.curvature, test.least, test.weight, test.curved); math.Abs(got-test.want) > 1e-6*test.want {
			t.Errorf("%s: λ is %g, expected %g", name, got, test.want)
		}
	}
}

// While rows are few, the ridge of an update is larger, except for trees, whose ridge counts rows.
func TestEarlyRidge(t *testing.T) {
	for name, test := range map[string]struct {
		trees       int
		least, want float64
	}{"a block of features": {0, 0, 5}, "trees": {8, 1, 1}, "trees of earlier plans": {8, 0, 5}} {
		u := Update{settings: settings{schemas.Stage{RidgeRows: test.least}}, shape: Shape{Penalised: 64, Trees: test.trees}, weight: 128}
		if got := u.early(); got != test.want {
			t.Errorf("%s: the ridge is multiplied by %v, expected %v", name, got, test.want)
		}
	}
}
