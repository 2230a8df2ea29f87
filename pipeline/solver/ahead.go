package solver

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// The matrix of an update's stage does not depend on weights. So it is factored as soon as the Gram matrices of the new
// rows have arrived, while workers visit the previous stage.

// ahead is the fit of an update's stage, whose matrix is factored in a goroutine.
type ahead struct {
	number int
	fit    solve.Fit
	gram   *gathering      // nil once it is complete
	whole  *accumulate.Sum // sum of the Gram matrices; nil until it is complete, empty once it is factored
	done   chan struct{}   // closed after factoring
	err    error           // error of the factoring
}

// aheadOf returns the fit of an update's stage, which it creates on first use.
func (s *Solver) aheadOf(number int) (*ahead, error) {
	if a := s.aheads[number]; a != nil {
		return a, nil
	}
	_, shape, err := s.stageShape(number)
	if err != nil {
		return nil, err
	}
	a := &ahead{number: number, done: make(chan struct{})}
	if a.fit, err = s.update(number, shape); err != nil {
		return nil, err
	}
	v := s.chain.GramVisit(number)
	a.gram = s.gathering(v, s.updateGrams()...)
	if s.aheads == nil {
		s.aheads = map[int]*ahead{}
	}
	s.aheads[number] = a
	return a, nil
}

// factor starts factoring the matrix.
func (a *ahead) factor(whole *accumulate.Sum) {
	a.whole, a.gram = whole, nil
	go func() {
		defer close(a.done)
		a.err = a.fit.Precondition(whole.Tensors())
	}()
}

// factored waits until the matrix of a stage is factored. In the meantime it reduces rest, the records of the stage's
// first visit.
func (s *Solver) factored(ctx context.Context, a *ahead, rest *gathering) error {
	if a.whole == nil {
		whole, err := s.gather(ctx, a.gram, rest)
		if err != nil {
			return err
		}
		a.factor(whole)
		if s.plan.Update().IsLocal() {
			if err := s.visitLocal(ctx, rest); err != nil {
				return err
			}
		}
	}
	<-a.done
	s.Grams.Put(a.whole) // now part of the moments
	a.whole = &accumulate.Sum{}
	return a.err
}

// lookAhead starts factoring the matrix of the stage after number if the Gram matrices have arrived.
func (s *Solver) lookAhead(number int) error {
	if u := s.plan.Update(); !u.SumsGrams() || u.IsLocal() || number == wire.Survey || number+1 == len(s.plan.Stages) {
		return nil
	}
	a, err := s.aheadOf(number + 1)
	if err != nil || a.whole != nil {
		return err
	}
	if missing, err := s.reduce(a.gram); err != nil || missing != nil {
		return err
	}
	a.factor(a.gram.sum())
	return nil
}

// endAhead waits until all factoring has ended.
func (s *Solver) endAhead() {
	for _, a := range s.aheads {
		if a.whole != nil {
			<-a.done
		}
	}
}
