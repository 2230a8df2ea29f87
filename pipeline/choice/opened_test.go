package choice

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// Trees after other features are trained in full only if they are ahead of trees alone after the first stages.
func TestTreesAfterOtherFeatures(t *testing.T) {
	failed := errors.New("the log is closed")
	for name, test := range map[string]struct {
		trees, opened func(stage int) float64 // the losses
		fails         string                  // the search that fails
		err           error
		want          string
		searches      string
	}{
		"behind": {
			func(stage int) float64 { return 1 / float64(stage) }, func(stage int) float64 { return 1.1 / float64(stage) },
			"", nil, "trees", "[[columns 1 trees 30] [rff and trees 6]]"},
		"ahead": {
			func(stage int) float64 { return 1.1 / float64(stage) }, func(stage int) float64 { return 1 / float64(stage) },
			"", nil, "rff and trees", "[[columns 1 trees 30] [rff and trees 6] [rff and trees 31]]"},
		"ahead, and caught up with": {
			func(stage int) float64 { return 1 / float64(stage) }, func(int) float64 { return 0.1 },
			"", nil, "trees", "[[columns 1 trees 30] [rff and trees 6] [rff and trees 31]]"},
		"can't be used": {
			func(int) float64 { return 1 }, func(int) float64 { return 0.1 },
			"rff and trees", errNoCandidate, "trees", "[[columns 1 trees 30] [rff and trees 6]]"},
		"the search is ended": {
			func(int) float64 { return 1 }, func(int) float64 { return 0.1 },
			"rff and trees", failed, "", "[[columns 1 trees 30] [rff and trees 6]]"},
		"none can be used": {
			func(int) float64 { return 1 }, func(int) float64 { return 0.1 }, "columns", errNoCandidate, "", "[[columns 1 trees 30]]"},
	} {
		candidates := []candidate{
			{name: "columns", stages: make([]schemas.Stage, 1)}, {name: "trees", stages: make([]schemas.Stage, 30)},
			{name: "rff and trees", stages: make([]schemas.Stage, 31), opened: true},
		}
		searches := [][]string{}
		best, err := bestOf(candidates, func(of []candidate) (found, error) {
			var names []string
			for _, c := range of {
				names = append(names, fmt.Sprint(c.name, " ", len(c.stages)))
			}
			searches = append(searches, names)
			if c := of[0]; c.name == test.fails {
				return found{}, fmt.Errorf("choose stages: %w", test.err)
			}
			c, loss := of[len(of)-1], test.opened
			if !c.opened {
				loss = test.trees
			}
			f := found{candidate: c}
			for stage := range c.stages {
				f.losses = append(f.losses, heldOutLoss{loss: loss(stage + 1)})
			}
			f.loss = lowestUntil(f.losses, len(f.losses))
			return f, nil
		})
		ended := test.err != nil && test.want == ""
		if fmt.Sprint(searches) != test.searches || ended != (err != nil) || ended && !errors.Is(err, test.err) || !ended && best.name != test.want {
			t.Errorf("%s: %q after %v, %v", name, best.name, searches, err)
		}
		if len(candidates) != 3 || !slices.ContainsFunc(candidates, func(c candidate) bool { return c.opened }) {
			t.Errorf("%s: the candidates changed", name)
		}
	}
}
