package visit

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Processor processes segments of a visit in one goroutine. It reuses its memory for every message; one for sparse rows
// also in the next visit.
type Processor struct {
	*Run
	visit *Visit
	// newest means that the segment belongs to the newest increment, again to one that an update revisits.
	newest, again bool

	accumulator     accumulate.Accumulator
	exact           accumulate.Exact
	workspace       model.Workspace
	raw             kernel.Dense
	block           kernel.Dense // of a batch whose block is not kept
	score, residual kernel.Dense
	basis           kernel.Dense
	loss            []float32
	predicted       []int32
	tempered        kernel.Dense // scores, or predictions of the version
	temperatures    accumulate.Tempered
	features        examples.SparseRows
	occurring       accumulate.Occurring
	gram            accumulate.Block // of a stage that is fitted in blocks
	blocks          []kernel.Sparse

	summer summer // of an update on sparse rows

	terms accumulate.Accumulator // of a chain: Σ w x (xᵀV)ᵀ
	own   kernel.Dense           // xᵀV

	leaves    tree.Leaves
	curvature []float32

	offered *model.Predictor // of the version for subscribers
	judged  JudgedRows
}

// Processor returns a processor for the segments of a visit: the last idle one, which it removes, if there is one.
func (v *Visit) Processor(idle *[]*Processor) (p *Processor) {
	if last := len(*idle) - 1; last >= 0 {
		p, *idle = (*idle)[last], (*idle)[:last]
	}
	if p == nil {
		p = &Processor{
			accumulator: accumulate.Accumulator{BLAS: v.BLAS, Buffers: v.Grams, Crosses: v.Crosses},
			exact:       accumulate.Exact{BLAS: v.BLAS}, terms: accumulate.Accumulator{BLAS: v.BLAS, Crosses: v.Crosses},
		}
	}
	p.Run, p.visit = v.Run, v
	return p
}

// batches returns the rows of a segment, decoded and prepared, and keeps them in memory if the budget allows. The error
// wraps ErrUnsealed if the scores do not belong to these rows.
func (p *Processor) batches(ctx context.Context, l *Load) ([]*partition.Batch, error) {
	segment := l.Segment()
	if kept := segment.Batches(); kept != nil {
		return kept, nil
	}
	batches := make([]*partition.Batch, 0, len(l.Messages))
	for i, m := range l.Messages {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b, err := p.prepare(l.Segment().Span.Partition, m, segment)
		if err != nil {
			continue // quarantined by the survey, and not counted
		}
		rows := b.Len()
		if l.Scores == nil {
			b.Score = kernel.NewDense(rows, p.visit.Of.Classes)
		} else if b.Score = l.Scores[i]; b.Score.Rows != rows {
			return nil, fmt.Errorf("%w: offset %d has %d rows, its residuals %d", ErrUnsealed, m.Offset, rows, b.Score.Rows)
		}
		if p.Plan.Members() > 1 {
			if l.Votes != nil {
				b.Votes = l.Votes[i]
			}
			if b.Votes.Rows == 0 { // no member is finished
				b.Votes = kernel.NewDense(rows, p.visit.Of.Classes)
			}
		}
		batches = append(batches, b)
	}
	segment.KeepBatches(batches, p.Cache)
	return batches, nil
}

