package worker

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// stageVisit is a visit to a stage: what its goroutines share.
type stageVisit struct {
	run.Visit
	stage  *model.Stage
	fitted *sink.Fitted
	passed []passed    // of an update: the stages before
	sample *gramSample // the messages that the Gram matrix is made of in visit 0; nil: all
	// gramFirst says that the Gram matrix is summed in a round of its own, before the rest of the sums.
	gramFirst bool
	gramKnown bool        // the Gram matrix is that of an earlier run
	update    bool        // the visit sums the Gram matrix alone, or all but the Gram matrix
	gramAlone bool        // of an update: the first
	ahead     bool        // of an update: the stage is not yet due, so the batches have the blocks of another
	blocks    *blockVisit // of a stage that is fitted in blocks
}

// stageVisit returns a visit to a stage with the weights that it is made with.
func (w *Worker) stageVisit(v run.Visit) (*stageVisit, error) {
	stage, err := w.chain.Stage(v.Stage)
	if err != nil {
		return nil, err
	}
	s := &stageVisit{Visit: v, stage: stage}
	if s.update = w.plan.Update() != nil; s.update {
		if s.passed, err = w.passedStages(v.Stage); err != nil {
			return nil, err
		}
	}
	if v.Number == 0 && w.plan.Chain == nil && !stage.Features.Sparse() { // a chain adds to the Gram matrix, so it is that of all rows
		all := w.chain.Survey.Rows[schemas.Train]
		if n := solve.GramRows(w.plan.Stages[v.Stage], stage.Features.Size(), all); n < all {
			s.sample = newGramSample(n, all)
		}
	}
	if stage.Features.FittedAtATime() > 0 {
		return s, s.readBlocks(w.chain)
	}
	s.fitted, err = w.chain.Fitted(stage, v.Stage)
	return s, err
}

// calibrates reports whether the visit is the second of a pass of Algorithm 2, which fits a calibration.
func (v *stageVisit) calibrates() bool { return !v.stage.Link.HasGradient(v.Number) }

// parts reports what a round of the visit sums: the Gram matrix, the rest, or both.
func (v *stageVisit) parts(round int) (gram, rest bool) {
	switch {
	case v.stage.Features.Sparse():
		return false, true
	case v.update:
		return v.gramAlone, !v.gramAlone
	case v.calibrates():
		return true, true
	case v.gramKnown:
		return false, true
	}
	return v.Number == 0 && round == 0, !v.gramFirst || round == 1
}

// maxWrites is how many partitions' sums are written at once, as a large Gram matrix takes long to write.
const maxWrites = 2

// sum publishes the sums of partitions whose scores before the stage are loaded.
func (w *Worker) sum(ctx context.Context, v run.Visit, partitions []*partition.State) error {
	visit, err := w.stageVisit(v)
	if err != nil {
		return err
	}
	extent := (*partition.State).All
	if visit.update {
		if w.ahead != nil && w.ahead.stage == v.Stage {
			if err := w.endGrams(); err != nil {
				return err
			}
		}
		if err := w.sumGrams(ctx, v.Stage, v.Stage, partitions); err != nil {
			return err
		}
		extent = (*partition.State).Staying
	} else {
		if visit.gramKnown, err = w.publishKnownGrams(ctx, visit, partitions); err != nil {
			return err
		}
		visit.gramFirst = v.Number == 0 && !visit.gramKnown && !visit.stage.Features.Sparse() && w.keepsBlocks(visit, partitions)
	}
	return w.sums(ctx, visit, partitions, extent)
}

// sums publishes what a visit sums of partitions: of each of the first segments, as many as extent returns.
func (w *Worker) sums(ctx context.Context, visit *stageVisit, partitions []*partition.State, extent func(*partition.State) int) error {
	for _, p := range partitions {
		if extent(p) > 0 {
			continue
		}
		gram, rest := visit.parts(0)
		if err := w.publishSums(ctx, visit, p, &accumulate.Sum{}, gram, rest); err != nil {
			return err
		}
	}
	progress := func(int64) {}
	if !visit.gramAlone { // which is no part of what a visit has read
		progress = w.progress(visit.Visit, partitions)
	}
	sums := [2]map[*partition.State]*accumulate.Sum{{}, {}} // of each round
	var processors []*stageProcessor
	s := &scan{
		extent: extent, client: w.Client, store: w.store, counting: w.counting, sequential: w.sequential, scores: w.scoresBefore(visit.Stage), maxWrites: maxWrites, twice: visit.gramFirst,
		increment: w.increment,
		process: func() func(context.Context, *load) (*outcome, error) {
			p := w.stageProcessor(visit)
			processors = append(processors, p)
			return p.sum
		},
		collect: func(p *partition.State, o *outcome) (func(context.Context) error, error) {
			gram, rest := visit.parts(o.round)
			progress(o.rows)
			whole, err := merge(sums[o.round], p, o, extent(p), rest, w.buffers, w.Crosses)
			if err != nil || whole == nil {
				return nil, err
			}
			return func(ctx context.Context) error { return w.publishSums(ctx, visit, p, whole, gram, rest) }, nil
		},
	}
	err := s.run(ctx, partitions)
	if err != nil || !visit.stage.Features.Sparse() {
		processors = nil // those of other rows have memory for a Gram matrix, which the first visit alone needs
	}
	w.idle.keep(processors)
	return err
}

