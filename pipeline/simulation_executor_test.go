package pipeline

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/worker/visit"
)

// sequential is the executor of workers of a simulation, which schedules every call of the log itself: it takes one step after the other
// in the goroutine of the actor.
type sequential struct{ twice *int } // how many passes went through their segments twice

// Run takes one segment after the other, and waits for each write.
func (e sequential) Run(ctx context.Context, p *visit.Pass) error {
	if p.Twice {
		*e.twice++
	}
	process := p.Processor()
	one := func(l *visit.Load) error {
		collect, err := process(ctx, l)
		if err != nil {
			return err
		}
		write, err := collect()
		if err != nil || write == nil {
			return err
		}
		return write(ctx)
	}
	var again []*visit.Load
	for _, of := range p.Shares {
		for l, err := range p.Loads(ctx, of, func() error { return nil }) {
			if err != nil {
				return err
			}
			if err := one(l); err != nil {
				return err
			}
			if p.Twice {
				again = append(again, l.Again())
			}
		}
	}
	for _, l := range again {
		if err := one(l); err != nil {
			return err
		}
	}
	return nil
}

// Begin does it at once.
func (sequential) Begin(do func() error) (wait func() error) {
	err := do()
	return func() error { return err }
}