// prepare decodes and prepares a message of a segment, and multiplies the rows' weights by that of the segment. The error
// is the reason why the message is unusable. The run that added a past segment decided which of its messages count: it may
// have accepted labels that are not classes, although this run does not.
func (p *Processor) prepare(number int, m protocol.Message, segment *partition.Segment) (*partition.Batch, error) {
	prepared, weight, open := p.visit.prepared, p.weightOf(segment), p.Plan.Open() || segment.Past
	batch, err := p.decode(p.forgottenOf(segment), number, m, &rowShape{Sparse: prepared.Factors != nil, Width: prepared.Width(),
		Columns: p.visit.columns})
	if err != nil {
		return nil, err
	}
	defer batch.Release()
	b := &partition.Batch{Offset: m.Offset, Checksum: partition.Checksum(m, number, batch.Rows), Examples: batch.Rows}
	readFeatures(&p.raw, &p.features, batch)
	for _, i := range leaveOutOverflows(p.Plan, batch, p.raw, &p.features) {
		if !batch.Sparse {
			clear(p.raw.Row(i)) // 0 times a value that overflows would be NaN
		}
	}
	b.Rows, b.Fitted = RowsOf(p.Plan, number, m.Offset, batch)
	ignore := func(string) {}
	switch p.Plan.Task() {
	case examples.Numbers:
		numbers, err := ReadTargets(p.Plan, batch, b.Rows)
		if err != nil {
			return nil, err
		}
		targets, overflowed := standardizeTargets(prepared, numbers, prepared.Labels.Len())
		b.Rows.Targets = targets
		b.LeaveOut(overflowed)
	case examples.SeveralLabels:
		if err := readLabelSets(open, batch, &b.Rows, prepared.Labels, ignore); err != nil {
			return nil, err
		}
	default:
		if err := readLabels(open, batch, b.Rows, prepared.Labels, ignore); err != nil {
			return nil, err
		}
	}
	for i, class := range b.Rows.Classes {
		switch {
		case class < 0:
			b.Fitted[i] = 0
		case prepared.ClassWeights != nil && b.Rows.Splits[i] == examples.Train:
			b.Rows.Weights[i] *= prepared.ClassWeights[class]
			b.Fitted[i] = b.Rows.Weights[i]
		}
	}
	if weight != 1 {
		for i := range b.Fitted {
			b.Fitted[i] *= float32(weight)
			b.Rows.Weights[i] *= float32(weight)
		}
	}
	if batch.Sparse {
		b.LeaveOut(prepared.ApplySparse(&b.Sparse, &p.features))
		return b, nil
	}
	p.augment(b, &p.raw)
	if prepared.Coder != nil {
		b.Codes = prepared.Coder.Encode(p.raw)
	}
	b.Inputs = kernel.NewDense(p.raw.Rows, prepared.Inputs())
	b.LeaveOut(prepared.Apply(p.BLAS, b.Inputs, p.raw))
	return b, nil
}

// blockOf returns memory for the block of a batch, and whether the block is already computed.
func (p *Processor) blockOf(b *partition.Batch) (block kernel.Dense, made bool) {
	return b.Block(p.visit.Stage, p.visit.Of.Features.Size(), &p.block, p.Cache)
}

// expand computes the rows [from, to) of a batch's block of a stage.
func (p *Processor) expand(of *model.Stage, block kernel.Dense, b *partition.Batch, from, to int) {
	tile := block.Slice(from, to)
	if of.Features.Leaves() > 0 {
		c := p.visit.prepared.Coder.Width()
		of.Features.ExpandLeaves(&tile, &p.leaves, b.Codes[from*c:to*c])
		return
	}
	var before kernel.Dense
	if of.Features.Scores() > 0 {
		before = b.Score.Slice(from, to)
	}
	of.Expand(p.BLAS, &p.workspace, &tile, b.Inputs.Slice(from, to), before)
}

