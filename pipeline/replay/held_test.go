package replay

import (
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
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
			report.Stages = append(report.Stages, schemas.StageReport{Measured: schemas.Measured{HoldoutLoss: &test.losses[i]}})
		}
		losses := lossesOf(report, list, true)
		if got := lastNear(losses, list, lowest(losses, 1)); got != test.want {
			t.Errorf("%s: the last stage is %d, expected %d", name, got, test.want)
		}
	}
}

// The loss after a stage of trees is that at its best temperature, unless the choice has none, or the stage has one. Of several members the
// losses are those of the first.
func TestLossAtBestTemperature(t *testing.T) {
	plain, tempered, temperatures := []float64{3, 2, 2.5, 9, 9, 9}, []float64{3, 1.9, 1.8, 9, 9, 9}, []float64{1, 1.2, 1.7, 1, 1, 1}
	report, list := &schemas.Report{}, []schemas.Stage{}
	for i := range plain {
		report.Stages = append(report.Stages, schemas.StageReport{Measured: schemas.Measured{HoldoutLoss: &plain[i]},
			Tempered: &schemas.TemperedReport{Temperature: temperatures[i], HoldoutLoss: tempered[i]}})
	}
	for range 3 {
		s := solve.Defaults()
		s.Features = stages.DefaultsOf(stages.Trees)
		list = append(list, s)
	}
	want := []heldOutLoss{{3, 1}, {1.9, 1.2}, {1.8, 1.7}}
	if got := lossesOf(report, list, true); !slices.Equal(got, want) || lowest(got, 1) != 2 {
		t.Errorf("losses %v, expected %v", got, want)
	}
	want = []heldOutLoss{{3, 1}, {2, 1}, {2.5, 1}}
	if got := lossesOf(report, list, false); !slices.Equal(got, want) || lowest(got, 1) != 1 || lowest(got, 3) != 2 {
		t.Errorf("without temperatures, losses %v, expected %v", got, want)
	}
	list[2].Temperature = 1.3
	if got := lossesOf(report, list, true); got[2] != (heldOutLoss{2.5, 1}) {
		t.Errorf("loss %v of a stage that has a temperature", got[2])
	}
	report.Stages = []schemas.StageReport{{}, {}}
	if got := lossesOf(report, list, true); !math.IsNaN(got[0].loss) || !math.IsNaN(got[2].loss) || lowest(got, 1) != -1 {
		t.Errorf("without held-out rows, losses %v", got)
	}
}

// Trees are larger if the loss still falls in the last blocks, and there are enough rows. Other stages stay as they are.
func TestLargerTrees(t *testing.T) {
	stage := func(kind string) schemas.Stage {
		s := solve.Defaults()
		s.Features = stages.DefaultsOf(kind)
		return s
	}
	fourier, trees := stage(stages.RFF), stage(stages.Trees)
	blocks := append([]schemas.Stage{fourier}, slices.Repeat([]schemas.Stage{trees}, blocksOfTrees)...)
	for name, c := range map[string]struct {
		stages []schemas.Stage
		fall   float64 // of the loss in each stage
		rows   int64
		larger bool
	}{
		"falls until the end": {blocks, 0.99, 12800, true},
		"hardly falls":        {blocks, 0.9995, 12800, false},
		"rises":               {blocks, 1.01, 12800, false},
		"no trees":            {slices.Repeat(blocks[:1], 10), 0.99, 12800, false},
		"few blocks":          {blocks[:3], 0.99, 12800, false},
		"few rows":            {blocks, 0.99, 12799, false},
	} {
		f := found{candidate: candidate{stages: c.stages}, end: 2}
		loss := 1.0
		for range c.stages {
			f.losses = append(f.losses, heldOutLoss{loss, 1})
			loss *= c.fall
		}
		f.enlarge(c.rows)
		if larger := f.end == len(f.stages); larger != c.larger {
			t.Errorf("%s: larger trees: %v", name, larger)
		} else if !larger {
			continue
		}
		if of := f.stages[1].Features; len(f.stages) != 1+blocksOfLarger || f.stages[0].Features != fourier.Features ||
			of.Leaves != 2*trees.Features.Leaves || of.Size != 2*trees.Features.Size || blocks[1].Features != trees.Features {
			t.Errorf("%s: %d stages %+v", name, len(f.stages), f.stages[:2])
		}
	}
}

// All fits of a choice of a ridge have the same rows, and the plans of other runs keep all rows.
func TestFitsHaveEnoughRows(t *testing.T) {
	var all coverage.Spans
	for number := range 8 {
		all = append(all, coverage.Span{Partition: number, To: 100})
	}
	for rows, want := range map[int64]int{0: 4, 2 * enoughSparse: 4, enoughSparse: 8} {
		c := &chooser{rows: rows}
		spans := c.enough(all)
		if len(spans) != want || len(all) != 8 {
			t.Fatalf("%d rows: %d of %d partitions, expected %d of 8", rows, len(spans), len(all), want)
		}
	}
}
