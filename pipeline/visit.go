package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// pass is what all benches of a visit share.
type pass struct {
	visit
	link     link.Link
	features *stages.Map
	shape    solve.Shape
	sample   *gramSample // of the visit that has the Gram matrix; nil: of all rows
	apart    bool        // the Gram matrix is summed in a round of its own, before the rest
	fitted   *sink.Fitted
	final    schemas.Digest // when the stage is published: of its final weights
	attempt  string         // and what tells these residuals from another writer's
}

func (w *worker) pass(v visit) (*pass, error) {
	m, err := w.chain.featureMap(v.stage)
	if err != nil {
		return nil, err
	}
	p := &pass{visit: v, link: link.Named(w.plan.Stages[v.stage].Link), features: m, shape: w.chain.shape(m)}
	if v.number == 0 {
		rows, err := w.chain.rows()
		if err != nil {
			return nil, err
		}
		of := rows[schemas.Train]
		if most := solve.GramRows(w.plan.Stages[v.stage], p.shape.Columns, of); most < of {
			p.sample = newGramSample(most, of)
		}
	}
	p.fitted, err = w.chain.fitted(v.stage, p.shape)
	return p, err
}

// calibrating reports whether the visit fits a calibration: the second half of a pass of Algorithm 2.
func (p *pass) calibrating() bool { return !p.link.HasGradient(p.number) }

// parts tells what a round of the visit sums.
func (p *pass) parts(round int) (gram, rest bool) {
	if p.calibrating() {
		return true, true
	}
	return p.number == 0 && round == 0, !p.apart || round == 1
}

// bench is what one goroutine of a sweep over a stage works with; its buffers
// are used again for every message.
type bench struct {
	*worker
	*pass

	accumulator        accumulate.Accumulator
	exact              accumulate.Exact
	raw                kernel.Dense
	room, scratch      kernel.Dense // of a block that is not kept, and for polynomials
	score, predictions kernel.Dense
	residual, cubic    kernel.Dense
	workspace          sink.Workspace
	links              link.Scratch
	loss               []float32
	predicted          []int32
}

func (w *worker) bench(p *pass) *bench {
	return &bench{worker: w, pass: p, accumulator: accumulate.Accumulator{BLAS: w.blas, Buffers: &w.buffers}, exact: accumulate.Exact{BLAS: w.blas}}
}

// load decodes and prepares what was read of a segment, and keeps it if the
// budget allows.
func (b *bench) load(ctx context.Context, l *load) ([]*batch, error) {
	segment := l.segment()
	if segment.batches != nil {
		return segment.batches, nil
	}
	batches, bytes := make([]*batch, 0, len(l.raw)), int64(0)
	for i, r := range l.raw {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		one, err := b.prepare(l.share.span.Partition, r)
		if err != nil {
			// the survey has put it into quarantine, and has not counted it
			continue
		}
		rows := one.inputs.Rows
		if l.scores == nil {
			one.score = kernel.NewDense(rows, b.shape.Classes)
		} else if one.score = l.scores[i]; one.score.Rows != rows {
			return nil, fmt.Errorf("%w: offset %d has %d rows, its residuals %d", errUnsealed, r.offset, rows, one.score.Rows)
		}
		batches, bytes = append(batches, one), bytes+int64(rows)*rowBytes(one.inputs.Cols, b.shape.Classes)
	}
	segment.drop(&b.budget)
	if b.budget.take(bytes) {
		segment.batches = batches
		for _, one := range batches {
			one.kept = true
		}
	}
	return batches, nil
}

// prepare decodes one message. Its error says why it can't be used.
func (b *bench) prepare(partition int, r raw) (*batch, error) {
	examples, err := decode(b.codec, b.plan, r, b.chain.prepared.Width())
	if err != nil {
		return nil, err
	}
	defer examples.Release()
	one := &batch{offset: r.offset, checksum: r.checksum(partition, examples.Rows), blockOf: -1}
	one.rows, one.fitted = rowsOf(b.plan, partition, r.offset, examples)
	if err := examples.Classes(one.rows.Classes, b.chain.prepared.Labels); err != nil {
		return nil, err
	}
	for i, class := range one.rows.Classes {
		if class == schemas.Unlabelled {
			one.fitted[i] = 0
		}
	}
	features(&b.raw, examples, b.chain.prepared.Width())
	one.inputs = kernel.NewDense(examples.Rows, b.chain.prepared.Inputs())
	b.chain.prepared.Apply(b.blas, one.inputs, b.raw)
	return one, nil
}

