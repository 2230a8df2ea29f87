package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// forget reads the forgotten rows. Once the newest version of the chain is not trained on them, it removes all versions
// that are.
func (r *runner) forget(ctx context.Context, l *protocol.Ledger) error {
	if err := r.readForgotten(ctx); err != nil {
		return err
	}
	check := func() error { return source.CheckNewest(ctx, r.Pipeline, l, r.forgotten) }
	if r.chain.head != nil {
		check = func() error { return source.CheckForgotten(r.Pipeline, r.forgotten, r.chain.head) }
	}
	if err := check(); err != nil {
		return err
	}
	if len(r.learnt) == 0 || r.chain.head == nil || r.hasLearnt(r.chain.head.Run) {
		return nil
	}
	// Some may have been removed in the meantime, like the oldest versions.
	r.learnt = slices.DeleteFunc(r.learnt, func(place schemas.Place) bool { return !slices.Contains(l.Versions(), place) })
	removed, left, err := source.RemoveLearnt(ctx, r.Pipeline, r.learnt)
	r.learnt = left
	source.NoteRemoved(r.rec, removed)
	return err
}

// readForgotten reads new messages of the forget topic, and determines which versions were trained on forgotten rows.
func (r *runner) readForgotten(ctx context.Context) error {
	more, err := source.ReadMoreForgotten(ctx, r.Pipeline, r.forgotten)
	if err != nil || !more {
		return err
	}
	if err := source.CompareForgotten(ctx, r.Pipeline, r.forgotten); err != nil {
		return err
	}
	r.backlog.restart(lateSources{}) // it has counted rows that are forgotten now
	r.looksForClasses()
	r.learnt, err = source.HaveLearnt(ctx, r.Pipeline, r.forgotten)
	r.forgotten.Tell(r.Topics.Examples, r.rec)
	return err
}

// classesLeft returns the classes of a full run over the window, without those whose rows were all forgotten since the
// previous version.
func (r *runner) classesLeft(ctx context.Context, plan *schemas.Plan) (left []string, err error) {
	classes := r.classes()
	if len(r.job.Examples.Classes) > 0 || len(plan.Forgotten.Without(r.chain.head.Plan.Forgotten)) == 0 {
		return classes, nil
	}
	has, labels := map[string]bool{}, examples.NewLabels(classes)
	for _, class := range classes {
		has[class] = false
	}
	missing := len(has)
	err = dispatch.EachCounted(ctx, r.Pipeline, plan, true, func(_ int, _ int64, batch *examples.Batch) (more bool) {
		for row := range batch.Rows {
			if !batch.Labelled(row) {
				continue
			}
			for label := range batch.Labels(row) {
				label = labels.Spelt(label)
				if there, known := has[label]; known && !there {
					has[label] = true
					missing--
				}
			}
		}
		return missing > 0
	})
	if err != nil {
		return nil, fmt.Errorf("find the classes that are left: %w", err)
	}
	return slices.DeleteFunc(slices.Clone(classes), func(class string) bool { return !has[class] }), nil
}

// anyFits reports whether a run fits its weights to any row of its spans: one that counts, is in the training split, and
// has a label and a weight.
func (r *runner) anyFits(ctx context.Context, plan *schemas.Plan) (any bool, err error) {
	err = dispatch.EachCounted(ctx, r.Pipeline, plan, true, func(partition int, offset int64, batch *examples.Batch) (more bool) {
		for row, weight := range visit.FittedWeights(plan, partition, offset, batch) {
			any = any || weight > 0 && (plan.Task() == examples.Numbers || batch.Labelled(row))
		}
		return !any
	})
	if err != nil {
		return false, fmt.Errorf("find a row to fit to: %w", err)
	}
	return any, nil
}

// hasLearnt reports whether the version of a run was trained on forgotten rows.
func (r *runner) hasLearnt(id string) bool {
	return slices.ContainsFunc(r.learnt, func(place schemas.Place) bool { return place.Run == id })
}
