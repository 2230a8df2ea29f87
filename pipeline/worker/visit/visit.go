// Package visit computes the outcomes of the survey of a run, and of each visit to a stage, segment by segment.
//
//	span ──Scan──▶ loads ──decode──▶ rows ──stages──▶ blocks and scores ──accumulate──▶ sums
//	                                     │                                 ──sink──▶ residuals, once the stage is final
//	                                     └──Survey──▶ labels, moments, a sample of rows; unusable messages
//
// A [Scan] processes the segments of partitions on all cores, and collects outcomes in an order that does not depend on timing.
// Rows are determined by the plan, the message and its position on the topic. A [Survey] and a [Visit] are shared by their
// goroutines, each with a processor of its own. The package does not depend on the worker's ownership or publications.
package visit

import (
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Run is a run whose rows are visited. Create runs with [NewRun]. It is immutable while a visit is made.
type Run struct {
	*protocol.Client
	ID      string
	Plan    *schemas.Plan
	BLAS    *kernel.BLAS
	Cache   *Cache       // for data kept in memory
	Earlier *model.Model // the version that the run starts from; nil: none

	counting *protocol.Counting // decides which messages count
	noLabels value.Missing      // texts that are not labels
}

// NewRun returns a run without a version from which it starts.
func NewRun(client *protocol.Client, blas *kernel.BLAS, plan *schemas.Plan, id string, cache *Cache) *Run {
	return &Run{Client: client, ID: id, Plan: plan, BLAS: blas, Cache: cache, counting: protocol.NewCounting(plan),
		noLabels: layout.MissingLabels(plan)}
}

// Visit is a visit to a stage, shared by its goroutines. It is immutable while they run.
type Visit struct {
	*Run
	protocol.Visit
	Of       *model.Stage
	prepared *stages.Preparation
	columns  examples.Columns // of the features, with the offsets of the run
	fitted   *sink.Fitted
	passed   []passed    // of an update: the earlier stages
	Sample   *gramSample // messages for the Gram matrix of the stage; nil: all
	// Gram means that the visit only sums the Gram matrix of the stage, which does not depend on weights. It is a visit of its own, before
	// the first that the chain lists.
	Gram      bool
	blocks    *blockVisit       // of a stage that is fitted in blocks
	occurring *occurringWeights // of an update on sparse rows
	own       []passed          // of an update on sparse rows: the stages before the last with their new weights
	counts    *sink.Counts      // of a counted stage with final weights, in a full run of a chain: the counts of these weights
	Offered   *model.Model      // of an update: the version for subscribers, if the visit evaluates revisited increments
}

// New returns a visit to a stage with its weights.
func New(run *Run, chain *protocol.Chain, v protocol.Visit) (*Visit, error) {
	s, err := newVisit(run, chain, v)
	if err != nil {
		return nil, err
	}
	stage, update := s.Of, run.Plan.Update() != nil
	if update && stage.Features.Sparse() { // rows are scored with the previous version before they are counted
		s.passed, err = s.passedStages(chain, func(of *model.Stage, t int) (*sink.Fitted, error) { return of.Fitted(chain.Initial(t), nil) })
		if err != nil {
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
		if s.passed, err = s.passedStages(chain, chain.Fitted); err != nil {
			return nil, err
		}
		s.fitted, err = chain.FittedFor(stage, v) // a solver that takes over makes earlier visits again
		return s, err
	}
	if stage.Features.FittedAtATime() > 0 {
		return s, s.readBlocks(chain)
	}
	s.fitted, err = chain.Fitted(stage, v.Stage)
	return s, err
}

// NewGram returns the visit that only sums the Gram matrix of a stage.
func NewGram(run *Run, chain *protocol.Chain, v protocol.Visit) (*Visit, error) {
	s, err := newVisit(run, chain, v)
	if err == nil {
		s.Gram = true
	}
	return s, err
}

// newVisit returns a visit without weights.
func newVisit(run *Run, chain *protocol.Chain, v protocol.Visit) (*Visit, error) {
	stage, err := chain.Stage(v.Stage)
	if err != nil {
		return nil, err
	}
	s := &Visit{Run: run, Visit: v, Of: stage, prepared: chain.Prepared, columns: chain.Survey.Columns}
	if v.Number == 0 && run.Plan.Chain == nil && !stage.Features.Sparse() { // a chain adds to the Gram matrix, so it covers all rows
		all := chain.Survey.Rows[examples.Train]
		if n := solve.GramRows(run.Plan.Stages[v.Stage], stage.Features.Size(), s.ByLeaves(), all); n < all {
			s.Sample = newGramSample(n, all)
		}
	}
	return s, nil
}

// gramSample selects whole messages with about want of total training rows. It spreads them evenly along each partition,
// with a different start in each partition.
type gramSample struct{ Want, Total int64 }

// newGramSample returns such a sample.
func newGramSample(want, total int64) *gramSample {
	for total >= 1<<30 { // products with ordinals must fit an int64; only the ratio matters
		want, total = max(want/2, 1), total/2
	}
	return &gramSample{want, total}
}

// samples reports whether a message of a segment is part of the Gram matrix, given its ordinal among the accepted messages of
// the segment.
func (v *Visit) samples(s *Segment, message int) bool {
	return v.Sample == nil || v.Sample.has(s.Part.Ordinal, int64(s.Index)*v.Plan.Segment+int64(message))
}

// has reports whether a message is in the sample. partition is the ordinal of its partition in the plan, message its
// ordinal in the partition. The first message of the plan is in every sample.
//
// Up to any message of a partition, the sample has the fraction want/total of the messages, rounded. The rounding starts
// at a phase. The phase of partition 0 selects its first message. The golden section spreads the phases of any number of
// others.
func (g *gramSample) has(partition int, message int64) bool {
	step := int64(float64(g.Total) * 0.6180339887498949)
	phase := (g.Total - g.Want + int64(partition)%g.Total*step) % g.Total
	return ((message+1)*g.Want+phase)/g.Total > (message*g.Want+phase)/g.Total
}
