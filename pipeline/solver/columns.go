package solver

import (
	"context"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// sparse reports whether the run's rows are sparse. The survey's result must be accepted.
func (s *Solver) sparse() bool { return s.chain.Prepared.Factors != nil }

// updatesSparse reports whether the run is an update on sparse rows.
func (s *Solver) updatesSparse() bool { return s.plan.Update() != nil && s.plan.Update().Sparse }

// blockColumns returns the columns of the examples in the block order of all stages. The intercept's column, if a stage
// has one, is the last.
func (s *Solver) blockColumns() []int32 {
	return append(s.chain.Prepared.Factors.Kept(), solve.InterceptColumn)
}

// columnsState is the state from which an update on sparse rows continues, besides the window.
type columnsState struct {
	sums []*solve.SparseSums // by stage
	// before is the components of the previous version's weights, by stage; nil in an update that changes all sums.
	before []*solve.CountsBefore
	// terms of the window's increments, by number and stage; nil while all weights are 1: then the sums are exact, and an
	// increment that leaves the window is subtracted
	terms map[int][]statistics.Occurring
}

// readColumns computes the sums of a window on sparse rows from its terms.
func (s *Solver) readColumns(ctx context.Context, w *schemas.Window) (*columnsState, error) {
	c := &columnsState{}
	var err error
	c.sums, err = readStages(ctx, s, w.Moments, statistics.KindMoments, "the sums of the last full run",
		func(r *wire.Record[float64], _, k int) (*solve.SparseSums, error) {
			how, err := wire.Read[statistics.OccurringSums](r)
			if err != nil {
				return nil, err
			}
			return solve.NewSparseSums(k, how.Prior(), how.Grid()), nil
		})
	if err != nil {
		return nil, err
	}
	return c, s.foldColumns(ctx, w, c, func(i *schemas.WindowIncrement) float64 { return i.Increment.Weight })
}

// foldColumns sets the sums to the weighted sums of a window's increments. It keeps the terms in memory if a weight is not 1:
// then the sums are not exact, and each run adds up the terms again.
func (s *Solver) foldColumns(ctx context.Context, w *schemas.Window, c *columnsState, weight func(*schemas.WindowIncrement) float64) error {
	for _, sums := range c.sums {
		sums.Clear()
	}
	kept, exact := map[int][]statistics.Occurring{}, true
	for i := range w.Increments {
		increment := &w.Increments[i]
		number, by := increment.Increment.Number, weight(increment)
		if exact = exact && by == 1; by == 0 {
			continue
		}
		terms := c.terms[number]
		if terms == nil {
			var err error
			if terms, err = readTerms(ctx, s, w, number, statistics.OccurringTermsOf); err != nil {
				return err
			}
		}
		for t, sums := range c.sums {
			sums.Add(by, terms[t])
		}
		kept[number] = terms
	}
	if c.terms = kept; exact {
		c.terms = nil
	}
	return nil
}

// beginColumns converts the sums after a window to the sums from which an update continues: with its weights, and without the
// increments that leave.
func (s *Solver) beginColumns(ctx context.Context) error {
	c, w, u := s.chained.start.columns, s.chained.start.window, s.plan.Update()
	exact := u.Decay == 1 && c.terms == nil && !slices.ContainsFunc(w.Increments,
		func(i schemas.WindowIncrement) bool { return i.Increment.Weight != 1 })
	if c.before = nil; !exact {
		return s.foldColumns(ctx, w, c, func(i *schemas.WindowIncrement) float64 {
			if leaving(u, i.Increment.Number) >= 0 {
				return 0
			}
			return i.Increment.Weight * u.Decay
		})
	}
	for _, sums := range c.sums {
		c.before = append(c.before, &solve.CountsBefore{Totals: sums.Totals(), Inputs: s.chain.Earlier().Inputs()})
	}
	for i := range u.Leave {
		terms, err := readTerms(ctx, s, w, u.Leave[i].Number, statistics.OccurringTermsOf)
		if err != nil {
			return err
		}
		for t, sums := range c.sums {
			sums.Add(-1, terms[t])
			c.before[t].Changed = append(c.before[t].Changed, terms[t].Columns...)
		}
	}
	return nil
}

// endColumns keeps the state of a stage on sparse rows for the next run. sum is that of the seals of a full run.
func (s *Solver) endColumns(f *fitting, sum *accumulate.Sum) error {
	c := &s.chained
	if s.updatesSparse() {
		update := f.fit.(interface { // of columns, or of counts
			After() (statistics.Occurring, float64)
		})
		terms, fitted := update.After()
		c.left.columns, c.left.fitted = c.start.columns, []float64{fitted}
		if kept := c.left.columns.terms; kept != nil {
			kept[s.plan.Chain.Number] = append(kept[s.plan.Chain.Number], terms)
		}
		s.leaveColumns([]statistics.Occurring{terms}, f.shape.Classes)
		return nil
	}
	increments, occurring := c.found.increments, make([]statistics.Occurring, len(c.found.increments))
	c.left.fitted = make([]float64, len(increments))
	total, weight := 0.0, 0.0
	for i := range increments {
		of := statistics.Increment(i)
		visited := of.VisitedIn(sum.Tensors())
		c.left.fitted[i] = visited.Weight / increments[i].Weight
		weight += visited.Weight
		var err error
		if occurring[i], err = statistics.OccurringOf(sum.Tensors(), of.Occurring(), f.shape.Columns, f.shape.Classes); err != nil {
			return err
		}
		sum.Take(of.Occurring())
		total += floats.Norm(occurring[i].Values, 1)
	}
	sums := solve.NewSparseSums(f.shape.Classes, f.fit.Prior(), solve.GridOf(total, weight))
	terms := make([]statistics.Occurring, len(increments))
	for i := range increments {
		// The rows were fitted with the weights of their increments; terms are stored at weight 1.
		terms[i] = sums.Terms(occurring[i], s.blockColumns(), increments[i].Weight)
		sums.Add(increments[i].Weight, terms[i])
	}
	if f.number == 0 {
		c.left.columns = &columnsState{}
	}
	c.left.columns.sums = append(c.left.columns.sums, sums)
	s.leaveColumns(terms, f.shape.Classes)
	how := statistics.OccurringSums{Identity: s.stateIdentity(statistics.KindMoments, f.number, 0), Summed: []float64{sums.Prior, sums.Grid}}
	c.left.sums = append(c.left.sums, func() ([]wire.Message, error) { return wire.RecordOf[float64](&how).EncodeWithin(s.Chunk, s.Memory) })
	return nil
}

// leaveColumns keeps the records of the terms of the visited increments, in single precision if they are exact in it.
func (s *Solver) leaveColumns(all []statistics.Occurring, k int) {
	s.leaveTerms(len(all), func(id wire.Identity, i int) ([]wire.Message, error) {
		if single := all[i].SingleRecord(id, k); single != nil {
			return single.EncodeWithin(s.Chunk, s.Memory)
		}
		return all[i].Record(id, k).EncodeWithin(s.Chunk, s.Memory)
	})
}
