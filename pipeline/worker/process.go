package worker

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
)

// stageProcessor takes segments through a stage, in one goroutine. It uses its memory again for every message; one of sparse rows also in the next
// visit.
type stageProcessor struct {
	*Worker
	visit *stageVisit

	accumulator     accumulate.Accumulator
	exact           accumulate.Exact
	workspace       model.Workspace
	raw             kernel.Dense
	block           kernel.Dense // of a batch whose block is not kept
	score, residual kernel.Dense
	cubic           kernel.Dense
	loss            []float32
	predicted       []int32
	features        schemas.SparseRows
	occurring       accumulate.Occurring
	gram            accumulate.Block // of a stage that is fitted in blocks
	blocks          []kernel.Sparse

	terms accumulate.Accumulator // of a chain: Σ w x (xᵀV)ᵀ
	own   kernel.Dense           // xᵀV
}

// idleProcessors are those that no visit uses. The zero value has none. It is safe for concurrent use: a worker sums the Gram matrices of the next stage while
// it visits this one.
type idleProcessors struct {
	mutex sync.Mutex
	all   []*stageProcessor
}

// take returns one of them; nil if there is none.
func (i *idleProcessors) take() *stageProcessor {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	last := len(i.all) - 1
	if last < 0 {
		return nil
	}
	p := i.all[last]
	i.all = i.all[:last]
	return p
}

// keep keeps the processors of a visit that has ended, and no others.
func (i *idleProcessors) keep(all []*stageProcessor) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	i.all = all
}

func (w *Worker) stageProcessor(v *stageVisit) *stageProcessor {
	if p := w.idle.take(); p != nil {
		p.visit = v
		return p
	}
	return &stageProcessor{
		Worker: w, visit: v,
		accumulator: accumulate.Accumulator{BLAS: w.blas, Buffers: w.buffers}, exact: accumulate.Exact{BLAS: w.blas},
		terms: accumulate.Accumulator{BLAS: w.blas},
	}
}

// batches returns the rows of a segment, decoded and prepared, and keeps them in memory if the budget allows. The error wraps
// errUnsealed if the scores that were read are not of these rows.
func (p *stageProcessor) batches(ctx context.Context, l *load) ([]*partition.Batch, error) {
	segment := l.segment()
	if kept := segment.Batches(); kept != nil {
		return kept, nil
	}
	batches := make([]*partition.Batch, 0, len(l.messages))
	for i, m := range l.messages {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b, err := p.prepare(l.partition.Partition(), m, p.weightOf(segment), p.forgottenOf(segment))
		if err != nil {
			continue // the survey has put the message into quarantine and has not counted it
		}
		rows := b.Len()
		if l.scores == nil {
			b.Score = kernel.NewDense(rows, p.visit.stage.Classes)
		} else if b.Score = l.scores[i]; b.Score.Rows != rows {
			return nil, fmt.Errorf("%w: offset %d has %d rows, its residuals %d", errUnsealed, m.Offset, rows, b.Score.Rows)
		}
		if p.plan.Members() > 1 {
			if l.votes != nil {
				b.Votes = l.votes[i]
			}
			if b.Votes.Rows == 0 { // no member is finished
				b.Votes = kernel.NewDense(rows, p.visit.stage.Classes)
			}
		}
		batches = append(batches, b)
	}
	segment.KeepBatches(batches, p.budget)
	return batches, nil
}

