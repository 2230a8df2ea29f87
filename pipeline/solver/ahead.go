package solver

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// The matrix of a stage of an update depends on no weights. So it is factored as soon as the Gram matrices of the new rows are there, while
// workers visit the stage before.

// ahead is the fit of a stage of an update, whose matrix is factored in a goroutine of its own.
type ahead struct {
	number int
	fit    solve.Fit
	gram   *gathering
	whole  *accumulate.Sum // of the Gram matrices; nil: it is not there yet
	done   chan struct{}   // closed when the matrix is factored
	err    error           // of the factoring
}

// aheadOf returns the fit of a stage of an update, which it begins if need be.
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
	a.gram = s.gathering(v, s.blockGram()...)
	if s.aheads == nil {
		s.aheads = map[int]*ahead{}
	}
	s.aheads[number] = a
	return a, nil
}

// factor begins to factor the matrix.
func (a *ahead) factor(whole *accumulate.Sum) {
	a.whole = whole
	go func() {
		defer close(a.done)
		a.err = a.fit.Precondition(whole.Tensors())
	}()
}

// factored waits until the matrix of a stage is factored. Meanwhile it reduces the records of the stage's first visit, rest.
func (s *Solver) factored(ctx context.Context, a *ahead, rest *gathering) error {
	if a.whole == nil {
		whole, err := s.gather(ctx, a.gram, rest)
		if err != nil {
			return err
		}
		a.factor(whole)
	}
	<-a.done
	s.Grams.Put(a.whole) // it is part of the moments now
	return a.err
}

// lookAhead begins to factor the matrix of the stage after number, once the Gram matrices are there.
func (s *Solver) lookAhead(number int) error {
	if !s.plan.Update().SumsGrams() || number == wire.Survey || number+1 == len(s.plan.Stages) {
		return nil
	}
	a, err := s.aheadOf(number + 1)
	if err != nil || a.whole != nil {
		return err
	}
	if missing, err := s.reduce(a.gram); err != nil || missing != nil {
		return err
	}
	whole, err := a.gram.sum()
	if err == nil {
		a.factor(whole)
	}
	return err
}

// endAhead waits for what is being factored.
func (s *Solver) endAhead() {
	for _, a := range s.aheads {
		if a.whole != nil {
			<-a.done
		}
	}
}
