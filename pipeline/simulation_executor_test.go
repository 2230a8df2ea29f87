package pipeline

import (
	"context"

	"github.com/stagewise/stagewise/pipeline/worker/visit"
)

// sequential is the executor of workers of a simulation, which schedules every call of the log itself: it takes one step after the other
// in the goroutine of the actor.
type sequential struct{}

// Run takes one segment after the other, and waits for each write.
func (sequential) Run(ctx context.Context, s *visit.Scan) error {
	process := s.Processor()
	for _, of := range s.Shares {
		for l, err := range s.Loads(ctx, of, func() error { return nil }) {
			if err != nil {
				return err
			}
			collect, err := process(ctx, l)
			if err != nil {
				return err
			}
			write, err := collect()
			if err == nil && write != nil {
				err = write(ctx)
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}
