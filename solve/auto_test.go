package solve

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
)

// autoStages returns the given number of equal stages with the method auto.
func autoStages(stages, passes int, ridge float64) []schemas.Stage {
	s := stageOf(link.Softmax, passes, ridge)
	s.Method = MethodAuto
	return slices.Repeat([]schemas.Stage{s}, stages)
}

// accepted returns J after each accepted pass.
func accepted(visits []visited) (objectives []float64) {
	for _, v := range visits {
		if v.pass.Accepted {
			objectives = append(objectives, v.pass.Objective)
		}
	}
	return objectives
}

// For any position of the stage, auto makes the passes of L-BFGS and ends at the first one that its rule selects.
func TestAutoEndsWhenPassesGainLittle(t *testing.T) {
	for _, size := range []struct {
		n, p, k int
		ridge   float64
	}{{2000, 40, 3, 1e-3}, {300, 40, 3, 1e-4}, {150, 6, 10, 1e-2}} {
		pr := problemOf(9, size.n, size.p, size.k)
		stages := autoStages(3, 100, size.ridge)
		stages[0].Method = MethodLBFGS
		visits, _, _ := pr.runAmong(t, stages, 0, nil)
		all := accepted(visits)
		gain := func(i, passes int) float64 { return all[i-passes] - all[i] }
		for name, c := range map[string]struct {
			number, of int
			ends       func(i int) bool // whether the rule ends the stage after all[i]
		}{
			"first of three": {0, 3, func(i int) bool { return gain(i, 1) < 0.04*all[i-1] }},
			"last of three":  {2, 3, func(i int) bool { return gain(i, 1) < 0.04*all[i-1] && gain(i, 3) < 0.001*max(all[i-3], 0.5) }},
			"only":           {0, 1, func(i int) bool { return gain(i, 1) < 0.04*all[i-1] && gain(i, 3) < 0.001*all[i-3] }},
		} {
			t.Run(fmt.Sprint(size, " ", name), func(t *testing.T) {
				visits, final, _ := pr.runAmong(t, autoStages(c.of, 100, size.ridge), c.number, nil)
				got := accepted(visits)
				if len(got) < 4 || len(got) >= len(all) || !slices.Equal(got, all[:len(got)]) {
					t.Fatalf("J by pass is %v, of L-BFGS %v", got, all)
				}
				last := len(got) - 1
				for i := 3; i <= last; i++ {
					if c.ends(i) != (i == last) {
						t.Errorf("of %d passes, pass %d is the last by the rule: %v", len(got), i+1, c.ends(i))
					}
				}
				if final.Of != len(visits)-1 {
					t.Errorf("%d visits, the final weights are of visit %d", len(visits), final.Of)
				}
			})
		}
	}
}

// The configured passes are a limit in the last stage too.
func TestAutoKeepsToThePassesThatAreSet(t *testing.T) {
	pr := problemOf(9, 400, 65, 5)
	if visits, final, _ := pr.run(t, autoStages(1, 9, 1e-4)[0], nil); len(visits) != 9 || final.Of != 8 {
		t.Errorf("%d visits, the final weights are of visit %d", len(visits), final.Of)
	}
}

// A stage that begins at fitted weights ends as soon as possible.
func TestAutoFromFittedWeights(t *testing.T) {
	pr := problemOf(9, 400, 65, 5)
	for number, of := range []int{1, 2} {
		stages := autoStages(of, 200, 1e-4)
		_, fitted, _ := pr.runAmong(t, autoStages(1, 200, 1e-4), 0, nil)
		if visits, _, _ := pr.runAmong(t, stages, number, fitted.W); len(visits) > firstPasses+1 {
			t.Errorf("stage %d of %d: %d passes", number, of, len(visits))
		}
	}
}

func TestLastPasses(t *testing.T) {
	for _, c := range []struct {
		link   schemas.Link
		method string
		want   int
	}{
		{link.Softmax, MethodAuto, 200}, {link.Softmax, MethodLBFGS, 12}, {link.Softmax, MethodPaper, 12},
		{link.Identity, MethodAuto, 12}, {link.Calibrated, MethodAuto, 12},
	} {
		s := Defaults()
		s.Link, s.Method = c.link, c.method
		if got := LastPasses(s); got != c.want {
			t.Errorf("%s, %s: %d passes, expected %d", c.link, c.method, got, c.want)
		}
	}
}
