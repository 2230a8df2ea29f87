package solver

import (
	"slices"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// left is the state that a run of a chain leaves to the next one.
type left struct {
	head
	terms     [][]encoded    // by stage and visited increment
	sums      []encoded      // by stage; none in an update on sparse rows
	encoding  sync.WaitGroup // of both
	fitted    []float64      // Σw of the training rows of each visited increment
	forgotten []int64        // numbers of forgotten rows, by increment that an update has visited
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
func (s *Solver) endChained(f *fitting, sum *accumulate.Sum) (err error) {
	c := &s.chained
	switch {
	case s.plan.Chain == nil:
		return nil
	case f.shape.Chained:
		err = s.endColumns(f, sum)
	case s.plan.Update() != nil:
		moments, terms, fitted := c.fits.updates[f.number].After()
		c.left.fitted, c.left.forgotten = fitted, takeForgotten(sum, s.places())
		s.leaveStage(f.shape, moments, terms)
	case f.stage.Link.Learnt:
		return nil // every version is full
	default:
		err = s.endFull(f, sum)
	}
	if f.number == len(s.plan.Stages)-1 && s.plan.Update() != nil {
		s.last = c.found.Sum // the losses of the rows before training
	}
	return err
}

// endFull keeps the state of a stage of a full run on dense rows.
func (s *Solver) endFull(f *fitting, sum *accumulate.Sum) error {
	c, p, k := &s.chained, f.shape.Columns, f.shape.Classes
	moments := &solve.Moments{Gram: c.fits.grams[f.number], Scores: make([]float64, p*k), Gradient: make([]float64, p*k)}
	terms := make([]solve.Terms, len(c.found.Increments))
	c.left.fitted = make([]float64, len(terms))
	for i := range terms {
		// The rows were fitted with the weights of their increments; terms are stored at weight 1.
		of, w := statistics.Increment(i), c.found.Increments[i].Weight
		c.left.fitted[i] = of.VisitedIn(sum.Tensors()).Weight / w
		at, any := sum.Take(of.Terms())
		if !any {
			at.Data = make([]float64, 2*p*k)
		}
		for j := range at.Data {
			at.Data[j] /= w
		}
		terms[i] = solve.TermsOf(at.Data[:p*k], at.Data[p*k:])
		moments.AddTerms(w, terms[i])
	}
	s.leaveStage(f.shape, moments, terms)
	return nil
}

// leaveStage keeps the sums of a stage on dense rows and the terms of the visited increments.
func (s *Solver) leaveStage(of solve.Shape, m *solve.Moments, terms []solve.Terms) {
	left := &s.chained.left
	id := s.stateIdentity(statistics.KindMoments, len(left.moments), 0)
	left.moments = append(left.moments, m)
	s.leaveTerms(len(terms), func(id wire.Identity, i int) encoded {
		return s.encodes(func() *wire.Record[float64] {
			t := statistics.TermsWith(id, terms[i].Scores, terms[i].Gradient, of.Columns, of.Classes)
			return t.Record()
		})
	})
	left.sums = append(left.sums, s.encodes(func() *wire.Record[float64] {
		sums := statistics.TermsWith(id, m.Scores, m.Gradient, of.Columns, of.Classes)
		return (&statistics.Moments{Terms: sums, Gram: m.Gram, Curvature: m.Curvature}).Record()
	}))
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
