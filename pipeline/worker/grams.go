package worker

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
)

// sumGrams publishes the Gram matrices of a stage for the shares that have not published them; first is the first visit to the stage. A
// matrix does not depend on weights, so it is summed in a visit of its own, before the first visit.
func (w *Worker) sumGrams(ctx context.Context, first protocol.Visit, shares []*partition.Share) error {
	shares = slices.DeleteFunc(slices.Clone(shares), func(p *partition.Share) bool { return p.HasGram(first.Stage) })
	if len(shares) == 0 {
		return nil
	}
	extent := (*partition.Share).Recent
	if u := w.plan.Update(); u != nil {
		first = w.chain.GramVisit(first.Stage)
		if u.Restart {
			extent = (*partition.Share).Staying
		}
	}
	if w.plan.Update() == nil || w.plan.Update().TakesAway() {
		extent = (*partition.Share).All
	}
	current, err := visit.NewGram(w.visitRun(), w.chain, first)
	if err != nil || current.Of.Features.Sparse() {
		return err
	}
	if err := w.sums(ctx, current, shares, extent); err != nil {
		return err
	}
	for _, p := range shares {
		p.SetGrams(first.Stage + 1)
	}
	return nil
}
