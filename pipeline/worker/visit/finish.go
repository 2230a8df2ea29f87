package visit

import (
	"context"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
)

// Residuals computes the residuals of a segment after the stage, and measures the final predictions.
func (p *Processor) Residuals(ctx context.Context, l *Load, attempt string) (*Outcome, error) {
	batches, err := p.begin(ctx, l)
	if err != nil {
		return nil, err
	}
	o, average := &Outcome{}, &accumulate.Sum{}
	chained := p.Plan.Chain != nil && !p.visit.Of.Link.Learnt
	if chained && !p.visit.Of.Features.Sparse() {
		p.beginTerms()
	}
	id := wire.Identity{
		Kind: schemas.KindResiduals, Run: p.ID, Stage: p.visit.Stage, Visit: p.visit.Number, Partition: p.segment.Span.Partition,
		Parent: p.visit.Parent,
	}
	for _, b := range batches {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		n, k := b.Len(), p.visit.Of.Classes
		b.After.Reshape(n, k)
		b.Shown = ""
		p.residual.Reshape(n, k)
		finished := sink.Finished{Score: b.After, Residual: p.residual, Votes: p.votesAfter(b)}
		p.finish(average, b, finished.Votes, chained)
		messages, err := sink.Messages(id, attempt, b.Offset, finished, p.Memory)
		if err != nil {
			return nil, err
		}
		o.Messages = append(o.Messages, messages...)
		for from, to := range sink.Parts(n, finished.Values()) {
			part := scored{Offset: b.Offset, Row: from, Score: b.After.Slice(from, to).Data}
			if finished.Votes.Rows > 0 {
				part.Votes = finished.Votes.Slice(from, to).Data
			}
			o.Scores = append(o.Scores, part)
		}
		p.sum.Count(b.Examples, b.Checksum)
		o.Rows += int64(n)
	}
	if chained && p.visit.Of.Features.Sparse() {
		p.addOccurringTerms(batches)
		p.countVisited()
	} else if chained {
		p.endTerms(p.accumulator.End())
	}
	p.sum.Pack()
	average.Pack()
	p.sum.SetPart(statistics.PartAverage, average)
	p.sum.Spans = coverage.Spans{p.segment.Span}
	o.Sum = p.sum
	return o, nil
}

// finish measures the final predictions of a batch, and fills b.After, p.residual and, at the end of a
// member, votes. In a chain on dense rows it also sums the terms of the increment.
func (p *Processor) finish(average *accumulate.Sum, b *Batch, votes kernel.Dense, chained bool) {
	stage := p.visit.Of
	switch {
	case p.visit.ByLeaves():
		p.visit.fitted.ScoresOfLeaves(b.After, b.Score, p.leavesOf(b), stage.Features.Leaves())
		p.finishRows(average, b, votes, 0, b.Len(), kernel.Dense{})
	case stage.Features.Sparse():
		block := stage.Features.ExpandSparse(b.Sparse)
		p.visit.fitted.ScoresSparse(b.After, b.Score, block)
		if p.visit.counts != nil {
			p.visit.counts.LeaveOut(b.After, block, b.Rows.Classes, b.Fitted)
		}
		p.finishRows(average, b, votes, 0, b.Len(), kernel.Dense{})
	default:
		block, tiles := p.block(p.visit.Stage, stage, b)
		for from, to := range tiles {
			after, before, tile := b.After.Slice(from, to), b.Score.Slice(from, to), block.Slice(from, to)
			p.visit.fitted.Scores(p.BLAS, after, before, tile)
			p.finishRows(average, b, votes, from, to, tile)
			if chained {
				p.addScores(tile, after, before, b.Fitted[from:to])
				p.accumulator.Add(tile, p.residual.Slice(from, to), b.Fitted[from:to])
			}
		}
	}
}

