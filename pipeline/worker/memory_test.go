package worker

import (
	"testing"

	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// The reserved memory includes terms: a worker's do not depend on the number of increments in a full run, and a solver's
// depend on the number of terms that the run leaves.
func TestMemoryOfTerms(t *testing.T) {
	full := func(increments int) *schemas.Chain {
		c := &schemas.Chain{Number: increments + 1}
		for i := range increments {
			c.Increments = append(c.Increments, coverage.Increment{Number: i + 1, Weight: 1})
		}
		return c
	}
	update := &schemas.Chain{Number: 9, Update: &schemas.Update{Refresh: make([]coverage.Increment, 4), Leave: make([]coverage.Increment, 2)}}
	for name, test := range map[string]struct {
		chain       *schemas.Chain
		solves      bool
		stage, kept int64
	}{
		"no chain":       {nil, true, 0, 0},
		"a worker alone": {full(1000), false, termMatrices, 0},
		"full":           {full(1000), true, termMatrices, 2 * 1000},
		"first":          {&schemas.Chain{Number: 1}, true, termMatrices, 2},
		"update":         {update, true, 4 * 5, 4*5 + 2*2},
	} {
		w := &Worker{Run: &visit.Run{Plan: &schemas.Plan{Chain: test.chain}}, options: Options{Solves: test.solves}}
		if stage, kept := w.matricesOfTerms(); stage != test.stage || kept != test.kept {
			t.Errorf("%s: %d and %d matrices, expected %d and %d", name, stage, kept, test.stage, test.kept)
		}
	}
}
