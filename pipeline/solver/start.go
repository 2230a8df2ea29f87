package solver

import (
	"slices"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/solve"
)

// start is the state from which an update continues, left by the previous run. It is empty in a full run.
type start struct {
	*head
	at        *schemas.StatePlace // place of the previous window
	plansFrom int64               // of the previous version: see schemas.Manifest
	refreshed [][]solve.Terms     // of revisited and then of leaving increments, by stage
}

// update returns the fit of a stage of an update.
func (s *Solver) update(number int, shape solve.Shape) solve.Fit {
	c, u := &s.chained, s.plan.Update()
	if u.Restart {
		visited := make([]solve.Visited, 1, 1+len(u.Refresh))
		visited[0].Weight = 1
		for i := range u.Refresh {
			visited = append(visited, solve.Visited{Weight: 1, Rows: c.start.fittedOf(u.Refresh[i].Number)})
		}
		return s.keepUpdate(number, solve.NewRestart(s.withRidges(number)[number], shape, visited, u.Passes, s.factorsOf(number)))
	}
	moments := c.start.moments[number]
	moments.Decay(u.Decay)
	weight := 0.0
	for i := range c.start.window.Increments {
		increment := &c.start.window.Increments[i]
		if leaving(u, increment.Increment.Number) < 0 {
			weight += increment.Increment.Weight * u.Decay * increment.Fitted
		}
	}
	for i := range u.Leave {
		moments.AddTerms(-u.Leave[i].Weight, c.start.leaving(i, number, u))
	}
	visited := []solve.Visited{{Weight: 1}}
	for i := range u.Refresh {
		visited = append(visited, solve.Visited{Weight: u.Refresh[i].Weight, Rows: c.start.fittedOf(u.Refresh[i].Number),
			Terms: c.start.refreshed[i][number]})
	}
	return s.keepUpdate(number, solve.NewUpdate(s.withRidges(number)[number], shape, moments, weight, visited, u.Passes,
		s.factorsOf(number)))
}

// keepUpdate keeps the update of a stage for the state of the next run.
func (s *Solver) keepUpdate(number int, fit *solve.Update) *solve.Update {
	if number == len(s.plan.Stages)-1 && s.hasGateRows() {
		fit.EndVisited()
	}
	if s.chained.fits.updates == nil {
		s.chained.fits.updates = map[int]*solve.Update{}
	}
	s.chained.fits.updates[number] = fit
	return fit
}

// fittedOf returns Σw of the training rows of an increment.
func (s *start) fittedOf(number int) float64 {
	for i := range s.window.Increments {
		if increment := &s.window.Increments[i]; increment.Increment.Number == number {
			return increment.Fitted
		}
	}
	return 0
}

// leaving returns the terms of a leaving increment. They follow those of revisited increments.
func (s *start) leaving(i, stage int, u *schemas.Update) solve.Terms {
	return s.refreshed[len(u.Refresh)+i][stage]
}

// leaving returns the index of an increment among those that leave, or −1.
func leaving(u *schemas.Update, number int) int {
	return slices.IndexFunc(u.Leave, func(c coverage.Increment) bool { return c.Number == number })
}
