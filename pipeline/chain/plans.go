package chain

import (
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// WindowOfPlans reconstructs the window of a chain's head whose state is gone from the plans of its runs, from the last
// full run to that of the head. Which messages count in its spans is unknown. If some of the plans are gone too (whole is
// false), the window starts as everything that the chain has processed.
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

// addPlan updates a window for another run, as far as its plan determines it.
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
	}
	if last := len(w.Increments) - 1; w.Increments[last].Increment.Number == chain.Number {
		w.Increments[last].Until = chain.Until
	}
	w.Advance(plan)
	return nil
}

// uncounted returns an increment with a weight and known spans only.
func uncounted(number int, weight float64, spans coverage.Spans) schemas.WindowIncrement {
	return schemas.WindowIncrement{Increment: coverage.Increment{Number: number, Weight: weight, Uncounted: true, Covered: ByPartition(spans)}}
}

// ByPartition groups spans by partition, as in an increment of unknown coverage.
func ByPartition(spans coverage.Spans) (covered []coverage.Coverage) {
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
