package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

const (
	// sparseHoldout is the holdout fraction for choosing the preparation and fit of sparse rows.
	sparseHoldout = 0.2
	// enoughSparse is the approximate number of training rows for the choice: more rows take longer and choose the same.
	enoughSparse = 8000
	// quadraticRidge and otherRidge are the ridges that preparations are compared with.
	quadraticRidge, otherRidge = 1, 0.3
	// quadraticPasses is the maximum number of passes of a chosen quadratic fit. The holdout loss may fall in a few more, the
	// error does not: on NEWS20 it is 11.6 to 11.8 % after 5, 11.8 after 8 and 12.1 to 12.4 after 12.
	quadraticPasses = 6
	// nearlyQuadratic is the maximum factor by which a quadratic loss with a larger ridge may be higher: the difference is not
	// significant, and the larger ridge has the smaller error (the rule of one standard error: Breiman, Friedman, Olshen and
	// Stone 1984).
	nearlyQuadratic = 1.025
	// leastGain is the fraction by which the loss must fall for the path of ridges to go on.
	leastGain = 0.01
)

// sparseRidges is the path of ridges. A text has as many words as there are rows, so the best ridge is much larger than for
// dense rows: on NEWS20 1 to 3 with a quadratic loss.
func sparseRidges() []schemas.Ridge { return []schemas.Ridge{3, 1, 0.3, 0.1, 0.03, 0.01, 0.003, 0.001} }

// sparsePreparations are the preparations to try: that of word counts, the same without column weights, and none, for rows
// that are already prepared.
func sparsePreparations() []schemas.Prepare {
	return []schemas.Prepare{
		{Scale: prepare.ScaleUnit, Values: prepare.ValuesLog, IDF: 1.5},
		{Scale: prepare.ScaleNone},
		{Scale: prepare.ScaleUnit, Values: prepare.ValuesLog},
	}
}

// autoColumns reports whether a stage may need a ridge that is chosen by held-out rows: its features suit sparse rows, and its
// ridge is auto.
func autoColumns(s schemas.Stage) bool {
	return s.Ridge == schemas.RidgeAuto && slices.Contains(stages.Suiting(stages.SparseRows), s.Features.Kind)
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
	if sparse, err := c.areSparse(ctx); err != nil || !sparse {
		return job, err
	}
	held := cmp.Or(job.Examples.Holdout, sparseHoldout)
	if c.rows > 0 && float64(c.rows)*held < leastHeldOut {
		return job, nil
	}
	trial := job
	trial.Examples.Holdout, trial.Stages = held, slices.Clone(job.Stages)
	ridge := schemas.Ridge(otherRidge)
	if stage := &trial.Stages[0]; job.Untuned {
		if !c.chained && job.Unlinked && job.Examples.Task() == examples.OneLabel {
			stage.Link = quadraticLink(job.Examples.Task())
		}
		if link.Named(stage.Link).Quadratic {
			stage.Passes, ridge = quadraticPasses, quadraticRidge
		}
	}
	if c.chained {
		ridge = schemas.RidgeAuto
	}
	r := &ridgePath{recorder: c.recorder, job: trial, prepare: job.Prepare}
	if job.Untuned {
		if err := c.try(ctx, r.plans(c), r.compare(sparsePreparations(), ridge), r.see); err != nil {
			return job, fmt.Errorf("choose a preparation: %w", err)
		}
	}
	if !c.chained && (!job.Untuned || len(r.fits) > 0) {
		if err := c.try(ctx, r.plans(c), r.path(), r.see); err != nil {
			return job, fmt.Errorf("choose a ridge: %w", err)
		}
	}
	if len(r.fits) == 0 {
		return job, nil // the run reports the error
	}
	best := r.chosen()
	job.Prepare, job.Stages = r.prepare, r.with(best.ridge).Stages
	if !job.Untuned {
		event.Notice(c.recorder, "stages: of %s, held-out rows are predicted best with ridge %v, which now learns from all rows",
			english.Plural(r.tried, "ridge", ""), best.ridge)
		return job, nil
	}
	if link.Named(job.Stages[0].Link).Quadratic {
		job.Stages[0].Passes = best.passes
	}
	event.Notice(c.recorder, "stages: no key sets how to prepare and fit sparse rows: of %s, held-out rows are predicted best with %s, "+
		"which now learns from all rows", english.Plural(r.tried, "way", ""), described(job.Prepare, job.Stages[0], job.Stages[0].Passes))
	return job, nil
}

// quadraticLink returns the link of a task with a quadratic loss, which takes the fewest passes; if there is none the
// first of the task.
func quadraticLink(task examples.Task) schemas.Link {
	names := model.LinksOf(task)
	i := slices.IndexFunc(names, func(name string) bool { return link.Named(name).Quadratic })
	return schemas.Link(names[max(i, 0)])
}

// areSparse reports whether the examples of the job are sparse rows, by the first message of the topic.
func (c *chooser) areSparse(ctx context.Context) (bool, error) {
	first, err := planning.LookAt(ctx, c.pipeline, c.job)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return false, nil // the run reports errors in the messages
	}
	return first.Sparse, err
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