// finishRows measures the final predictions of the rows [from, to) of a batch, whose scores after the stage are in b.After. tile is their
// block if the link is learnt.
func (p *Processor) finishRows(average *accumulate.Sum, b *Batch, votes kernel.Dense, from, to int, tile kernel.Dense) {
	rows, after := b.Rows.Slice(from, to), b.After.Slice(from, to)
	examples := min(max(b.Examples-from, 0), to-from) // the others are augmented
	p.score.Reshape(after.Rows, after.Cols)
	if p.visit.Of.Link.Learnt {
		p.shown(p.score, b.Score.Slice(from, to), tile)
	} else {
		copy(p.score.Data, after.Data)
	}
	p.conclude(rows, examples, after, p.residual.Slice(from, to))
	p.judgeOwn(rows.Slice(0, examples), b.Offset, from)
	if p.Plan.Members() > 1 && p.Plan.EndsMember(p.visit.Stage) {
		p.vote(average, rows, examples, votes.Slice(from, to), b.Votes.Slice(from, to))
	}
}

// conclude measures the final predictions of the leading rows, from the scores in p.score, and writes the rows' residuals.
// score is the score from which the next stage starts.
func (p *Processor) conclude(rows accumulate.Rows, examples int, score, residual kernel.Dense) {
	stage, temperature := p.visit.Of, p.Plan.Temperature(p.visit.Stage)
	if temperature != 1 {
		p.tempered.Reshape(p.score.Rows, p.score.Cols)
		copy(p.tempered.Data, p.score.Data)
	}
	// Only models of trees are chosen by the losses at several temperatures.
	if p.Plan.Holdout > 0 && p.Plan.Chain == nil && stage.Features.Leaves() > 0 && stage.Link.HasTemperature() {
		p.temperatures.Add(p.sum, rows.Slice(0, examples), p.score.Slice(0, examples), stage.Link)
	}
	p.predict(rows, p.score)
	measured := rows.Slice(0, examples)
	p.sum.AddLosses(measured, p.loss[:examples], p.predicted[:examples], p.score.Slice(0, examples))
	if stage.Link.Learnt { // the next stage starts from the score, which is never clipped
		copy(residual.Data, score.Data)
	} else {
		copy(residual.Data, p.score.Data)
	}
	rows.Residuals(residual)
	if temperature != 1 {
		p.score, p.tempered = p.tempered, p.score
		link.Temper(p.score, temperature)
		stage.Link.Predict(p.score)
	}
	stage.Link.Probabilities(p.score, p.workspace.Link())
	p.measureQuality(p.sum, measured, p.score.Slice(0, examples))
}

// votesAfter returns the votes of a batch's rows (n × k) after the stage, for [Processor.vote] to fill if the stage ends a
// member; empty if no member is finished. They stay valid until they are written to the log.
func (p *Processor) votesAfter(b *Batch) kernel.Dense {
	switch {
	case !p.Plan.Votes(p.visit.Stage):
		return kernel.Dense{}
	case !p.Plan.EndsMember(p.visit.Stage):
		return b.Votes
	}
	return kernel.NewDense(b.Len(), p.visit.Of.Classes)
}

// vote computes the votes of some rows after the last stage of a member, with predictions in p.score, and adds the metrics
// of the leading rows, those of the message, to average: the metrics of the mean of the members so far.
func (p *Processor) vote(average *accumulate.Sum, rows accumulate.Rows, examples int, votes, before kernel.Dense) {
	copy(votes.Data, before.Data)
	sink.Vote(votes, p.score)
	sink.Average(p.score, votes, p.Plan.Member(p.visit.Stage)+1)
	p.visit.Of.Link.MeasurePredictions(p.score, rows.Truth, p.loss, p.predicted)
	measured, prediction := rows.Slice(0, examples), p.score.Slice(0, examples)
	average.AddLosses(measured, p.loss[:examples], p.predicted[:examples], prediction)
	p.measureQuality(average, measured, prediction)
}

// measureQuality adds the quality of the predictions of some rows after the stage. Large sums are kept only for the last
// stage.
func (p *Processor) measureQuality(sum *accumulate.Sum, rows accumulate.Rows, probabilities kernel.Dense) {
	predicted, last := p.predicted[:len(rows.Classes)], p.visit.Stage == len(p.Plan.Stages)-1
	if last || p.Plan.Task() != examples.SeveralLabels {
		sum.AddQuality(rows, probabilities, predicted)
	}
	if last {
		sum.AddRanking(rows, probabilities, predicted, p.Plan.Threshold.At)
	}
}
