package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
)

// The Gram matrix of a stage does not depend on weights. So a worker sums it in a visit of its own, before the first visit to the
// stage: in an update while the previous stage is solved and visited.

// gramsAhead is an ongoing sum of Gram matrices.
type gramsAhead struct {
	stage  int
	shares []*partition.Share
	wait   func() error // waits until they are published
}

// beginGrams starts publishing the Gram matrices of a stage that is not yet due. If it needs data that is not in memory,
// it publishes them before it returns, because only one goroutine at a time may load data into memory.
func (w *Worker) beginGrams(ctx context.Context, stage, due int, shares []*partition.Share) error {
	if err := w.endGrams(); err != nil {
		return err
	}
	if !w.inMemory(shares) {
		return w.sumGrams(ctx, w.chain.GramVisit(stage), due, shares)
	}
	a := &gramsAhead{stage: stage, shares: withoutGram(stage, shares)}
	visit, err := visit.NewGram(w.visitRun(), w.chain, w.chain.GramVisit(stage), true)
	if err != nil {
		return err
	}
	a.wait = w.executor.Begin(func() error { return w.sums(ctx, visit, a.shares, w.gramExtent()) })
	w.ahead = a
	return nil
}

// endGrams waits for the goroutine of beginGrams.
func (w *Worker) endGrams() error {
	a := w.ahead
	if a == nil {
		return nil
	}
	w.ahead = nil
	if err := a.wait(); err != nil {
		return fmt.Errorf("sum the Gram matrix of %s: %w", event.StageName(a.stage), err)
	}
	for _, p := range a.shares {
		p.SetGrams(a.stage + 1)
	}
	return nil
}

// dropGrams waits for the goroutine of beginGrams after its context has ended, and discards the result.
func (w *Worker) dropGrams() {
	if w.ahead != nil {
		w.ahead.wait() // the error is that of the ended context
		w.ahead = nil
	}
}

// sumGrams publishes the Gram matrices of a stage for the shares that have not published them; first is the first visit to the
// stage, and due the due stage.
func (w *Worker) sumGrams(ctx context.Context, first protocol.Visit, due int, shares []*partition.Share) error {
	shares = withoutGram(first.Stage, shares)
	if len(shares) == 0 {
		return nil
	}
	if w.plan.Update() != nil {
		first = w.chain.GramVisit(first.Stage)
	}
	current, err := visit.NewGram(w.visitRun(), w.chain, first, first.Stage > due)
	if err != nil || current.Of.Features.Sparse() {
		return err
	}
	if err := w.sums(ctx, current, shares, w.gramExtent()); err != nil {
		return err
	}
	for _, p := range shares {
		p.SetGrams(first.Stage + 1)
	}
	return nil
}

// withoutGram returns the shares that have not published their Gram matrices of a stage.
func withoutGram(stage int, shares []*partition.Share) []*partition.Share {
	return slices.DeleteFunc(slices.Clone(shares), func(p *partition.Share) bool { return p.HasGram(stage) })
}

// gramExtent returns the number of leading segments of a share that Gram matrices cover.
func (w *Worker) gramExtent() func(*partition.Share) int {
	switch u := w.plan.Update(); {
	case u == nil || u.TakesAway():
		return (*partition.Share).All
	case u.Restart:
		return (*partition.Share).Staying
	}
	return (*partition.Share).Recent
}

// inMemory reports whether the rows for the Gram matrices of an update are decoded in memory.
func (w *Worker) inMemory(shares []*partition.Share) bool {
	extent := w.gramExtent()
	for _, p := range shares {
		if slices.ContainsFunc(p.Segments()[:extent(p)], func(s *partition.Segment) bool { return s.Batches() == nil }) {
			return false
		}
	}
	return true
}
