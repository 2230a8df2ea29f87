package solver

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// The state topic has, for each version of a chain that can be updated, the sums of its stages, and for each increment the terms of its
// last visit, one record a stage. Only what a record contains differs between dense and sparse rows.

// lost returns the error for state that an update requires: "the terms of increment 3". The next version must be full.
func (s *Solver) lost(what string) error {
	return fmt.Errorf("%s are no longer on %s: the next version is a full one", what, s.Topics.State)
}

// readStages reads the records of a kind at a place of the state topic, one per stage, and returns their decoded values. what names the
// records in the error if some are missing.
func readStages[T any](ctx context.Context, s *Solver, place schemas.StatePlace, kind wire.Kind, what string,
	decode func(r *wire.Record[float64], p, k int) (T, error)) ([]T, error) {
	list, found := make([]T, len(s.plan.Stages)), map[int]bool{}
	err := protocol.ReadStateRecords(ctx, s.Client, place, kind, len(list), func(r *wire.Record[float64]) (whole bool, err error) {
		if r.Visit != place.Index || found[r.Stage] {
			return false, nil
		}
		p, k := int(solve.InterceptColumn)+1, len(s.chain.Earlier().Labels())
		if !s.updatesSparse() {
			p, k = s.shape(r.Stage)
		}
		list[r.Stage], err = decode(r, p, k)
		found[r.Stage] = true
		return len(found) == len(list), err
	})
	if err == nil && len(found) < len(list) {
		err = s.lost(what)
	}
	return list, err
}

// incrementOf returns the index of an increment of a window, by number; −1 if the window lacks it.
func incrementOf(w *schemas.Window, number int) int {
	return slices.IndexFunc(w.Increments, func(c schemas.WindowIncrement) bool { return c.Increment.Number == number })
}

// readTerms reads the terms of an increment of a window, by stage.
func readTerms[T any](ctx context.Context, s *Solver, w *schemas.Window, number int,
	decode func(r *wire.Record[float64], p, k int) (T, error)) ([]T, error) {
	what := fmt.Sprintf("the terms of increment %d", number)
	i := incrementOf(w, number)
	if i < 0 {
		return nil, s.lost(what)
	}
	return readStages(ctx, s, w.Increments[i].Terms, statistics.KindTerms, what, decode)
}

// loadHead reads the state from which an update continues, unless it is in memory: the sums of the stages, and the terms
// of the increments that are revisited or leave.
func (s *Solver) loadHead(ctx context.Context, parent *schemas.Manifest) (err error) {
	from := &s.chained.start
	from.plansFrom = parent.PlansFrom
	if parent.Window == nil {
		return s.lost(fmt.Sprintf("the window and the sums of version %d", parent.Version))
	}
	if from.head = s.options.Store.pop(parent.Run); from.head == nil {
		if from.head, err = s.readHead(ctx, parent); err != nil {
			return err
		}
	}
	u := s.plan.Update()
	if u.Sparse {
		return s.beginColumns(ctx)
	}
	if u.Restart {
		return nil
	}
	for _, list := range [][]coverage.Increment{u.Refresh, u.Leave} {
		for i := range list {
			terms, err := readTerms(ctx, s, from.window, list[i].Number, statistics.TermsOf)
			if err != nil {
				return err
			}
			from.refreshed = append(from.refreshed, terms)
		}
	}
	return nil
}

// readHead reads the window and the sums after the run of a version.
func (s *Solver) readHead(ctx context.Context, parent *schemas.Manifest) (*head, error) {
	after, err := protocol.ReadWindow(ctx, s.Client, *parent.Window)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("the window and the sums of version %d", parent.Version)
	if after == nil {
		return nil, s.lost(what)
	}
	h := &head{window: after}
	if h.window.Sparse {
		h.columns, err = s.readColumns(ctx, h.window)
		return h, err
	}
	h.moments, err = readStages(ctx, s, h.window.Moments, statistics.KindMoments, what, statistics.MomentsOf)
	return h, err
}

// encoded returns the messages of a record for the state topic. A run may leave very many, so each is encoded when it is written.
type encoded func() ([]wire.Message, error)

// stateIdentity returns the identity of a record of a stage on the state topic. The visit is the place of an increment among the visited
// ones.
func (s *Solver) stateIdentity(kind wire.Kind, stage, visit int) wire.Identity {
	return wire.Identity{Kind: kind, Run: s.run, Stage: stage, Visit: visit, Parent: s.chain.Root}
}

