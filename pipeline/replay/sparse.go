package replay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages/prepare"
)

const (
	// sparseHoldout is the holdout fraction for choosing the preparation and fit of sparse rows.
	sparseHoldout = 0.2
	// enoughSparse is the approximate number of training rows for the choice: more rows take longer and choose the same.
	enoughSparse = 8000
	// middleSparseRidge is the first ridge to try. A text has as many words as there are rows, so the best ridge is much
	// larger than for dense rows: on NEWS20 1 to 3, on a sample of RCV1 0.3 to 1.
	middleSparseRidge = 1.0
	// sparseRidgeFactor is the ratio between adjacent ridges.
	sparseRidgeFactor = 3
	// sparsePasses is the maximum number of passes of a fit. The holdout loss may fall in a few more, the error does not: on
	// NEWS20 it is 11.6 to 11.8 % after 5, 11.8 after 8 and 12.1 to 12.4 after 12.
	sparsePasses = 6
	// nearlySparse is the maximum factor by which the loss with a larger ridge may be higher: the difference is not
	// significant, and the larger ridge has the smaller error (the rule of one standard error: Breiman, Friedman, Olshen and
	// Stone 1984).
	nearlySparse = 1.025
)

// sparsePreparations are the preparations to try: that of word counts, the same without column weights, and none, for rows
// that are already prepared.
func sparsePreparations() []schemas.Prepare {
	return []schemas.Prepare{
		{Scale: prepare.ScaleUnit, Values: prepare.ValuesLog, IDF: 1.5},
		{Scale: prepare.ScaleNone},
		{Scale: prepare.ScaleUnit, Values: prepare.ValuesLog},
	}
}

// tunedToFiles returns a job whose only stage has the kind columns, if its examples are sparse, with the preparation, the
// passes and the ridge that have the lowest holdout loss on its files: see tuned. The default link is the identity,
// because for single labels it has the lowest error after few passes. A job that starts from a version keeps the settings
// of that version.
func tunedToFiles(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, ingested *source.Ingested,
	rec event.Recorder) (topics.Job, error) {
	if job.Warm != "" {
		return asBefore(ctx, p, job)
	}
	sparse := ingested.Sparse
	if len(ingested.Seals) == 0 {
		var err error
		if sparse, err = areSparse(ctx, p, job); err != nil {
			return job, err
		}
	}
	if !sparse {
		return job, nil
	}
	spans, err := p.Log.Spans(ctx, p.Topics.Examples)
	if err != nil {
		return job, err
	}
	rows, partitions := sealedRows(ingested), (len(spans)+1)/2
	if rows > 0 {
		partitions = enough(len(spans), rows)
	}
	identity := job
	if job.Unlinked && job.Examples.Task() == examples.OneLabel {
		identity.Stages = slices.Clone(job.Stages)
		identity.Stages[0].Link = quadraticLink(job.Examples.Task())
	}
	found, chosen, err := tuned(identity, rows, rec, func(trial topics.Job, jobs iter.Seq2[int, topics.Job], with seen) error {
		return searchSome(ctx, p, by, trial, jobs, ingested, partitions, &notices{rec}, with)
	})
	if !chosen {
		return job, err
	}
	return found, err
}

// tunedToPlan is tunedToFiles for the rows of a chain's first run, whose number is given. It keeps the link, because
// updates on sparse rows can't have the identity.
func tunedToPlan(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, plan *schemas.Plan,
	rows int64, rec event.Recorder) (topics.Job, error) {
	if job.Prepare = plan.Prepare; len(model.CheckOccurring(job.Stages)) > 0 {
		return job, nil // the run reports the error
	}
	if sparse, err := areSparse(ctx, p, job); err != nil || !sparse {
		return job, err
	}
	partitions := enough(len(plan.Spans), max(rows, 1))
	found, _, err := tuned(job, rows, rec, func(trial topics.Job, jobs iter.Seq2[int, topics.Job], with seen) error {
		return searchPlanned(ctx, p, by, trial, jobs, plan, partitions, &notices{rec}, with)
	})
	return found, err
}

// enough returns the number of spans with enough rows for the choice, assuming that all spans have equally many.
func enough(spans int, rows int64) int {
	return min(spans, int((enoughSparse*int64(spans)+rows-1)/rows))
}

// seen receives each run of a search.
type seen func(int, *Candidate) error

