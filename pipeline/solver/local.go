package solver

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// An update of few rows takes longer to distribute than to visit, so its solver visits them: with the code of workers, and the same
// records, of which none is sent. A solver that takes over makes the visits again.

// Visits makes the visits of an update that is too small to distribute.
type Visits interface {
	// Begin begins the visits, with the accepted records of a chain, which grow between visits, and the version that the run starts
	// from.
	Begin(ctx context.Context, chain *protocol.Chain, earlier *model.Model) error
	// Visit makes a visit to all partitions, and returns its records.
	Visit(ctx context.Context, v protocol.Visit) (*protocol.Records, error)
	// Grams returns the records of the Gram matrices of a stage.
	Grams(ctx context.Context, stage int) (*protocol.Records, error)
	// End releases the memory of the visits.
	End()
}

// gatherLocal returns the sum of a gathering, whose visit it makes unless that was made.
func (s *Solver) gatherLocal(ctx context.Context, g *gathering) (*accumulate.Sum, error) {
	missing, err := s.reduce(g)
	if err == nil && missing != nil {
		if err = s.visitLocal(ctx, g); err == nil {
			missing, err = s.reduce(g)
		}
	}
	switch {
	case err != nil:
		return nil, err
	case missing != nil:
		return nil, fmt.Errorf("%w: the visit has no %v", wire.ErrDamaged, *missing)
	}
	return g.sum(), nil
}

// visitLocal makes the visit of a gathering.
func (s *Solver) visitLocal(ctx context.Context, g *gathering) (err error) {
	var records *protocol.Records
	if statistics.OfGram(g.parts[0].kind) {
		records, err = s.options.Local.Grams(ctx, g.Stage)
	} else {
		records, err = s.options.Local.Visit(ctx, g.Visit)
	}
	if err != nil {
		return fmt.Errorf("visit %d: %w", g.Number, err)
	}
	for _, r := range records.Doubles {
		s.inbox.doubles[r.Identity] = r
	}
	for _, r := range records.Singles {
		s.inbox.singles[r.Identity] = r
	}
	return nil
}
