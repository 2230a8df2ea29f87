package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// findHead finds the newest version of the chain, the state of its run, and the number of failed runs that continue from
// it. The ledger has no unfinished runs.
func (r *runner) findHead(ctx context.Context, l *protocol.Ledger) error {
	head, err := r.newestOfChain(ctx, l)
	if err != nil {
		return err
	}
	r.chain.number, r.chain.attempt = 1, 0
	if head != nil {
		if err := topics.CheckExamples(r.Pipeline, head.Plan, fmt.Sprintf("version %d", head.Version)); err != nil {
			return err
		}
		r.chain.number = head.Plan.Chain.Number + 1
	}
	if last := l.Chained(); last != nil && last.Number >= r.chain.number {
		r.chain.number, r.chain.attempt = last.Number, last.Attempt+1
	}
	switch {
	case head == nil:
		r.looksForClasses()
		removed := r.chain.head != nil
		r.chain, r.earlier = chainState{number: r.chain.number, attempt: r.chain.attempt}, nil
		if r.backlog.ends == nil || removed {
			bounds, err := r.Log.Spans(ctx, r.Topics.Examples)
			if err != nil {
				return err
			}
			var begins []int64
			for _, span := range bounds {
				begins = append(begins, span.From)
			}
			r.backlog.begin(begins, slices.Clone(begins), nil)
		}
		return nil
	case r.chain.head != nil && r.chain.head.Run == head.Run:
		return nil
	}
	follows := head.Run == r.made && len(r.backlog.ends) > 0
	known := r.chain.stored
	if parent := head.Plan.Chain.Parent; r.chain.head != nil && parent != nil && parent.Run == r.chain.head.Run {
		r.earlier = append([]earlier{{r.chain.head.Plan, known}}, r.earlier...)
	} else {
		r.earlier = nil
	}
	r.looksForClasses()
	r.chain = chainState{head: head, number: r.chain.number, attempt: r.chain.attempt}
	if r.choose != nil {
		r.keepChoice(head.Plan.Stages, head.Plan.Prepare)
	}
	if head.Window != nil {
		r.chain.stored, err = protocol.ReadStateWindow(ctx, r.Client, *head.Window, known)
	}
	if err != nil && !errors.Is(err, wire.ErrDamaged) { // a damaged window is gone
		return err
	}
	var window *schemas.Window
	if r.chain.stored != nil {
		window = r.chain.stored.Window
	} else if window, err = r.lostWindow(ctx); err != nil {
		return err
	}
	r.chain.window = window
	r.chain.least = window.AtLeast
	if r.chain.renews {
		if r.chain.least, err = r.offeredRows(ctx, l); err != nil {
			return err
		}
	}
	r.release(ctx)
	if follows {
		r.backlog.advance(head.Plan)
		return nil
	}
	r.proven = false
	r.backlog.begin(slices.Clone(head.Plan.Chain.Begins), slices.Clone(r.chain.window.Ends), head.Plan.Chain.Marks)
	return nil
}

// newestOfChain returns the manifest of the newest complete version of a chain; nil if there is none.
func (r *runner) newestOfChain(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	newest := r.Newest()
	for _, place := range slices.Backward(l.Versions()) {
		if newest != nil && newest.Manifest.Run == place.Run && newest.Manifest.Plan.Chain != nil {
			return newest.Manifest, nil
		}
		if r.chain.head != nil && r.chain.head.Run == place.Run {
			return r.chain.head, nil
		}
		m, _, err := r.ModelAt(ctx, place)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		if err != nil {
			return nil, err
		}
		if m.Manifest.Plan.Chain != nil {
			r.Remember(m) // an update of this process needs it
			return m.Manifest, nil
		}
	}
	return nil, nil
}

// passOver reports once that a version is incomplete.
func (r *runner) passOver(place schemas.Place, why error) {
	if !r.passed[place.Version] {
		r.passed[place.Version] = true
		r.rec.Record(event.Incomplete{Version: place.Version, Why: why})
	}
}

