package chain

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// WindowOfPlans returns the window of a chain's head where its state is gone, as the plans of its runs say it, from the last full run to
// the head's. What counts in its spans is not known. If some of the plans are gone too (whole is false), the window begins as all that the
// chain has looked at.
func WindowOfPlans(head *schemas.Manifest, plans []*schemas.Plan, whole bool) (*schemas.Window, error) {
	w := &schemas.Window{Run: head.Run, Chain: head.Plan.Chain, Full: head.Plan.Chain.Number}
	if !whole {
		w.Increments, w.Ends = allLooked(head.Plan.Chain)
	}
	for _, plan := range plans {
		if err := addPlan(w, plan); err != nil {
			return nil, fmt.Errorf("run %s: %w", plan.Run(), err)
		}
	}
	return w, nil
}

// addPlan makes a window what it is after another run, as far as its plan says it.
func addPlan(w *schemas.Window, plan *schemas.Plan) error {
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
		if err := w.Join(chain.Join); err != nil {
			return err
		}
	}
	if last := len(w.Increments) - 1; w.Increments[last].Increment.Number == chain.Number {
		w.Increments[last].Until = chain.Until
	}
	w.Advance(plan)
	return nil
}

// uncounted returns an increment of a weight of which only the spans are known.
func uncounted(number int, weight float64, spans coverage.Spans) schemas.WindowIncrement {
	return schemas.WindowIncrement{Increment: coverage.Increment{Number: number, Weight: weight, Uncounted: true, Covered: ByPartition(spans)}}
}

// ByPartition returns spans as an increment has them of which no more is known: those of each partition together.
func ByPartition(spans coverage.Spans) (covered []coverage.Coverage) {
	for _, hull := range spans.Hulls() {
		covered = append(covered, coverage.Coverage{Spans: spans.On(hull.Partition)})
	}
	return covered
}

// allLooked returns all that a chain has looked at as one increment, and by partition where that ends.
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
