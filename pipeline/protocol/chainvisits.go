package protocol

import (
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// GramVisit returns the visit to which the Gram matrices of an update's stage belong. They do not depend on weights.
func (c *Chain) GramVisit(stage int) Visit { return Visit{Stage: stage, Parent: c.SurveyDigest()} }

// Visit is a visit to a stage.
type Visit struct {
	Stage  int         // schemas.Survey, 0, 1, …
	Number int         // number of the visit within its stage: 0, 1, …
	Parent wire.Digest // record from which the statistics are computed
}

// Due returns the worker's next steps after the accepted records. First it publishes and seals the residuals of stage
// seal, unless that is [NoStage]. Then it makes visit v. When no visit is left, v.Stage is the number of stages.
func (c *Chain) Due() (v Visit, seal int) {
	v.Parent = c.Head()
	switch {
	case c.Survey == nil:
		v.Stage = wire.Survey
		return v, NoStage
	case len(c.weights) == 0:
		v.Number = c.first(0)
		return v, NoStage
	}
	last := c.weights[len(c.weights)-1]
	if last.Final != nil {
		v.Stage, v.Number = last.Stage+1, c.first(last.Stage+1)
		return v, last.Stage
	}
	v.Stage, v.Number = last.Stage, last.Visit
	return v, NoStage
}

// grows reports whether the first visit to a stage grows its trees. The stages of an update have the trees of the previous
// version.
func (c *Chain) grows(stage int) bool {
	return stage < len(c.Plan.Stages) && c.Plan.Update() == nil && stages.Grown(c.Plan.Stages[stage].Features)
}

// first returns the number of the first visit to a stage.
func (c *Chain) first(stage int) int {
	if c.grows(stage) {
		return wire.Growth
	}
	return 0
}

// structure returns the record of a stage's trees; nil if it has none, or none yet. An update writes the trees of the
// previous version in a record of its own, since its version must stay readable when the previous one is removed.
func (c *Chain) structure(stage int) *schemas.Weights {
	if c.Plan.Update() != nil && c.earlier != nil {
		if tensors := c.earlier.Stage(stage).Features.Structure(); tensors != nil {
			id := wire.Identity{Kind: schemas.KindStructure, Run: c.Run, Stage: stage, Parent: c.SurveyDigest()}
			return &schemas.Weights{Identity: id, Tensors: tensors}
		}
		return nil
	}
	for _, w := range c.weights {
		if w.Stage == stage && w.Kind == schemas.KindStructure {
			return w
		}
	}
	return nil
}

// Began reports whether any weights are accepted.
func (c *Chain) Began() bool { return len(c.weights) > 0 }

// GrowthVisit returns the visit that grows the trees of a stage, and whether it is due: whether the stage has trees that
// are not accepted yet. The record that the stage starts from must be accepted.
func (c *Chain) GrowthVisit(stage int) (v Visit, due bool) {
	if !c.grows(stage) || c.structure(stage) != nil {
		return v, false
	}
	return Visit{stage, wire.Growth, c.Head()}, true
}

// Visits returns the visits of a stage so far, in order, without that of [Chain.GrowthVisit]. The last one may still be
// due.
func (c *Chain) Visits(stage int) (visits []Visit) {
	if stage == wire.Survey {
		return []Visit{{stage, 0, c.Root}}
	}
	if stage == 0 && c.Survey != nil && !c.grows(stage) {
		visits = append(visits, Visit{stage, 0, c.SurveyDigest()})
	}
	for i, w := range c.weights {
		switch {
		case w.Stage == stage-1 && w.Final != nil && !c.grows(stage):
			visits = append(visits, Visit{stage, 0, c.digest(i)})
		case w.Stage == stage && w.Final == nil:
			visits = append(visits, Visit{stage, w.Visit, c.digest(i)})
		}
	}
	return visits
}

// WeightsFor returns the weights for a visit, and the initial W (p × k) of its stage. Both are nil for the first visit to
// a stage in a cold start.
func (c *Chain) WeightsFor(v Visit) (w *schemas.Weights, initial []float32) {
	for _, w := range c.weights {
		if w.Stage == v.Stage && w.Visit == v.Number && w.Kind == schemas.KindWeights {
			return w, nil
		}
	}
	return nil, c.Initial(v.Stage)
}

// Initial returns the initial W (p × k) of a stage in a warm start; nil means zeros. In an update on sparse rows, the
// previous version may lack some inputs.
func (c *Chain) Initial(stage int) []float32 {
	u := c.Plan.Update()
	if u == nil || !u.Sparse || c.earlier == nil || c.Prepared == nil || c.initial[stage] == nil {
		return c.initial[stage]
	}
	if c.extended == nil {
		c.extended = map[int][]float32{}
	}
	if c.extended[stage] == nil {
		c.extended[stage] = c.earlier.WeightsOn(stage, c.Prepared)
	}
	return c.extended[stage]
}

// Forget frees the memory of weights that are not needed from a visit on: the weights of earlier visits, except final
// weights, weights of learnt links, and weights of which the visit's weights are a change.
func (c *Chain) Forget(v Visit) {
	whole := 0
	for _, w := range c.weights {
		if _, all := w.Tensors.Find(statistics.TensorW); all && w.Stage == v.Stage && w.Visit <= v.Number {
			whole = w.Visit
		}
	}
	for i, w := range c.weights {
		if (w.Stage < v.Stage || w.Stage == v.Stage && w.Visit < whole) && w.Final == nil && w.Tensors != nil &&
			w.Kind == schemas.KindWeights && !link.Named(c.Plan.Stages[w.Stage].Link).Learnt {
			bare := *w // the weights may still be in use elsewhere
			bare.Tensors = nil
			c.weights[i] = &bare
		}
	}
}

// Passes returns the pass reports of a stage, in order, from its accepted weights.
func (c *Chain) Passes(stage int) (passes []schemas.PassReport) {
	for _, w := range c.weightsOf(stage) {
		if w.Pass != nil {
			passes = append(passes, *w.Pass)
		}
	}
	return passes
}