// offered returns the manifest of the newest offered version that exists; nil if there is none.
func (r *runner) offered(ctx context.Context, l *protocol.Ledger) (*schemas.Manifest, error) {
	for _, place := range slices.Backward(l.Versions()) {
		if place.Withheld {
			continue
		}
		if r.chain.head != nil && place.Run == r.chain.head.Run {
			return r.chain.head, nil
		}
		m, err := r.Version(ctx, place.Run)
		if protocol.IsIncomplete(err) {
			r.passOver(place, err)
			continue
		}
		return m, err
	}
	return nil, nil
}

// offeredRows returns the number of rows in the window of the version for subscribers; 0 if unknown.
func (r *runner) offeredRows(ctx context.Context, l *protocol.Ledger) (int64, error) {
	m, err := r.offered(ctx, l)
	if err != nil || m == nil {
		return 0, err
	}
	return m.WindowRows, nil
}

// earlier is a version of a chain before the newest.
type earlier struct {
	plan   *schemas.Plan
	window *protocol.StateWindow // nil if it is gone
}

// release deletes records that the newest version of the chain and its parent do not need: the state of the version before
// these, and the statistics and weights of earlier runs. Errors have no effect: the next version, or the next start,
// repeats it.
func (r *runner) release(ctx context.Context) {
	if err := r.tryRelease(ctx); err != nil && ctx.Err() == nil && !r.refused {
		r.refused = errors.As(err, new(*kafkalog.AccessError)) // permanently
		event.Notice(r.rec, "leftovers of earlier runs stay until a later run: %v", err)
	}
}

func (r *runner) tryRelease(ctx context.Context) error {
	if err := r.findEarlier(ctx); err != nil || len(r.earlier) < 2 || r.chain.stored == nil || r.earlier[0].window == nil {
		return err
	}
	parent, gone := r.earlier[0], r.earlier[1]
	if gone.window != nil {
		if err := protocol.ReleaseState(ctx, r.Client, gone.window, parent.window, r.chain.stored); err != nil {
			return err
		}
	}
	r.earlier = r.earlier[:1]
	return protocol.ReleaseStatistics(ctx, r.Client, parent.plan, r.chain.head.Plan)
}

// findEarlier reads the two versions before the newest, if they exist and are not known yet.
func (r *runner) findEarlier(ctx context.Context) error {
	for next := r.chain.head.Plan.Chain.Parent; len(r.earlier) < 2 && next != nil; {
		if n := len(r.earlier); n > 0 {
			if next = r.earlier[n-1].plan.Chain.Parent; next == nil {
				return nil
			}
		}
		manifest, err := r.Version(ctx, next.Run)
		if protocol.IsMissing(err) {
			return nil
		}
		if err != nil {
			return err
		}
		e := earlier{plan: manifest.Plan}
		if manifest.Window != nil {
			if e.window, err = protocol.ReadStateWindow(ctx, r.Client, *manifest.Window, nil); err != nil {
				return err
			}
		}
		r.earlier = append(r.earlier, e)
	}
	return nil
}

// announce recovers versions if the plans topic has lost them. It reports whether there are any: the ledger is then
// outdated.
func (r *runner) announce(ctx context.Context, l *protocol.Ledger) (again bool, err error) {
	numbers, err := r.AnnounceVersions(ctx, l)
	if len(numbers) > 0 {
		event.Notice(r.rec, "%s has lost earlier versions: %s are complete on %s, and are announced again", r.Topics.Plans,
			english.WordSeries(numbers, "and"), r.Topics.Versions)
	}
	return len(numbers) > 0, err
}

// lostWindow reconstructs the window of the chain's newest version, whose state is gone, from the plans of the last
// full run to the newest update. Which messages count in its spans is unknown, so the next run is a full one, which
// decides that again. If plans are gone too, the window is everything that the chain has processed.
func (r *runner) lostWindow(ctx context.Context) (*schemas.Window, error) {
	r.chain.renews = true
	past, err := source.ReadHistory(ctx, r.Pipeline)
	if err != nil {
		return nil, err
	}
	runs, err := past.Runs(r.chain.head)
	if err != nil && !errors.As(err, new(*source.MissingPlanError)) {
		return nil, err
	}
	what := "the plans list its messages"
	if err != nil {
		what = "some of its plans are also lost, so all messages that the chain has read count as its messages"
	}
	w := windowOfPlans(r.chain.head, source.PlansOf(runs), err == nil)
	event.Notice(r.rec, "%s has lost the state of version %d: %s, and the next version is fitted to them", r.Topics.State,
		r.chain.head.Version, what)
	return w, nil
}

