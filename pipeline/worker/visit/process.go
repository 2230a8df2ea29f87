package visit

import (
	"context"
	"fmt"
	"iter"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Processor processes segments of a visit in one goroutine. It reuses its memory for every message.
type Processor struct {
	*Run
	visit   *Visit
	segment *Segment
	sum     *accumulate.Sum    // of the segment
	sample  *accumulate.Sample // of the segment, for growing trees
	// newest means that the segment belongs to the newest increment, again to one that an update revisits.
	newest, again bool

	accumulator     accumulate.Accumulator
	exact           accumulate.Exact
	workspace       model.Workspace
	raw             kernel.Dense
	shared          kernel.Dense // the block of a batch whose block is not kept
	score, residual kernel.Dense
	basis           kernel.Dense
	loss            []float32
	predicted       []int32
	tempered        kernel.Dense // scores, or predictions of the version
	temperatures    accumulate.Tempered
	occurring       accumulate.Occurring
	gram            accumulate.Block // of a stage that is fitted in blocks
	blocks          []kernel.Sparse

	// of an update on sparse rows:
	weights    kernel.Dense // of the columns that occur
	curvatures kernel.Dense
	squared    []float32

	terms accumulate.Accumulator // of a chain: Σ w x (xᵀV)ᵀ
	own   kernel.Dense           // xᵀV

	leaves    tree.Leaves
	curvature []float32

	offered *model.Predictor // of the version for subscribers
	judged  accumulate.Chosen
}

// Processor returns a processor for the segments of a visit.
func (v *Visit) Processor() *Processor {
	return &Processor{
		Run: v.Run, visit: v, accumulator: accumulate.Accumulator{BLAS: v.BLAS},
		exact: accumulate.Exact{BLAS: v.BLAS}, terms: accumulate.Accumulator{BLAS: v.BLAS},
	}
}

// batches returns the rows of a segment, decoded and prepared, and keeps them in memory if the budget allows. The error
// wraps ErrUnsealed if the scores do not belong to these rows.
func (p *Processor) batches(ctx context.Context, l *Load) ([]*Batch, error) {
	segment := l.Segment()
	if kept := segment.Batches; kept != nil {
		return kept, nil
	}
	batches := make([]*Batch, 0, len(l.Messages))
	for i, m := range l.Messages {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		b, err := p.prepare(segment.Span.Partition, m, segment)
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
func (p *Processor) prepare(number int, m protocol.Message, segment *Segment) (*Batch, error) {
	prepared, weight, open := p.visit.prepared, p.weightOf(segment), p.Plan.Open() || segment.Past
	batch, err := p.decode(p.forgottenOf(segment), number, m, &rowShape{Sparse: prepared.Factors != nil, Width: prepared.Width(),
		Columns: p.visit.columns})
	if err != nil {
		return nil, err
	}
	b := &Batch{Offset: m.Offset, Checksum: Checksum(m, number, batch.Rows), Examples: batch.Rows}
	readFeatures(&p.raw, batch)
	for _, i := range leaveOutOverflows(p.Plan, batch, p.raw) {
		if batch.Sparse == nil {
			clear(p.raw.Row(i)) // 0 times a value that overflows would be NaN
		}
	}
	b.Rows = RowsOf(p.Plan, number, m.Offset, batch)
	numbers, err := readTruth(p.Plan, open, batch, &b.Rows, prepared.Labels, func(string) {})
	if err != nil {
		return nil, err
	}
	if numbers != nil {
		targets, overflowed := standardizeTargets(prepared, numbers, prepared.Labels.Len())
		b.Rows.Targets = targets
		b.LeaveOut(overflowed)
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
	if batch.Sparse != nil {
		b.LeaveOut(prepared.ApplySparse(&b.Sparse, batch.Sparse))
		return b, nil
	}
	p.augment(b, &p.raw)
	if prepared.Coder != nil {
		b.Codes = prepared.Coder.AppendCodes(nil, p.raw)
	}
	b.Inputs = kernel.NewDense(p.raw.Rows, prepared.Inputs())
	b.LeaveOut(prepared.Apply(p.BLAS, b.Inputs, p.raw))
	return b, nil
}

// block returns the block of a batch at a stage, and the tiles of its rows. A block that is not in memory is computed tile by tile.
func (p *Processor) block(number int, of *model.Stage, b *Batch) (block kernel.Dense, tiles iter.Seq2[int, int]) {
	block, made := b.Block(number, of.Features.Size(), &p.shared, p.Cache)
	return block, func(yield func(from, to int) bool) {
		for from, to := range model.Tiles(b.Inputs.Rows) {
			if !made {
				p.expand(of, block, b, from, to)
			}
			if !yield(from, to) {
				return
			}
		}
	}
}

// expand computes the rows [from, to) of a batch's block of a stage.
func (p *Processor) expand(of *model.Stage, block kernel.Dense, b *Batch, from, to int) {
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

// summing sums batches of a segment into p.sum: add adds each in turn, and end, unless it is nil, adds the rest.
type summing struct {
	add func(i int, b *Batch)
	end func()
}

// summing returns how the visit sums the batches of a segment.
func (p *Processor) summing(batches []*Batch) summing {
	of := p.visit.Of
	switch {
	case p.visit.occurring != nil:
		return p.sumOccurring(batches)
	case p.visit.Number == wire.Growth:
		return p.sumGrowth(batches)
	case p.visit.Gram && p.countsPairs(batches):
		return p.sumPairs()
	case p.visit.ByLeaves():
		return summing{add: func(_ int, b *Batch) { p.addLeavesGradient(b) }}
	case of.Features.Counted():
		return summing{add: func(_ int, b *Batch) { p.addCounts(b) }}
	case of.Features.Sparse():
		return p.sumSparse(batches)
	case p.visit.Gram:
		return p.sumGram()
	case !of.Link.HasGradient(p.visit.Number): // the second visit of a pass of Algorithm 2
		return p.sumCalibration()
	}
	return p.sumGradient()
}

// Sum returns the sums of a segment for the visit.
func (p *Processor) Sum(ctx context.Context, l *Load) (*Outcome, error) {
	batches, err := p.begin(ctx, l)
	if err != nil {
		return nil, err
	}
	o, kind := &Outcome{}, p.summing(batches)
	left := coverage.Coverage{}
	for i, b := range batches {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if p.segment.Leaves { // not part of the coverage of the sums
			left.Count(b.Examples, b.Checksum)
		} else {
			p.sum.Count(b.Examples, b.Checksum)
		}
		kind.add(i, b)
	}
	if kind.end != nil {
		kind.end()
	}
	if p.segment.Leaves {
		o.left = map[int]coverage.Coverage{p.segment.Increment: left}
	} else {
		p.sum.Spans = coverage.Spans{p.segment.Span}
	}
	o.Sum, o.Sample = p.sum, p.sample
	return o, nil
}

// begin starts the sums of a segment, and returns its rows.
func (p *Processor) begin(ctx context.Context, l *Load) (batches []*Batch, err error) {
	s := l.Segment()
	p.segment, p.sum, p.sample = s, &accumulate.Sum{}, nil
	p.newest, p.again = s.Increment == newestJudged(p.Plan) && !s.Leaves, s.Past && !s.Leaves
	return p.batches(ctx, l)
}

// sumGram computes the Gram matrix of a stage's block: of the rows in the sample; in an update, of new and of leaving rows,
// and after a change of the stream, of all rows.
func (p *Processor) sumGram() summing {
	p.accumulator.Begin(p.visit.Of.Features.Size(), 0, true)
	p.sum = p.accumulator.Sum()
	return summing{func(i int, b *Batch) {
		if !p.inGram(i) {
			return
		}
		block, tiles := p.block(p.visit.Stage, p.visit.Of, b)
		for range tiles {
		}
		p.accumulator.AddGram(block, b.Fitted)
		p.weighGram(b)
	}, func() {
		p.accumulator.End()
		p.nameGram()
	}}
}

// inGram reports whether message i of the segment is part of the Gram matrix of the visit.
func (p *Processor) inGram(i int) bool {
	return (!p.segment.Past || p.segment.Leaves || p.Plan.Update().Restart) && p.visit.samples(p.segment, i)
}

// weighGram adds the weight of the rows of a batch to that of the rows of the Gram matrix.
func (p *Processor) weighGram(b *Batch) {
	weight := p.sum.Field(statistics.FieldGramRows, 1)
	for _, w := range b.Fitted {
		weight[0] += float64(w)
	}
}

// nameGram names the Gram matrix of rows that leave.
func (p *Processor) nameGram() {
	if p.segment.Leaves {
		p.sum.Move(p.sum, statistics.FieldGram, statistics.Increment(p.segment.Increment).Leaving())
		p.sum.Take(statistics.FieldGramRows)
	}
}

// sumGradient computes the sums of a gradient.
func (p *Processor) sumGradient() summing {
	p.accumulator.Begin(p.visit.Of.Features.Size(), p.visit.Of.Classes, false)
	p.sum = p.accumulator.Sum()
	update := p.Plan.Update() != nil
	if update {
		p.beginTerms()
	}
	return summing{func(_ int, b *Batch) {
		if update {
			p.advance(b)
			p.countForgotten(b)
		}
		block, tiles := p.block(p.visit.Stage, p.visit.Of, b)
		for from, to := range tiles {
			p.gradient(b, block.Slice(from, to), from, to)
		}
	}, func() {
		p.accumulator.End()
		if update {
			p.endTerms(p.sum)
		}
	}}
}

// gradient sums the loss and the cross moment of some rows of a batch.
func (p *Processor) gradient(b *Batch, tile kernel.Dense, from, to int) {
	rows, before := b.Slice(from, to), b.Score.Slice(from, to)
	overflowed := p.visit.Of.Features.Overflowed(tile, b.Inputs.Slice(from, to))
	if from == 0 {
		overflowed += b.Overflowed
	}
	p.countOverflowed(overflowed)
	if p.visit.Sample != nil {
		p.accumulator.AddTrace(tile, p.visit.Of.Features.Penalised(), rows.Fitted)
	}
	p.score.Reshape(to-from, p.visit.Of.Classes)
	p.shown(p.score, before, tile)
	update := p.Plan.Update() != nil
	if update {
		p.addScores(tile, p.score, before, rows.Fitted)
	}
	p.measure(rows)
	if update {
		p.judgeOwn(rows, b.Offset, from)
		if p.again && p.visit.Offered != nil {
			p.judgeAgain(rows, b, from)
		}
	}
	rows.Residuals(p.score)
	if p.visit.Number == 0 && p.Plan.Stages[p.visit.Stage].Ridge == schemas.RidgeAuto {
		p.sum.AddResidual(p.score, rows.Fitted)
	}
	p.accumulator.Add(tile, p.score, rows.Fitted)
}

// sumCalibration sums the moments of G(ỹ), to which line 5 of Algorithm 2 is fitted in the second visit of its pass.
func (p *Processor) sumCalibration() summing {
	classes := p.visit.Of.Classes
	p.exact.Begin(p.visit.Of.Basis.Len()*classes, classes)
	return summing{func(_ int, b *Batch) {
		block, tiles := p.block(p.visit.Stage, p.visit.Of, b)
		for range tiles {
		}
		p.score.Reshape(b.Inputs.Rows, classes)
		p.shown(p.score, b.Score, block)
		p.visit.Of.Basis.Expand(&p.basis, p.score)
		b.Rows.Write(p.score)
		weights := b.Fitted
		if p.Plan.Task() == examples.SeveralLabels { // rows that the weights were not fitted to
			weights = heldOut(b.Rows)
			addCalibrated(p.sum, p.score, weights)
		}
		p.exact.Add(p.basis, p.score, weights)
	}, func() { p.exact.End(p.sum) }}
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
	p.visit.fitted.Shown(p.BLAS, &p.workspace.Sink, dst, before, block)
}

// measure adds the losses and errors of the scores of rows, and turns the scores into predictions.
func (p *Processor) measure(rows accumulate.Rows) {
	p.predict(rows, p.score)
	p.sum.AddLosses(rows, p.loss, p.predicted, p.score)
}

// predict turns scores into predictions, and computes the loss and the predicted class of each row.
func (p *Processor) predict(rows accumulate.Rows, score kernel.Dense) {
	n := score.Rows
	p.loss, p.predicted = slices.Grow(p.loss[:0], n)[:n], slices.Grow(p.predicted[:0], n)[:n]
	p.visit.Of.Link.Measure(score, rows.Truth, p.loss, p.predicted, &p.workspace.Link)
}

// countOverflowed adds the number of rows that the first visit to a stage excludes.
func (p *Processor) countOverflowed(rows int) {
	if rows > 0 && p.visit.Number == 0 {
		p.sum.Field(statistics.FieldOverflow, 1)[0] += float64(rows)
	}
}
