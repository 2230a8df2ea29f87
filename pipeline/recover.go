package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

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
			w.Increments[i].Increment.Joined = c.Joined
		}
		for i := range w.Increments {
			for _, t := range chain.Times {
				if t.Number == w.Increments[i].Increment.Number {
					w.Increments[i].Until = t.Until
				}
			}
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