// ridgePath is the state of a choice of a preparation and a ridge.
type ridgePath struct {
	recorder event.Recorder
	job      topics.Job // of the fits
	prepare  schemas.Prepare
	fits     []ridgeFit    // with the chosen preparation, in the order of the path
	from     *schemas.Warm // the fit that the next one starts from; nil: none
	tried    int
}

// ridgeFit is a fit with a ridge.
type ridgeFit struct {
	ridge  schemas.Ridge
	passes int
	loss   float64 // of held-out rows
}

// chosen returns the fit with the lowest loss, or, if the loss is quadratic, that with the largest ridge whose loss is nearly the
// lowest.
func (r *ridgePath) chosen() ridgeFit {
	best := slices.MinFunc(r.fits, func(a, b ridgeFit) int { return cmp.Compare(a.loss, b.loss) })
	if link.Named(r.job.Stages[len(r.job.Stages)-1].Link).Quadratic {
		return r.fits[slices.IndexFunc(r.fits, func(f ridgeFit) bool { return f.loss <= nearlyQuadratic*best.loss })]
	}
	return best
}

// with returns the job of a fit with a ridge.
func (r *ridgePath) with(ridge schemas.Ridge) topics.Job {
	job := r.job
	job.Stages = slices.Clone(job.Stages)
	for i := range job.Stages {
		if s := &job.Stages[i]; autoColumns(*s) {
			s.Ridge = ridge
		}
	}
	return job
}

// compare yields a job for each preparation, with a ridge, and then keeps the best preparation.
func (r *ridgePath) compare(preparations []schemas.Prepare, ridge schemas.Ridge) iter.Seq2[int, topics.Job] {
	return func(yield func(int, topics.Job) bool) {
		var best []ridgeFit
		for i, how := range preparations {
			job := r.with(ridge)
			if job.Prepare, r.fits, r.from = how, nil, nil; !yield(i, job) {
				return
			}
			if len(r.fits) > 0 && (best == nil || r.fits[0].loss < best[0].loss) {
				best, r.prepare = r.fits, how
			}
		}
		r.fits, r.from = best, nil
	}
}

// path yields a job for each ridge, until the loss no longer falls.
func (r *ridgePath) path() iter.Seq2[int, topics.Job] {
	return func(yield func(int, topics.Job) bool) {
		r.fits = nil
		for i, ridge := range sparseRidges() {
			job := r.with(ridge)
			job.Prepare = r.prepare
			if n := len(r.fits); n > 1 && r.fits[n-1].loss > (1-leastGain)*r.fits[n-2].loss || n < i || !yield(i, job) {
				return
			}
		}
	}
}

// plans returns the planner of the fits: over as many rows as are enough, each from the weights of the previous one, unless the
// loss is quadratic, since few passes from 0 are a part of that fit. A fit ends where its holdout loss no longer falls.
func (r *ridgePath) plans(c *chooser) planner {
	return func(number int, job topics.Job) (*schemas.Plan, error) {
		for i := range job.Stages {
			if s := &job.Stages[i]; s.Stop == nil {
				s.Stop = &schemas.Stop{Split: examples.Holdout.String(), Patience: 1}
			}
		}
		all, err := c.plans(number, job)
		if err != nil {
			return nil, err
		}
		plan, spans := *all, len(all.Spans) // the planner may still need its plan
		most := (spans + 1) / 2
		if c.rows > 0 {
			most = min(spans, int((enoughSparse*int64(spans)+c.rows-1)/c.rows))
		}
		plan.Spans, plan.Warm = slices.Clone(plan.Spans[:most]), r.from // all spans have about as many rows
		return &plan, nil
	}
}

// see keeps what a fit has reached.
func (r *ridgePath) see(_ int, c *Candidate) error {
	if c.Report == nil {
		return nil
	}
	r.tried++
	last, stage := c.Report.Stages[len(c.Report.Stages)-1], c.Plan.Stages[slices.IndexFunc(r.job.Stages, autoColumns)]
	if last.HoldoutLoss == nil {
		return errNoHoldout
	}
	event.Notice(r.recorder, "stages: tried %s: the loss of held-out rows is %.4f", described(c.Plan.Prepare, stage, last.Passes),
		*last.HoldoutLoss)
	r.fits = append(r.fits, ridgeFit{stage.Ridge, max(1, last.Passes), *last.HoldoutLoss})
	if !link.Named(stage.Link).Quadratic {
		r.from = c.version
	}
	return nil
}

// described formats a preparation and a fit as configuration keys.
func described(p schemas.Prepare, s schemas.Stage, passes int) string {
	return fmt.Sprintf("prepare: {values: %s, idf: %g, scale: %s}, link: %s, passes: %d, ridge: %v", cmp.Or(p.Values, prepare.ValuesNone),
		p.IDF, p.Scale, s.Link, passes, s.Ridge)
}
