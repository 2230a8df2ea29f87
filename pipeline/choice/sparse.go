package choice

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
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages/prepare"
)

const (
	// sparseHoldout is the fraction of the rows that are held out to choose how sparse rows are prepared and fitted.
	sparseHoldout = 0.2
	// enoughSparse is how many training rows the choice is made with, about: more cost time and choose the same.
	enoughSparse = 8000
	// middleSparseRidge is the first ridge that is tried. A text has as many words as there are rows, so much more than of dense rows is
	// best: on NEWS20 1 to 3, on a sample of RCV1 0.3 to 1.
	middleSparseRidge = 1.0
	// sparseRidgeFactor is what ridges differ by that are tried.
	sparseRidgeFactor = 3
	// sparsePasses is how many passes a fit has at most. The loss of held-out rows may fall in a few more, the error does not: on NEWS20 it
	// is 11.6 to 11.8 % after 5, 11.8 after 8 and 12.1 to 12.4 after 12.
	sparsePasses = 6
	// nearlySparse is how much more, as a factor, the loss with a larger ridge may be: the difference is within chance, and the larger
	// one has the smaller error (the rule of one standard error: Breiman, Friedman, Olshen and Stone 1984).
	nearlySparse = 1.025
)

// sparsePreparations are the preparations that are tried: that of counts of words, the same without weights of columns, and none, for rows
// that somebody has prepared.
func sparsePreparations() []schemas.Prepare {
	return []schemas.Prepare{
		{Scale: prepare.ScaleUnit, Values: prepare.ValuesLog, IDF: 1.5},
		{Scale: prepare.ScaleNone},
		{Scale: prepare.ScaleUnit, Values: prepare.ValuesLog},
	}
}

// tunedToFiles returns a job whose one stage is the columns of examples, if these are sparse, with the preparation, the passes and the
// ridge that predict held-out rows of its files best: see tuned. The link is the identity if nobody says another, as that of one label has
// the lowest error in few passes. A job that starts from a version has what that was fitted with.
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
		return replay.SearchSome(ctx, p, by, trial, jobs, ingested, partitions, &notices{rec}, with)
	})
	if !chosen {
		return job, err
	}
	return found, err
}

// tunedToPlan is as tunedToFiles, by the rows of the first run of a chain: so many. The link stays, as updates on sparse rows can't have
// the identity.
func tunedToPlan(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, plan *schemas.Plan,
	rows int64, rec event.Recorder) (topics.Job, error) {
	if job.Prepare = plan.Prepare; len(model.CheckOccurring(job.Stages)) > 0 {
		return job, nil // the run says why it is refused
	}
	if sparse, err := areSparse(ctx, p, job); err != nil || !sparse {
		return job, err
	}
	partitions := enough(len(plan.Spans), max(rows, 1))
	found, _, err := tuned(job, rows, rec, func(trial topics.Job, jobs iter.Seq2[int, topics.Job], with seen) error {
		return replay.SearchPlanned(ctx, p, by, trial, jobs, plan, partitions, &notices{rec}, with)
	})
	return found, err
}

// enough returns how many of some spans have enough rows to choose by, if all have so many.
func enough(spans int, rows int64) int {
	return min(spans, int((enoughSparse*int64(spans)+rows-1)/rows))
}

// seen is told of each run of a search.
type seen func(int, *replay.Candidate) error

// tuned returns a job with the preparation, the passes and the ridge of its one stage that predict held-out rows best: first a preparation,
// and with it a ridge. rows is how many there are; 0 if that is not known. chosen is false if they are too few, or nothing could be
// trained: the job is then as it was. try trains jobs that are like the first.
func tuned(job topics.Job, rows int64, rec event.Recorder, try func(topics.Job, iter.Seq2[int, topics.Job], seen) error) (_ topics.Job,
	chosen bool, err error) {
	trial := job
	if trial.Examples.Holdout = cmp.Or(job.Examples.Holdout, sparseHoldout); rows > 0 && float64(rows)*trial.Examples.Holdout < leastHeldOut {
		return job, false, nil
	}
	s := &sparseSearch{recorder: rec, best: math.Inf(1), nearly: 1}
	stage := solve.Defaults()
	stage.Features, stage.Link, stage.Passes = job.Stages[0].Features, job.Stages[0].Link, sparsePasses
	switch err := try(trial, s.trials(trial, stage), func(_ int, c *replay.Candidate) error { return s.see(c) }); {
	case err != nil:
		return job, false, fmt.Errorf("choose a preparation: %w", err)
	case math.IsInf(s.best, 1):
		return job, false, nil // the run says why
	}
	job.Prepare, job.Stages = s.prepare, []schemas.Stage{s.stage}
	job.Stages[0].Stop = nil
	event.Notice(rec, "stages: no key sets how to prepare and fit sparse rows: of %s, held-out rows are predicted best with %s, "+
		"which now learns from all rows", english.Plural(s.tried, "way", ""), described(s.prepare, s.stage, s.stage.Passes))
	return job, true, nil
}

// quadraticLink returns the link of a task whose loss is quadratic, which takes the fewest passes; if there is none the first of the task.
func quadraticLink(task examples.Task) schemas.Link {
	names := model.LinksOf(task)
	i := slices.IndexFunc(names, func(name string) bool { return link.Named(name).Quadratic })
	return schemas.Link(names[max(i, 0)])
}

// areSparse reports whether the examples of a job are sparse rows, by the first message of the topic.
func areSparse(ctx context.Context, p *topics.Pipeline, job topics.Job) (bool, error) {
	first, err := planning.LookAt(ctx, p, job)
	if errors.As(err, new(*protocol.NoExamplesError)) {
		return false, nil // the run says what is wrong with the messages
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
		return job, nil // the plan says what differs
	}
	if chosen := before.Prepare.Values != "" || job.Unlinked && before.Stages[0].Link != job.Stages[0].Link; chosen {
		job.Prepare, job.Stages = before.Prepare, before.Stages
	}
	return job, nil
}

// sparseSearch is what a search has found.
type sparseSearch struct {
	recorder event.Recorder
	prepare  schemas.Prepare
	stage    schemas.Stage
	best     float64 // loss
	nearly   float64 // what the loss of the next may be above it, as a factor
	tried    int
}

// trials yields the jobs to try, each when the one before was seen.
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

// see keeps the run of a search if it predicts held-out rows better than those before.
func (s *sparseSearch) see(c *replay.Candidate) error {
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

// described is a preparation and a fit for people, as the keys that they stand for.
func described(p schemas.Prepare, s schemas.Stage, passes int) string {
	return fmt.Sprintf("prepare: {values: %s, idf: %g, scale: %s}, link: %s, passes: %d, ridge: %v", cmp.Or(p.Values, prepare.ValuesNone),
		p.IDF, p.Scale, s.Link, passes, s.Ridge)
}
