package replay

import (
	"testing"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Of many rows a tenth is held out, of few as many as 1,000, but at most a quarter. What the job says counts.
func TestHeldOutRows(t *testing.T) {
	for _, test := range []struct {
		rows          int64
		holdout, want float64
	}{
		{0, 0, 0.1}, {100, 0, 0.25}, {4000, 0, 0.25}, {5000, 0, 0.2}, {10_000, 0, 0.1}, {1_000_000, 0, 0.1}, {100, 0.3, 0.3}, {0, 0.3, 0.3},
	} {
		var job topics.Job
		job.Examples.Holdout = test.holdout
		if got := heldOut(job, test.rows); got != test.want {
			t.Errorf("of %d rows, %g are held out if the job says %g, expected %g", test.rows, got, test.holdout, test.want)
		}
	}
}

// The last block of trees whose loss is at most 2 % above the lowest ends the stages. Stages of other kinds end them where it is lowest.
func TestLastStageThatIsNearlyBest(t *testing.T) {
	const fourier, trees = stages.RFF, stages.Trees
	for name, test := range map[string]struct {
		kinds  []string
		losses []float64
		want   int
	}{
		"falls":                  {[]string{trees, trees, trees}, []float64{3, 2, 1}, 2},
		"rises little":           {[]string{trees, trees, trees, trees}, []float64{3, 2, 2.03, 2.05}, 2},
		"rises, and falls again": {[]string{trees, trees, trees, trees}, []float64{3, 2, 2.5, 2.01}, 3},
		"lowest before trees":    {[]string{fourier, trees, trees}, []float64{2, 2.01, 2.01}, 0},
		"after Fourier features": {[]string{fourier, trees, trees}, []float64{3, 2, 2.01}, 2},
		"other features":         {[]string{fourier, fourier}, []float64{2, 2.01}, 0},
	} {
		report, list := &schemas.Report{}, []schemas.Stage{}
		for i, kind := range test.kinds {
			s := solve.Defaults()
			s.Features = stages.DefaultsOf(kind)
			list = append(list, s)
			report.Stages = append(report.Stages, schemas.StageReport{HoldoutLoss: &test.losses[i]})
		}
		losses := lossesOf(report, list, true)
		if got := lastNear(losses, list, lowest(losses, 1)); got != test.want {
			t.Errorf("%s: the last stage is %d, expected %d", name, got, test.want)
		}
	}
}
