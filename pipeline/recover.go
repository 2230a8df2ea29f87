package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// announce writes again which versions there are, if the plans topic has lost it. It reports whether there are any: the ledger is then old.
func (r *runner) announce(ctx context.Context, l *protocol.Ledger) (again bool, err error) {
	numbers, err := r.AnnounceVersions(ctx, l)
	if len(numbers) > 0 {
		event.Notice(r.rec, "%s has lost earlier versions: %s are complete on %s, and are announced again", r.Topics.Plans,
			english.WordSeries(numbersText(numbers), "and"), r.Topics.Versions)
	}
	return len(numbers) > 0, err
}

// numbersText returns numbers as text.
func numbersText(numbers []int) (text []string) {
	for _, n := range numbers {
		text = append(text, strconv.Itoa(n))
	}
	return text
}

// windowOfPlans returns the window of the chain's newest version where its state is gone: what the plans say, from the
// last full run to the newest update. What counts in its spans is not known, so the next run is a full one, which
// decides that again. If plans are gone too, the window is all that the chain has looked at.
func (r *runner) windowOfPlans(ctx context.Context) (*schemas.Window, error) {
	r.renews = true
	past, err := heed.ReadHistory(ctx, r.Pipeline)
	if err != nil {
		return nil, err
	}
	runs, err := past.Runs(r.head)
	if err != nil && !errors.As(err, new(*heed.MissingPlanError)) {
		return nil, err
	}
	what := "the plans list its messages"
	w := &schemas.Window{Run: r.head.Run, Chain: r.head.Plan.Chain, Full: r.head.Plan.Chain.Number}
	if err != nil {
		what = "some of its plans are also gone, so all messages that the chain has read count as its messages"
		w.Increments, w.Ends = r.allLooked()
	}
	for _, earlier := range runs {
		if err := addPlan(w, earlier.Plan); err != nil {
			return nil, fmt.Errorf("run %s: %w", earlier.Plan.Run(), err)
		}
	}
	event.Notice(r.rec, "%s has lost the state of version %d: %s, and the next version is fitted to them", r.Topics.State,
		r.head.Version, what)
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
	return schemas.WindowIncrement{Increment: coverage.Increment{Number: number, Weight: weight, Uncounted: true, Covered: byPartition(spans)}}
}

// byPartition returns spans as an increment has them of which no more is known: those of each partition together.
func byPartition(spans coverage.Spans) (covered []coverage.Coverage) {
	for _, hull := range spans.Hulls() {
		covered = append(covered, coverage.Coverage{Spans: spans.On(hull.Partition)})
	}
	return covered
}

// allLooked returns all that the chain has looked at as one increment, and by partition where that ends.
func (r *runner) allLooked() (increments []schemas.WindowIncrement, ends []int64) {
	chain, spans := r.head.Plan.Chain, coverage.Spans{}
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
