package solve

import (
	"math"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// A stop rule ends conjugate gradients and blocks too, with the weights of the visit with the smallest loss of the
// split.
func TestStopRuleOnSparseRows(t *testing.T) {
	for _, size := range []int{0, 8} {
		for _, patience := range []int{1, 3} {
			pr := sparseProblem(7, 120, 40, 2)
			for i := range pr.split {
				pr.split[i] = examples.Split(i % 2) // with half of the rows held out the fit overfits
			}
			stage := Defaults()
			stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Identity, MethodCG, 50, 1e-6
			stage.Stop = &schemas.Stop{Split: "holdout", Patience: patience}
			visits, final, _ := sparseVisits(t, pr, stage, size)
			best, at := math.Inf(1), 0
			for v, visit := range visits {
				if loss := visit.losses[examples.Holdout].MeanLoss(); loss < best {
					best, at = loss, v
				}
			}
			worse := 0 // visits with other weights after the best
			for v := at + 1; v < len(visits); v++ {
				if !slices.Equal(visits[v].w, visits[v-1].w) {
					worse++
				}
			}
			if worse != patience || at == 0 {
				t.Errorf("blocks of %d, patience %d: visit %d is the best, after which weights changed %d times", size, patience, at, worse)
			}
			if final.Of != at || !slices.Equal(final.W, visits[at].w) {
				t.Errorf("blocks of %d, patience %d: the final weights are those of visit %d, expected %d", size, patience, final.Of, at)
			}
		}
	}
}

// If the passes end the stage first, a rule still chooses among the visits. A split without rows disables the rule: the
// last minimum is final, which was not visited.
func TestStopRuleAtTheLastPass(t *testing.T) {
	for _, held := range []bool{true, false} {
		pr := sparseProblem(8, 200, 12, 2)
		for i := range pr.split {
			if held {
				pr.split[i] = examples.Split(i % 2)
			}
		}
		stage := Defaults()
		stage.Link, stage.Method, stage.Passes, stage.Ridge = link.Identity, MethodCG, 3, 0.1
		stage.Stop = &schemas.Stop{Split: "holdout", Patience: 3}
		visits, final, _ := sparseVisits(t, pr, stage, 0)
		if visited := final.Of < len(visits); len(visits) != 3 || visited != held {
			t.Errorf("held out %v: %d visits, final is %d", held, len(visits), final.Of)
		}
	}
}