// windowOfPlans reconstructs the window of a chain's head whose state is gone from the plans of its runs, from the last
// full run to that of the head. Which messages count in its spans is unknown. If some of the plans are gone too (whole is
// false), the window starts as everything that the chain has processed.
func windowOfPlans(head *schemas.Manifest, plans []*schemas.Plan, whole bool) *schemas.Window {
	w := &schemas.Window{Run: head.Run, Chain: head.Plan.Chain, Full: head.Plan.Chain.Number}
	if !whole {
		w.Increments, w.Ends = allLooked(head.Plan.Chain)
	}
	for _, plan := range plans {
		addPlan(w, plan)
	}
	return w
}

// addPlan updates a window for another run, as far as its plan determines it.
func addPlan(w *schemas.Window, plan *schemas.Plan) {
	chain := plan.Chain
	if u := chain.Update; u == nil {
		w.Increments, w.Full, w.Ends = nil, chain.Number, slices.Clone(chain.Ends)
		for i := range chain.Increments {
			c := &chain.Increments[i]
			w.Increments = append(w.Increments, uncounted(c.Number, c.Weight, c.Spans()))
			w.Increments[i].Increment.Joined, w.Increments[i].Until = c.Joined, chain.UntilOf(c.Number)
		}
		if len(chain.Increments) == 0 {
			w.Increments = append(w.Increments, uncounted(chain.Number, 1, plan.Spans))
		}
	} else {
		w.Increments = slices.DeleteFunc(w.Without(plan.Spans).Increments, func(c schemas.WindowIncrement) bool {
			return len(c.Increment.Covered) == 0 || slices.ContainsFunc(u.Leave,
				func(left coverage.Increment) bool { return left.Number == c.Increment.Number })
		})
		for i := range w.Increments {
			w.Increments[i].Increment.Weight *= u.Decay
		}
		w.Increments = append(w.Increments, uncounted(chain.Number, 1, plan.Spans))
	}
	if last := len(w.Increments) - 1; w.Increments[last].Increment.Number == chain.Number {
		w.Increments[last].Until = chain.Until
	}
	w.Advance(plan)
}

// uncounted returns an increment with a weight and known spans only.
func uncounted(number int, weight float64, spans coverage.Spans) schemas.WindowIncrement {
	return schemas.WindowIncrement{Increment: coverage.Increment{Number: number, Weight: weight, Uncounted: true, Covered: byPartition(spans)}}
}

// byPartition groups spans by partition, as in an increment of unknown coverage.
func byPartition(spans coverage.Spans) (covered []coverage.Coverage) {
	for _, hull := range spans.Hulls() {
		covered = append(covered, coverage.Coverage{Spans: spans.On(hull.Partition)})
	}
	return covered
}

// allLooked returns everything that a chain has processed as one increment, and its ends by partition.
func allLooked(chain *schemas.Chain) (increments []schemas.WindowIncrement, ends []int64) {
	var spans coverage.Spans
	ends = slices.Clone(chain.Begins)
	for _, m := range chain.Marks {
		if m.Partition < len(ends) {
			ends[m.Partition] = max(ends[m.Partition], m.Offset+1)
		}
	}
	for n, begin := range chain.Begins {
		if span := (coverage.Span{Partition: n, From: begin, To: ends[n]}); !span.Empty() {
			spans = append(spans, span)
		}
	}
	return []schemas.WindowIncrement{uncounted(chain.Number, 1, spans)}, ends
}

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
	err = dispatch.EachCounted(ctx, r.Pipeline, plan, true, func(_ int, _ int64, batch *examples.Rows) (more bool) {
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
	err = dispatch.EachCounted(ctx, r.Pipeline, plan, true, func(partition int, offset int64, batch *examples.Rows) (more bool) {
		for row, weight := range visit.RowsOf(plan, partition, offset, batch).Fitted {
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
