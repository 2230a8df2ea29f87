package visit

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages/prepare"
)

// Run is the shared state of a run's visits. It is immutable once the survey's result is accepted.
type Run struct {
	ID       string
	Plan     *schemas.Plan
	Prepared *prepare.Preparation
	Columns  examples.Columns // of the features, with the offsets of the run
	Earlier  *model.Model     // the version that the run starts from; nil: none
	Rows     *RowReader
	Codec    protocol.Codec
	BLAS     *kernel.BLAS
	Budget   *partition.Budget // for data kept in memory
	Buffers  *accumulate.BufferPool
	Crosses  *accumulate.CrossPool
}

// Visit is a visit to a stage, shared by its goroutines. It is immutable while they run.
type Visit struct {
	*Run
	protocol.Visit
	Of     *model.Stage
	fitted *sink.Fitted
	passed []passed    // of an update: the earlier stages
	Sample *gramSample // messages for the Gram matrix in visit 0; nil: all
	rounds []parts     // parts of each round: one or two rounds
	// ownBlocks means that the blocks of batches belong to another stage, because this one is not yet due, so each processor
	// computes blocks in memory of its own.
	ownBlocks bool
	blocks    *blockVisit       // of a stage that is fitted in blocks
	occurring *occurringWeights // of an update on sparse rows
	own       []passed          // of an update on sparse rows: the stages before the last with their new weights
	counts    []float32         // p × k, of a counted stage of a full run of a chain that has ended: the counts of its weights
	totals    []float64         // k: their sums over the inputs
	Offered   *model.Model      // of an update: the version for subscribers, if the visit evaluates revisited increments
}

// parts are the sums of a round: the Gram matrix, the rest, or both.
type parts struct{ gram, rest bool }

// New returns a visit to a stage with its weights. It has one round.
func New(run *Run, chain *protocol.Chain, v protocol.Visit) (*Visit, error) {
	stage, err := chain.Stage(v.Stage)
	if err != nil {
		return nil, err
	}
	s := &Visit{Run: run, Visit: v, Of: stage}
	sums, update, sparse := parts{rest: true}, run.Plan.Update() != nil, stage.Features.Sparse()
	if !sparse && !update { // an update sums its Gram matrices in separate visits
		sums.gram = v.Number == 0 || s.Calibrates()
	}
	s.rounds = []parts{sums}
	if update && sparse {
		if s.passed, err = s.passedBefore(chain); err != nil {
			return nil, err
		}
		return s, s.readOccurring(chain)
	}
	if final, _ := chain.Final(v.Stage); final != nil && stage.Features.Counted() && run.Plan.Chain != nil {
		if err := s.readCounts(final); err != nil {
			return nil, err
		}
	}
	if update {
		if s.passed, err = passedStages(run.Plan, chain, v.Stage); err != nil {
			return nil, err
		}
		s.fitted, err = chain.FittedFor(stage, v) // a solver that takes over makes earlier visits again
		return s, err
	}
	if v.Number == 0 && run.Plan.Chain == nil && !sparse { // a chain adds to the Gram matrix, so it covers all rows
		all := chain.Survey.Rows[examples.Train]
		if n := solve.GramRows(run.Plan.Stages[v.Stage], stage.Features.Size(), s.ByLeaves(), all); n < all {
			s.Sample = newGramSample(n, all)
		}
	}
	if stage.Features.FittedAtATime() > 0 {
		return s, s.readBlocks(chain)
	}
	s.fitted, err = chain.Fitted(stage, v.Stage)
	return s, err
}

// NewGram returns the visit that only sums the Gram matrices of an update's stage. ahead means that the stage is not yet
// due.
func NewGram(run *Run, chain *protocol.Chain, stage int, ahead bool) (*Visit, error) {
	s, err := chain.Stage(stage)
	if err != nil {
		return nil, err
	}
	v := &Visit{Run: run, Visit: chain.GramVisit(stage), Of: s, rounds: []parts{{gram: true}}, ownBlocks: ahead}
	return v, nil
}

// WithoutGram returns the visit without the Gram matrix, which an earlier run has summed.
func (v *Visit) WithoutGram() *Visit { return v.inRounds(parts{rest: true}) }

// GramFirst returns the visit in two rounds: the first sums the Gram matrix, the second the rest.
func (v *Visit) GramFirst() *Visit { return v.inRounds(parts{gram: true}, parts{rest: true}) }

func (v *Visit) inRounds(rounds ...parts) *Visit {
	other := *v
	other.rounds = rounds
	return &other
}

// Twice reports whether the visit goes through the segments in two rounds.
func (v *Visit) Twice() bool { return len(v.rounds) == 2 }

// Calibrates reports whether the visit is the second of a pass of Algorithm 2, which fits a calibration.
func (v *Visit) Calibrates() bool { return !v.Of.Link.HasGradient(v.Number) }

// Parts reports what a round of the visit sums: the Gram matrix, the rest, or both.
func (v *Visit) Parts(round int) (gram, rest bool) {
	p := v.rounds[round]
	return p.gram, p.rest
}
