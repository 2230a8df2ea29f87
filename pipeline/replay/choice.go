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
// rule, or the preparation and fit of its columns are not configured.
func NeedsChoice(job topics.Job) bool {
	return len(job.Stages) == 0 || job.Untuned || slices.ContainsFunc(job.Stages, endsStages)
}

func endsStages(s schemas.Stage) bool { return s.Stop != nil && s.Stop.Stages }

// candidate is a candidate for the stages of a job.
type candidate struct {
	name    string
	stages  []schemas.Stage
	prepare schemas.Prepare
	least   int // minimum number of stages
}

// Resolve returns the job with the stages that have the lowest holdout loss of the last link: a candidate, up to one of
// its stages. The run of the job is then trained on all rows. If there is nothing to choose, it returns the job unchanged.
// The files of the job must be ingested.
func Resolve(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job,
	ingested *source.Ingested, rec event.Recorder) (topics.Job, error) {
	if job.Untuned {
		return tunedToFiles(ctx, p, by, job, ingested, rec)
	}
	if !NeedsChoice(job) {
		return job, nil
	}
	return resolve(ctx, p, job, sealedRows(ingested), true, rec, func(jobs []topics.Job, with func(int, *Candidate) error) error {
		return SearchIngested(ctx, p, by, jobs, ingested, 0, &notices{rec}, with)
	})
}

// sealedRows returns the number of training rows of files.
func sealedRows(ingested *source.Ingested) (rows int64) {
	for _, s := range ingested.Seals {
		if s.Split == examples.Train.String() {
			rows += s.Rows
		}
	}
	return rows
}

// ResolvePlanned is [Resolve] for a job of a chain, with the rows of the plan of its first run, whose number is given.
func ResolvePlanned(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, plan *schemas.Plan,
	rows int64, rec event.Recorder) (topics.Job, error) {
	if job.Untuned {
		return tunedToPlan(ctx, p, by, job, plan, rows, rec)
	}
	return resolve(ctx, p, job, rows, false, rec, func(jobs []topics.Job, with func(int, *Candidate) error) error {
		return searchPlanned(ctx, p, by, jobs[0], slices.All(jobs), plan, 0, &notices{rec}, with)
	})
}

// searcher trains jobs, like [replay.SearchIngested].
type searcher func(jobs []topics.Job, with func(int, *Candidate) error) error

func resolve(ctx context.Context, p *topics.Pipeline, job topics.Job, rows int64, temper bool, rec event.Recorder,
	train searcher) (topics.Job, error) {
	held := heldOut(job, rows)
	candidates, err := candidatesOf(ctx, p, job, rows)
	if err != nil {
		return job, err
	}
	if len(candidates) == 1 && candidates[0].least == len(candidates[0].stages) {
		c := candidates[0]
		event.Notice(rec, "stages: %s, by what the examples are", c.name)
		job.Stages, job.Prepare = c.stages, c.prepare
		return job, nil
	}
	search := func(candidates []candidate) (found, error) {
		best, err := lowestOf(job, candidates, held, temper, rec, train)
		if err != nil {
			return best, fmt.Errorf("choose stages: %w", err)
		}
		return best, nil
	}
	best, err := search(candidates)
	if err != nil {
		return job, err
	}
	for larger := best.larger(job); larger != nil; larger = best.larger(job) {
		next, err := search([]candidate{*larger})
		if err != nil {
			return job, err
		}
		if !(next.loss < best.loss) {
			break
		}
		best = next
	}
	job.Stages, job.Prepare = slices.Clone(best.stages[:best.end]), best.prepare
	temperature := ""
	if best.temperature != 1 {
		job.Stages[best.end-1].Temperature = best.temperature
		temperature = fmt.Sprintf(", temperature %g", best.temperature)
	}
	event.Notice(rec, "stages: chose %s, %s%s, and now learns from all rows", best.name, english.Plural(best.end, "stage", ""), temperature)
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
func lowestOf(job topics.Job, candidates []candidate, held float64, temper bool, rec event.Recorder,
	train searcher) (found, error) {
	jobs := make([]topics.Job, len(candidates))
	for i, c := range candidates {
		jobs[i] = job
		jobs[i].Stages, jobs[i].Prepare = c.stages, c.prepare
		jobs[i].Examples.Holdout = held
	}
	best := found{loss: math.Inf(1)}
	err := train(jobs, func(i int, c *Candidate) error {
		if c.Report == nil {
			event.Notice(rec, "stages: %s can't be used: %v", candidates[i].name, c.Err)
			return nil
		}
		losses := lossesOf(c.Report, candidates[i].stages, temper)
		at := lowest(losses, candidates[i].least)
		rows := c.Report.Splits[examples.Holdout.String()].Rows
		if at < 0 {
			return errNoHoldout
		}
		least := losses[at].loss
		event.Notice(rec, "stages: tried %s: the loss of %s held-out rows is lowest after %d of %d, %.4f", candidates[i].name,
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