// block is room for the block of a batch; made tells whether the block is there
// already, as it is in later visits if the budget allows.
func (b *bench) block(one *batch) (block kernel.Dense, made bool) {
	n, p := one.inputs.Rows, b.shape.Columns
	if one.blockOf == b.stage {
		return one.block, true
	}
	bytes := int64(4 * n * p)
	if have := int64(4 * cap(one.block.Data)); one.kept && (have >= bytes || b.budget.take(bytes-have)) {
		one.block.Reshape(n, p)
		one.blockOf = b.stage
		return one.block, false
	}
	b.room.Reshape(n, p)
	return b.room, false
}

// expand makes the rows from (included) to to (excluded) of a batch's block.
func (b *bench) expand(block kernel.Dense, one *batch, from, to int) {
	var before kernel.Dense
	if b.features.Scores() > 0 {
		b.predictions.Reshape(to-from, b.shape.Classes)
		copy(b.predictions.Data, one.score.Slice(from, to).Data)
		b.link.Predict(b.predictions)
		before = b.predictions
	}
	block = block.Slice(from, to)
	b.features.Expand(b.blas, &block, &b.scratch, one.inputs.Slice(from, to), before)
}

// visit sums one segment.
func (b *bench) visit(ctx context.Context, l *load) (*outcome, error) {
	batches, err := b.load(ctx, l)
	if err != nil {
		return nil, err
	}
	var sum *accumulate.Sum
	if b.calibrating() {
		sum = b.calibrate(ctx, batches)
	} else {
		sum = b.fit(ctx, l, batches)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	sum.Spans = schemas.Spans{l.segment().span}
	o := &outcome{rows: sum.Rows, sum: sum}
	if b.apart { // each round is about half of the work
		o.rows = 0
		for _, one := range batches {
			o.rows += int64(one.inputs.Rows)
		}
		o.rows = (o.rows + int64(l.round)) / 2
	}
	return o, nil
}

// tileRows is how many rows go through predictions, losses and the cross moment
// together, from the expansion on: a tile of 1024 columns is 256 KB, so what one
// product has written or read is in the second-level cache when the next reads it.
const tileRows = 64

// tiles yields the ranges of so many rows.
func tiles(rows int) func(func(from, to int) bool) {
	return func(yield func(from, to int) bool) {
		for from := 0; from < rows; from += tileRows {
			if !yield(from, min(from+tileRows, rows)) {
				return
			}
		}
	}
}

// fit sums what a gradient needs, and in the first visit the Gram matrix.
func (b *bench) fit(ctx context.Context, l *load, batches []*batch) *accumulate.Sum {
	gram, rest := b.parts(l.round)
	classes := b.shape.Classes
	if !rest {
		classes = 0
	}
	b.accumulator.Begin(b.shape.Columns, classes, gram)
	sum := b.accumulator.Sum()
	for i, one := range batches {
		if ctx.Err() != nil {
			break // the visit is abandoned
		}
		sampled := gram && (b.sample == nil || b.sample.has(l.share.ordinal, int64(l.at)*b.plan.Segment+int64(i)))
		if !sampled && !rest {
			continue
		}
		block, made := b.block(one)
		for from, to := range tiles(one.inputs.Rows) {
			if !made {
				b.expand(block, one, from, to)
			}
			if rest {
				b.gradient(sum, one, block.Slice(from, to), from, to)
			}
		}
		if sampled {
			b.accumulator.AddGram(block, one.fitted)
			rows := sum.Field(schemas.FieldGramRows, 1)
			for _, w := range one.fitted {
				rows[0] += float64(w)
			}
		}
		if rest {
			sum.Count(one.inputs.Rows, one.checksum)
		}
	}
	return b.accumulator.End()
}

// gradient sums what it needs of some rows of a batch.
func (b *bench) gradient(sum *accumulate.Sum, one *batch, tile kernel.Dense, from, to int) {
	rows := one.rows.Slice(from, to)
	if b.sample != nil {
		b.accumulator.AddTrace(tile, b.shape.Penalised, one.fitted[from:to])
	}
	b.score.Reshape(to-from, b.shape.Classes)
	b.fitted.Shown(b.blas, &b.workspace, b.score, one.score.Slice(from, to), tile)
	b.measure(sum, rows, b.score)
	sink.Residuals(b.score, rows.Classes)
	b.accumulator.Add(tile, b.score, one.fitted[from:to])
}

// calibrate sums the moments of G(ỹ), the second half of a pass of Algorithm 2.
func (b *bench) calibrate(ctx context.Context, batches []*batch) *accumulate.Sum {
	sum := &accumulate.Sum{}
	b.exact.Begin(3*b.shape.Classes, b.shape.Classes)
	for _, one := range batches {
		if ctx.Err() != nil {
			break
		}
		block, made := b.block(one)
		for from, to := range tiles(block.Rows) {
			if !made {
				b.expand(block, one, from, to)
			}
		}
		b.score.Reshape(one.inputs.Rows, b.shape.Classes)
		b.fitted.Shown(b.blas, &b.workspace, b.score, one.score, block)
		sink.Cubic(&b.cubic, b.score)
		sink.Targets(b.score, one.rows.Classes)
		b.exact.Add(b.cubic, b.score, one.fitted)
		sum.Count(one.inputs.Rows, one.checksum)
	}
	b.exact.End(sum)
	return sum
}

// measure adds the losses of scores, and the classes that they predict, and
// turns the scores into predictions.
func (b *bench) measure(sum *accumulate.Sum, rows accumulate.Rows, score kernel.Dense) {
	n := score.Rows
	b.loss, b.predicted = slices.Grow(b.loss[:0], n)[:n], slices.Grow(b.predicted[:0], n)[:n]
	b.link.Measure(score, rows.Classes, b.loss, b.predicted, &b.links)
	sum.AddLosses(rows, b.loss, b.predicted)
}

// publish makes the residuals of one segment after the stage, and measures its
// final predictions.
func (b *bench) publish(ctx context.Context, l *load) (*outcome, error) {
	batches, err := b.load(ctx, l)
	if err != nil {
		return nil, err
	}
	sum, o := &accumulate.Sum{}, &outcome{}
	id := schemas.Identity{Kind: schemas.KindResiduals, Run: b.run, Stage: b.stage, Partition: l.share.span.Partition, Parent: b.final}
	for _, one := range batches {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		block, made := b.block(one)
		n, k := one.inputs.Rows, b.shape.Classes
		one.after.Reshape(n, k)
		b.residual.Reshape(n, k)
		score := one.after
		for from, to := range tiles(n) {
			if !made {
				b.expand(block, one, from, to)
			}
			b.finish(sum, one.rows.Slice(from, to), score.Slice(from, to), b.residual.Slice(from, to), one.score.Slice(from, to), block.Slice(from, to))
		}
		messages, err := b.codec.leftOver(id, b.attempt, one.offset, score, b.residual)
		if err != nil {
			return nil, err
		}
		o.messages = append(o.messages, messages...)
		for from, to := range sink.Parts(n, k) {
			o.scores = append(o.scores, scored{one.offset, from, score.Slice(from, to).Data})
		}
		sum.Count(n, one.checksum)
	}
	sum.Spans = schemas.Spans{l.segment().span}
	o.rows, o.sum = sum.Rows, sum
	return o, nil
}

// finish measures the final predictions of some rows, and writes the scores after
// the stage and their residuals.
func (b *bench) finish(sum *accumulate.Sum, rows accumulate.Rows, score, residual, before, block kernel.Dense) {
	b.fitted.Scores(b.blas, score, before, block)
	b.score.Reshape(score.Rows, score.Cols)
	if b.link.Learnt {
		b.fitted.Shown(b.blas, &b.workspace, b.score, before, block)
	} else {
		copy(b.score.Data, score.Data)
	}
	b.measure(sum, rows, b.score)
	if b.link.Learnt { // the next stage begins at the score, which is never clipped
		copy(residual.Data, score.Data)
	} else {
		copy(residual.Data, b.score.Data)
	}
	sink.Residuals(residual, rows.Classes)
	b.link.Probabilities(b.score, &b.links)
	sum.AddQuality(rows, b.score, b.predicted)
}
