package solver

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/solve"
)

// publishWindow writes the state for the next run of the chain to the state topic, and returns the place of its window;
// nil if the run belongs to no chain, or the next run can only be full.
func (s *Solver) publishWindow(ctx context.Context, report *schemas.Report) (*schemas.StatePlace, error) {
	c := &s.chained
	if s.plan.Chain == nil {
		return nil, nil
	}
	w := s.window()
	report.Retrain.Gate = c.compared.report()
	switch margin := s.plan.Chain.Margin(); {
	case c.compared.worse(margin):
		if report.Retrain.Offered, w.Rejected = false, 1; s.plan.Update() != nil {
			w.Rejected += c.start.window.Rejected
		} else {
			w.Rejected = rejectedByFull
		}
	case w.Learnt() < s.plan.Chain.AtLeast && !c.compared.good(margin):
		w.AtLeast = s.plan.Chain.AtLeast
		report.Retrain.Offered, report.Retrain.AtLeast = false, w.AtLeast
	case s.plan.Chain.Lacking != nil && s.plan.Chain.Gate != nil && c.compared == nil:
		w.Unseen = s.plan.Chain.Lacking.Columns
		report.Retrain.Offered, report.Retrain.Unseen = false, true
	}
	c.left.window = w
	visited := s.visitedIncrements(w)
	for _, increment := range visited {
		increment.Visited = s.plan.Chain.Number
	}
	if err := s.writeState(ctx, w, visited); err != nil {
		return nil, err
	}
	stored := w
	if s.plan.Update() != nil {
		stored = w.ChangesOf(c.start.window, *c.start.at)
	}
	messages, err := stored.Messages()
	if err != nil {
		return nil, err
	}
	at, err := s.Log.Append(ctx, s.Topics.State, 0, messages...)
	if err != nil {
		return nil, err
	}
	report.Retrain.WindowRows, report.Retrain.Drift = w.Learnt(), w.Changed > 0
	report.Retrain.Gone = max(s.plan.Chain.Had-rowsBefore(w), 0)
	return &schemas.StatePlace{Run: s.run, From: at, To: at + int64(len(messages))}, nil
}

// rowsBefore returns the number of a window's rows from runs before the last.
func rowsBefore(w *schemas.Window) (rows int64) {
	for i := range w.Increments {
		if c := &w.Increments[i].Increment; c.Number != w.Chain.Number {
			rows += c.Learnt()
		}
	}
	return rows
}

// rejectedByFull is Window.Rejected after a full run that was withheld: rejections cause one full run, and no other until
// a version is offered.
const rejectedByFull = 2

// window returns the window after the run, without the places of its records.
func (s *Solver) window() *schemas.Window {
	c, chain := &s.chained, s.plan.Chain
	w := &schemas.Window{Run: s.run, Chain: chain, Full: chain.Number, Stages: len(s.plan.Stages)}
	for t := range w.Stages {
		p, k := s.shape(t)
		w.TermsSize += 2 * 8 * int64(p) * int64(k)
		w.GramsSize += 8 * int64(p) * int64(p+1) / 2
	}
	if u := chain.Update; u != nil {
		before := c.start.window
		w.Full, w.FullRows = before.Full, before.FullRows
		w.Ends = slices.Clone(before.Ends)
		w.Progress = slices.Clone(before.Progress)
		for _, increment := range before.Without(s.plan.Spans).Increments {
			if leaving(u, increment.Increment.Number) < 0 {
				if increment.Increment.Weight *= u.Decay; u.Restart {
					increment.Increment.Weight = 1
				}
				number := increment.Increment.Number
				at := slices.IndexFunc(u.Refresh, func(c coverage.Increment) bool { return c.Number == number })
				if at >= 0 {
					increment.Increment.Forgotten = c.left.forgotten[1+at]
				}
				w.Increments = append(w.Increments, increment)
			}
		}
		added := coverage.Increment{Number: chain.Number, Weight: 1, Covered: c.found.Parts, Skipped: c.found.Skipped,
			Forgotten: c.found.forgotten}
		w.Increments = append(w.Increments, schemas.WindowIncrement{Increment: added, Fitted: c.left.fitted[0],
			Messages: int64(len(c.found.Messages)), Until: chain.Until})
		if !u.Restart {
			w.Errors = before.Errors
		}
		if u.Restart {
			w.FullRows = w.Rows()
		}
		detectChange(c.found.Messages, w)
	} else {
		w.Ends, w.Progress = slices.Clone(chain.Ends), slices.Clone(chain.Progress)
		for i, increment := range c.found.increments {
			wi := schemas.WindowIncrement{Increment: increment, Until: chain.UntilOf(increment.Number)}
			if i < len(c.left.fitted) {
				wi.Fitted = c.left.fitted[i]
			}
			w.Increments = append(w.Increments, wi)
		}
		w.FullRows = w.Rows()
	}
	if w.Sparse = s.sparse(); w.Sparse {
		if w.GramsSize, w.TermsSize = 0, 0; chain.Update != nil {
			w.TermsSize = c.start.window.TermsSize
		}
	}
	w.MostlyBad = c.found.mostlyBad(s.plan)
	unknown := statistics.LabelSet{}
	unknown.Merge(c.found.Unknown)
	if c.start.head != nil {
		unknown.AddList(c.start.window.Unknown)
	}
	w.Unknown = unknown.List()
	for _, p := range c.found.Progress {
		w.Progress = advanceSources(w.Progress, p)
	}
	w.Advance(s.plan)
	return w
}

