package pipeline

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// forget reads what is forgotten. Once the newest version of the chain has not learnt from it, all versions are removed that have.
func (r *runner) forget(ctx context.Context, l *run.Ledger) error {
	if err := r.readForgotten(ctx); err != nil || len(r.learnt) == 0 || r.head == nil || r.hasLearnt(r.head.Run) {
		return err
	}
	// Some may have gone meanwhile, as the oldest do.
	r.learnt = slices.DeleteFunc(r.learnt, func(place schemas.Place) bool { return !slices.Contains(l.Versions(), place) })
	removed, left, err := r.removeLearnt(ctx, r.learnt)
	r.learnt = left
	noteRemoved(r.rec, removed)
	return err
}

// readForgotten reads what the forget topic has that was not read, and finds out which versions have learnt from it.
func (r *runner) readForgotten(ctx context.Context) error {
	more, err := r.pipeline.readForgotten(ctx, r.forgotten)
	if err != nil || !more {
		return err
	}
	r.learnt, err = r.haveLearnt(ctx, r.forgotten)
	return err
}

// hasLearnt reports whether the version of a run has learnt from what is forgotten.
func (r *runner) hasLearnt(id string) bool {
	return slices.ContainsFunc(r.learnt, func(place schemas.Place) bool { return place.Run == id })
}

// windowWith returns where the rows of the window are, and those of spans.
func (r *runner) windowWith(spans schemas.Spans) schemas.Spans {
	all := slices.Clone(spans)
	if r.window != nil {
		for i := range r.window.Increments {
			for _, covered := range r.window.Increments[i].Increment.Covered {
				all = append(all, covered.Spans...)
			}
		}
	}
	return all
}
