package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// forget reads what is forgotten. Once the newest version of the chain has not learnt from it, all versions are removed that have.
func (r *runner) forget(ctx context.Context, l *run.Ledger) error {
	if err := r.readForgotten(ctx); err != nil {
		return err
	}
	check := func() error { return r.checkNewest(ctx, l, r.forgotten) }
	if r.head != nil {
		check = func() error { return r.checkForgotten(r.forgotten, r.head) }
	}
	if err := check(); err != nil {
		return err
	}
	if len(r.learnt) == 0 || r.head == nil || r.hasLearnt(r.head.Run) {
		return nil
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
	r.forgotten.tell(r.Topics.Examples, r.rec)
	return err
}

// waitsToForget reports whether the newest version has learnt from what is forgotten, and the next update can take it away: the sums of a stage with
// the link identity are the same as if the rows had never come, wherever its weights have been. What a full run has made of rows that it had read, no
// update takes away. bounds are those of the examples topic.
func (r *runner) waitsToForget(ctx context.Context, bounds []schemas.Span) (bool, error) {
	if r.window == nil || !r.hasLearnt(r.head.Run) || len(r.job.Stages) != 1 || !link.Named(r.job.Stages[0].Link).Quadratic || !updatable(r.job.Stages) {
		return false, nil
	}
	rows := r.forgotten.rows.Within(r.windowWith(nil))
	for _, i := range touched(r.window.Increments, rows.Without(r.head.Plan.Forgotten)) {
		if expires(&r.window.Increments[i].Increment, bounds) { // what it has learnt can't be summed again
			return false, nil
		}
	}
	past, err := r.past(ctx)
	if err != nil {
		return false, err
	}
	runs, err := past.runs(r.head)
	if err != nil {
		return false, nil // a plan is gone: nobody knows what it has read
	}
	if r.haveRead(plansOf(runs[:1]), r.forgotten.rows) { // the last full run: means, components, filters and the bandwidth have seen the rows
		return false, nil
	}
	without := &schemas.Plan{Topic: r.archiveTopic(), Forgotten: rows, Chain: &schemas.Chain{Update: &schemas.Update{Forget: make([]schemas.Increment, 1)}}}
	return !r.haveRead(append(plansOf(runs), without), r.forgotten.rows), nil
}

// takeAway adds to the plan of an update the increments of its window that have forgotten rows which the version before has learnt.
func (r *runner) takeAway(plan *schemas.Plan, window *schemas.Window) {
	u, at := plan.Chain.Update, touched(window.Increments, plan.Forgotten.Without(r.head.Plan.Forgotten))
	decayed := func(i int) schemas.Increment {
		c := window.Increments[i].Increment
		c.Weight *= u.Decay
		return c
	}
	for _, i := range at {
		u.Forget = append(u.Forget, decayed(i))
	}
	for _, group := range window.Groups() { // merged increments are visited together
		first := window.Increments[group[0]].Increment.Number
		if slices.ContainsFunc(u.Refresh, func(c schemas.Increment) bool { return c.Number == first }) {
			continue
		}
		if slices.ContainsFunc(group, func(i int) bool { return slices.Contains(at, i) }) {
			for _, i := range group {
				u.Refresh = append(u.Refresh, decayed(i))
			}
		}
	}
}

// classesLeft returns the classes of a full run over the window: without those that only rows have had which were forgotten since the version before.
func (r *runner) classesLeft(ctx context.Context, plan *schemas.Plan) (left []string, err error) {
	classes := r.classes()
	if len(r.job.Examples.Classes) > 0 || len(plan.Forgotten.Without(r.head.Plan.Forgotten)) == 0 {
		return classes, nil
	}
	has := map[string]bool{}
	for _, class := range classes {
		has[class] = false
	}
	missing := len(has)
	for _, span := range plan.Spans {
		err := r.Remaining(ctx, r.Topics.Examples, span.Partition, span.From, span.To, func(m run.Message) error {
			examples, err := r.Codec.DecodeExamples(m.Value)
			if err != nil {
				return nil // it is in quarantine
			}
			defer examples.Release()
			examples = examples.Without(plan.Forgotten, span.Partition, m.Offset)
			for row := range examples.Rows {
				if !examples.Labelled(row) {
					continue
				}
				for label := range examples.Labels(row) {
					if there, known := has[label]; known && !there {
						has[label] = true
						missing--
					}
				}
			}
			if missing == 0 {
				return errAllClasses
			}
			return nil
		})
		if errors.Is(err, errAllClasses) {
			return classes, nil
		}
		if err != nil {
			return nil, fmt.Errorf("find the classes that are left: %w", err)
		}
	}
	left = slices.DeleteFunc(slices.Clone(classes), func(class string) bool { return !has[class] })
	if len(left) == 0 { // nothing is left to fit, as the run will say
		return classes, nil
	}
	return left, nil
}

// errAllClasses ends reading.
var errAllClasses = errors.New("all classes have rows")

// touched returns the places of the increments that have some of these rows.
func touched(increments []schemas.WindowIncrement, rows schemas.Forgotten) (at []int) {
	for i := range increments {
		for _, covered := range increments[i].Increment.Covered {
			if len(rows.Within(covered.Spans)) > 0 {
				at = append(at, i)
				break
			}
		}
	}
	return at
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
			all = append(all, r.window.Increments[i].Increment.Spans()...)
		}
	}
	return all
}
