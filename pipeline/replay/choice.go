package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"

	"github.com/dustin/go-humanize"
	"github.com/dustin/go-humanize/english"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
)

// NeedsChoice reports whether the stages of a job, or their preparation and fit, must be chosen: it has no stages, or a stop
// rule, or a part of the fit of the columns of sparse rows is not configured. chained says that the job is that of a chain.
func NeedsChoice(job topics.Job, chained bool) bool {
	return len(job.Stages) == 0 || job.Untuned || slices.ContainsFunc(job.Stages, endsStages) ||
		!chained && slices.ContainsFunc(job.Stages, autoColumns)
}

func endsStages(s schemas.Stage) bool { return s.Stop != nil && s.Stop.Stages }

// candidate is a candidate for the stages of a job.
type candidate struct {
	name    string
	stages  []schemas.Stage
	prepare schemas.Prepare
	least   int // minimum number of stages
}

// chooser chooses the stages of a job, or their preparation and fit, by runs over the rows that the job learns from.
type chooser struct {
	pipeline *topics.Pipeline
	process  dispatch.Process
	job      topics.Job
	plans    planner
	rows     int64 // number of training rows; 0 if unknown
	chained  bool
	recorder event.Recorder
}

// Resolve returns the job with the stages that have the lowest holdout loss of the last link: a candidate, up to one of
// its stages. The run of the job is then trained on all rows. If there is nothing to choose, it returns the job unchanged.
// The files of the job must be ingested.
func Resolve(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job,
	ingested *source.Ingested, rec event.Recorder) (topics.Job, error) {
	rows := int64(0)
	for _, s := range ingested.Seals {
		if s.Split == examples.Train.String() {
			rows += s.Rows
		}
	}
	c := &chooser{pipeline: p, process: by, job: job, plans: ingestedPlans(ctx, p, by, ingested, 0), rows: rows, recorder: rec}
	return c.resolve(ctx)
}

// ResolvePlanned is [Resolve] for a job of a chain, with the rows of the plan of its first run, whose number is given.
func ResolvePlanned(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, plan *schemas.Plan,
	rows int64, rec event.Recorder) (topics.Job, error) {
	if job.Untuned {
		job.Prepare = plan.Prepare
	}
	c := &chooser{pipeline: p, process: by, job: job, plans: samePlans(plan), rows: rows, chained: true, recorder: rec}
	return c.resolve(ctx)
}

// try trains jobs that are similar to that of the chooser, each requested after with has received the run of the previous one.
func (c *chooser) try(ctx context.Context, plans planner, jobs iter.Seq2[int, topics.Job], with func(int, *Candidate) error) error {
	return search(ctx, c.pipeline, c.process, c.job, jobs, 1, &notices{c.recorder}, plans, with)
}

func (c *chooser) resolve(ctx context.Context) (topics.Job, error) {
	job := c.job
	if !NeedsChoice(job, c.chained) {
		return job, nil
	}
	if job.Untuned || slices.ContainsFunc(job.Stages, autoColumns) {
		tuned, err := c.tuned(ctx)
		if err != nil || !slices.ContainsFunc(job.Stages, endsStages) {
			return tuned, err
		}
		c.job, job = tuned, tuned
	}
	held := heldOut(job, c.rows)
	candidates, err := candidatesOf(ctx, c.pipeline, job, c.rows)
	if err != nil {
		return job, err
	}
	if len(candidates) == 1 && candidates[0].least == len(candidates[0].stages) {
		only := candidates[0]
		event.Notice(c.recorder, "stages: %s, by what the examples are", only.name)
		job.Stages, job.Prepare = only.stages, only.prepare
		return job, nil
	}
	best, err := c.lowestOf(ctx, candidates, held)
	for err == nil {
		larger := best.larger(job)
		if larger == nil {
			break
		}
		var next found
		if next, err = c.lowestOf(ctx, []candidate{*larger}, held); err != nil || !(next.loss < best.loss) {
			break
		}
		best = next
	}
	if err != nil {
		return job, fmt.Errorf("choose stages: %w", err)
	}
	job.Stages, job.Prepare = slices.Clone(best.stages[:best.end]), best.prepare
	temperature := ""
	if best.temperature != 1 {
		job.Stages[best.end-1].Temperature = best.temperature
		temperature = fmt.Sprintf(", temperature %g", best.temperature)
	}
	event.Notice(c.recorder, "stages: chose %s, %s%s, and now learns from all rows", best.name, english.Plural(best.end, "stage", ""),
		temperature)
	return job, nil
}

