package visit

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
)

// ResidualsReader reads the published residuals of a stage for the next stage.
type ResidualsReader struct {
	*Run
	Stage   int
	Parent  wire.Digest // the stage's final weights
	Classes int
	Seal    func(*Share) *statistics.Seal // returns nil if the share is not sealed
}

// ErrUnsealed means that residuals do not match their seal, are gone, or have no seal. They are then computed and
// published again.
var ErrUnsealed = errors.New("the residuals do not match their seal")

// residualsReader reads a partition's residuals messages in the order of its examples. It skips duplicates, and residuals
// that other workers have written in between.
type residualsReader struct {
	*ResidualsReader
	messages *protocol.Ahead
	attempt  string
	offset   int64 // offset of the examples message of the last one
	row      int   // first row of that message that is not read yet
	scratch  link.Scratch
}

// reader returns a reader of the residuals of a partition in a share, which must be sealed.
func (r *ResidualsReader) reader(ctx context.Context, s *Share, part *Part) *residualsReader {
	seal, number := r.Seal(s), part.Span.Partition
	of := seal.Part(number)
	return &residualsReader{
		ResidualsReader: r, attempt: seal.Attempt, offset: -1,
		messages: protocol.NewAhead(r.Log.Range(ctx, r.Topics.Residuals, number, of.From, of.To)),
	}
}

// convert turns scores after the stage into those before the next one, whose link may have another unit. Those of a member start at 0.
func (r *ResidualsReader) convert(score kernel.Dense, scratch *link.Scratch) {
	if r.Plan.BeginsMember(r.Stage + 1) {
		clear(score.Data)
	} else {
		link.Convert(score, model.LinkOf(r.Plan, r.Stage), model.LinkOf(r.Plan, r.Stage+1), scratch)
	}
}

func (r *residualsReader) close() { r.messages.Stop() }

// next returns the next message for examples before an offset; nil if the sealed range has no more.
func (r *residualsReader) next(before int64) (*schemas.Residuals, error) {
	for {
		m, err := r.messages.Peek()
		if errors.As(err, new(*kafkalog.DeletedError)) {
			return nil, fmt.Errorf("%w: %w", ErrUnsealed, err)
		}
		if err != nil || m == nil {
			return nil, err
		}
		head, err := schemas.ResidualsHeader(m.Message)
		own := err == nil && head.Run == r.ID && head.Stage == r.Stage && head.Parent == r.Parent && head.Attempt == r.attempt
		if own && head.Offset >= before {
			return nil, nil
		}
		of := r.messages.Take().Message
		if !own {
			continue // of another worker, or for weights that were not accepted
		}
		if head.Offset < r.offset || head.Offset == r.offset && head.Row < r.row {
			continue // a duplicate
		}
		part, err := schemas.DecodeResiduals(of, r.Classes, r.Memory)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnsealed, err)
		}
		if votes := r.Plan.Votes(r.Stage); votes != (part.Votes != nil) && len(part.Score) > 0 {
			return nil, fmt.Errorf("%w: votes at offset %d: %v, expected %v", ErrUnsealed, part.Offset, part.Votes != nil, votes)
		}
		if part.Offset != r.offset {
			r.row = 0
		}
		if part.Row != r.row {
			return nil, fmt.Errorf("%w: row %d of offset %d follows row %d", ErrUnsealed, part.Row, part.Offset, r.row)
		}
		r.offset = part.Offset
		r.row += len(part.Score) / r.Classes
		return part, nil
	}
}

// load reads the scores of a load's messages, in the unit of the next stage's link, and their votes.
func (r *residualsReader) load(l *Load) error {
	l.Scores, l.Votes = make([]kernel.Dense, len(l.Messages)), make([]kernel.Dense, len(l.Messages))
	for i := range l.Scores {
		l.Scores[i].Cols, l.Votes[i].Cols = r.Classes, r.Classes
	}
	for i := 0; ; {
		part, err := r.next(l.Segment().Span.To)
		if err != nil {
			return err
		}
		if part == nil {
			break
		}
		for i < len(l.Messages) && l.Messages[i].Offset < part.Offset {
			i++
		}
		if i < len(l.Messages) && l.Messages[i].Offset == part.Offset {
			score, votes := &l.Scores[i], &l.Votes[i]
			score.Data, votes.Data = append(score.Data, part.Score...), append(votes.Data, part.Votes...)
			score.Rows, votes.Rows = len(score.Data)/r.Classes, len(votes.Data)/r.Classes
		}
	}
	for _, score := range l.Scores {
		r.convert(score, &r.scratch)
	}
	return nil
}

// Restore reads the sealed residuals of a share and verifies them against the seal. It copies the scores to the batches in
// memory. The error wraps ErrUnsealed if the residuals must be computed again. Some batches then have wrong scores.
func (r *ResidualsReader) Restore(ctx context.Context, s *Share) error {
	seal := r.Seal(s)
	if seal == nil || seal.Parent != r.Parent {
		return ErrUnsealed
	}
	for _, part := range s.Parts {
		if err := r.restore(ctx, s, part, seal.Part(part.Span.Partition)); err != nil {
			return fmt.Errorf("read residuals %s[%d] of stage %d: %w", r.Topics.Residuals, part.Span.Partition, r.Stage, err)
		}
	}
	scratch := link.Scratch{}
	for _, b := range s.batches() {
		b.Shown = ""
		r.convert(b.Score, &scratch)
	}
	return nil
}

// restore is Restore for a partition of the share, without conversion of the scores.
func (r *ResidualsReader) restore(ctx context.Context, s *Share, part *Part, seal statistics.SealedPart) error {
	reader := r.reader(ctx, s, part)
	defer reader.close()
	var digester sink.Digester
	rows := int64(0)
	for _, segment := range part.segments {
		for _, b := range segment.Batches {
			clear(b.Votes.Data) // once a member is finished, the residuals have its votes
		}
	}
	for {
		m, err := reader.next(math.MaxInt64)
		if err != nil {
			return err
		}
		if m == nil {
			break
		}
		digester.Add(m.Offset, m.Row, m.Score, m.Votes)
		rows += int64(len(m.Score) / r.Classes)
		if !part.addResiduals(m) {
			return fmt.Errorf("%w: offset %d is not of the run", ErrUnsealed, m.Offset)
		}
	}
	if digest := digester.Digest(); rows != seal.Rows || digest != seal.Scores {
		return fmt.Errorf("%w: %d rows with digest %s, sealed %d with %s", ErrUnsealed, rows, digest.Short(), seal.Rows, seal.Scores.Short())
	}
	return nil
}

// addResiduals copies the scores and votes of a residuals message of a partition to its batch, if that is in memory. The result is
// false if the examples message does not belong to the run.
func (p *Part) addResiduals(m *schemas.Residuals) bool {
	i, _ := slices.BinarySearchFunc(p.segments, m.Offset, func(s *Segment, offset int64) int {
		if s.Span.To <= offset {
			return -1
		}
		return 1
	})
	if i == len(p.segments) {
		return false
	}
	from := m.Row * m.Classes
	for _, b := range p.segments[i].Batches {
		if b.Offset == m.Offset && from+len(m.Score) <= len(b.Score.Data) {
			copy(b.Score.Data[from:], m.Score)
			if m.Votes != nil && b.Votes.Rows > 0 {
				copy(b.Votes.Data[from:], m.Votes)
			}
		}
	}
	return true
}

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
	stage.Link.Probabilities(p.score, &p.workspace.Link)
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
