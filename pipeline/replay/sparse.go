package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
)

const (
	// sparseHoldout is the holdout fraction for choosing the preparation and fit of sparse rows.
	sparseHoldout = 0.2
	// enoughSparse is the approximate number of training rows for the choice: more rows take longer and choose the same.
	enoughSparse = 8000
	// quadraticRidge and otherRidge are the ridges that preparations are compared with.
	quadraticRidge, otherRidge = 1, 0.3
	// quadraticPasses is the maximum number of passes of a chosen quadratic fit. The holdout loss may fall in a few more, the
	// error does not.
	quadraticPasses = 6
	// nearlyQuadratic is the maximum factor by which a quadratic loss with a larger ridge may be higher: the difference is not
	// significant, and the larger ridge has the smaller error (the rule of one standard error: Breiman, Friedman, Olshen and
	// Stone 1984).
	nearlyQuadratic = 1.025
	// leastGain is the fraction by which the loss must fall for the path of ridges to continue.
	leastGain = 0.01
)

// sparseRidges is the path of ridges. Texts have as many words as rows, so the best ridge is much larger than for dense rows.
func sparseRidges() []schemas.Ridge { return []schemas.Ridge{3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001} }

// sparsePreparations are the preparations to try: that of word counts, the same without column weights, and none, for rows
// that are already prepared.
func sparsePreparations() []schemas.Prepare {
	return []schemas.Prepare{
		{Scale: stages.ScaleUnit, Values: stages.ValuesLog, IDF: 1.5},
		{Scale: stages.ScaleNone},
		{Scale: stages.ScaleUnit, Values: stages.ValuesLog},
	}
}

// autoColumns reports whether a stage may need a ridge that is chosen by held-out rows: its features suit sparse rows, and its
// ridge is auto.
func autoColumns(s schemas.Stage) bool {
	return s.Ridge == schemas.RidgeAuto && slices.Contains(stages.KindOf(s.Features).Suits, stages.SparseRows)
}

// tuned returns the job with the preparation and the ridge with the lowest holdout loss, if its examples are sparse: first one
// of several preparations, if nothing configures how rows are prepared and fitted, and then a ridge, on a path from the
// largest to smaller ones, each fit starting from the weights of the previous one. With nothing configured, the default link
// is the identity, because for single labels it has the lowest error after few passes. A chain keeps its link, because
// updates on sparse rows can't have the identity, and its ridge, because they keep the past as a quadratic. A job that starts
// from a version keeps the settings of that version.
func (c *chooser) tuned(ctx context.Context) (topics.Job, error) {
	job := c.job
	if job.Warm != "" && job.Untuned {
		return c.asBefore(ctx)
	}
	if job.Warm != "" || c.chained && (!job.Untuned || len(model.CheckOccurring(job.Stages)) > 0) {
		return job, nil // the run reports the error
	}
	first, err := c.look(ctx, job)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return job, nil // the run reports errors in the messages
	}
	held := float64(c.rows) * cmp.Or(job.Examples.Holdout, sparseHoldout)
	if err != nil || !first.Sparse || c.rows > 0 && held < leastHeldOut {
		return job, err
	}
	trial := candidate{name: "the fit", stages: slices.Clone(job.Stages), prepare: job.Prepare, least: len(job.Stages), fit: true}
	stage, ridge := &trial.stages[0], schemas.Ridge(otherRidge)
	if task := job.Examples.Task(); job.Untuned && !c.chained && job.Unlinked && task == examples.OneLabel {
		names := model.LinksOf(task)
		stage.Link = schemas.Link(names[slices.IndexFunc(names, func(name string) bool { return link.Named(name).Quadratic })])
	}
	if job.Untuned && link.Named(stage.Link).Quadratic {
		stage.Passes, ridge = quadraticPasses, quadraticRidge
	}
	var fits []found
	if job.Untuned {
		if c.chained {
			ridge = schemas.RidgeAuto
		}
		for _, trial.prepare = range sparsePreparations() {
			fit, err := c.try(ctx, trial.withRidge(ridge))
			if err != nil {
				return job, fmt.Errorf("choose a preparation: %w", err)
			}
			if fit.end > 0 {
				fits = append(fits, fit)
			}
		}
		if len(fits) > 0 {
			trial.prepare = slices.MinFunc(fits, byLoss).prepare
		}
	}
	if !c.chained && (!job.Untuned || len(fits) > 0) {
		if fits, err = c.path(ctx, trial); err != nil {
			return job, fmt.Errorf("choose a ridge: %w", err)
		}
	}
	if len(fits) == 0 {
		return job, nil // the run reports the error
	}
	best := bestOf(fits)
	job.Prepare, job.Stages = best.prepare, best.stages
	keys := fmt.Sprintf("ridge %v", c.fittedStage(best.stages).Ridge)
	if s := &best.stages[0]; job.Untuned {
		if link.Named(s.Link).Quadratic {
			s.Passes = max(1, best.passes)
		}
		keys = described(best.prepare, *s)
	}
	event.Notice(c.recorder, "stages: held-out rows are predicted best with %s, which now learns from all rows", keys)
	return job, nil
}