// prepare decodes and prepares one message, whose rows' weights it multiplies by weight. Its error says why the message can't be used.
func (p *stageProcessor) prepare(number int, m partition.Message, weight float64, forgotten schemas.Forgotten) (*partition.Batch, error) {
	prepared := p.chain.Prepared
	examples, err := decode(p.Codec, p.plan, forgotten, number, m, &shape{prepared.Factors != nil, prepared.Width()})
	if err != nil {
		return nil, err
	}
	defer examples.Release()
	b := &partition.Batch{Offset: m.Offset, Checksum: m.Checksum(number, examples.Rows), Examples: examples.Rows}
	readFeatures(&p.raw, &p.features, examples)
	for _, i := range leaveOut(p.plan, examples, p.raw, &p.features) {
		if !examples.Sparse {
			clear(p.raw.Row(i)) // 0 times a value that overflows would be NaN
		}
	}
	b.Rows, b.Fitted = rowsOf(p.plan, number, m.Offset, examples)
	ignore := func(string) {}
	switch p.plan.Task() {
	case schemas.Numbers:
		numbers, err := numbersOf(p.plan, examples, b.Rows)
		if err != nil {
			return nil, err
		}
		targets, overflowed := standardized(prepared, numbers, prepared.Labels.Len())
		b.Rows.Targets = targets
		b.LeaveOut(overflowed)
	case schemas.SeveralLabels:
		if err := setsOf(p.plan, examples, &b.Rows, prepared.Labels, ignore); err != nil {
			return nil, err
		}
	default:
		if err := labelsOf(p.plan, examples, b.Rows, prepared.Labels, ignore); err != nil {
			return nil, err
		}
	}
	for i, class := range b.Rows.Classes {
		switch {
		case class == schemas.Unlabelled:
			b.Fitted[i] = 0
		case prepared.ClassWeights != nil && b.Rows.Splits[i] == schemas.Train:
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
	if examples.Sparse {
		b.LeaveOut(prepared.ApplySparse(&b.Sparse, &p.features))
		return b, nil
	}
	p.augment(b, &p.raw)
	b.Inputs = kernel.NewDense(p.raw.Rows, prepared.Inputs())
	b.LeaveOut(prepared.Apply(p.blas, b.Inputs, p.raw))
	return b, nil
}

// blockOf returns memory for the block of a batch, and whether the block is made already.
func (p *stageProcessor) blockOf(b *partition.Batch) (block kernel.Dense, made bool) {
	if p.visit.ahead {
		p.block.Reshape(b.Inputs.Rows, p.visit.stage.Features.Size())
		return p.block, false
	}
	return b.Block(p.visit.Stage, p.visit.stage.Features.Size(), &p.block, p.budget)
}

// expand makes the rows from (included) to to (excluded) of a batch's block.
func (p *stageProcessor) expand(block kernel.Dense, b *partition.Batch, from, to int) {
	tile := block.Slice(from, to)
	p.visit.stage.Expand(p.blas, &p.workspace, &tile, b.Inputs.Slice(from, to), b.Score.Slice(from, to))
}

// sum returns the sums of one segment for the visit.
func (p *stageProcessor) sum(ctx context.Context, l *load) (*outcome, error) {
	batches, err := p.batches(ctx, l)
	if err != nil {
		return nil, err
	}
	var sum *accumulate.Sum
	switch {
	case p.visit.stage.Features.Counted():
		sum = p.countSparse(ctx, batches)
	case p.visit.stage.Features.Sparse():
		sum = p.fitSparse(ctx, batches)
	case p.visit.calibrates():
		sum = p.calibrate(ctx, batches)
	default:
		sum = p.fit(ctx, l, batches)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if !l.segment().Leaves { // which is no part of what the sums cover
		sum.Spans = schemas.Spans{l.segment().Span}
	}
	o := &outcome{rows: sum.Rows, sum: sum}
	if p.visit.gramFirst { // each of two rounds is about half of the work, and reports half of the rows
		o.rows = 0
		for _, b := range batches {
			o.rows += int64(b.Examples)
		}
		o.rows = (o.rows + int64(l.round)) / 2
	}
	return o, nil
}

// fit sums what a gradient needs, and in the first visit of a stage the Gram matrix.
func (p *stageProcessor) fit(ctx context.Context, l *load, batches []*partition.Batch) *accumulate.Sum {
	gram, rest := p.visit.parts(l.round)
	classes := p.visit.stage.Classes
	if !rest {
		classes = 0
	}
	p.accumulator.Begin(p.visit.stage.Features.Size(), classes, gram)
	sum := p.accumulator.Sum()
	update := p.plan.Update() != nil
	if update {
		gram, rest = p.partsOf(l.segment(), gram, rest)
		if rest {
			p.beginTerms()
		}
	}
	for i, b := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		if update && rest {
			p.advance(b)
		}
		sampled := gram && (p.visit.sample == nil || p.visit.sample.has(l.partition.Ordinal(), int64(l.index)*p.plan.Segment+int64(i)))
		if !sampled && !rest {
			continue
		}
		block, made := p.blockOf(b)
		for from, to := range model.Tiles(b.Inputs.Rows) {
			if !made {
				p.expand(block, b, from, to)
			}
			if rest {
				p.gradient(sum, b, block.Slice(from, to), from, to)
			}
		}
		if sampled {
			p.accumulator.AddGram(block, b.Fitted)
			weight := sum.Field(schemas.FieldGramRows, 1)
			for _, w := range b.Fitted {
				weight[0] += float64(w)
			}
		}
		if rest {
			sum.Count(b.Examples, b.Checksum)
		}
	}
	whole := p.accumulator.End()
	if update {
		p.nameSums(whole, l.segment(), rest)
	}
	return whole
}

// gradient sums the loss and the cross moment of some rows of a batch.
func (p *stageProcessor) gradient(sum *accumulate.Sum, b *partition.Batch, tile kernel.Dense, from, to int) {
	rows := b.Rows.Slice(from, to)
	overflowed := p.visit.stage.Features.Overflowed(tile, b.Inputs.Slice(from, to))
	if from == 0 {
		overflowed += b.Overflowed
	}
	p.countOverflowed(sum, overflowed)
	if p.visit.sample != nil {
		p.accumulator.AddTrace(tile, p.visit.stage.Features.Penalised(), b.Fitted[from:to])
	}
	p.score.Reshape(to-from, p.visit.stage.Classes)
	p.shown(p.score, b.Score.Slice(from, to), tile)
	if p.plan.Update() != nil {
		p.addScores(tile, p.score, b.Score.Slice(from, to), b.Fitted[from:to])
	}
	p.measure(sum, rows, p.score)
	rows.Residuals(p.score)
	if p.visit.Number == 0 && p.plan.Stages[p.visit.Stage].Ridge == schemas.RidgeAuto {
		sum.AddResidual(p.score, b.Fitted[from:to])
	}
	p.accumulator.Add(tile, p.score, b.Fitted[from:to])
}

// calibrate sums the moments of G(ỹ). Line 5 of Algorithm 2, the second visit of its pass, is fitted to them.
func (p *stageProcessor) calibrate(ctx context.Context, batches []*partition.Batch) *accumulate.Sum {
	sum, classes := &accumulate.Sum{}, p.visit.stage.Classes
	p.exact.Begin(3*classes, classes)
	for _, b := range batches {
		if ctx.Err() != nil {
			break
		}
		block, made := p.blockOf(b)
		for from, to := range model.Tiles(block.Rows) {
			if !made {
				p.expand(block, b, from, to)
			}
		}
		p.score.Reshape(b.Inputs.Rows, classes)
		p.shown(p.score, b.Score, block)
		sink.Cubic(&p.cubic, p.score)
		b.Rows.Write(p.score)
		weights := b.Fitted
		if p.plan.Task() == schemas.SeveralLabels { // those of rows that the weights have not seen
			weights = heldOut(b.Rows)
			addCalibrated(sum, p.score, weights)
		}
		p.exact.Add(p.cubic, p.score, weights)
		sum.Count(b.Examples, b.Checksum)
	}
	p.exact.End(sum)
	return sum
}

// heldOut returns the weights of the labelled holdout rows, and 0 for the others.
func heldOut(rows accumulate.Rows) []float32 {
	weights := make([]float32, len(rows.Weights))
	for i, w := range rows.Weights {
		if rows.Splits[i] == schemas.Holdout && rows.Classes[i] != schemas.Unlabelled {
			weights[i] = w
		}
	}
	return weights
}

// addCalibrated adds the squared lengths of targets, and the weights of their rows.
func addCalibrated(sum *accumulate.Sum, targets kernel.Dense, weights []float32) {
	sums := sum.Field(schemas.FieldCalibrated, 2)
	for i, w := range weights {
		if w != 0 {
			sums[0] += float64(w) * float64(kernel.SquaredLength(targets.Row(i)))
			sums[1] += float64(w)
		}
	}
}

// shown writes into dst the score that the predictions of some rows are made of.
func (p *stageProcessor) shown(dst, before, block kernel.Dense) {
	p.visit.stage.Shown(p.blas, &p.workspace, p.visit.fitted, dst, before, block)
}

// measure adds the losses of scores and the classes that they predict, and turns the scores into predictions.
func (p *stageProcessor) measure(sum *accumulate.Sum, rows accumulate.Rows, score kernel.Dense) {
	p.predict(rows, score)
	sum.AddLosses(rows, p.loss, p.predicted, score)
}

// predict turns scores into predictions, and finds the loss of each row and the class that it predicts.
func (p *stageProcessor) predict(rows accumulate.Rows, score kernel.Dense) {
	n := score.Rows
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	p.visit.stage.Link.Measure(score, rows.Truth, p.loss, p.predicted, p.workspace.Link())
}