// keepsBlocks reports whether the partitions' blocks fit into memory beside the messages that were read. Then the Gram matrix can
// be summed before the rest, and the solver factors it while the rest is summed.
func (w *Worker) keepsBlocks(v *stageVisit, partitions []*partition.State) bool {
	bytes := int64(0)
	for _, p := range partitions {
		missing, ok := p.MissingBytes(w.plan.Augment.Rows(), w.chain.Prepared.Inputs(), w.values(v.stage.Classes), v.stage.Features.Size())
		if !ok {
			return false
		}
		bytes += missing
	}
	return w.budget.Has(bytes)
}

// merge adds a segment's sum to the sum of its partition, of so many segments. It returns the partition's sum when it is whole, otherwise
// nil. If all is set, the sum is over all messages and must cover what the survey has covered: the error is a *CoverageError if it does not.
func merge(sums map[*partition.State]*accumulate.Sum, p *partition.State, o *outcome, segments int, all bool, buffers *accumulate.BufferPool, crosses *accumulate.CrossPool) (*accumulate.Sum, error) {
	if sums[p] == nil {
		o.sum.Spread(crosses)
		sums[p] = o.sum
	} else if err := sums[p].Merge(o.sum); err != nil {
		return nil, err
	} else {
		buffers.Put(o.sum)
		crosses.Put(o.sum)
	}
	if o.segment < segments-1 {
		return nil, nil
	}
	whole := sums[p]
	delete(sums, p)
	if all && !whole.Coverage.Same(p.Covered()) {
		return nil, fmt.Errorf("partition %d: %w", p.Partition(), &CoverageError{whole.Coverage, p.Covered()})
	}
	return whole, nil
}

// CoverageError says that a visit read other rows than the survey, so the topic has changed during the run.
type CoverageError struct{ Got, Want schemas.Coverage }

// Error returns how many rows and messages both had, and their checksums.
func (e *CoverageError) Error() string {
	return fmt.Sprintf("%d rows in %d messages (checksum %016x), the survey had %d in %d (%016x)",
		e.Got.Rows, e.Got.Messages, e.Got.Checksum, e.Want.Rows, e.Want.Messages, e.Want.Checksum)
}

// publishSums writes a partition's sums: the Gram matrix, the rest, or both.
func (w *Worker) publishSums(ctx context.Context, v *stageVisit, p *partition.State, sum *accumulate.Sum, gram, rest bool) error {
	if gram {
		if err := w.publishGram(ctx, v, p, sum); err != nil {
			return err
		}
	}
	if !rest {
		return nil
	}
	if w.plan.Update() != nil {
		w.stackTerms(sum, v.Visit)
	}
	r := schemas.Visit{Identity: w.identity(schemas.KindVisit, v.Visit, p), Covered: sum.Coverage, Sums: sum.Tensors()}
	if w.plan.Update() != nil { // which has terms in other sums too
		return publish(ctx, w, r.Record())
	}
	return w.give(ctx, r.Record())
}

// publishGram takes the Gram matrix out of the sums, and writes it as a record of its own. A partition without rows in the
// sample has no matrix, unless it is the plan's first: of a thousand partitions few have such rows. The Gram matrix of a
// block was summed in single precision and is sent so. That of a calibration is nearly singular, and is sent in double
// precision.
func (w *Worker) publishGram(ctx context.Context, v *stageVisit, p *partition.State, sum *accumulate.Sum) error {
	if w.plan.Update().TakesAway() {
		if err := w.publishLeaving(ctx, v, p, sum); err != nil {
			return err
		}
	}
	if n := v.stage.Features.Size(); v.Number == 0 && p.Ordinal() == 0 && w.plan.Update() == nil { // also of no rows
		sum.Field(schemas.FieldGram, n*(n+1)/2)
	}
	matrix, _ := sum.Tensors().Find(schemas.FieldGram)
	defer w.buffers.Put(sum)
	r := schemas.Gram{Identity: w.identity(schemas.KindGram, v.Visit, p), Matrix: matrix.Data}
	if v.calibrates() {
		return publish(ctx, w, r.ExactRecord())
	}
	r.Weight = sum.Field(schemas.FieldGramRows, 1)[0]
	sum.Take(schemas.FieldGramRows)
	record := r.BlockRecord()
	if key, ok := w.gramKey(v, p); ok {
		w.store.KeepGram(key, record)
	}
	return publish(ctx, w, record)
}