// tuned returns a job with the preparation, the passes and the ridge of its only stage that have the lowest holdout loss:
// first a preparation, and with it a ridge. rows is the number of rows; 0 if unknown. chosen is false if there are too
// few, or nothing could be trained: the job is then unchanged. try trains jobs similar to the first.
func tuned(job topics.Job, rows int64, rec event.Recorder, try func(topics.Job, iter.Seq2[int, topics.Job], seen) error) (_ topics.Job,
	chosen bool, err error) {
	trial := job
	if trial.Examples.Holdout = cmp.Or(job.Examples.Holdout, sparseHoldout); rows > 0 && float64(rows)*trial.Examples.Holdout < leastHeldOut {
		return job, false, nil
	}
	s := &sparseSearch{recorder: rec, best: math.Inf(1), nearly: 1}
	stage := solve.Defaults()
	stage.Features, stage.Link, stage.Passes = job.Stages[0].Features, job.Stages[0].Link, sparsePasses
	switch err := try(trial, s.trials(trial, stage), func(_ int, c *Candidate) error { return s.see(c) }); {
	case err != nil:
		return job, false, fmt.Errorf("choose a preparation: %w", err)
	case math.IsInf(s.best, 1):
		return job, false, nil // the run reports the error
	}
	job.Prepare, job.Stages = s.prepare, []schemas.Stage{s.stage}
	job.Stages[0].Stop = nil
	event.Notice(rec, "stages: no key sets how to prepare and fit sparse rows: of %s, held-out rows are predicted best with %s, "+
		"which now learns from all rows", english.Plural(s.tried, "way", ""), described(s.prepare, s.stage, s.stage.Passes))
	return job, true, nil
}

// quadraticLink returns the link of a task with a quadratic loss, which takes the fewest passes; if there is none the
// first of the task.
func quadraticLink(task examples.Task) schemas.Link {
	names := model.LinksOf(task)
	i := slices.IndexFunc(names, func(name string) bool { return link.Named(name).Quadratic })
	return schemas.Link(names[max(i, 0)])
}

// areSparse reports whether the examples of a job are sparse rows, by the first message of the topic.
func areSparse(ctx context.Context, p *topics.Pipeline, job topics.Job) (bool, error) {
	first, err := planning.LookAt(ctx, p, job)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return false, nil // the run reports errors in the messages
	}
	return first.Sparse, err
}

// asBefore returns a job with the preparation and the stage of the version that it starts from, if they were chosen.
func asBefore(ctx context.Context, p *topics.Pipeline, job topics.Job) (topics.Job, error) {
	m, err := p.Model(ctx, job.Warm)
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

// sparseSearch is the state of a search.
type sparseSearch struct {
	recorder event.Recorder
	prepare  schemas.Prepare
	stage    schemas.Stage
	best     float64 // lowest loss
	nearly   float64 // maximum factor of the next loss above it
	tried    int
}

// trials yields the jobs to try, each after the previous one was seen.
func (s *sparseSearch) trials(job topics.Job, stage schemas.Stage) iter.Seq2[int, topics.Job] {
	stage.Stop = &schemas.Stop{Split: examples.Holdout.String(), Patience: 1}
	return func(yield func(int, topics.Job) bool) {
		number := -1
		quadratic := link.Named(stage.Link).Quadratic
		if quadratic {
			stage.Ridge = middleSparseRidge
		}
		try := func(how schemas.Prepare, ridge schemas.Ridge) bool {
			stage.Ridge = ridge
			job.Prepare, job.Stages = how, []schemas.Stage{stage}
			number++
			return yield(number, job)
		}
		for _, how := range sparsePreparations() {
			if !try(how, stage.Ridge) {
				return
			}
		}
		if !quadratic || math.IsInf(s.best, 1) {
			return // the solver chooses the ridge
		}
		s.nearly = nearlySparse
		if !try(s.prepare, middleSparseRidge*sparseRidgeFactor) || s.stage.Ridge > middleSparseRidge {
			return
		}
		s.nearly = 1
		try(s.prepare, middleSparseRidge/sparseRidgeFactor)
	}
}

// see keeps the run of a search if its holdout loss is lower than that of earlier ones.
func (s *sparseSearch) see(c *Candidate) error {
	if c.Report == nil {
		return nil
	}
	s.tried++
	report := c.Report.Stages[0]
	if report.HoldoutLoss == nil {
		return errNoHoldout
	}
	event.Notice(s.recorder, "stages: tried %s: the loss of held-out rows is %.4f", described(c.Plan.Prepare, c.Plan.Stages[0], report.Passes),
		*report.HoldoutLoss)
	if *report.HoldoutLoss < s.best*s.nearly {
		s.best, s.prepare, s.stage = *report.HoldoutLoss, c.Plan.Prepare, c.Plan.Stages[0]
		s.stage.Passes = max(1, report.Passes)
	}
	return nil
}

// described formats a preparation and a fit as configuration keys.
func described(p schemas.Prepare, s schemas.Stage, passes int) string {
	return fmt.Sprintf("prepare: {values: %s, idf: %g, scale: %s}, link: %s, passes: %d, ridge: %v", cmp.Or(p.Values, prepare.ValuesNone),
		p.IDF, p.Scale, s.Link, passes, s.Ridge)
}