// Sum returns the sums of a segment for the visit.
func (p *Processor) Sum(ctx context.Context, l *Load) (*Outcome, error) {
	batches, err := p.batches(ctx, l)
	if err != nil {
		return nil, err
	}
	p.newest = l.Segment().Increment == newestJudged(p.Plan) && !l.Segment().Leaves
	p.again = l.Segment().Past && !l.Segment().Leaves
	var sum *accumulate.Sum
	var sample *accumulate.Sample
	switch {
	case p.visit.occurring != nil:
		sum = p.updateSparse(ctx, batches)
	case p.visit.Number == wire.Growth:
		sum, sample = p.sumGrowth(ctx, l, batches)
	case p.visit.ByLeaves():
		sum = p.sumLeaves(ctx, l, batches)
	case p.visit.Of.Features.Counted():
		sum = p.countSparse(ctx, batches)
	case p.visit.Of.Features.Sparse():
		sum = p.fitSparse(ctx, batches)
	case p.visit.Gram:
		sum = p.sumGram(ctx, l, batches)
	case p.visit.Calibrates():
		sum = p.calibrate(ctx, batches)
	default:
		sum = p.fit(ctx, l, batches)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	o := &Outcome{Rows: sum.Rows, Sum: sum, Sample: sample}
	if l.Segment().Leaves { // not part of the coverage of the sums
		o.Left = &coverage.Coverage{}
		for _, b := range batches {
			o.Left.Count(b.Examples, b.Checksum)
		}
	} else {
		sum.Spans = coverage.Spans{l.Segment().Span}
	}
	return o, nil
}

// sumGram computes the Gram matrix of a stage's block: of the rows in the sample; in an update of new and of leaving rows, and
// after a change of the stream of all.
func (p *Processor) sumGram(ctx context.Context, l *Load, batches []*partition.Batch) *accumulate.Sum {
	segment, update := l.Segment(), p.Plan.Update()
	summed, counted := !segment.Past || segment.Leaves || update.Restart, p.countsPairs(batches)
	p.accumulator.Begin(p.visit.Of.Features.Size(), 0, !counted)
	sum := p.accumulator.Sum()
	var pairs []float64
	for i, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		if !segment.Leaves { // also outside the sample: all must match the survey
			sum.Count(b.Examples, b.Checksum)
		}
		if !summed || !p.visit.samples(segment, i) {
			continue
		}
		if counted {
			pairs = p.countPairs(sum, pairs, b)
			continue
		}
		block, made := p.blockOf(b)
		for from, to := range model.Tiles(b.Inputs.Rows) {
			if !made {
				p.expand(p.visit.Of, block, b, from, to)
			}
		}
		p.accumulator.AddGram(block, b.Fitted)
		weight := sum.Field(statistics.FieldGramRows, 1)
		for _, w := range b.Fitted {
			weight[0] += float64(w)
		}
	}
	whole := p.accumulator.End()
	if pairs != nil {
		whole.AddGram(pairs)
	}
	if segment.Leaves {
		whole.Move(whole, statistics.FieldGram, statistics.Increment(segment.Increment).Leaving())
		whole.Take(statistics.FieldGramRows)
	}
	return whole
}

// fit computes the sums of a gradient.
func (p *Processor) fit(ctx context.Context, l *Load, batches []*partition.Batch) *accumulate.Sum {
	p.accumulator.Begin(p.visit.Of.Features.Size(), p.visit.Of.Classes, false)
	sum, update := p.accumulator.Sum(), p.Plan.Update() != nil
	if update {
		p.beginTerms()
	}
	for _, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		if update {
			p.advance(b)
		}
		sum.Count(b.Examples, b.Checksum)
		block, made := p.blockOf(b)
		for from, to := range model.Tiles(b.Inputs.Rows) {
			if !made {
				p.expand(p.visit.Of, block, b, from, to)
			}
			p.gradient(sum, b, block.Slice(from, to), from, to)
		}
	}
	whole := p.accumulator.End()
	if update {
		p.nameSums(whole, l.Segment())
		p.countForgotten(whole, l, batches)
	}
	return whole
}

// gradient sums the loss and the cross moment of some rows of a batch.
func (p *Processor) gradient(sum *accumulate.Sum, b *partition.Batch, tile kernel.Dense, from, to int) {
	rows := b.Rows.Slice(from, to)
	overflowed := p.visit.Of.Features.Overflowed(tile, b.Inputs.Slice(from, to))
	if from == 0 {
		overflowed += b.Overflowed
	}
	p.countOverflowed(sum, overflowed)
	if p.visit.Sample != nil {
		p.accumulator.AddTrace(tile, p.visit.Of.Features.Penalised(), b.Fitted[from:to])
	}
	p.score.Reshape(to-from, p.visit.Of.Classes)
	p.shown(p.score, b.Score.Slice(from, to), tile)
	if p.Plan.Update() != nil {
		p.addScores(tile, p.score, b.Score.Slice(from, to), b.Fitted[from:to])
	}
	p.measure(sum, rows, p.score)
	if p.Plan.Update() != nil {
		p.judgeOwn(sum, rows, b.Offset, from)
		if p.again && p.visit.Offered != nil {
			p.judgeAgain(sum, rows, preparedRows(b, from, to), b.Offset, from)
		}
	}
	rows.Residuals(p.score)
	if p.visit.Number == 0 && p.Plan.Stages[p.visit.Stage].Ridge == schemas.RidgeAuto {
		sum.AddResidual(p.score, b.Fitted[from:to])
	}
	p.accumulator.Add(tile, p.score, b.Fitted[from:to])
}

