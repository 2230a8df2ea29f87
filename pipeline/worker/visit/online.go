package visit

import (
	"context"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
	"github.com/stagewise/stagewise/solve"
)

// readOccurring reads the weights for a visit of an update on sparse rows. A visit to the last stage can evaluate the
// predictions of the new version, after all stages: own has the weights of the stages before.
func (v *Visit) readOccurring(chain *protocol.Chain) (err error) {
	_, gated := JudgedSplit(v.Plan)
	gated = gated && v.Stage == len(v.Plan.Stages)-1
	published, _ := chain.WeightsFor(v.Visit)
	k := v.Of.Classes
	w := &occurringWeights{Initial: kernel.Dense{Rows: v.Of.Features.Size(), Cols: k, Data: chain.Initial(v.Stage)}}
	if published != nil {
		if w.Columns, w.Rows.Data, err = statistics.RowsOf(published.Tensors, v.Of.Features.Size(), k); err != nil {
			return err
		}
		w.Rows.Rows, w.Rows.Cols = len(w.Columns), k
	}
	v.occurring = w
	if gated {
		v.own, err = passedStages(v.Plan, chain, v.Stage)
	}
	return err
}

// passedBefore returns the stages before a stage of an update on sparse rows, with the weights of the previous version:
// rows are scored before they are counted.
func (v *Visit) passedBefore(chain *protocol.Chain) (list []passed, err error) {
	for t := range v.Stage {
		s, err := chain.Stage(t)
		if err != nil {
			return nil, err
		}
		fitted, err := s.Fitted(chain.Initial(t), nil)
		if err != nil {
			return nil, err
		}
		list = append(list, passed{s, fitted, model.LinkOf(v.Plan, t+1)})
	}
	return list, nil
}

// updateSparse computes the sums of an update on sparse rows.
func (p *Processor) updateSparse(ctx context.Context, batches []*partition.Batch) *accumulate.Sum {
	sum, rows := &accumulate.Sum{}, make([]occurringRows, 0, len(batches))
	for _, b := range batches {
		if ctx.Err() != nil {
			return sum // the visit is abandoned
		}
		p.countOverflowed(sum, b.Overflowed)
		p.advanceSparse(b)
		sum.Count(b.Examples, b.Checksum)
		rows = append(rows, occurringRows{block: p.visit.Of.Features.ExpandSparse(b.Sparse), before: b.Score, rows: b.Rows, fitted: b.Fitted})
	}
	p.summer.begin(rows)
	p.visit.occurring.gather(&p.summer.weights, p.summer.columns)
	p.summer.sum(ctx, sum, sumsOf(p.visit.Of, p.visit.Number, p.Plan.Update().Passes))
	for i, b := range batches {
		if p.judgesSparse() && ctx.Err() == nil {
			p.judgeSparse(sum, b, i)
		}
	}
	return sum
}

// advanceSparse computes the scores of a batch before the stage of the visit with the previous version.
func (p *Processor) advanceSparse(b *partition.Batch) {
	for b.At < p.visit.Stage {
		before := p.visit.passed[b.At]
		b.After.Reshape(b.Score.Rows, b.Score.Cols)
		before.fitted.ScoresSparse(b.After, b.Score, before.stage.Features.ExpandSparse(b.Sparse))
		b.Score, b.After = b.After, b.Score
		link.Convert(b.Score, before.stage.Link, before.link, p.workspace.Link())
		b.At++
	}
}

// judgesSparse reports whether the visit evaluates for the gate, and the segment may have rows for it.
func (p *Processor) judgesSparse() bool {
	_, gated := JudgedSplit(p.Plan)
	return gated && p.newest && p.visit.Stage == len(p.Plan.Stages)-1
}

// judgeSparse adds the losses of the run's version on the rows of batch i that the gate uses.
func (p *Processor) judgeSparse(sum *accumulate.Sum, b *partition.Batch, i int) {
	if split, _ := JudgedSplit(p.Plan); !slices.Contains(b.Rows.Splits, split) {
		return
	}
	k := p.visit.Of.Classes
	before, score := kernel.NewDense(b.Len(), k), kernel.NewDense(b.Len(), k)
	for _, of := range p.visit.own {
		of.fitted.ScoresSparse(score, before, of.stage.Features.ExpandSparse(b.Sparse))
		link.Convert(score, of.stage.Link, of.link, p.workspace.Link())
		before, score = score, before
	}
	p.summer.scores(score, before, i)
	p.predict(b.Rows, score)
	p.judgeOwn(sum, b.Rows.Slice(0, b.Examples), b.Offset, 0)
}

