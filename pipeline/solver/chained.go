package solver

import (
	"slices"
	"sync/atomic"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// chained is the additional state of a solver for a run of a chain: the starting point of the run, the survey's findings,
// its fits, and the state for the next run.
type chained struct {
	start    start
	found    *surveyed
	left     left
	compared *gateComparison // with the version for subscribers; nil: the gate has no rows to compare
}

// report adds the fields of a chain to the report.
func (c *chained) report(plan *schemas.Plan, r *schemas.Report) {
	if plan.Chain == nil {
		return
	}
	retrain := &schemas.RetrainReport{Version: r.Version, Kind: plan.Kind(), Rows: r.Rows,
		Forgotten: r.PassedOver[coverage.ForgottenRow], Overflow: r.PassedOver[coverage.Overflowing],
		NoLabel: r.PassedOver[coverage.NoLabel], Offered: true}
	for _, lost := range plan.Chain.Lost {
		retrain.Lost += lost.Len()
	}
	retrain.Spans, retrain.From, retrain.Until = plan.Added().Hulls(), plan.Chain.From, plan.Chain.Until
	if plan.Update() != nil {
		if losses := statistics.LossesOf(c.found.sum.Tensors())[examples.Train]; losses.Weight > 0 {
			retrain.PrequentialError, retrain.PrequentialLoss = finite(losses.ErrorPercent()), finite(losses.MeanLoss())
			for _, m := range inLogOrder(c.found.Messages, plan.Chain) {
				retrain.Curve = append(retrain.Curve, m.Bin(distance(&m, plan.Chain)))
			}
			retrain.Curve = statistics.Shorten(retrain.Curve, curveBins)
			for _, s := range c.found.Served {
				retrain.Served = append(retrain.Served, schemas.ServedReport{Version: s.Version, Rows: int64(s.Rows), Error: s.ErrorPercent()})
			}
			split := r.Splits[examples.Train.String()]
			retrain.PrequentialLogLoss, retrain.PrequentialBrier, retrain.PrequentialECE, retrain.PrequentialRMSE = split.LogLoss,
				split.Brier, split.ECE, split.RMSE
		}
	} else if len(plan.Chain.Increments) > 0 { // it adds rows only if an update was impossible
		retrain.Rows = 0
		if last := len(c.found.increments) - 1; last >= 0 && c.found.increments[last].Number == plan.Chain.Number {
			retrain.Rows = c.found.increments[last].Learnt()
		}
	}
	retrain.MostlyBad = c.found.mostlyBad(plan)
	if plan.Chain.Lacking != nil {
		retrain.Lacking = plan.Chain.Lacking.Columns
	}
	if len(plan.Added()) > 0 { // otherwise only the window's rows, which earlier reports have
		for _, rows := range c.found.Unknown {
			retrain.UnknownRows += rows
		}
	}
	if n := len(r.Stages); n > 0 {
		retrain.HoldoutError = r.Stages[n-1].HoldoutError
	}
	r.Retrain = retrain
}

// start is the state from which an update continues, left by the previous run. It is empty in a full run.
type start struct {
	*head
	plansFrom int64                // of the previous version: see schemas.Manifest
	refreshed [][]statistics.Terms // of revisited and then of leaving increments, by stage
}

// update returns the fit of a stage of an update.
func (s *Solver) update(number int, shape solve.Shape) *solve.Update {
	c, u := &s.chained, s.plan.Update()
	if u.Restart {
		visited := make([]solve.Visited, 1, 1+len(u.Refresh))
		visited[0].Weight = 1
		for i := range u.Refresh {
			visited = append(visited, solve.Visited{Weight: 1, Rows: c.start.fittedOf(u.Refresh[i].Number)})
		}
		return solve.NewRestart(s.withRidges(number)[number], shape, visited, u.Passes, s.factorsOf(number))
	}
	moments := c.start.moments[number]
	solve.Decay(moments, u.Decay)
	weight := 0.0
	for i := range c.start.window.Increments {
		increment := &c.start.window.Increments[i]
		if leaving(u, increment.Increment.Number) < 0 {
			weight += increment.Increment.Weight * u.Decay * increment.Fitted
		}
	}
	for i := range u.Leave {
		solve.AddTerms(moments, -u.Leave[i].Weight, c.start.leaving(i, number, u))
	}
	visited := []solve.Visited{{Weight: 1}}
	for i := range u.Refresh {
		visited = append(visited, solve.Visited{Weight: u.Refresh[i].Weight, Rows: c.start.fittedOf(u.Refresh[i].Number),
			Terms: c.start.refreshed[i][number]})
	}
	return solve.NewUpdate(s.withRidges(number)[number], shape, moments, weight, visited, u.Passes, s.factorsOf(number))
}

// fittedOf returns Σw of the training rows of an increment.
func (s *start) fittedOf(number int) float64 {
	if i := incrementOf(s.window, number); i >= 0 {
		return s.window.Increments[i].Fitted
	}
	return 0
}

// leaving returns the terms of a leaving increment. They follow those of revisited increments.
func (s *start) leaving(i, stage int, u *schemas.Update) statistics.Terms {
	return s.refreshed[len(u.Refresh)+i][stage]
}

// leaving returns the index of an increment among those that leave, or −1.
func leaving(u *schemas.Update, number int) int {
	return slices.IndexFunc(u.Leave, func(c coverage.Increment) bool { return c.Number == number })
}

// left is the state that a run of a chain leaves to the next one.
type left struct {
	head
	terms     [][]encoded // by stage and visited increment
	sums      []encoded   // by stage; none in an update on sparse rows
	fitted    []float64   // Σw of the training rows of each visited increment
	forgotten []int64     // numbers of forgotten rows, by increment that an update has visited
}

// endChained keeps the state of a stage for the next run. sum is of the last visit, or in a full run of the seals.
func (s *Solver) endChained(f *fitting, sum *accumulate.Sum) (err error) {
	c := &s.chained
	switch {
	case s.plan.Chain == nil:
		return nil
	case f.shape.Chained:
		err = s.endColumns(f, sum)
	case s.plan.Update() != nil:
		moments, terms, fitted := f.fit.(*solve.Update).After()
		c.left.fitted, c.left.forgotten = fitted, takeForgotten(sum, s.places())
		s.leaveStage(f.shape.Classes, moments, terms)
	case f.stage.Link.Learnt:
		return nil // every version is full
	default:
		err = s.endFull(f, sum)
	}
	if f.number == len(s.plan.Stages)-1 && s.plan.Update() != nil {
		s.last = c.found.sum // the losses of the rows before training
	}
	return err
}

// endFull keeps the state of a stage of a full run on dense rows.
func (s *Solver) endFull(f *fitting, sum *accumulate.Sum) error {
	c, p, k := &s.chained, f.shape.Columns, f.shape.Classes
	moments := &statistics.Moments{Terms: statistics.Terms{Scores: make([]float64, p*k), Gradient: make([]float64, p*k)}, Gram: f.gram}
	terms := make([]statistics.Terms, len(c.found.increments))
	c.left.fitted = make([]float64, len(terms))
	for i := range terms {
		// The rows were fitted with the weights of their increments; terms are stored at weight 1.
		of, w := statistics.Increment(i), c.found.increments[i].Weight
		c.left.fitted[i] = of.VisitedIn(sum.Tensors()).Weight / w
		t, err := of.TermsIn(sum.Tensors(), p, k)
		if err != nil {
			return err
		}
		for j := range t.Scores {
			t.Scores[j], t.Gradient[j] = t.Scores[j]/w, t.Gradient[j]/w
		}
		terms[i] = t
		sum.Take(of.Scores())
		sum.Take(of.Cross())
		solve.AddTerms(moments, w, terms[i])
	}
	s.leaveStage(f.shape.Classes, moments, terms)
	return nil
}

// leaveStage keeps the sums of a stage on dense rows of k classes and the terms of the visited increments.
func (s *Solver) leaveStage(k int, m *statistics.Moments, terms []statistics.Terms) {
	left := &s.chained.left
	id := s.stateIdentity(statistics.KindMoments, len(left.moments), 0)
	left.moments = append(left.moments, m)
	s.leaveTerms(len(terms), func(id wire.Identity, i int) ([]wire.Message, error) {
		return terms[i].Record(id, k).EncodeWithin(s.Chunk, s.Memory)
	})
	left.sums = append(left.sums, func() ([]wire.Message, error) { return m.Record(id, k).EncodeWithin(s.Chunk, s.Memory) })
}

// leave keeps the state for the next run of the chain in memory.
func (s *Solver) leave(m *model.Model) {
	if s.plan.Chain == nil {
		return
	}
	s.Remember(m)
	after := s.chained.left.head // a copy: a pointer into the solver would keep all previous solvers in memory
	s.options.Store.head.Store(&after)
}

// Store is a solver process's memory between the runs of a chain: the sums from which the next run continues, which are
// also on the state topic. The zero value is empty. A store is safe for concurrent use.
type Store struct{ head atomic.Pointer[head] }

// head is the state at the end of a chain.
type head struct {
	window  *schemas.Window
	moments []*statistics.Moments // by stage
	columns *columnsState         // on sparse rows, in place of moments
}

// pop returns the sums after a run, and removes them from the store, because the next run modifies them.
func (s *Store) pop(run string) *head {
	h := s.head.Load()
	if h == nil || h.window.Run != run || !s.head.CompareAndSwap(h, nil) {
		return nil
	}
	return h
}
