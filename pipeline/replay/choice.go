package replay

import (
	"context"
	"errors"
	"fmt"
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
	opening int // number of stages that must be worth it alone; 0: none
}

// chooser chooses the stages of a job, or their preparation and fit, by runs over the rows that the job learns from.
type chooser struct {
	trials
	plans   planner
	rows    int64 // number of training rows; 0 if unknown
	chained bool
}

func newChooser(p *topics.Pipeline, by dispatch.Process, job topics.Job, plans planner, rows int64, rec event.Recorder) *chooser {
	return &chooser{trials: trials{pipeline: p, process: by, job: job, word: "search", recorder: &notices{rec}}, plans: plans, rows: rows}
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
	return newChooser(p, by, job, ingestedPlans(ctx, p, by, ingested), rows, rec).resolve(ctx)
}

// ResolvePlanned is [Resolve] for a job of a chain, with the rows of the plan of its first run, whose number is given.
func ResolvePlanned(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, plan *schemas.Plan,
	rows int64, rec event.Recorder) (topics.Job, error) {
	if job.Untuned {
		job.Prepare = plan.Prepare
	}
	c := newChooser(p, by, job, samePlans(plan), rows, rec)
	c.chained = true
	return c.resolve(ctx)
}

func (c *chooser) resolve(ctx context.Context) (job topics.Job, err error) {
	if job = c.job; !NeedsChoice(job, c.chained) {
		return job, nil
	}
	defer func() { err = errors.Join(err, c.close(ctx)) }()
	if job.Untuned || slices.ContainsFunc(job.Stages, autoColumns) {
		if job, err = c.tuned(ctx); err != nil || !slices.ContainsFunc(job.Stages, endsStages) {
			return job, err
		}
		c.job = job
	}
	candidates, err := c.candidatesOf(ctx, job)
	if err != nil {
		return job, err
	}
	if len(candidates) == 1 && candidates[0].least == len(candidates[0].stages) {
		only := candidates[0]
		event.Notice(c.recorder, "stages: %s, by what the examples are", only.name)
		job.Stages, job.Prepare = only.stages, only.prepare
		return job, nil
	}
	best, err := c.lowestOf(ctx, candidates)
	if err != nil {
		return job, fmt.Errorf("choose stages: %w", err)
	}
	if len(job.Stages) == 0 {
		best.enlarge(c.rows)
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

// found is a candidate with its losses of held-out rows, of which loss is the lowest. end is the number of stages to use.
type found struct {
	candidate
	losses      []heldOutLoss
	end         int
	loss        float64
	temperature float64 // after the stages to use
}

// nearlyLowest is the maximum factor by which the holdout loss may exceed the lowest one after more blocks of trees: errors still
// fall when the loss no longer does, and few held-out rows select too few blocks.
const nearlyLowest = 1.02

// lowestOf returns the best of the candidates.
func (c *chooser) lowestOf(ctx context.Context, candidates []candidate) (found, error) {
	best, early := found{loss: math.Inf(1)}, math.Inf(1) // early is the loss that an opening must be below
	for _, tried := range candidates {
		if n := tried.opening; n > 0 {
			opened, err := c.try(ctx, candidate{"the opening of " + tried.name, tried.stages[:n], tried.prepare, n, 0})
			if err != nil {
				return best, err
			}
			if !(opened.loss < early) {
				continue
			}
		}
		next, err := c.try(ctx, tried)
		if err != nil {
			return best, err
		}
		if len(next.losses) > blocksOfOpening {
			early = next.losses[blocksOfOpening-1].loss
		}
		if next.loss < clearly*best.loss {
			best = next
		}
	}
	if best.end == 0 {
		return best, errNoCandidate
	}
	return best, nil
}

// try trains a candidate on the rows that are not held out. The loss is infinite if it can't be used.
func (c *chooser) try(ctx context.Context, tried candidate) (found, error) {
	none, job := found{loss: math.Inf(1)}, c.job
	job.Stages, job.Prepare = tried.stages, tried.prepare
	job.Examples.Holdout = heldOut(c.job, c.rows)
	plan, err := c.plans(job)
	if err != nil {
		return none, err
	}
	run, err := c.train(ctx, plan)
	if err != nil {
		return none, err
	}
	if run.Report == nil {
		event.Notice(c.recorder, "stages: %s can't be used: %v", tried.name, run.Err)
		return none, nil
	}
	losses := lossesOf(run.Report, tried.stages, !c.chained)
	at := lowest(losses, tried.least)
	if at < 0 {
		return none, errNoHoldout
	}
	event.Notice(c.recorder, "stages: tried %s: the loss of %s held-out rows is lowest after %d of %d, %.4f", tried.name,
		humanize.Comma(run.Report.Splits[examples.Holdout.String()].Rows), at+1, len(tried.stages), losses[at].loss)
	last := lastNear(losses, tried.stages, at)
	return found{tried, losses, last + 1, losses[at].loss, losses[last].temperature}, nil
}

// enlarge replaces the stages by more blocks with as many trees of twice as many leaves, if the loss falls clearly in the last
// blocks and so many rows are enough. These stages are not tried: they take three times as long.
func (f *found) enlarge(rows int64) {
	n := len(f.stages)
	grown := stages.Larger(f.stages[n-1].Features)
	if !stages.Grown(grown) || rows < leafRows*int64(grown.Leaves) || n <= lastBlocks ||
		!(f.losses[n-1].loss < clearly*f.losses[n-1-lastBlocks].loss) {
		return
	}
	f.name = "larger " + f.name
	f.stages = append(slices.Clone(f.stages), slices.Repeat(f.stages[n-1:], blocksOfLarger-blocksOfTrees)...)
	for t := range f.stages {
		if s := &f.stages[t]; stages.Grown(s.Features) {
			s.Features = grown
		}
	}
	f.end = len(f.stages)
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
