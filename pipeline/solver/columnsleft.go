package solver

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Fit is a fit of an update's stage on sparse rows.
type columnsFit interface {
	solve.Fit
	// After adds the terms of the new rows to the sums, and returns these terms and Σw of the rows.
	After() (solve.SparseTerms, float64)
}

// newFit returns the fit of an update's stage. columns are the columns of the examples in block order.
func (s *columnsState) newFit(stage schemas.Stage, number int, shape solve.Shape, columns []int32, passes int) columnsFit {
	if !shape.Counted {
		return solve.NewSparseUpdate(stage, shape, s.Sums[number], columns, passes, &s.Memory)
	}
	var before *solve.CountsBefore
	if s.Before != nil {
		before = s.Before[number]
	}
	return solve.NewCountsUpdate(stage, shape, s.Sums[number], columns, before, &s.Memory)
}

// columnsLeft is the state that a run leaves to the next one besides its sums: terms of the visited and of the merged increments.
type columnsLeft struct {
	Visited []int // numbers of the visited increments, in visit order
	// OwnTerms reports whether the increment at a place has terms of its own; nil: all have. Otherwise its rows are included
	// in the terms of an earlier place.
	OwnTerms func(place int) bool
	Merged   [][]int                     // groups of increments that are merged
	Merging  map[int][]solve.SparseTerms // terms of merged increments without a visit, by number and stage

	terms [][]solve.SparseTerms // by stage: of the increments, then of the groups
}

// add adds the terms of the increments at the next stage, with k classes.
func (l *columnsLeft) add(terms []solve.SparseTerms, k int) {
	stage, at := len(l.terms), map[int]solve.SparseTerms{}
	for number, all := range l.Merging {
		at[number] = all[stage]
	}
	for i, number := range l.Visited {
		at[number] = terms[i]
	}
	for _, group := range l.Merged {
		sum := solve.SparseTerms{}
		for _, number := range group {
			sum = solve.MergedTerms(sum, at[number], k)
		}
		terms = append(terms, sum)
	}
	l.terms = append(l.terms, terms)
}

// addFull adds the terms of a full run's increments at a stage, from the sums of its seals. columns are the columns of the
// examples in block order. It returns the stage's sums, and Σw of the training rows of each increment.
func (l *columnsLeft) addFull(sum *accumulate.Sum, increments []coverage.Increment, shape solve.Shape, columns []int32,
	prior float64) (*solve.SparseSums, []float64, error) {
	occurring, fitted := make([]statistics.Occurring, len(increments)), make([]float64, len(increments))
	total, weight := 0.0, 0.0
	for i := range increments {
		if visited := takeVisited(sum, i); visited != nil {
			fitted[i] = visited[0] / increments[i].Weight
			weight += visited[0]
		}
		name := statistics.Increment(i).Occurring()
		var err error
		if occurring[i], err = statistics.OccurringOf(sum.Tensors(), name, shape.Columns, shape.Classes); err != nil {
			return nil, nil, err
		}
		sum.Take(name)
		total += solve.TotalOf(occurring[i])
	}
	sums, terms := solve.NewSparseSums(shape.Classes, prior, solve.GridOf(total, weight)), make([]solve.SparseTerms, len(increments))
	for i := range increments {
		// The rows were fitted with the weights of their increments; terms are stored at weight 1.
		terms[i] = sums.Terms(occurring[i], columns, increments[i].Weight)
		sums.Add(increments[i].Weight, terms[i])
	}
	l.add(terms, shape.Classes)
	return sums, fitted, nil
}

// columnsWriter writes the state of a run.
type columnsWriter struct {
	*protocol.Client
	Run     string
	Root    wire.Digest // parent of the records
	Classes int
	State   *stateWriter
}

// Write writes the terms, sets their places in the visited increments of a window, and sets the length of an increment's
// terms in the window. It returns the places of the groups' terms, which are set once everything is written.
func (w *columnsWriter) Write(ctx context.Context, l *columnsLeft, window *schemas.Window,
	visited []*schemas.WindowIncrement) (merged func(group int) schemas.StatePlace, err error) {
	places := make([]*schemas.StatePlace, 0, len(visited)+len(l.Merged))
	for i, increment := range visited {
		increment.Terms = schemas.StatePlace{}
		place := &increment.Terms
		joins := func(group []int) bool { return slices.Contains(group, l.Visited[i]) }
		if l.OwnTerms != nil && !l.OwnTerms(i) || slices.ContainsFunc(l.Merged, joins) {
			place = nil // the terms of the group include them
		}
		places = append(places, place)
	}
	for range l.Merged {
		places = append(places, &schemas.StatePlace{})
	}
	for i, place := range places {
		if place == nil {
			continue
		}
		var messages []wire.Message
		bytes := int64(0)
		for t := range l.terms {
			id := wire.Identity{Kind: statistics.KindTerms, Run: w.Run, Stage: t, Visit: i, Parent: w.Root}
			encoded, err := w.encode(id, l.terms[t][i])
			if err != nil {
				return nil, err
			}
			for _, m := range encoded {
				bytes += int64(len(m.Value))
			}
			messages = append(messages, encoded...)
		}
		window.TermsSize = max(window.TermsSize, bytes)
		*place = schemas.StatePlace{Run: w.Run, Index: i}
		if err := w.State.add(ctx, messages, place); err != nil {
			return nil, err
		}
	}
	return func(group int) schemas.StatePlace { return *places[len(visited)+group] }, nil
}

// encode encodes terms in single precision, if they are exact in it.
func (w *columnsWriter) encode(id wire.Identity, terms solve.SparseTerms) ([]wire.Message, error) {
	t := statistics.OccurringTerms{Identity: id, Occurring: statistics.Occurring{Columns: terms.Columns, Values: terms.Values},
		Classes: w.Classes}
	if single := t.SingleRecord(); single != nil {
		return w.Codec.EncodeSingle(single)
	}
	return w.Codec.EncodeDouble(t.Record())
}

// writeSums writes how the terms of a full run are summed, and sets the place.
func (w *columnsWriter) writeSums(ctx context.Context, sums []*solve.SparseSums, place *schemas.StatePlace) error {
	var messages []wire.Message
	for t, s := range sums {
		id := wire.Identity{Kind: statistics.KindMoments, Run: w.Run, Stage: t, Parent: w.Root}
		how := statistics.OccurringSums{Identity: id, Summed: []float64{s.Prior, s.Grid}}
		encoded, err := w.Codec.EncodeDouble(how.Record())
		if err != nil {
			return err
		}
		messages = append(messages, encoded...)
	}
	*place = schemas.StatePlace{Run: w.Run}
	return w.State.add(ctx, messages, place)
}
