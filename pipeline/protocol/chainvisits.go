package protocol

import (
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// GramVisit returns the visit that the Gram matrices of a stage of an update belong to, which depend on no weights.
func (c *Chain) GramVisit(stage int) Visit { return Visit{Stage: stage, Parent: c.SurveyDigest()} }

// Visit is a visit that is due, or was.
type Visit struct {
	Stage  int         // schemas.Survey, 0, 1, …
	Number int         // of the visit in its stage: 0, 1, …
	Parent wire.Digest // of the record that its statistics are computed from
}

// Due returns what a worker must do after the records that are accepted. First it publishes and seals the residuals of stage
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

// Grows reports whether a stage begins with a visit that its trees are grown from. The stages of an update have the trees of the
// version before.
func (c *Chain) Grows(stage int) bool {
	return stage < len(c.Plan.Stages) && c.Plan.Update() == nil && stages.Grown(c.Plan.Stages[stage].Features)
}

// first returns the number of the first visit to a stage.
func (c *Chain) first(stage int) int {
	if c.Grows(stage) {
		return wire.Growth
	}
	return 0
}

// structure returns the record of the trees of a stage; nil if it has none, or none yet. An update has those of the version before it in a
// record of its own, as its version may be read when the version before is gone.
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

// GrowthVisit returns the visit that the trees of a stage are grown from, and whether it is due: whether the stage has trees that are
// not accepted yet. What the stage begins at must be accepted.
func (c *Chain) GrowthVisit(stage int) (v Visit, due bool) {
	if !c.Grows(stage) || c.structure(stage) != nil {
		return v, false
	}
	return Visit{stage, wire.Growth, c.Head()}, true
}

// Visits returns the visits of a stage so far, in order, without that of [Chain.GrowthVisit]. The last may be the one that is due.
func (c *Chain) Visits(stage int) (visits []Visit) {
	if stage == wire.Survey {
		return []Visit{{stage, 0, c.Root}}
	}
	if stage == 0 && c.Survey != nil && !c.Grows(stage) {
		visits = append(visits, Visit{stage, 0, c.SurveyDigest()})
	}
	for i, w := range c.weights {
		switch {
		case w.Stage == stage-1 && w.Final != nil && !c.Grows(stage):
			visits = append(visits, Visit{stage, 0, c.digest(i)})
		case w.Stage == stage && w.Final == nil:
			visits = append(visits, Visit{stage, w.Visit, c.digest(i)})
		}
	}
	return visits
}

// SendsRows reports whether workers send the rows of a visit in place of their sums. The survey's result must be accepted.
func (c *Chain) SendsRows(v Visit) bool {
	return c.Plan.Update() != nil && c.Survey.SendsRows && v.Stage != wire.Survey && v.Number == 0
}

// WeightsFor returns the weights that a visit is made with, and the W (p × k) that its stage begins at; both are nil for the
// visit that begins a stage without a warm start.
func (c *Chain) WeightsFor(v Visit) (w *schemas.Weights, initial []float32) {
	for _, w := range c.weights {
		if w.Stage == v.Stage && w.Visit == v.Number && w.Kind == schemas.KindWeights {
			return w, nil
		}
	}
	return nil, c.Initial(v.Stage)
}

// Initial returns the W (p × k) that a stage begins at in a warm start; nil: zeros. In an update on sparse rows the version before may lack
// some inputs.
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

// Forget frees the memory of the weights that nobody needs any more who has come to a visit: those of visits before it, except those that
// end a stage, those of links that are learnt, and those that the visit's weights are a change of.
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
			bare := *w // others may still use the weights
			bare.Tensors = nil
			c.weights[i] = &bare
		}
	}
}

// Passes returns how the passes of a stage went, in order, as its accepted weights say.
func (c *Chain) Passes(stage int) (passes []schemas.PassReport) {
	for _, w := range c.weightsOf(stage) {
		if w.Pass != nil {
			passes = append(passes, *w.Pass)
		}
	}
	return passes
}
