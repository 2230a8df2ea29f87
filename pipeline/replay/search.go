package replay

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
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
// weight, seed or intercept: their files were ingested, and all runs are over the current spans of the examples topic. An
// error of with ends the search. With folds, at least two, each job is trained once per fold, and each run holds out one fold
// instead of the job's holdout; runs with the same fold are consecutive, because they share more data.
func SearchIngested(ctx context.Context, p *topics.Pipeline, by dispatch.Process, jobs []topics.Job,
	files *source.Ingested, folds int, rec event.Recorder, with func(int, *Candidate) error) (err error) {
	t := &trials{pipeline: p, process: by, job: jobs[0], word: "search", recorder: rec}
	defer func() { err = errors.Join(err, t.close(ctx)) }()
	planned := ingestedPlans(ctx, p, by, files)
	for fold := range max(folds, 1) {
		for i, job := range jobs {
			plan, err := planned(job)
			if err != nil {
				return err
			}
			if folds > 0 {
				plan.Fold, plan.Holdout = examples.Fold{Number: fold, Of: folds}, 1/float64(folds)
			}
			c, err := t.train(ctx, plan)
			if err != nil {
				return err
			}
			if err := with(i, c); err != nil {
				return err
			}
		}
	}
	return nil
}

// planner returns the plan of a job's run.
type planner func(job topics.Job) (*schemas.Plan, error)

// ingestedPlans returns the planner of a search over ingested files.
func ingestedPlans(ctx context.Context, p *topics.Pipeline, by dispatch.Process, files *source.Ingested) planner {
	var first *schemas.Plan
	return func(job topics.Job) (*schemas.Plan, error) {
		l, err := p.ReadLedger(ctx)
		if err != nil {
			return nil, err
		}
		job.Examples = files.Reading(job.Examples)
		plan, err := dispatch.Plan(ctx, p, job, by.Arithmetic, files.Seals, l, files.Retention)
		if err != nil {
			return nil, err
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
	return func(job topics.Job) (*schemas.Plan, error) {
		own := *plan
		own.Trial, own.Chain, own.Stages = plan.Open(), nil, stages.Placed(job.Stages, nil)
		own.Prepare, own.Holdout = scaled(job.Prepare, plan), job.Examples.Holdout
		return &own, nil
	}
}

// trials are runs on temporary topics beside those of the pipeline, which share data in memory: reproductions, or the runs of a search.
// The topic names start with the name of the pipeline, followed by a word for the purpose and a unique word.
type trials struct {
	pipeline *topics.Pipeline
	process  dispatch.Process
	job      topics.Job
	word     string
	recorder event.Recorder

	*dispatch.Members // nil: the topics are not created yet
	topics            []string
}

// Names returns the names of topics.
func Names(topics []kafkalog.Topic) (list []string) {
	for _, t := range topics {
		list = append(list, t.Name)
	}
	return list
}

// open creates the topics at the first call. It deletes leftover topics of killed processes, if no other process can be using them.
func (t *trials) open(ctx context.Context) error {
	if t.Members != nil {
		return nil
	}
	p, job := t.pipeline, t.job
	bytes, err := visit.CacheBytes(job.Memory)
	if err != nil {
		return err
	}
	prefix := fmt.Sprintf("%s.%s-", job.Name, t.word)
	if p.Alone {
		left, err := p.Admin.Topics(ctx, prefix)
		if err != nil {
			return err
		}
		if err := p.Admin.Delete(ctx, Names(left)...); err != nil {
			return err
		}
	}
	if job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples); err != nil {
		return err
	}
	job.Name, job.Examples.Topic = prefix+strings.ToLower(p.Fresh()[:topics.UniqueLength]), p.Topics.Examples // not created
	beside, created := p.Beside(job.Name), topics.Topics(job)
	cache, nothing := visit.NewCache(bytes), func() {}
	dispatch.CheckCache(ctx, beside, cache)
	t.topics, t.Members = Names(created), &dispatch.Members{
		Pipeline: beside, Process: t.process, Cache: cache, Recorder: t.recorder, JoinWorkers: nothing, LeaveWorkers: nothing, Leave: nothing,
		Works: protocol.NewSoleOwner(job.Examples.Partitions), Solves: protocol.NewSoleOwner(1),
	}
	return p.Admin.Create(ctx, created...)
}

// close deletes the topics, even if ctx has ended.
func (t *trials) close(ctx context.Context) error {
	if t.Members == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return t.Admin.Delete(ctx, t.topics...)
}

// run executes a plan, and returns its report and the manifest of its version. Only the newest version is kept.
func (t *trials) run(ctx context.Context, plan *schemas.Plan) (report *schemas.Report, made *schemas.Manifest, err error) {
	if err := t.open(ctx); err != nil {
		return nil, nil, err
	}
	l, err := t.ReadLedger(ctx)
	if err != nil {
		return nil, nil, err
	}
	if plan.Since, err = t.Now(ctx); err != nil {
		return nil, nil, err
	}
	plan.Since.Plans = l.Next
	messages, err := plan.Messages()
	if err != nil {
		return nil, nil, err
	}
	if _, err := t.Log.Append(ctx, t.Topics.Plans, 0, messages...); err != nil {
		return nil, nil, err
	}
	if l, err = t.ReadLedger(ctx); err != nil {
		return nil, nil, err
	}
	t.recorder.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members(), Chained: plan.Chain != nil})
	if report, err = t.Execute(ctx, plan, l); err == nil {
		made, err = t.Version(ctx, plan.Run())
	}
	if err != nil {
		return nil, nil, err
	}
	dispatch.Prune(ctx, t.Members.Pipeline, 1, t.recorder)
	return report, made, nil
}

// train executes a run of a search.
func (t *trials) train(ctx context.Context, plan *schemas.Plan) (*Candidate, error) {
	report, made, err := t.run(ctx, plan)
	switch {
	case err == nil:
		return &Candidate{plan, report, nil, &schemas.Warm{Run: made.Run, Manifest: made.Digest()}}, nil
	case errors.As(err, new(*dispatch.RunError)):
		return &Candidate{Plan: plan, Err: err}, nil
	}
	return nil, err
}