// found is the candidate with the lowest holdout loss, and the number of stages after which it occurs. end is the number
// of stages to use.
type found struct {
	candidate
	lowest, end int
	loss        float64
	temperature float64 // after the stages to use
}

// nearlyLowest is the maximum factor by which the holdout loss may exceed the lowest one after more blocks of trees.
// Errors still fall when the loss no longer does, and few held-out rows select too few blocks. Without temperatures, on the
// test rows of seven tables, the error of satimage is 7.77 % rather than 8.27, that of phoneme 9.25 rather than 9.70, that of
// marketing 65.3 rather than 64.1, and the others do not change. With temperatures, on one split of 13 tables, the mean error
// and log loss are the same as at the lowest loss; the error of spambase is 3.66 % rather than 3.92.
const nearlyLowest = 1.02

// lowestOf returns the best candidate, with the given holdout fraction.
func (c *chooser) lowestOf(ctx context.Context, candidates []candidate, held float64) (found, error) {
	jobs := make([]topics.Job, len(candidates))
	for i, tried := range candidates {
		jobs[i] = c.job
		jobs[i].Stages, jobs[i].Prepare = tried.stages, tried.prepare
		jobs[i].Examples.Holdout = held
	}
	best := found{loss: math.Inf(1)}
	err := c.try(ctx, c.plans, slices.All(jobs), func(i int, run *Candidate) error {
		if run.Report == nil {
			event.Notice(c.recorder, "stages: %s can't be used: %v", candidates[i].name, run.Err)
			return nil
		}
		losses := lossesOf(run.Report, candidates[i].stages, !c.chained)
		at := lowest(losses, candidates[i].least)
		rows := run.Report.Splits[examples.Holdout.String()].Rows
		if at < 0 {
			return errNoHoldout
		}
		least := losses[at].loss
		event.Notice(c.recorder, "stages: tried %s: the loss of %s held-out rows is lowest after %d of %d, %.4f", candidates[i].name,
			humanize.Comma(rows), at+1, len(candidates[i].stages), least)
		if least < best.loss {
			last := lastNear(losses, candidates[i].stages, at)
			best = found{candidates[i], at + 1, last + 1, least, losses[last].temperature}
		}
		return nil
	})
	if err == nil && best.end == 0 {
		err = errNoCandidate
	}
	return best, err
}

// larger returns a candidate with trees of twice as many leaves, and as many trees; nil if it is not worth trying. It is
// if the stages are not configured, and the loss has fallen until the last tenth of the blocks. On six tables these are
// the three where larger trees are better, by 2 to 30 % of the log loss; on the others they are worse after all numbers of
// blocks.
func (f *found) larger(job topics.Job) *candidate {
	if last := f.stages[len(f.stages)-1]; len(job.Stages) > 0 || !stages.Grown(last.Features) || 10*f.lowest <= 9*len(f.stages) {
		return nil
	}
	larger := f.candidate
	larger.stages, larger.name = slices.Clone(f.stages), "larger "+f.name
	for t, s := range larger.stages {
		if !stages.Grown(s.Features) {
			continue
		}
		if larger.stages[t].Features = stages.Larger(s.Features); larger.stages[t].Features == s.Features {
			return nil
		}
	}
	return &larger
}

// errNoCandidate means that no candidate has a version.
var errNoCandidate = errors.New("no candidate could be trained: list stages")

// errNoHoldout means that no rows were held out for the choice.
var errNoHoldout = errors.New("no labelled row was held out: list stages, or set examples.holdout")

// notices forwards only the notices of a search, since its runs are not those of the user.
type notices struct{ to event.Recorder }

func (n *notices) Record(e event.Event) {
	if notice, ok := e.(event.Noticed); ok {
		n.to.Record(notice)
	}
}
