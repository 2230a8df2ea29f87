package replay

import (
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/stages"
)

// Of many rows a tenth is held out, of few as many as 1,000, but at most a quarter. What the job says counts.
func TestHeldOutRows(t *testing.T) {
	for _, test := range []struct {
		rows          int64
		holdout, want float64
	}{{0, 0, 0.1}, {100, 0, 0.25}, {4000, 0, 0.25}, {5000, 0, 0.2}, {10_000, 0, 0.1}, {1_000_000, 0, 0.1}, {100, 0.3, 0.3}, {0, 0.3, 0.3}} {
		var job topics.Job
		job.Examples.Holdout = test.holdout
		assert.Equal(t, heldOut(job, test.rows), test.want, "the share that is held out of %d rows, if the job says %g", test.rows, test.holdout)
	}
}

// The last block of trees whose loss is at most 2 % above the lowest ends the stages. Stages of other kinds end them where it is lowest.
// The loss after a stage is that at its best temperature, unless the choice has none, or the stage has one. Of several members the losses
// are those of the first.
func TestStagesToUse(t *testing.T) {
	type l = heldOutLoss
	for name, test := range map[string]struct {
		kinds       string // f: Fourier features, t: trees
		losses      []float64
		tempered    []l // after a stage, if its temperature is not 0
		least       int
		want        []l // losses; nil: those given, at temperature 1
		lowest, end int
	}{
		"falls":                  {"ttt", []float64{3, 2, 1}, nil, 1, nil, 3, 3},
		"rises little":           {"tttt", []float64{3, 2, 2.03, 2.05}, nil, 1, nil, 2, 3},
		"rises, and falls again": {"tttt", []float64{3, 2, 2.5, 2.01}, nil, 1, nil, 2, 4},
		"lowest before trees":    {"ftt", []float64{2, 2.01, 2.01}, nil, 1, nil, 1, 1},
		"after Fourier features": {"ftt", []float64{3, 2, 2.01}, nil, 1, nil, 2, 3},
		"other features":         {"ff", []float64{2, 2.01}, nil, 1, nil, 1, 1},
		"several members":        {"tt", []float64{3, 2, 1, 1}, nil, 1, []l{{3, 1}, {2, 1}}, 2, 2},
		"at least three":         {"ttt", []float64{3, 2, 2.5}, nil, 3, nil, 3, 3},
		"temperatures":           {"ttt", []float64{3, 2, 2.5}, []l{{}, {1.9, 1.2}, {1.8, 1.7}}, 1, []l{{3, 1}, {1.9, 1.2}, {1.8, 1.7}}, 3, 3},
		"no losses":              {"ttt", nil, nil, 1, nil, 0, 0},
	} {
		report, f := &schemas.Report{}, found{loss: math.Inf(1)}
		f.least = test.least
		for i := range test.losses {
			r := schemas.StageReport{Measured: schemas.Measured{HoldoutLoss: &test.losses[i]}}
			if i < len(test.tempered) && test.tempered[i].temperature != 0 {
				r.Tempered = &schemas.TemperedReport{Temperature: test.tempered[i].temperature, HoldoutLoss: test.tempered[i].loss}
			}
			report.Stages = append(report.Stages, r)
		}
		for _, kind := range test.kinds {
			f.stages = append(f.stages, stageOf(topics.Job{}, map[rune]string{'f': stages.RFF, 't': stages.Trees}[kind]))
		}
		plain := f
		lowest := f.judge(report, true)
		assert.True(t, lowest == test.lowest && f.end == test.end, "%s: %d stages, lowest after %d; expected %+v", name, f.end, lowest, test)
		assert.True(t, test.want == nil || slices.Equal(f.losses, test.want), "%s: losses %v, expected %v", name, f.losses, test.want)
		if test.tempered == nil {
			continue
		}
		plain.stages[2].Temperature = 1.3
		for _, temper := range []bool{false, true} {
			again := plain
			again.judge(report, temper)
			assert.Equal(t, again.losses[2], l{test.losses[2], 1}, "%s: without a temperature, the loss after the last stage", name)
		}
	}
}

// Trees are larger if the loss still falls in the last blocks, and there are enough rows. Other stages stay as they are.
func TestLargerTrees(t *testing.T) {
	fourier, trees := stageOf(topics.Job{}, stages.RFF), stageOf(topics.Job{}, stages.Trees)
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
		assert.Need(t, len(spans) == want && len(all) == 8, "%d rows: %d of %d partitions, expected %d of 8", rows, len(spans), len(all), want)
	}
}