// occurringTerms computes the terms of an increment on sparse rows, in a full run: the curvature at the final weights, or
// the counts. predicted returns the predictions after the stage.
func (p *Processor) occurringTerms(batches []*partition.Batch, predicted func(*partition.Batch) kernel.Dense) *accumulate.Sum {
	sum, k := &accumulate.Sum{}, p.visit.Of.Classes
	p.blocks = p.blocks[:0]
	for _, b := range batches {
		p.blocks = append(p.blocks, p.visit.Of.Features.ExpandSparse(b.Sparse))
	}
	if len(batches) == 0 {
		return sum
	}
	p.occurring.Begin(p.blocks)
	terms := make([]float64, p.occurring.Width()*k)
	for i, b := range batches {
		if p.visit.Of.Features.Counted() {
			p.own.Reshape(b.Len(), k)
			b.Rows.Write(p.own)
			kernel.AddCrossSparse(terms, p.occurring.Batch(i), p.own, b.Fitted)
			continue
		}
		p.summer.addCurvature(terms, p.occurring.Batch(i), predicted(b), b.Fitted)
	}
	p.occurring.Table(sum, statistics.FieldOccurring, terms)
	return sum
}

// predictedAfter returns the predictions for the scores of a batch after the stage.
func (p *Processor) predictedAfter(b *partition.Batch) kernel.Dense {
	p.residual.Reshape(b.After.Rows, b.After.Cols)
	copy(p.residual.Data, b.After.Data)
	p.visit.Of.Link.Predict(p.residual)
	return p.residual
}

// leaveSelfOut removes a row's own counts from its scores in a counted stage of a full run of a chain: an update scores
// rows before it counts them, and the next stage must not be fitted to scores that include the row's own label.
func (p *Processor) leaveSelfOut(b *partition.Batch, counts []float32, totals []float64) {
	stage := p.visit.Of
	shape := solve.Shape{Columns: stage.Features.Size(), Penalised: stage.Features.Penalised(), Classes: stage.Classes}
	weight := float64(solve.ChainWeight(p.Plan.Stages[p.visit.Stage].Features.Weight))
	for i, class := range b.Rows.Classes {
		if b.Fitted[i] == 0 || class < 0 {
			continue
		}
		columns, values := b.Sparse.Row(i)
		row := solve.CountRow{Columns: columns, Values: values, Class: int(class), Weight: float64(b.Fitted[i])}
		own, other := solve.WithoutRow(row, counts, totals[class], shape, weight)
		score := b.After.Row(i)
		for c := range score {
			if c == int(class) {
				score[c] += float32(own)
			} else {
				score[c] += float32(other)
			}
		}
	}
}

// readCounts reads the counts of the weights of a counted stage of a full run of a chain, and their sums over the inputs.
func (v *Visit) readCounts(final *schemas.Weights) (err error) {
	k := v.Of.Classes
	if v.counts, err = final.Tensors.Shaped(statistics.TensorCounts, v.Of.Features.Size(), k); err != nil {
		return err
	}
	v.totals = make([]float64, k)
	for i, n := range v.counts[:v.Of.Features.Penalised()*k] {
		v.totals[i%k] += float64(n)
	}
	return nil
}

// occurringRows are the rows of a message in a visit of an update on sparse rows.
type occurringRows struct {
	block  kernel.Sparse   // n × p
	before kernel.Dense    // n × k: the scores before the stage
	rows   accumulate.Rows // n
	fitted []float32       // n: training weights, 0 for other rows
}

// occurringSums are the sums of a visit.
type occurringSums struct {
	link     link.Link
	counted  bool // the counts rather than the gradient
	curved   bool // also the curvature
	reaching bool // also the bound of the curvature
}

// sumsOf returns the sums of visit number, of the given number of passes, for a stage.
func sumsOf(stage *model.Stage, number, passes int) occurringSums {
	counted := stage.Features.Counted()
	return occurringSums{link: stage.Link, counted: counted, reaching: number == 0 && !counted,
		curved: !counted && solve.HasCurvature(number, passes)}
}

// occurringWeights are those of a visit of an update on sparse rows: of occurring columns, and for all others those of the
// previous version.
type occurringWeights struct {
	Initial kernel.Dense // p × k
	Columns []int32      // ascending; none in the first visit
	Rows    kernel.Dense // m × k
}

