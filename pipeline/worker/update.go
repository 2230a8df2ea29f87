package worker

import (
	"context"
	"fmt"

	"gonum.org/v1/gonum/floats"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// An update publishes no residuals: its rows are few, and whoever visits them computes the scores before a stage from the accepted
// weights of the stages before it.

// passed is a stage whose weights are final.
type passed struct {
	*stageVisit
	link link.Link // of the next stage
}

// passedStages returns the stages before one, with their final weights.
func (w *Worker) passedStages(stage int) (list []passed, err error) {
	for t := range stage {
		s, err := w.chain.Stage(t)
		if err != nil {
			return nil, err
		}
		v := &stageVisit{Visit: run.Visit{Stage: t}, stage: s}
		if v.fitted, err = w.chain.Fitted(s, t); err != nil {
			return nil, err
		}
		list = append(list, passed{v, model.LinkOf(w.plan, t+1)})
	}
	return list, nil
}

// advance makes the scores of a batch those before the stage of the visit.
func (p *stageProcessor) advance(b *partition.Batch) {
	for b.At < p.visit.Stage {
		before := p.visit.passed[b.At]
		block, made := b.Block(before.Stage, before.stage.Features.Size(), &p.block, p.budget)
		b.After.Reshape(b.Score.Rows, b.Score.Cols)
		for from, to := range model.Tiles(b.Inputs.Rows) {
			tile, score := block.Slice(from, to), b.Score.Slice(from, to)
			if !made {
				before.stage.Expand(p.blas, &p.workspace, &tile, b.Inputs.Slice(from, to), score)
			}
			before.fitted.Scores(p.blas, b.After.Slice(from, to), score, tile)
		}
		b.Score, b.After = b.After, b.Score
		link.Convert(b.Score, before.stage.Link, before.link, p.workspace.Link())
		b.At++
	}
}

// weightOf returns what the weights of a segment's rows are multiplied by: what decay has made of 1, in a full run of a chain. An update
// multiplies sums.
func (w *Worker) weightOf(s *partition.Segment) float64 {
	if w.plan.Chain == nil || len(w.plan.Chain.Increments) == 0 {
		return 1
	}
	return w.plan.Chain.Increments[s.Increment].Weight
}

// forgottenOf returns which rows of a segment have weight 0. Rows that leave have the weights that they had when they came: those of the version
// before.
func (w *Worker) forgottenOf(s *partition.Segment) schemas.Forgotten {
	if s.Leaves {
		return w.earlier.Manifest.Plan.Forgotten
	}
	return w.plan.Forgotten
}

// partsOf reports what a round of an update sums of a segment: the Gram matrix of new rows, of those that leave, and of what is left of
// increments with forgotten rows; the rest of new rows and of those that are visited again.
func (p *stageProcessor) partsOf(s *partition.Segment, gram, rest bool) (bool, bool) {
	switch {
	case s.Leaves:
		return gram, false
	case s.Past:
		u := p.plan.Update()
		return gram && (u.Restart || u.Forgets(p.increment(s).Number) >= 0), rest
	}
	return gram, rest
}

// beginTerms begins to sum the terms of a segment's increment.
func (p *stageProcessor) beginTerms() {
	columns, classes := p.visit.stage.Features.Size(), p.visit.stage.Classes
	p.terms.Begin(columns, classes, false)
	if p.plan.Update() == nil {
		p.accumulator.Begin(columns, classes, false)
	}
}

// addScores adds the products of rows with what the stage adds to their scores.
func (p *stageProcessor) addScores(tile, after, before kernel.Dense, weights []float32) {
	p.own.Reshape(after.Rows, after.Cols)
	for i, v := range after.Data {
		p.own.Data[i] = v - before.Data[i]
	}
	p.terms.Add(tile, p.own, weights)
}

// gateSplit returns the split that the gate of the run is about; false if it has none.
func (w *Worker) gateSplit() (schemas.Split, bool) {
	if w.plan.Chain == nil || w.plan.Chain.Gate == nil {
		return 0, false
	}
	split, err := schemas.ParseSplit(w.plan.Chain.Gate.Split)
	return split, err == nil
}

// Names of the sums of an increment until its partition is whole: see stackTerms.
func scoresOf(increment int) string  { return fmt.Sprintf("scores/%d", increment) }
func crossOf(increment int) string   { return fmt.Sprintf("cross/%d", increment) }
func visitedOf(increment int) string { return fmt.Sprintf("visited/%d", increment) }
func leavesOf(increment int) string  { return fmt.Sprintf("leaves/%d", increment) }
func staysOf(increment int) string   { return fmt.Sprintf("stays/%d", increment) } // of an increment with forgotten rows
func rowsLeft(of string) string      { return of + "/rows" }

// endTerms adds the terms of a segment to a sum.
func (p *stageProcessor) endTerms(sum, residuals *accumulate.Sum, increment int) {
	p.rename(sum, p.terms.End(), schemas.FieldCross, scoresOf(increment))
	p.rename(sum, residuals, schemas.FieldCross, crossOf(increment))
}

// rename moves a field of one sum to another sum, where it has another name.
func (p *stageProcessor) rename(to, from *accumulate.Sum, name, as string) {
	if field, ok := from.Take(name); ok {
		copy(to.Field(as, field.Shape...), field.Data)
	}
}

// nameSums gives what was summed of a segment the names of its increment.
func (p *stageProcessor) nameSums(sum *accumulate.Sum, s *partition.Segment, rest bool) {
	as := ""
	switch {
	case s.Leaves:
		as = leavesOf(s.Increment)
	case s.Past && !p.plan.Update().Restart:
		as = staysOf(p.plan.Update().Forgets(p.increment(s).Number)) // or nothing was summed
	}
	if as != "" {
		p.rename(sum, sum, schemas.FieldGram, as)
		p.rename(sum, sum, schemas.FieldGramRows, rowsLeft(as))
	}
	if rest {
		p.endTerms(sum, sum, s.Increment)
		p.countVisited(sum, s.Increment)
	}
}

// countVisited notes the losses of a segment as those of its increment.
func (p *stageProcessor) countVisited(sum *accumulate.Sum, increment int) {
	losses := schemas.LossesOf(sum.Tensors())
	visited := sum.Field(visitedOf(increment), 4)
	visited[0], visited[1] = losses[schemas.Train].Weight, losses[schemas.Train].Loss
	if split, gated := p.gateSplit(); gated {
		visited[2], visited[3] = losses[split].Weight, losses[split].Loss
	}
}

// stackTerms makes of the sums of the increments that a partition has two tensors; of a full run, whose terms are in records of their own, one. A
// visit whose terms do not stay has the sum of all terms, each times the weight of its increment.
func (w *Worker) stackTerms(sum *accumulate.Sum, v run.Visit) {
	s, err := w.chain.Stage(v.Stage)
	if err != nil || s.Link.Learnt {
		return
	}
	weights, apart := w.visitedWeights(v.Number)
	p, k, m := s.Features.Size(), s.Classes, 0
	for i := range weights {
		if _, any := sum.Tensors().Find(visitedOf(i)); any {
			m++
		}
	}
	visited := sum.Field(schemas.FieldVisited, m, 5)
	var terms []float64
	update := w.plan.Update() != nil
	if !apart {
		m = min(m, 1)
	}
	if update && (apart || m > 0) {
		terms = sum.Field(schemas.FieldTerms, m, 2, p, k)
	}
	for i, at := range weights {
		losses, any := sum.Take(visitedOf(i))
		if !any {
			continue
		}
		visited[0] = float64(i)
		copy(visited[1:5], losses.Data)
		visited = visited[5:]
		if !update {
			continue
		}
		for j, name := range []string{scoresOf(i), crossOf(i)} {
			part, _ := sum.Take(name)
			if to := terms[j*p*k:][:p*k]; apart {
				copy(to, part.Data)
			} else {
				floats.AddScaled(to, at, part.Data)
			}
		}
		if apart {
			terms = terms[2*p*k:]
		}
	}
}

// visitedWeights returns the weight of each increment that a visit has, and whether the terms of each are sent apart.
func (w *Worker) visitedWeights(visit int) (weights []float64, apart bool) {
	u := w.plan.Update()
	if u == nil {
		return make([]float64, max(len(w.plan.Chain.Increments), 1)), true
	}
	weights = []float64{1}
	for _, c := range u.Refresh {
		if u.Restart {
			c.Weight = 1
		}
		weights = append(weights, c.Weight)
	}
	return weights, schemas.KeepsTerms(visit, u.Passes)
}

// publishLeaving writes the Gram matrices of the rows of a partition that leave the window, each times its weight. Each is rounded as it
// was when the rows came, so that what was added is what goes. Of an increment with forgotten rows all goes that was added, less what comes back: that
// is rounded as if the forgotten rows had never come.
func (w *Worker) publishLeaving(ctx context.Context, v *stageVisit, p *partition.State, sum *accumulate.Sum) error {
	r, u := schemas.Gram{Identity: w.identity(schemas.KindLeave, v.Visit, p)}, w.plan.Update()
	add := func(weight float64, of string) (rows float64) {
		if field, any := sum.Take(rowsLeft(of)); any {
			rows = field.Data[0]
		}
		field, any := sum.Take(of)
		if !any {
			return 0
		}
		if r.Matrix == nil {
			r.Matrix = make([]float64, len(field.Data))
		}
		for j, x := range field.Data {
			r.Matrix[j] += weight * float64(float32(x))
		}
		return rows
	}
	for i, c := range u.Leave {
		add(c.Weight, leavesOf(i))
	}
	for i, c := range u.Forget {
		before := add(c.Weight, leavesOf(len(u.Leave)+i))
		r.Weight += c.Weight * (before - add(-c.Weight, staysOf(i)))
	}
	return publish(ctx, w, r.ExactRecord())
}
