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
	decode func(*wire.Record[float64]) (T, error)) ([]T, error) {
	list, found := make([]T, len(s.plan.Stages)), map[int]bool{}
	err := protocol.ReadStateRecords(ctx, s.Client, place, kind, len(list), func(r *wire.Record[float64]) (whole bool, err error) {
		if r.Visit != place.Index || found[r.Stage] {
			return false, nil
		}
		list[r.Stage], err = decode(r)
		found[r.Stage] = true
		return len(found) == len(list), err
	})
	if err == nil && len(found) < len(list) {
		err = s.lost(what)
	}
	return list, err
}

// readTerms reads the terms of an increment of a window, by stage.
func readTerms[T any](ctx context.Context, s *Solver, w *schemas.Window, number int,
	decode func(*wire.Record[float64]) (T, error)) ([]T, error) {
	what := fmt.Sprintf("the terms of increment %d", number)
	i := slices.IndexFunc(w.Increments, func(c schemas.WindowIncrement) bool { return c.Increment.Number == number })
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
	if from.at = parent.Window; from.at == nil {
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
			terms, err := readTerms(ctx, s, from.window, list[i].Number, s.termsOf)
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
	after, err := protocol.ReadStateWindow(ctx, s.Client, *parent.Window, nil)
	if err != nil {
		return nil, err
	}
	what := fmt.Sprintf("the window and the sums of version %d", parent.Version)
	if after == nil {
		return nil, s.lost(what)
	}
	h := &head{window: after.Window}
	if h.window.Sparse {
		h.columns, err = s.readColumns(ctx, h.window)
		return h, err
	}
	h.moments, err = readStages(ctx, s, h.window.Moments, statistics.KindMoments, what, s.momentsOf)
	return h, err
}

// termsOf decodes the terms of an increment on dense rows.
func (s *Solver) termsOf(r *wire.Record[float64]) (terms solve.Terms, err error) {
	_, of, err := s.stageShape(r.Stage)
	if err != nil {
		return terms, err
	}
	t, err := statistics.TermsOf(r, of.Columns, of.Classes)
	if err != nil {
		return terms, err
	}
	return solve.Terms{Scores: t.Scores(), Gradient: t.Gradient()}, nil
}

// momentsOf decodes the sums of a stage on dense rows.
func (s *Solver) momentsOf(r *wire.Record[float64]) (*solve.Moments, error) {
	_, of, err := s.stageShape(r.Stage)
	if err != nil {
		return nil, err
	}
	m, err := statistics.MomentsOf(r, of.Columns, of.Classes)
	if err != nil {
		return nil, err
	}
	if m.Gram == nil {
		return nil, r.Damaged(&wire.ShapeError{Tensor: statistics.FieldGram, Want: []int{of.Columns * (of.Columns + 1) / 2}})
	}
	return &solve.Moments{Gram: m.Gram, Scores: m.Scores(), Gradient: m.Gradient(), Curvature: m.Curvature}, nil
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