// calibrate sums the moments of G(ỹ), to which line 5 of Algorithm 2 is fitted in the second visit of its pass.
func (p *Processor) calibrate(ctx context.Context, batches []*partition.Batch) *accumulate.Sum {
	sum, classes := &accumulate.Sum{}, p.visit.Of.Classes
	p.exact.Begin(p.visit.Of.Basis.Len()*classes, classes)
	for _, b := range batches {
		if ctx.Err() != nil {
			break
		}
		block, made := p.blockOf(b)
		for from, to := range model.Tiles(block.Rows) {
			if !made {
				p.expand(p.visit.Of, block, b, from, to)
			}
		}
		p.score.Reshape(b.Inputs.Rows, classes)
		p.shown(p.score, b.Score, block)
		p.visit.Of.Basis.Expand(&p.basis, p.score)
		b.Rows.Write(p.score)
		weights := b.Fitted
		if p.Plan.Task() == examples.SeveralLabels { // rows that the weights were not fitted to
			weights = heldOut(b.Rows)
			addCalibrated(sum, p.score, weights)
		}
		p.exact.Add(p.basis, p.score, weights)
		sum.Count(b.Examples, b.Checksum)
	}
	p.exact.End(sum)
	return sum
}

// heldOut returns the weights of the labelled holdout rows, and 0 for other rows.
func heldOut(rows accumulate.Rows) []float32 {
	weights := make([]float32, len(rows.Weights))
	for i, w := range rows.Weights {
		if rows.Splits[i] == examples.Holdout && rows.Classes[i] >= 0 {
			weights[i] = w
		}
	}
	return weights
}

// addCalibrated adds the squared lengths of targets, and the weights of their rows.
func addCalibrated(sum *accumulate.Sum, targets kernel.Dense, weights []float32) {
	sums := sum.Field(statistics.FieldCalibrated, 2)
	for i, w := range weights {
		if w != 0 {
			sums[0] += float64(w) * float64(kernel.SquaredLength(targets.Row(i)))
			sums[1] += float64(w)
		}
	}
}

// shown computes the scores of some rows from which predictions are made, into dst.
func (p *Processor) shown(dst, before, block kernel.Dense) {
	p.visit.Of.Shown(p.BLAS, &p.workspace, p.visit.fitted, dst, before, block)
}

// measure adds the losses and errors of scores, and turns the scores into predictions.
func (p *Processor) measure(sum *accumulate.Sum, rows accumulate.Rows, score kernel.Dense) {
	p.predict(rows, score)
	sum.AddLosses(rows, p.loss, p.predicted, score)
}

// predict turns scores into predictions, and computes the loss and the predicted class of each row.
func (p *Processor) predict(rows accumulate.Rows, score kernel.Dense) {
	n := score.Rows
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	p.visit.Of.Link.Measure(score, rows.Truth, p.loss, p.predicted, p.workspace.Link())
}

// countOverflowed adds the number of rows that the first visit to a stage excludes.
func (p *Processor) countOverflowed(sum *accumulate.Sum, rows int) {
	if rows > 0 && p.visit.Number == 0 {
		sum.Field(statistics.FieldOverflow, 1)[0] += float64(rows)
	}
}

// Outcome is the result of a visit to a segment.
type Outcome struct {
	Rows     int64
	Sum      *accumulate.Sum
	Sample   *accumulate.Sample // for growing trees
	Left     *coverage.Coverage // coverage of the rows that leave the window of a chain
	Terms    *accumulate.Sum    // of a chain's increment, when a stage of a full run is published
	Messages []wire.Message     // residuals, when a stage is published
	Scores   []scored
}

// scored is the scores and votes of a part of an examples message, for the digest of a seal.
type scored struct {
	Offset       int64
	Row          int
	Score, Votes []float32
}
