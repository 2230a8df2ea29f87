package replay

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

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