// gather copies the weights of some columns, in ascending order, to dst.
func (w *occurringWeights) gather(dst *kernel.Dense, columns []int32) {
	dst.Reshape(len(columns), w.Initial.Cols)
	at := 0 // index in w.Columns
	for i, column := range columns {
		for at < len(w.Columns) && w.Columns[at] < column {
			at++
		}
		if at < len(w.Columns) && w.Columns[at] == column {
			copy(dst.Row(i), w.Rows.Row(at))
		} else {
			copy(dst.Row(i), w.Initial.Row(int(column)))
		}
	}
}

// summer sums the messages of a segment. The zero value is ready for begin. It reuses its memory at the next call of begin.
type summer struct {
	batches    []occurringRows
	blocks     []kernel.Sparse
	occurring  accumulate.Occurring
	columns    []int32      // occurring columns of the block, ascending; the last may be that of ones
	weights    kernel.Dense // of the occurring columns
	score      kernel.Dense
	curvatures kernel.Dense
	squared    []float32
	loss       []float32
	predicted  []int32
	scratch    link.Scratch
}

// begin sets the messages for the next sums.
func (s *summer) begin(batches []occurringRows) {
	s.batches, s.blocks = batches, s.blocks[:0]
	for i := range batches {
		s.blocks = append(s.blocks, batches[i].block)
	}
	s.occurring.Begin(s.blocks)
	s.occurring.Ascend()
	s.columns = s.occurring.Columns()
	if s.occurring.Width() > len(s.columns) {
		s.columns = append(s.columns[:len(s.columns):len(s.columns)], int32(s.blocks[0].Width()-1))
	}
}

// scores computes the scores of a message after the stage into dst, from those before it.
func (s *summer) scores(dst, before kernel.Dense, batch int) {
	copy(dst.Data, before.Data)
	kernel.MulAddSparse(dst, s.occurring.Batch(batch), s.weights)
	sink.TakeBack(dst, before)
}

// sum adds the sums of the messages to sum: tables with a row for each occurring column. They are undefined if ctx ends.
func (s *summer) sum(ctx context.Context, sum *accumulate.Sum, of occurringSums) {
	m, k := len(s.columns), s.weights.Cols
	var curvature, squares, reach []float64
	cross := make([]float64, m*k) // Σ w x (y − g)ᵀ, or the counts Σ w x yᵀ
	if of.curved {
		curvature = make([]float64, m*k)
	}
	if of.reaching {
		squares, reach = make([]float64, m), make([]float64, m)
	}
	for i := range s.batches {
		if ctx.Err() != nil {
			return
		}
		b, block := &s.batches[i], s.occurring.Batch(i)
		s.score.Reshape(block.Rows, k)
		s.scores(s.score, b.before, i)
		s.loss, s.predicted = slices.Grow(s.loss[:0], block.Rows)[:block.Rows], slices.Grow(s.predicted[:0], block.Rows)[:block.Rows]
		of.link.Measure(s.score, b.rows.Truth, s.loss, s.predicted, &s.scratch)
		sum.AddLosses(b.rows, s.loss, s.predicted, s.score)
		if of.curved {
			s.addCurvature(curvature, block, s.score, b.fitted)
		}
		if of.counted {
			b.rows.Write(s.score)
		} else {
			b.rows.Residuals(s.score)
		}
		kernel.AddCrossSparse(cross, block, s.score, b.fitted)
		if of.reaching {
			kernel.AddDiagonalSparse(squares, reach, block, b.fitted)
		}
	}
	name := statistics.FieldGradient
	if of.counted {
		name = statistics.FieldCounted
	}
	s.occurring.Table(sum, name, cross)
	if of.curved {
		s.occurring.Table(sum, statistics.FieldCurvature, curvature)
	}
	if of.reaching {
		s.occurring.Table(sum, statistics.FieldReach, reach)
	}
}

// addCurvature adds Σ w x² h, where h is the second derivative of the loss with respect to each score of a row, from the
// predictions.
func (s *summer) addCurvature(sums []float64, block kernel.Sparse, predictions kernel.Dense, weights []float32) {
	s.curvatures.Reshape(predictions.Rows, predictions.Cols)
	for i, v := range predictions.Data {
		s.curvatures.Data[i] = v * (1 - v)
	}
	from, to := block.Starts[0], block.Starts[block.Rows]
	s.squared = append(s.squared[:0], make([]float32, to)...)
	for i := from; i < to; i++ {
		s.squared[i] = block.Values[i] * block.Values[i]
	}
	block.Values = s.squared
	kernel.AddCrossSparse(sums, block, s.curvatures, weights)
}