// look reads the first message that counts in a run of the job.
func (c *chooser) look(ctx context.Context, job topics.Job) (l dispatch.Look, err error) {
	plan, err := c.plans(job)
	if err != nil {
		return l, err
	}
	return dispatch.LookAt(ctx, c.pipeline, job, plan)
}

// asBefore returns the job with the preparation and the stage of the version that it starts from, if they were chosen.
func (c *chooser) asBefore(ctx context.Context) (topics.Job, error) {
	job := c.job
	m, err := c.pipeline.Model(ctx, job.Warm)
	if err != nil {
		return job, fmt.Errorf("warm start: %w", err)
	}
	before := m.Manifest.Plan
	if !m.Sparse() || len(before.Stages) != 1 || before.Stages[0].Features != job.Stages[0].Features {
		return job, nil // the plan reports the differences
	}
	if chosen := before.Prepare.Values != "" || job.Unlinked && before.Stages[0].Link != job.Stages[0].Link; chosen {
		job.Prepare, job.Stages = before.Prepare, before.Stages
	}
	return job, nil
}

func byLoss(a, b found) int { return cmp.Compare(a.loss, b.loss) }

// fittedStage returns the first stage of a fit whose ridge is chosen.
func (c *chooser) fittedStage(fit []schemas.Stage) schemas.Stage {
	return fit[slices.IndexFunc(c.job.Stages, autoColumns)]
}

// bestOf returns the fit with the lowest loss, or, if the loss is quadratic, the first one, with the largest ridge, whose loss is
// nearly the lowest.
func bestOf(fits []found) found {
	best := slices.MinFunc(fits, byLoss)
	if s := best.stages; link.Named(s[len(s)-1].Link).Quadratic {
		return fits[slices.IndexFunc(fits, func(f found) bool { return f.loss <= nearlyQuadratic*best.loss })]
	}
	return best
}

// withRidge returns the candidate whose auto ridges are set.
func (c candidate) withRidge(ridge schemas.Ridge) candidate {
	c.stages = slices.Clone(c.stages)
	for i := range c.stages {
		if s := &c.stages[i]; autoColumns(*s) {
			s.Ridge = ridge
		}
	}
	return c
}

// path fits a candidate with each ridge, until the loss no longer falls. Each fit starts from the weights of the previous one, unless the
// loss is quadratic, since few passes from 0 are a part of that fit.
func (c *chooser) path(ctx context.Context, trial candidate) (fits []found, err error) {
	for _, ridge := range sparseRidges() {
		fit, err := c.try(ctx, trial.withRidge(ridge))
		if err != nil || fit.end == 0 {
			return fits, err
		}
		fits = append(fits, fit)
		if n := len(fits); n > 1 && fit.loss > (1-leastGain)*fits[n-2].loss {
			break
		}
		if !link.Named(c.fittedStage(trial.stages).Link).Quadratic {
			trial.from = fit.version
		}
	}
	return fits, nil
}

// enough returns the first spans with about enoughSparse rows, assuming equal spans; half of the spans if the number of rows is unknown.
func (c *chooser) enough(spans coverage.Spans) coverage.Spans {
	most := (len(spans) + 1) / 2
	if n := int64(len(spans)); c.rows > 0 {
		most = min(len(spans), int((enoughSparse*n+c.rows-1)/c.rows))
	}
	return slices.Clone(spans[:most])
}

// described formats a preparation and a fit as configuration keys.
func described(p schemas.Prepare, s schemas.Stage) string {
	return fmt.Sprintf("prepare: {values: %s, idf: %g, scale: %s}, link: %s, passes: %d, ridge: %v", cmp.Or(p.Values, stages.ValuesNone),
		p.IDF, p.Scale, s.Link, s.Passes, s.Ridge)
}
