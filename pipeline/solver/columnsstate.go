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

// columnsState is the state from which the next update continues, besides the window.
type columnsState struct {
	Sums []*solve.SparseSums // by stage
	// Before is the components of the previous version's weights, by stage; nil in an update that changes all sums.
	Before []*solve.CountsBefore
	Memory solve.Memory // of updates
	// terms of the window's increments, by number and stage; nil while all weights are 1: then the sums are exact, and an
	// increment that leaves the window is subtracted
	terms map[int][]solve.SparseTerms
}

// Log reads the state of earlier runs.
type columnsLog struct {
	*protocol.Client
	Stages  int // number of stages
	Inputs  int // number of inputs of the previous version
	Classes int // k
}

// stateError means that state required by an update is missing. The next version must be full.
type stateError struct {
	What  string // missing state: "the terms of increment 3 at stage 0"
	Topic string
}

// Error includes the missing state.
func (e *stateError) Error() string {
	return fmt.Sprintf("%s are no longer on %s: the next version is a full one", e.What, e.Topic)
}

func (l *columnsLog) gone(what string, args ...any) error {
	return &stateError{fmt.Sprintf(what, args...), l.Topics.State}
}

// Read computes the sums of a window from its terms.
func (l *columnsLog) Read(ctx context.Context, w *schemas.Window) (*columnsState, error) {
	s := &columnsState{Sums: make([]*solve.SparseSums, l.Stages)}
	err := protocol.ReadStateRecords(ctx, l.Client, w.Moments, statistics.KindMoments, l.Stages, func(r *wire.Record[float64]) (bool, error) {
		how, err := statistics.OccurringSumsOf(r)
		if err != nil {
			return false, err
		}
		s.Sums[r.Stage] = solve.NewSparseSums(l.Classes, how.Prior(), how.Grid())
		return !slices.Contains(s.Sums, nil), nil
	})
	if err != nil {
		return nil, err
	}
	if slices.Contains(s.Sums, nil) {
		return nil, l.gone("the sums of the last full run")
	}
	return s, l.fold(ctx, w, s, func(i *schemas.WindowIncrement) float64 { return i.Increment.Weight })
}

// fold sets the sums to the weighted sums of a window's increments. It keeps the terms in memory if a weight is not 1:
// then the sums are not exact, and each run adds up the terms again.
func (l *columnsLog) fold(ctx context.Context, w *schemas.Window, s *columnsState, weight func(*schemas.WindowIncrement) float64) error {
	for _, sums := range s.Sums {
		sums.Clear()
	}
	kept, exact := map[int][]solve.SparseTerms{}, true
	for i := range w.Increments {
		increment := &w.Increments[i]
		number, by := increment.Increment.Number, weight(increment)
		if exact = exact && by == 1; by == 0 || w.Merged(number) { // the terms include those of the previous increment
			continue
		}
		terms := s.terms[number]
		if terms == nil {
			var err error
			if terms, err = l.terms(ctx, w, number); err != nil {
				return err
			}
		}
		for t, sums := range s.Sums {
			sums.Add(by, terms[t])
		}
		kept[number] = terms
	}
	if s.terms = kept; exact {
		s.terms = nil
	}
	return nil
}

// terms reads the terms of an increment of a window, by stage.
func (l *columnsLog) terms(ctx context.Context, w *schemas.Window, number int) ([]solve.SparseTerms, error) {
	i := slices.IndexFunc(w.Increments, func(c schemas.WindowIncrement) bool { return c.Increment.Number == number })
	if i < 0 {
		return nil, l.gone("the terms of increment %d", number)
	}
	place, terms, found := w.Increments[i].Terms, make([]solve.SparseTerms, l.Stages), map[int]bool{}
	err := protocol.ReadStateRecords(ctx, l.Client, place, statistics.KindTerms, l.Stages, func(r *wire.Record[float64]) (bool, error) {
		if r.Visit != place.Index || found[r.Stage] {
			return false, nil
		}
		t, err := statistics.OccurringTermsOf(r, int(solve.InterceptColumn)+1, l.Classes)
		if err != nil {
			return false, err
		}
		terms[r.Stage], found[r.Stage] = solve.SparseTerms{Columns: t.Columns, Values: t.Values}, true
		return len(found) == len(terms), nil
	})
	if err == nil && len(found) < len(terms) {
		err = l.gone("the terms of increment %d", number)
	}
	return terms, err
}

// Begin converts the sums after a window to the sums from which an update continues: with its weights, and without the
// increments that leave. It returns the terms of the increments that the update merges, by number.
func (l *columnsLog) Begin(ctx context.Context, w *schemas.Window, s *columnsState, chain *schemas.Chain) (
	merging map[int][]solve.SparseTerms, err error) {
	u := chain.Update
	leaves := func(number int) bool {
		return slices.ContainsFunc(u.Leave, func(c coverage.Increment) bool { return c.Number == number })
	}
	exact := u.Decay == 1 && s.terms == nil
	s.Before = nil
	for i := range w.Increments {
		exact = exact && w.Increments[i].Increment.Weight == 1
	}
	if !exact {
		err = l.fold(ctx, w, s, func(i *schemas.WindowIncrement) float64 {
			if leaves(i.Increment.Number) {
				return 0
			}
			return i.Increment.Weight * u.Decay
		})
	} else {
		err = l.subtract(ctx, w, s, u.Leave)
	}
	if err != nil {
		return nil, err
	}
	merging = map[int][]solve.SparseTerms{}
	for _, group := range chain.Merged() {
		for _, number := range group {
			if merging[number], err = l.terms(ctx, w, number); err != nil {
				return nil, err
			}
		}
	}
	return merging, nil
}

// subtract subtracts the terms of leaving increments from exact sums.
func (l *columnsLog) subtract(ctx context.Context, w *schemas.Window, s *columnsState, leave []coverage.Increment) error {
	for _, sums := range s.Sums {
		s.Before = append(s.Before, &solve.CountsBefore{Totals: sums.Totals(), Inputs: l.Inputs})
	}
	for i := range leave {
		if w.Merged(leave[i].Number) {
			continue
		}
		terms, err := l.terms(ctx, w, leave[i].Number)
		if err != nil {
			return err
		}
		for t, sums := range s.Sums {
			sums.Add(-1, terms[t])
			s.Before[t].Changed = append(s.Before[t].Changed, terms[t].Columns...)
		}
	}
	return nil
}

// keep keeps the terms of an update's new increment at its next stage, if terms are kept. They are already included in the
// sums.
func (s *columnsState) keep(number int, terms solve.SparseTerms) {
	if s.terms != nil {
		s.terms[number] = append(s.terms[number], terms)
	}
}
