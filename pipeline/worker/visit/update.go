package visit

import (
	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/judge"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/scan"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
)

// An update publishes no residuals: its rows are few, and whoever visits them computes the scores before a stage from the accepted
// weights of the stages before it. A full run does not: of 60,000 rows, 784 columns, 1,024 features and 10 classes, the scores after one
// stage take 8.3 s to compute again (Go, one core) and 0.03 to 0.09 s to read and check, and each stage would compute those of all before
// it. To seal a stage takes a round of all workers and the solver, though, which costs more than the features of a few hundred rows.

// passed is a stage whose weights are final.
type passed struct {
	stage  *model.Stage
	fitted *sink.Fitted
	link   link.Link // of the next stage
}

// passedStages returns the stages before one, with their final weights.
func passedStages(plan *schemas.Plan, chain *protocol.Chain, stage int) (list []passed, err error) {
	for t := range stage {
		s, err := chain.Stage(t)
		if err != nil {
			return nil, err
		}
		fitted, err := chain.Fitted(s, t)
		if err != nil {
			return nil, err
		}
		list = append(list, passed{s, fitted, model.LinkOf(plan, t+1)})
	}
	return list, nil
}

// advance makes the scores of a batch those before the stage of the visit.
func (p *Processor) advance(b *partition.Batch) {
	for b.At < p.visit.Stage {
		before := p.visit.passed[b.At]
		block, made := b.Block(b.At, before.stage.Features.Size(), &p.block, p.Budget)
		b.After.Reshape(b.Score.Rows, b.Score.Cols)
		for from, to := range model.Tiles(b.Inputs.Rows) {
			tile, score := block.Slice(from, to), b.Score.Slice(from, to)
			if !made {
				p.expand(before.stage, block, b, from, to)
			}
			before.fitted.Scores(p.BLAS, b.After.Slice(from, to), score, tile)
		}
		b.Score, b.After = b.After, b.Score
		link.Convert(b.Score, before.stage.Link, before.link, p.workspace.Link())
		b.At++
	}
}

// weightOf returns what the weights of a segment's rows are multiplied by: what decay has made of 1, in a full run of a chain. An update
// multiplies sums.
func (r *Run) weightOf(s *partition.Segment) float64 {
	if r.Plan.Chain == nil || len(r.Plan.Chain.Increments) == 0 {
		return 1
	}
	return r.Plan.Chain.Increments[s.Increment].Weight
}

// forgottenOf returns which rows of a segment have weight 0. Rows that leave have the weights that they had when they
// came: those of the version before.
func (r *Run) forgottenOf(s *partition.Segment) coverage.Forgotten {
	if s.Leaves {
		return r.Earlier.Manifest.Plan.Forgotten
	}
	return r.Plan.Forgotten
}

// Increment returns the increment of a segment of the past.
func (r *Run) Increment(s *partition.Segment) *coverage.Increment {
	u := r.Plan.Update()
	switch {
	case s.Leaves && s.Increment >= len(u.Leave):
		return &u.Forget[s.Increment-len(u.Leave)]
	case s.Leaves:
		return &u.Leave[s.Increment]
	}
	return &u.Refresh[s.Increment-1]
}

// partsOf reports what a round of an update sums of a segment: the Gram matrix of new rows, of those that leave, and of what is left of
// increments with forgotten rows; the rest of new rows and of those that are visited again.
func (p *Processor) partsOf(s *partition.Segment, gram, rest bool) (bool, bool) {
	switch {
	case s.Leaves:
		return gram, false
	case s.Past:
		u := p.Plan.Update()
		return gram && (u.Restart || u.Forgets(p.Increment(s).Number) >= 0), rest
	}
	return gram, rest
}

// beginTerms begins to sum the terms of a segment's increment.
func (p *Processor) beginTerms() {
	columns, classes := p.visit.Of.Features.Size(), p.visit.Of.Classes
	p.terms.Begin(columns, classes, false)
	if p.Plan.Update() == nil {
		p.accumulator.Begin(columns, classes, false)
	}
}

// addScores adds the products of rows with what the stage adds to their scores.
func (p *Processor) addScores(tile, after, before kernel.Dense, weights []float32) {
	p.own.Reshape(after.Rows, after.Cols)
	for i, v := range after.Data {
		p.own.Data[i] = v - before.Data[i]
	}
	p.terms.Add(tile, p.own, weights)
}

// nameSums gives what was summed of a segment the names of its increment.
func (p *Processor) nameSums(sum *accumulate.Sum, s *partition.Segment, rest bool) {
	increment, gram, rows := statistics.Increment(s.Increment), "", ""
	switch {
	case s.Leaves:
		gram, rows = increment.Leaving()
	case s.Past && !p.Plan.Update().Restart:
		gram, rows = statistics.Increment(p.Plan.Update().Forgets(p.Increment(s).Number)).Staying() // or nothing was summed
	}
	if gram != "" {
		sum.Move(sum, statistics.FieldGram, gram)
		sum.Move(sum, statistics.FieldGramRows, rows)
	}
	if rest {
		sum.Move(p.terms.End(), statistics.FieldCross, increment.Scores())
		sum.Move(sum, statistics.FieldCross, increment.Cross())
		p.countVisited(sum, increment)
	}
}

// countVisited notes the losses of a segment as those of its increment.
func (p *Processor) countVisited(sum *accumulate.Sum, increment statistics.Increment) {
	losses := statistics.LossesOf(sum.Tensors())
	visited := sum.Field(increment.Visited(), 4)
	visited[0], visited[1] = losses[examples.Train].Weight, losses[examples.Train].Loss
	if split, gated := judge.Split(p.Plan); gated {
		visited[2], visited[3] = losses[split].Weight, losses[split].Loss
	}
}

// countForgotten counts the forgotten rows of a segment of the past. Those of new rows the survey has counted.
func (p *Processor) countForgotten(sum *accumulate.Sum, l *scan.Load, batches []*partition.Batch) {
	if !l.Segment().Past {
		return
	}
	count := func(first, end int) {
		sum.Field(statistics.FieldForgotten, 1+len(p.Plan.Update().Refresh))[l.Segment().Increment] += float64(end - first)
	}
	for _, b := range batches {
		p.Plan.Forgotten.In(l.Partition.Partition(), b.Offset, b.Examples, count)
	}
}
