package visit

import (
	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/sink"
)

// An update publishes no residuals: its rows are few, and each visit computes the scores before a stage from the accepted
// weights of the earlier stages. A full run does publish them: for 60,000 rows, 784 columns, 1,024 features and 10
// classes, the scores after one stage take 8.3 s to compute again (Go, one core) and 0.03 to 0.09 s to read and verify,
// and each stage would compute those of all earlier ones. But sealing a stage takes a round trip between all workers and
// the solver, which costs more than the features of a few hundred rows.

// passed is a stage with final weights.
type passed struct {
	stage  *model.Stage
	fitted *sink.Fitted
	link   link.Link // of the next stage
}

// passedStages returns the stages before that of the visit, with the weights that fitted returns.
func (v *Visit) passedStages(chain *protocol.Chain, fitted func(*model.Stage, int) (*sink.Fitted, error)) (list []passed, err error) {
	for t := range v.Stage {
		s, err := chain.Stage(t)
		if err != nil {
			return nil, err
		}
		fitted, err := fitted(s, t)
		if err != nil {
			return nil, err
		}
		list = append(list, passed{s, fitted, model.LinkOf(v.Plan, t+1)})
	}
	return list, nil
}

// advance computes the scores of a batch before the stage of the visit.
func (p *Processor) advance(b *Batch) {
	for b.At < p.visit.Stage {
		before := p.visit.passed[b.At]
		b.After.Reshape(b.Score.Rows, b.Score.Cols)
		if before.stage.Features.Sparse() {
			before.fitted.ScoresSparse(b.After, b.Score, before.stage.Features.ExpandSparse(b.Sparse))
		} else {
			block, tiles := p.block(b.At, before.stage, b)
			for from, to := range tiles {
				before.fitted.Scores(p.BLAS, b.After.Slice(from, to), b.Score.Slice(from, to), block.Slice(from, to))
			}
		}
		b.Score, b.After = b.After, b.Score
		link.Convert(b.Score, before.stage.Link, before.link, &p.workspace.Link)
		b.At++
	}
}

// weightOf returns the factor of the weights of a segment's rows: the decayed weight in a full run of a chain, otherwise
// 1. An update multiplies sums instead.
func (r *Run) weightOf(s *Segment) float64 {
	if r.Plan.Chain == nil || len(r.Plan.Chain.Increments) == 0 {
		return 1
	}
	return r.Plan.Chain.Increments[s.Increment].Weight
}

// forgottenOf returns the rows of a segment with weight 0. Leaving rows have the weights with which they were added: those
// of the previous version.
func (r *Run) forgottenOf(s *Segment) coverage.Forgotten {
	if s.Leaves {
		return r.Earlier.Manifest.Plan.Forgotten
	}
	return r.Plan.Forgotten
}

// increment returns the increment of a past segment.
func (r *Run) increment(s *Segment) *coverage.Increment {
	if s.Leaves {
		return &r.Plan.Update().Leave[s.Increment]
	}
	return &r.Plan.Update().Refresh[s.Increment-1]
}

// beginTerms starts summing the terms of a segment's increment.
func (p *Processor) beginTerms() {
	columns, classes := p.visit.Of.Features.Size(), p.visit.Of.Classes
	p.terms.Begin(columns, classes, false)
	if p.Plan.Update() == nil {
		p.accumulator.Begin(columns, classes, false)
	}
}

// addScores adds the products of rows with the stage's contribution to their scores.
func (p *Processor) addScores(tile, after, before kernel.Dense, weights []float32) {
	p.own.Reshape(after.Rows, after.Cols)
	for i, v := range after.Data {
		p.own.Data[i] = v - before.Data[i]
	}
	p.terms.Add(tile, p.own, weights)
}

// endTerms adds the terms of the segment to its sums, under the names of its increment. cross has the cross moment.
func (p *Processor) endTerms(cross *accumulate.Sum) {
	increment := statistics.Increment(p.segment.Increment)
	p.sum.Move(p.terms.End(), statistics.FieldCross, increment.Scores())
	p.sum.Move(cross, statistics.FieldCross, increment.Cross())
	p.countVisited()
}

// countVisited records the losses of the segment as those of its increment.
func (p *Processor) countVisited() {
	losses := statistics.LossesOf(p.sum.Tensors())
	visited := p.sum.Field(statistics.Increment(p.segment.Increment).Visited(), 4)
	visited[0], visited[1] = losses[examples.Train].Weight, losses[examples.Train].Loss
	if split, gated := JudgedSplit(p.Plan); gated {
		visited[2], visited[3] = losses[split].Weight, losses[split].Loss
	}
}

// countForgotten counts the forgotten rows of a batch of a past segment. The survey counts those of new rows.
func (p *Processor) countForgotten(b *Batch) {
	if p.segment.Past {
		p.Plan.Forgotten.In(p.segment.Span.Partition, b.Offset, b.Examples, func(first, end int) {
			p.sum.Field(statistics.FieldForgotten, 1+len(p.Plan.Update().Refresh))[p.segment.Increment] += float64(end - first)
		})
	}
}

// AddTerms replaces the terms of the increments in the sums of a share by their sum, weighted by increment, as terms of increment 0.
func AddTerms(u *schemas.Update, sum *accumulate.Sum) {
	weights := []float64{1}
	for _, c := range u.Refresh {
		if u.Restart {
			c.Weight = 1
		}
		weights = append(weights, c.Weight)
	}
	for _, name := range []func(statistics.Increment) string{statistics.Increment.Scores, statistics.Increment.Cross} {
		var shape []int
		var all []float64
		for i, weight := range weights {
			of := name(statistics.Increment(i))
			part, any := sum.Take(of)
			if !any {
				continue
			}
			if all == nil {
				shape, all = part.Shape, make([]float64, len(part.Data))
			}
			floats.AddScaled(all, weight, part.Data)
		}
		if all != nil {
			copy(sum.Field(name(0), shape...), all)
		}
	}
}

// LeavingGram removes the Gram matrices of the rows that leave the window from the sums of a partition, and returns their
// weighted sum. Each is rounded as it was when the rows were added, so that exactly the added values are subtracted.
func LeavingGram(u *schemas.Update, sum *accumulate.Sum) (matrix []float64) {
	for i, c := range u.Leave {
		field, any := sum.Take(statistics.Increment(i).Leaving())
		if !any {
			continue
		}
		if matrix == nil {
			matrix = make([]float64, len(field.Data))
		}
		for j, v := range field.Data {
			matrix[j] += c.Weight * float64(float32(v))
		}
	}
	return matrix
}
