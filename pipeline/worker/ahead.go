package worker

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
)

// The Gram matrices of an update do not depend on weights. So a worker sums those of a stage while the previous stage is
// solved and visited.

// gramsAhead is an ongoing sum of Gram matrices.
type gramsAhead struct {
	stage      int
	partitions []*partition.State
	wait       func() error // waits until they are published
}

// beginGrams starts publishing the Gram matrices of a stage that is not yet due. If it needs data that is not in memory,
// it publishes them before it returns, because only one goroutine at a time may load data into memory.
func (w *Worker) beginGrams(ctx context.Context, stage, due int, partitions []*partition.State) error {
	if err := w.endGrams(); err != nil {
		return err
	}
	if !w.inMemory(partitions) {
		return w.sumGrams(ctx, stage, due, partitions)
	}
	a := &gramsAhead{stage: stage, partitions: withoutGram(stage, partitions)}
	visit, err := w.gramVisit(stage, due)
	if err != nil {
		return err
	}
	a.wait = w.executor.Begin(func() error { return w.sums(ctx, visit, a.partitions, w.gramExtent()) })
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
	for _, p := range a.partitions {
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

// sumGrams publishes the Gram matrices of an update's stage for the partitions that have not published them; due is the
// due stage.
func (w *Worker) sumGrams(ctx context.Context, stage, due int, partitions []*partition.State) error {
	partitions = withoutGram(stage, partitions)
	if len(partitions) == 0 {
		return nil
	}
	visit, err := w.gramVisit(stage, due)
	if err != nil {
		return err
	}
	if err := w.sums(ctx, visit, partitions, w.gramExtent()); err != nil {
		return err
	}
	for _, p := range partitions {
		p.SetGrams(stage + 1)
	}
	return nil
}

// withoutGram returns the partitions that have not published their Gram matrices of a stage.
func withoutGram(stage int, partitions []*partition.State) []*partition.State {
	return slices.DeleteFunc(slices.Clone(partitions), func(p *partition.State) bool { return p.HasGram(stage) })
}

// gramVisit returns the visit that sums the Gram matrices of an update's stage.
func (w *Worker) gramVisit(stage, due int) (*visit.Visit, error) {
	return visit.NewGram(w.visitRun(), w.chain, stage, stage > due)
}

// gramExtent returns the number of leading segments of a partition that the Gram matrices of an update cover.
func (w *Worker) gramExtent() func(*partition.State) int {
	switch u := w.plan.Update(); {
	case u.Restart:
		return (*partition.State).Staying
	case u.TakesAway():
		return (*partition.State).All
	}
	return (*partition.State).Recent
}

// inMemory reports whether the rows for the Gram matrices of an update are decoded in memory.
func (w *Worker) inMemory(partitions []*partition.State) bool {
	extent := w.gramExtent()
	for _, p := range partitions {
		if slices.ContainsFunc(p.Segments()[:extent(p)], func(s *partition.Segment) bool { return s.Batches() == nil }) {
			return false
		}
	}
	return true
}
