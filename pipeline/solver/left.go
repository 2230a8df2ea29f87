package solver

import (
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// left is the state that a run of a chain leaves to the next one.
type left struct {
	head
	terms     [][]solve.Terms // by stage and visited increment; nil for merged increments
	merged    [][]solve.Terms // by stage and group of merged increments
	of        columnsLeft     // on sparse rows, in place of both
	fitted    []float64       // Σw of the training rows of each visited increment
	forgotten []int64         // numbers of forgotten rows, by increment that an update has visited
	encodings []*encoding     // of an update, by stage
}

// fits are the inputs of the state at the end of each stage.
type fits struct {
	grams   [][]float64           // by stage of a full run
	updates map[int]*solve.Update // by stage
	columns []columnsFit          // by stage of an update on sparse rows
}

// keepGram keeps the Gram matrix of a stage of a chain's full run.
func (s *Solver) keepGram(stage int, sums wire.Tensors[float64]) {
	if s.plan.Chain == nil || s.plan.Update() != nil {
		return
	}
	gram, _ := sums.Find(statistics.FieldGram)
	s.chained.fits.grams = append(s.chained.fits.grams[:min(stage, len(s.chained.fits.grams))], slices.Clone(gram.Data))
}

// endChained keeps the state of a stage for the next run. sum is of the last visit, or in a full run of the seals.
func (s *Solver) endChained(f *fitting, sum *accumulate.Sum) error {
	c := &s.chained
	switch {
	case s.plan.Chain == nil:
		return nil
	case f.shape.Chained:
		return s.endColumns(f, sum)
	case s.plan.Update() != nil:
		moments, terms, fitted := c.fits.updates[f.number].After()
		c.left.moments, c.left.terms, c.left.fitted = append(c.left.moments, moments), append(c.left.terms, terms), fitted
		c.left.forgotten = takeForgotten(sum, s.places())
		s.mergeTerms()
		s.beginEncoding(f.number)
		if f.number == len(s.plan.Stages)-1 {
			s.last = c.found.Sum // the losses of the rows before training
		}
		return nil
	case f.stage.Link.Learnt:
		return nil // every version is full
	}
	p, k, m := f.shape.Columns, f.shape.Classes, len(c.found.Increments)
	moments := &solve.Moments{Gram: c.fits.grams[f.number], Scores: make([]float64, p*k), Gradient: make([]float64, p*k)}
	terms := make([]solve.Terms, m)
	c.left.fitted = make([]float64, m)
	for i := range m {
		// The rows were fitted with the weights of their increments; terms are stored at weight 1.
		w := c.found.Increments[i].Weight
		if visited := takeVisited(sum, i); visited != nil {
			c.left.fitted[i] = visited[0] / w
		}
		if c.found.TermsPlaces[i] != i {
			continue // included in the terms of the increment with which it is merged
		}
		at, any := sum.Take(statistics.Increment(i).Terms())
		if !any {
			at.Data = make([]float64, 2*p*k)
		}
		for j := range at.Data {
			at.Data[j] /= w
		}
		terms[i] = solve.TermsOf(at.Data[:p*k], at.Data[p*k:])
		moments.AddTerms(w, terms[i])
	}
	c.left.moments, c.left.terms = append(c.left.moments, moments), append(c.left.terms, terms)
	s.mergeTerms()
	return nil
}

// mergeTerms adds up the terms of merged increments at the stage that has just ended.
func (s *Solver) mergeTerms() {
	c, t := &s.chained, len(s.chained.left.terms)-1
	at := map[int]solve.Terms{}
	for number, terms := range c.start.merging {
		at[number] = terms[t]
	}
	place := map[int]int{}
	for i, number := range s.visitedNumbers() {
		at[number], place[number] = c.left.terms[t][i], i
	}
	var merged []solve.Terms
	for _, group := range s.plan.Chain.Merged() {
		sum := solve.Terms{}
		for _, number := range group {
			if terms := at[number]; terms.Scores != nil { // if workers have merged increments, only the first has terms
				sum.Add(terms)
			}
			if i, visited := place[number]; visited {
				c.left.terms[t][i] = solve.Terms{}
			}
		}
		merged = append(merged, sum)
	}
	c.left.merged = append(c.left.merged, merged)
}

// leave keeps the state for the next run of the chain in memory.
func (s *Solver) leave(m *model.Model) {
	if s.plan.Chain == nil {
		return
	}
	s.Remember(m)
	after := s.chained.left.head // a copy: a pointer into the solver would keep all previous solvers in memory
	s.options.Store.put(&after)
}
