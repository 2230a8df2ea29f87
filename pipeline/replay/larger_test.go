package replay

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Larger trees are tried if nobody lists stages, and the loss has fallen until the last blocks of trees, until leaves are as many as trees
// may have. Other stages stay as they are.
func TestLargerTrees(t *testing.T) {
	stage := func(kind string) schemas.Stage {
		s := solve.Defaults()
		s.Features = stages.DefaultsOf(kind)
		return s
	}
	fourier, trees := stage(stages.RFF), stage(stages.Trees)
	blocks := append([]schemas.Stage{fourier}, slices.Repeat([]schemas.Stage{trees}, 29)...)
	for name, c := range map[string]struct {
		found
		job topics.Job
		try bool
	}{
		"falls until the end":     {found{candidate: candidate{stages: blocks}, lowest: 30}, topics.Job{}, true},
		"falls until nearly then": {found{candidate: candidate{stages: blocks}, lowest: 28}, topics.Job{}, true},
		"rises before":            {found{candidate: candidate{stages: blocks}, lowest: 27}, topics.Job{}, false},
		"stages are listed":       {found{candidate: candidate{stages: blocks}, lowest: 30}, topics.Job{Stages: blocks}, false},
		"no trees":                {found{candidate: candidate{stages: blocks[:1]}, lowest: 1}, topics.Job{}, false},
	} {
		larger := c.larger(c.job)
		if (larger != nil) != c.try {
			t.Errorf("%s: larger trees are tried: %v", name, larger != nil)
		}
		if larger == nil {
			continue
		}
		if f := larger.stages[1].Features; larger.stages[0].Features != fourier.Features || f.Leaves != 2*trees.Features.Leaves ||
			f.Size != 2*trees.Features.Size || blocks[1].Features != trees.Features {
			t.Errorf("%s: stages %+v", name, larger.stages[:2])
		}
		again := found{candidate: *larger, lowest: 30}
		if again.larger(c.job) != nil {
			t.Errorf("%s: trees of %d leaves are made larger", name, larger.stages[1].Features.Leaves)
		}
	}
}
