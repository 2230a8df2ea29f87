package replay

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/planning"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// Candidate is a run of a search.
type Candidate struct {
	Plan   *schemas.Plan
	Report *schemas.Report // nil: the run has failed
	Err    error           // cause of the failure; a *[dispatch.RunError]

	version *schemas.Warm // of the run; nil: the run has failed
}

// SearchIngested trains all jobs, one after the other, and calls with for each when it has ended. The weights are
// bit-identical to those of separate runs of the jobs. The jobs may only differ in stages, average, preparation, class
// weight, seed or intercept: their files were ingested, and all runs are over the current spans of the examples topic.
// Shared data of runs stays in memory. They use topics of their own, which are deleted at the end. An error of with ends
// the search. With folds, at least two, each job is trained that often, and each run holds out one fold instead of the
// job's holdout; runs with the same fold are consecutive, because they share more data.
func SearchIngested(ctx context.Context, p *topics.Pipeline, by dispatch.Process, jobs []topics.Job,
	files *source.Ingested, folds int, rec event.Recorder, with func(int, *Candidate) error) error {
	return search(ctx, p, by, jobs[0], slices.All(jobs), max(folds, 1), rec, ingestedPlans(ctx, p, by, files, folds), with)
}

// planner returns the plan of a job's run, given the number of the training.
type planner func(number int, job topics.Job) (*schemas.Plan, error)

// ingestedPlans returns the planner of a search over ingested files.
func ingestedPlans(ctx context.Context, p *topics.Pipeline, by dispatch.Process, files *source.Ingested, folds int) planner {
	var first *schemas.Plan
	return func(number int, job topics.Job) (*schemas.Plan, error) {
		plan, err := searchPlan(ctx, p, job, by, files)
		if err != nil {
			return nil, err
		}
		if folds > 0 {
			plan.Fold = examples.Fold{Number: number, Of: folds}
			plan.Holdout = 1 / float64(folds)
		}
		if first == nil {
			first = plan
		}
		plan.Spans, plan.Sources, plan.Removed = first.Spans, first.Sources, first.Removed // ignoring later messages
		plan.Expiring, plan.Outside, plan.Forgotten, plan.Heeded = first.Expiring, first.Outside, first.Forgotten, first.Heeded
		return plan, nil
	}
}

// samePlans returns the planner of a search over the rows of a full run's plan, which may belong to a chain.
func samePlans(plan *schemas.Plan) planner {
	return func(_ int, job topics.Job) (*schemas.Plan, error) {
		own := *plan
		own.Chain, own.Stages, own.Prepare, own.Holdout = nil, stages.Placed(job.Stages, nil), job.Prepare, job.Examples.Holdout
		return &own, nil
	}
}

// search trains all jobs the given number of times, with the plans of planned.
func search(ctx context.Context, p *topics.Pipeline, by dispatch.Process, first topics.Job,
	jobs iter.Seq2[int, topics.Job], times int, rec event.Recorder, planned planner, with func(int, *Candidate) error) (err error) {
	s, err := beside(ctx, p, by, first, "search", partition.NewSharingStore, rec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.delete(ctx)) }()
	known := surveys{}
	for number := range times {
		for i, job := range jobs {
			plan, err := planned(number, job)
			if err != nil {
				return err
			}
			c := &Candidate{Plan: plan}
			if err := s.train(ctx, c, known); err != nil {
				if !errors.As(err, new(*dispatch.RunError)) {
					return err
				}
				c.Err = err
			}
			if err := with(i, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// searchPlan returns the plan of a run of a search.
func searchPlan(ctx context.Context, p *topics.Pipeline, job topics.Job, by dispatch.Process,
	files *source.Ingested) (*schemas.Plan, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	job.Examples = files.Reading(job.Examples)
	return planning.Plan(ctx, p, job, by.Arithmetic, files.Seals, l, files.Retention)
}

// surveys are survey results by their dependencies.
type surveys map[wire.Digest]*statistics.SurveyResult

// surveyOf returns the digest of all dependencies of the survey of a search's run.
func surveyOf(plan *schemas.Plan) wire.Digest {
	p := *plan
	p.Stages, p.Average, p.Intercept = nil, 0, false
	if slices.ContainsFunc(plan.Stages, func(s schemas.Stage) bool { return stages.Learns(s.Features) || stages.Grown(s.Features) }) {
		for _, s := range plan.Stages {
			p.Stages = append(p.Stages, schemas.Stage{Features: s.Features})
		}
	}
	return p.Content()
}

// train executes the run of a candidate on the topics of a search. It reuses the result of an earlier run with the same
// survey. Only the newest version is kept.
func (a *again) train(ctx context.Context, c *Candidate, known surveys) error {
	plan := c.Plan
	l, err := a.submitHere(ctx, plan)
	if err != nil {
		return err
	}
	of := surveyOf(plan)
	if survey := known[of]; survey != nil && plan.Prepares() {
		own := *survey
		own.Identity = wire.Identity{Kind: statistics.KindPrepare, Run: plan.Run(), Stage: wire.Survey, Parent: plan.Digest()}
		if _, err := protocol.WriteRecord(ctx, a.Client, a.Topics.Weights, 0, own.Record()); err != nil {
			return fmt.Errorf("write the result of the survey: %w", err)
		}
	}
	a.Recorder.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members()})
	report, err := a.Execute(ctx, plan, l)
	if err != nil {
		return err
	}
	if known[of] == nil && plan.Prepares() {
		if known[of], err = a.Survey(ctx, plan.Run()); err != nil {
			return err
		}
	}
	made, err := a.Version(ctx, plan.Run())
	if err != nil {
		return err
	}
	dispatch.Prune(ctx, a.Members.Pipeline, 1, a.Recorder)
	c.Report, c.version = report, &schemas.Warm{Run: made.Run, Manifest: made.Digest()}
	return nil
}

// beside creates topics next to those of the pipeline for private runs of this process. Their names start with that of the
// pipeline, followed by a word for the purpose and a unique one. It deletes leftover topics of killed processes, if no
// other process can be using them.
func beside(ctx context.Context, p *topics.Pipeline, by dispatch.Process, job topics.Job, word string,
	newStore func(int64) *partition.Store, rec event.Recorder) (*again, error) {
	bytes, err := partition.Bytes(job.Memory)
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("%s.%s-", job.Name, word)
	if p.Alone {
		left, err := p.Admin.Topics(ctx, prefix)
		if err != nil {
			return nil, err
		}
		if err := p.Admin.Delete(ctx, Names(left)...); err != nil {
			return nil, err
		}
	}
	if job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples); err != nil {
		return nil, err
	}
	job.Name, job.Examples.Topic = prefix+strings.ToLower(p.Fresh()[:8]), p.Topics.Examples // not created
	beside := p.Beside(job.Name)
	topics, store, nothing := topics.Topics(job), newStore(bytes), func() {}
	dispatch.CheckStore(ctx, beside, store)
	a := &again{topics: Names(topics), Members: &dispatch.Members{
		Pipeline: beside, Process: by, Bytes: bytes, Store: store, Recorder: rec, JoinWorkers: nothing, LeaveWorkers: nothing, Leave: nothing,
		Works: protocol.NewSoleOwner(job.Examples.Partitions), Solves: protocol.NewSoleOwner(1),
	}}
	if err := p.Admin.Create(ctx, topics...); err != nil {
		return nil, errors.Join(err, a.delete(ctx))
	}
	return a, nil
}
