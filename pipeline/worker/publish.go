package worker

import (
	"context"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// sealStage publishes and seals the residuals after a final stage, of the partitions whose residuals are not sealed yet.
func (w *Worker) sealStage(ctx context.Context, stage int) error {
	_, parent := w.chain.Final(stage)
	var open []*partition.State
	for _, p := range w.partitions {
		if seal := w.seals.of(p.Partition(), stage); seal == nil || seal.Parent != parent {
			open = append(open, p)
		}
	}
	if len(open) == 0 {
		return nil
	}
	began := time.Now()
	if err := w.withScores(ctx, stage, open, func() error { return w.publishStage(ctx, stage, open) }); err != nil {
		return err
	}
	w.rec.Record(event.Sealed{Run: w.run, Stage: stage, Partitions: partition.Numbers(open), Rows: rows(open), Elapsed: time.Since(began)})
	if stage == len(w.plan.Stages)-1 {
		w.commit(open)
	}
	return nil
}

// commit tells people's tools that a run has learnt what partitions had when it began, so that they show what no run has learnt. A
// failure is no trouble for the run.
func (w *Worker) commit(partitions []*partition.State) {
	ends := map[int]int64{}
	for _, p := range partitions {
		if !p.Span().Empty() {
			ends[p.Partition()] = p.Span().To
		}
	}
	w.owner.Commit(ends, func(err error) {
		if err != nil {
			event.Notice(w.rec, "the offsets that run %s has reached are not committed, so tools show too large a lag: %v", w.run, err)
		}
	})
}

// publishStage publishes the residuals after a stage of partitions whose scores before it are loaded. It seals those of a
// partition when the brokers have acknowledged all of them.
func (w *Worker) publishStage(ctx context.Context, stage int, partitions []*partition.State) error {
	visit, err := w.stageVisit(run.Visit{Stage: stage})
	if err != nil {
		return err
	}
	_, visit.Parent = w.chain.Final(stage)
	for _, p := range partitions {
		p.BeginPublication()
	}
	attempt := w.Fresh()
	sums, open, terms := map[*partition.State]*accumulate.Sum{}, map[*partition.State]*openSeal{}, map[*partition.State]*incrementTerms{}
	s := &scan{
		client: w.Client, store: w.store, counting: w.counting, sequential: w.sequential, scores: w.scoresBefore(stage),
		maxWrites: 1, // so that residuals stand in the order of their examples
		process: func() func(context.Context, *load) (*outcome, error) {
			p := w.stageProcessor(visit)
			return func(ctx context.Context, l *load) (*outcome, error) { return p.residuals(ctx, l, attempt) }
		},
		collect: func(p *partition.State, o *outcome) (func(context.Context) error, error) {
			if open[p] == nil {
				open[p] = &openSeal{Seal: schemas.Seal{Identity: w.identity(schemas.KindSeal, visit.Visit, p), Attempt: attempt, From: -1}}
			}
			seal := open[p]
			whole, err := merge(sums, p, o, p.All(), true, w.buffers, w.Crosses)
			if err != nil {
				return nil, err
			}
			var ended *accumulate.Sum // the terms of an increment
			var place int
			if o.terms != nil {
				if terms[p] == nil {
					terms[p] = newIncrementTerms(w.plan.Chain, p)
				}
				if ended, place, err = terms[p].add(p.Segments()[o.segment], o.terms); err != nil {
					return nil, err
				}
			}
			return func(ctx context.Context) error {
				if err := w.writeResiduals(ctx, seal, o); err != nil {
					return err
				}
				if ended != nil {
					if err := w.publishTerms(ctx, visit, p, place, ended); err != nil {
						return err
					}
				}
				if whole == nil {
					return nil
				}
				return w.seal(ctx, p, seal, whole)
			}, nil
		},
	}
	return s.run(ctx, partitions)
}

// openSeal is the seal of residuals that are not all written yet.
type openSeal struct {
	schemas.Seal
	digester sink.Digester
}

// writeResiduals writes the residuals of a segment, and adds them to the seal.
func (w *Worker) writeResiduals(ctx context.Context, seal *openSeal, o *outcome) error {
	offset, err := w.Log.Append(ctx, w.Topics.Residuals, seal.Partition, o.messages...)
	if err != nil {
		return err
	}
	if seal.From < 0 {
		seal.From = offset
	}
	for _, part := range o.scores {
		seal.digester.Add(part.offset, part.row, part.score, part.votes)
	}
	seal.Rows += o.rows
	return nil
}

// seal publishes the seal of a partition's residuals, all of which are acknowledged. sum covers the partition.
func (w *Worker) seal(ctx context.Context, p *partition.State, open *openSeal, sum *accumulate.Sum) error {
	_, end, err := w.Log.Bounds(ctx, w.Topics.Residuals, p.Partition())
	if err != nil {
		return err
	}
	seal := open.Seal
	if seal.From < 0 { // without rows there are no residuals, and none that could expire
		seal.From = end
	}
	seal.To, seal.Scores = end, open.digester.Digest()
	if w.plan.Chain != nil {
		w.stackTerms(sum, run.Visit{Stage: seal.Stage})
	}
	seal.Covered, seal.Sums = sum.Coverage, sum.Tensors()
	if err := publish(ctx, w, seal.Record()); err != nil {
		return err
	}
	w.seals.add(&seal)
	if !w.endsMember(seal.Stage) { // the next member begins at other scores, and at the votes that are published
		p.Published(seal.Stage)
	}
	return nil
}

// residuals computes the residuals of one segment after the stage, and measures the final predictions.
func (p *stageProcessor) residuals(ctx context.Context, l *load, attempt string) (*outcome, error) {
	batches, err := p.batches(ctx, l)
	if err != nil {
		return nil, err
	}
	sum, average, o := &accumulate.Sum{}, &accumulate.Sum{}, &outcome{}
	chained := p.plan.Chain != nil && !p.visit.stage.Link.Learnt
	if chained {
		p.beginTerms()
	}
	id := p.identity(schemas.KindResiduals, p.visit.Visit, l.partition)
	for _, b := range batches {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n, k := b.Len(), p.visit.stage.Classes
		b.After.Reshape(n, k)
		b.Shown = ""
		p.residual.Reshape(n, k)
		finished := sink.Finished{Score: b.After, Residual: p.residual, Votes: p.votesAfter(b)}
		if p.visit.stage.Features.Sparse() {
			p.finishSparse(sum, average, b, finished.Votes)
		} else {
			p.finishDense(sum, average, b, finished.Votes, chained)
		}
		messages, err := p.Codec.EncodeResiduals(id, attempt, b.Offset, finished)
		if err != nil {
			return nil, err
		}
		o.messages = append(o.messages, messages...)
		for from, to := range sink.Parts(n, finished.Values()) {
			part := scored{offset: b.Offset, row: from, score: b.After.Slice(from, to).Data}
			if finished.Votes.Rows > 0 {
				part.votes = finished.Votes.Slice(from, to).Data
			}
			o.scores = append(o.scores, part)
		}
		sum.Count(b.Examples, b.Checksum)
		o.rows += int64(n)
	}
	if chained {
		o.terms = p.termsOfSegment()
		p.countVisited(sum, l.segment().Increment)
	}
	sum.SetPart(schemas.PartAverage, average)
	sum.Spans = schemas.Spans{l.segment().Span}
	o.sum = sum
	return o, nil
}

// finishDense measures the final predictions of a batch of dense rows, and writes b.After, p.residual and, at the end of a member, votes. Of a chain
// it sums the terms of the increment too.
func (p *stageProcessor) finishDense(sum, average *accumulate.Sum, b *partition.Batch, votes kernel.Dense, chained bool) {
	block, made := p.blockOf(b)
	for from, to := range model.Tiles(b.Len()) {
		if !made {
			p.expand(block, b, from, to)
		}
		after, residual, before, tile := b.After.Slice(from, to), p.residual.Slice(from, to), b.Score.Slice(from, to), block.Slice(from, to)
		rows, examples := b.Rows.Slice(from, to), min(max(b.Examples-from, 0), to-from)
		p.finish(sum, rows, examples, after, residual, before, tile)
		if p.endsMember(p.visit.Stage) {
			p.vote(average, rows, examples, votes.Slice(from, to), b.Votes.Slice(from, to))
		}
		if chained {
			p.addScores(tile, after, before, b.Fitted[from:to])
			p.accumulator.Add(tile, residual, b.Fitted[from:to])
		}
	}
}

// finish measures the final predictions of some rows, of which the first are examples and the others were made of them. It writes their scores after the stage into score, and their residuals into
// residual.
func (p *stageProcessor) finish(sum *accumulate.Sum, rows accumulate.Rows, examples int, score, residual, before, block kernel.Dense) {
	stage := p.visit.stage
	p.visit.fitted.Scores(p.blas, score, before, block)
	p.score.Reshape(score.Rows, score.Cols)
	if stage.Link.Learnt {
		p.shown(p.score, before, block)
	} else {
		copy(p.score.Data, score.Data)
	}
	p.conclude(sum, rows, examples, score, residual)
}

// conclude measures the final predictions of those rows that are examples, of the scores in p.score, and writes the rows' residuals. score is what the next stage
// begins at.
func (p *stageProcessor) conclude(sum *accumulate.Sum, rows accumulate.Rows, examples int, score, residual kernel.Dense) {
	stage := p.visit.stage
	p.predict(rows, p.score)
	measured := rows.Slice(0, examples)
	sum.AddLosses(measured, p.loss[:examples], p.predicted[:examples], p.score.Slice(0, examples))
	if stage.Link.Learnt { // the next stage begins at the score, which is never clipped
		copy(residual.Data, score.Data)
	} else {
		copy(residual.Data, p.score.Data)
	}
	rows.Residuals(residual)
	stage.Link.Probabilities(p.score, p.workspace.Link())
	if p.measuresQuality() {
		sum.AddQuality(measured, p.score.Slice(0, examples), p.predicted[:examples])
	}
}
