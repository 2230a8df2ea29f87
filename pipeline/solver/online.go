package solver

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
)

// sparse reports whether the run's rows are sparse. The survey's result must be accepted.
func (s *Solver) sparse() bool { return s.chain.Prepared.Factors != nil }

// updatesSparse reports whether the run is an update on sparse rows.
func (s *Solver) updatesSparse() bool { return s.plan.Update() != nil && s.plan.Update().Sparse }

// columnUpdate returns the fit of an update's stage on sparse rows.
func (s *Solver) columnUpdate(number int, shape solve.Shape) solve.Fit {
	c := &s.chained
	fit := c.start.columns.newFit(s.withRidges(number)[number], number, shape, s.blockColumns(), s.plan.Update().Passes)
	c.fits.columns = append(c.fits.columns[:number], fit)
	return fit
}

// columnLog reads the state of earlier runs on sparse rows.
func (s *Solver) columnLog() *columnsLog {
	earlier := s.chain.Earlier()
	return &columnsLog{Client: s.Client, Stages: len(s.plan.Stages), Classes: len(earlier.Labels()), Inputs: earlier.Inputs()}
}

// blockColumns returns the columns of the examples in the block order of all stages. The intercept's column, if a stage
// has one, is the last.
func (s *Solver) blockColumns() []int32 {
	return append(s.chain.Prepared.Factors.Columns(), solve.InterceptColumn)
}

// beginColumns initializes the sums from which an update on sparse rows continues.
func (s *Solver) beginColumns(ctx context.Context) (err error) {
	from := &s.chained.start
	from.mergingColumns, err = s.columnLog().Begin(ctx, from.window, from.columns, s.plan.Chain)
	return err
}

// endColumns keeps the state of a stage on sparse rows for the next run. sum is that of the seals of a full run.
func (s *Solver) endColumns(f *fitting, sum *accumulate.Sum) error {
	c := &s.chained
	if f.number == 0 {
		c.left.of = columnsLeft{Visited: s.visitedNumbers(), Merged: s.plan.Chain.Merged(), Merging: c.start.mergingColumns}
	}
	if s.updatesSparse() {
		terms, fitted := c.fits.columns[f.number].After()
		c.left.columns, c.left.fitted = c.start.columns, []float64{fitted}
		c.left.columns.keep(s.plan.Chain.Number, terms)
		c.left.of.add([]solve.SparseTerms{terms}, f.shape.Classes)
		if f.number == len(s.plan.Stages)-1 {
			s.last = c.found.Sum // the losses of the rows before training
		}
		return nil
	}
	c.left.of.OwnTerms = func(place int) bool { return c.found.TermsPlaces[place] == place }
	sums, fitted, err := c.left.of.addFull(sum, c.found.Increments, f.shape, s.blockColumns(), solve.Prior(f.fit))
	if err != nil {
		return err
	}
	if f.number == 0 {
		c.left.columns = &columnsState{}
	}
	c.left.columns.Sums, c.left.fitted = append(c.left.columns.Sums, sums), fitted
	return nil
}

// writeColumns is writeTerms for sparse rows, and also writes how the terms are summed.
func (s *Solver) writeColumns(ctx context.Context, state *stateWriter, w *schemas.Window,
	visited []*schemas.WindowIncrement) (merged func(group int) schemas.StatePlace, err error) {
	left := &s.chained.left
	writer := columnsWriter{Client: s.Client, Run: s.run, Root: s.chain.Root, Classes: s.chain.Prepared.Labels.Len(), State: state}
	w.GramsSize, w.TermsSize = 0, 0
	if s.plan.Update() != nil {
		before := s.chained.start.window
		w.TermsSize, w.Moments = before.TermsSize, before.Moments
	} else if err := writer.writeSums(ctx, left.columns.Sums, &w.Moments); err != nil {
		return nil, err
	}
	return writer.Write(ctx, &left.of, w, visited)
}