// leaveTerms keeps the records of the terms of the visited increments at the next stage.
func (s *Solver) leaveTerms(visited int, encode func(id wire.Identity, place int) ([]wire.Message, error)) {
	left, list := &s.chained.left, make([]encoded, visited)
	for i := range list {
		id := s.stateIdentity(statistics.KindTerms, len(left.terms), i)
		list[i] = func() ([]wire.Message, error) { return encode(id, i) }
	}
	left.terms = append(left.terms, list)
}

// writeState writes the terms of the visited increments, and the sums of the stages, and sets their places in a window.
func (s *Solver) writeState(ctx context.Context, w *schemas.Window, visited []*schemas.WindowIncrement) error {
	left, state := &s.chained.left, &stateWriter{Client: s.Client}
	for i, increment := range visited {
		increment.Terms = schemas.StatePlace{}
		if len(left.terms) < len(s.plan.Stages) {
			continue // a learnt link, so every version is full
		}
		var records []encoded
		for t := range left.terms {
			records = append(records, left.terms[t][i])
		}
		increment.Terms = schemas.StatePlace{Run: s.run, Index: i}
		bytes, err := state.add(ctx, records, &increment.Terms)
		if err != nil {
			return err
		}
		if w.Sparse {
			w.TermsSize = max(w.TermsSize, bytes)
		}
	}
	if s.updatesSparse() {
		w.Moments = s.chained.start.window.Moments
	} else {
		w.Moments = schemas.StatePlace{Run: s.run}
		if _, err := state.add(ctx, left.sums, &w.Moments); err != nil {
			return err
		}
	}
	return state.flush(ctx)
}

// stateWriter writes messages to the state topic of a client.
type stateWriter struct {
	Client   *protocol.Client
	messages []wire.Message
	bytes    int64
	places   []*schemas.StatePlace // places of the messages, relative to the first
}

// writeBytes is the batch size of a [stateWriter].
const writeBytes = 32 << 20

// add adds the messages of records to the batch, and returns their length. It sets place once they are written, at the latest by the next
// [stateWriter.flush].
func (w *stateWriter) add(ctx context.Context, records []encoded, place *schemas.StatePlace) (bytes int64, err error) {
	place.From = int64(len(w.messages))
	for _, encode := range records {
		messages, err := encode()
		if err != nil {
			return 0, err
		}
		for _, m := range messages {
			bytes += int64(len(m.Value))
		}
		w.messages = append(w.messages, messages...)
		place.Chunks = append(place.Chunks, len(messages))
	}
	place.To = int64(len(w.messages))
	w.places = append(w.places, place)
	if w.bytes += bytes; w.bytes < writeBytes {
		return bytes, nil
	}
	return bytes, w.flush(ctx)
}

// flush writes the batch.
func (w *stateWriter) flush(ctx context.Context) error {
	at, err := w.Client.Log.Append(ctx, w.Client.Topics.State, 0, w.messages...)
	if err != nil {
		return err
	}
	for _, place := range w.places {
		place.From, place.To = place.From+at, place.To+at
	}
	w.messages, w.bytes, w.places = nil, 0, nil
	return nil
}

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
	messages, err := w.Messages()
	if err != nil {
		return nil, err
	}
	at, err := s.Log.Append(ctx, s.Topics.State, 0, messages...)
	if err != nil {
		return nil, err
	}
	report.Retrain.WindowRows, report.Retrain.Drift = w.Learnt(), w.Changed > 0
	before := int64(0) // rows of the window from runs before this one
	for i := range w.Increments {
		if c := &w.Increments[i].Increment; c.Number != w.Chain.Number {
			before += c.Learnt()
		}
	}
	report.Retrain.Gone = max(s.plan.Chain.Had-before, 0)
	return &schemas.StatePlace{Run: s.run, From: at, To: at + int64(len(messages))}, nil
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
			Forgotten: c.found.forgotten, Until: chain.Until}
		w.Increments = append(w.Increments, schemas.WindowIncrement{Increment: added, Fitted: c.left.fitted[0],
			Messages: int64(len(c.found.Messages))})
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
			wi := schemas.WindowIncrement{Increment: increment}
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
	for _, refreshed := range u.Refresh {
		if i := incrementOf(w, refreshed.Number); i >= 0 {
			visited = append(visited, &w.Increments[i])
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