// advanceSources records the progress of a source in a partition.
func advanceSources(progress []schemas.SourceProgress, p statistics.PartitionProgress) []schemas.SourceProgress {
	i := slices.IndexFunc(progress, func(s schemas.SourceProgress) bool { return s.Source == p.Source && s.Attempt == p.Attempt })
	if i < 0 {
		progress, i = append(progress, schemas.SourceProgress{Source: p.Source, Attempt: p.Attempt}), len(progress)
	}
	next := slices.Clone(progress[i].Next)
	for len(next) <= p.Partition {
		next = append(next, 0)
	}
	next[p.Partition] = max(next[p.Partition], p.Next)
	progress[i].Next = next
	return progress
}

// visitedIncrements returns the increments of a window that the run has visited, in visit order.
func (s *Solver) visitedIncrements(w *schemas.Window) (visited []*schemas.WindowIncrement) {
	u := s.plan.Update()
	if u == nil {
		for i := range w.Increments {
			visited = append(visited, &w.Increments[i])
		}
		return visited
	}
	visited = append(visited, &w.Increments[len(w.Increments)-1])
	for i := range u.Refresh {
		for j := range w.Increments {
			if w.Increments[j].Increment.Number == u.Refresh[i].Number {
				visited = append(visited, &w.Increments[j])
			}
		}
	}
	return visited
}

// detectChange detects whether the stream has changed, from the prequential losses of an update's messages in cut order. It
// records the first increment of the window that belongs to the new stream. Messages whose rows lack optional columns do
// not count.
func detectChange(messages []statistics.MessageLosses, w *schemas.Window) {
	drift := solve.Drift{}
	for _, e := range w.Errors {
		drift.Buckets = append(drift.Buckets, solve.Bucket{Inputs: e.Messages, Rows: e.Rows, Wrong: e.Wrong})
	}
	since := int64(0) // number of the newest messages that belong to the new stream
	for _, m := range inLogOrder(messages, w.Chain) {
		if since > 0 {
			since++
		}
		if w.Chain.Lacking.Has(m.Partition, m.Offset) {
			continue // the rows have changed as the configuration allows
		}
		if changed := drift.Observe(m.Weight, m.Errors); changed > 0 {
			since = changed
		}
	}
	w.Errors = nil
	for _, b := range drift.Buckets {
		w.Errors = append(w.Errors, schemas.ErrorSum{Messages: b.Inputs, Rows: b.Rows, Wrong: b.Wrong})
	}
	if since == 0 {
		return
	}
	w.Changed = w.Increments[0].Increment.Number
	for i := len(w.Increments) - 1; i >= 0 && since > 0; i-- {
		w.Changed = w.Increments[i].Increment.Number
		since -= w.Increments[i].Messages
	}
}
