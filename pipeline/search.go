package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// Candidate is a run of a search.
type Candidate struct {
	Plan   *schemas.Plan
	Report *schemas.Report // nil: the run has failed
	Err    error           // why; a *[RunError]
}

// Search trains all jobs, one after the other, and calls with for each when it has ended. Weights are those of separate runs of the jobs, bit
// for bit. The jobs differ in stages, average, preparation, seed or intercept, and in nothing else: the files of the first are ingested, once, and all
// runs are over the spans that the examples topic has then. What runs have in common stays in memory. They write to topics of their own, which
// are deleted at the end. An error of with ends the search.
func Search(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, jobs []Job, rec event.Recorder, with func(int, *Candidate) error) (err error) {
	rec = event.Serialised(rec)
	job := jobs[0]
	p := openFor(log, job, nil)
	if err := p.create(ctx, &job); err != nil {
		return err
	}
	files, err := p.ingestFiles(ctx, job, rec)
	if err != nil {
		return err
	}
	s, err := p.beside(ctx, job, "search", partition.NewSharingStore, blas, rec)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.delete(ctx)) }()
	known := surveys{}
	var first *schemas.Plan
	for i, job := range jobs {
		plan, err := p.searchPlan(ctx, job, blas, files)
		if err != nil {
			return err
		}
		if i == 0 {
			first = plan
		}
		plan.Spans, plan.Sources, plan.Removed = first.Spans, first.Sources, first.Removed // whatever has come to the topics since
		plan.Expiring, plan.Outside, plan.Forgotten, plan.Heeded = first.Expiring, first.Outside, first.Forgotten, first.Heeded
		c := &Candidate{Plan: plan}
		if c.Report, err = s.train(ctx, plan, known); err != nil {
			if !errors.As(err, new(*RunError)) {
				return err
			}
			c.Err = err
		}
		if err := with(i, c); err != nil {
			return err
		}
	}
	return nil
}

// searchPlan returns the plan of a run of a search.
func (p *pipeline) searchPlan(ctx context.Context, job Job, blas *kernel.BLAS, files *ingested) (*schemas.Plan, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	job.Examples = job.Examples.WithVocabulary(files.vocabulary)
	return p.plan(ctx, job, blas, files.seals, l, files.retention)
}

// surveys are the results of surveys, by what they depend on.
type surveys map[schemas.Digest]*schemas.SurveyResult

// surveyOf returns the digest of all that the survey of a run of a search depends on.
func surveyOf(plan *schemas.Plan) schemas.Digest {
	p := *plan
	p.Stages, p.Average, p.Intercept = nil, 0, false
	if slices.ContainsFunc(plan.Stages, func(s schemas.Stage) bool { return stages.Learns(s.Features) }) {
		for _, s := range plan.Stages {
			p.Stages = append(p.Stages, schemas.Stage{Features: s.Features})
		}
	}
	return p.Content()
}

// train makes a run on the topics of a search. If a run before it had the same survey, it takes the result. Only the newest version stays.
func (a *again) train(ctx context.Context, plan *schemas.Plan, known surveys) (*schemas.Report, error) {
	l, err := a.submitHere(ctx, plan)
	if err != nil {
		return nil, err
	}
	of := surveyOf(plan)
	if survey := known[of]; survey != nil {
		own := *survey
		own.Identity = schemas.Identity{Kind: schemas.KindPrepare, Run: plan.Run(), Stage: schemas.Survey, Parent: plan.Digest()}
		if _, err := run.WriteRecord(ctx, a.Client, a.Topics.Weights, 0, own.Record()); err != nil {
			return nil, fmt.Errorf("write the result of the survey: %w", err)
		}
	}
	a.rec.Record(event.Began{Run: plan.Run(), Stages: plan.Stages, Members: plan.Members()})
	report, err := a.execute(ctx, plan, l)
	if err != nil {
		return nil, err
	}
	if known[of] == nil {
		if known[of], err = a.Survey(ctx, plan.Run()); err != nil {
			return nil, err
		}
	}
	a.prune(ctx, 1, a.rec)
	return report, nil
}

// beside creates topics beside those of the pipeline, for runs that only this process makes. Their names begin with that of the pipeline, and
// have a word that says what for, and one that no other has. What a process has left there that was killed is deleted, if no other process can be
// at work.
func (p *pipeline) beside(ctx context.Context, job Job, word string, newStore func(int64) *partition.Store, blas *kernel.BLAS, rec event.Recorder) (*again, error) {
	bytes, err := partition.Bytes(job.Memory)
	if err != nil {
		return nil, err
	}
	prefix := fmt.Sprintf("%s.%s-", job.Name, word)
	if p.Alone {
		left, err := p.admin.Topics(ctx, prefix)
		if err != nil {
			return nil, err
		}
		if err := p.admin.Delete(ctx, names(left)...); err != nil {
			return nil, err
		}
	}
	if job.Examples.Partitions, err = p.Log.Partitions(ctx, p.Topics.Examples); err != nil {
		return nil, err
	}
	job.Name, job.Examples.Topic = prefix+strings.ToLower(p.Fresh()[:8]), p.Topics.Examples // which is not created
	beside := open(p.admin, job.Name, p.memory)
	beside.Topics.Examples, beside.archive = p.Topics.Examples, p.archive
	topics, store, nothing := Topics(job), newStore(bytes), func() {}
	beside.checkStore(ctx, store)
	a := &again{topics: names(topics), members: &members{
		pipeline: beside, blas: blas, bytes: bytes, store: store, rec: rec, joinWorkers: nothing, leaveWorkers: nothing, leave: nothing,
		works: run.NewSoleOwner(job.Examples.Partitions), solves: run.NewSoleOwner(1),
	}}
	if err := p.admin.Create(ctx, topics...); err != nil {
		return nil, errors.Join(err, a.delete(ctx))
	}
	return a, nil
}
