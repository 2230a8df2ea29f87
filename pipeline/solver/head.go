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

// loadHead reads the state from which an update continues, unless it is in memory: the sums of the stages, and the terms
// of the increments that are revisited or leave.
func (s *Solver) loadHead(ctx context.Context, parent *schemas.Manifest) (err error) {
	from := &s.chained.start
	from.plansFrom = parent.PlansFrom
	if from.head = s.options.Store.pop(parent.Run); from.head == nil {
		if from.head, err = s.readHead(ctx, parent); err != nil {
			return err
		}
	}
	if from.at = parent.Window; from.at == nil {
		return &stateError{What: fmt.Sprintf("the window of version %d", parent.Version), Topic: s.Topics.State}
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
			if from.window.Merged(list[i].Number) { // the terms include those of the previous increment
				from.refreshed = append(from.refreshed, make([]solve.Terms, len(s.plan.Stages)))
				continue
			}
			terms, err := s.readTerms(ctx, from.window, list[i].Number)
			if err != nil {
				return err
			}
			from.refreshed = append(from.refreshed, terms)
		}
	}
	visited := s.visitedNumbers()
	for _, pair := range s.plan.Chain.Merge {
		for _, number := range pair {
			if from.merging[number] != nil || slices.Contains(visited, number) {
				continue
			}
			terms, err := s.readTerms(ctx, from.window, number)
			if err != nil {
				return err
			}
			if from.merging == nil {
				from.merging = map[int][]solve.Terms{}
			}
			from.merging[number] = terms
		}
	}
	return nil
}

// readTerms reads the terms of an increment, by stage.
func (s *Solver) readTerms(ctx context.Context, w *schemas.Window, number int) ([]solve.Terms, error) {
	gone := &stateError{What: fmt.Sprintf("the terms of increment %d", number), Topic: s.Topics.State}
	i := slices.IndexFunc(w.Increments, func(c schemas.WindowIncrement) bool { return c.Increment.Number == number })
	if i < 0 {
		return nil, gone
	}
	place, terms, found := w.Increments[i].Terms, make([]solve.Terms, len(s.plan.Stages)), 0
	err := protocol.ReadStateRecords(ctx, s.Client, place, statistics.KindTerms, len(terms), func(r *wire.Record[float64]) (bool, error) {
		if r.Visit != place.Index || terms[r.Stage].Scores != nil {
			return false, nil
		}
		of, err := s.parentShape(r.Stage)
		if err != nil {
			return false, err
		}
		t, err := statistics.TermsOf(r, of.Columns, of.Classes)
		if err != nil {
			return false, err
		}
		terms[r.Stage] = solve.Terms{Scores: t.Scores(), Gradient: t.Gradient()}
		found++
		return found == len(terms), nil
	})
	if err == nil && found < len(terms) {
		err = gone
	}
	return terms, err
}

// parentShape returns the shape of a stage of the version that the run starts from.
func (s *Solver) parentShape(stage int) (solve.Shape, error) {
	of, err := s.chain.Stage(stage)
	if err != nil {
		return solve.Shape{}, err
	}
	return solve.Shape{Columns: of.Features.Size(), Penalised: of.Features.Penalised(), Classes: of.Classes,
		Calibration: s.calibrationSplit(), Basis: of.Basis}, nil
}

// readHead reads the sums after the run of a version.
func (s *Solver) readHead(ctx context.Context, parent *schemas.Manifest) (*head, error) {
	if parent.Window == nil {
		return nil, &stateError{What: fmt.Sprintf("the sums of version %d", parent.Version), Topic: s.Topics.State}
	}
	after, err := protocol.ReadStateWindow(ctx, s.Client, *parent.Window, nil)
	if err != nil {
		return nil, err
	}
	if after == nil {
		return nil, &stateError{What: fmt.Sprintf("the window and the sums of version %d", parent.Version), Topic: s.Topics.State}
	}
	w := after.Window
	if w.Sparse {
		sums, err := s.columnLog().Read(ctx, w)
		return &head{window: w, columns: sums}, err
	}
	h := &head{window: w, moments: make([]*solve.Moments, len(s.plan.Stages))}
	for t := range h.moments {
		of, err := s.parentShape(t)
		if err != nil {
			return nil, err
		}
		h.moments[t] = solve.NewMoments(of)
		h.moments[t].Gram, h.moments[t].Scores = nil, nil
	}
	if err := s.readMoments(ctx, w.Moments, h); err != nil {
		return nil, err
	}
	for t, m := range h.moments {
		if m.Gram == nil || m.Scores == nil {
			return nil, &stateError{What: fmt.Sprintf("the sums of stage %d", t), Topic: s.Topics.State}
		}
	}
	return h, nil
}

// readMoments reads the moments of a run.
func (s *Solver) readMoments(ctx context.Context, place schemas.StatePlace, h *head) error {
	found := make(map[int]bool, len(h.moments))
	kind := statistics.KindMoments
	return protocol.ReadStateRecords(ctx, s.Client, place, kind, len(h.moments), func(r *wire.Record[float64]) (bool, error) {
		of, err := s.parentShape(r.Stage)
		if err != nil {
			return false, err
		}
		m, err := statistics.MomentsOf(r, of.Columns, of.Classes)
		if err != nil {
			return false, err
		}
		to := h.moments[r.Stage]
		to.Gram, to.Scores, to.Gradient, to.Curvature = m.Gram, m.Scores(), m.Gradient(), m.Curvature
		found[r.Stage] = true
		return len(found) == len(h.moments), nil
	})
}
