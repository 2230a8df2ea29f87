package pipeline

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// Train ingests the job's files, or the current messages of its source topic, submits a run of the job, and executes it
// with a worker and a solver in this process until the run has ended. It resumes an unfinished run with the same content.
// With brokers, other processes may work on the run too. The error is a *[dispatch.RunError] if the run has ended without
// a version, and a *[dispatch.StandAsideError] if this process can't execute an earlier run.
func Train(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, o dispatch.TrainOptions,
	rec event.Recorder) (*schemas.Report, *model.Model, error) {
	rec = event.Serialised(rec)
	p := topics.OpenFor(log, job, o.Allocator)
	job, ingested, err := prepared(ctx, p, blas, job, rec)
	if err != nil {
		return nil, nil, err
	}
	// Not earlier: others would wait for the partitions of a process that is still ingesting. Not later: joining takes
	// seconds.
	roles, err := dispatch.Join(ctx, p, job, nil, blas, rec)
	if err != nil {
		return nil, nil, err
	}
	defer roles.Leave()
	s, err := dispatch.SubmitJob(ctx, p, blas, job, ingested, o, rec)
	if err != nil {
		return nil, nil, err
	}
	for _, earlier := range s.First {
		if dispatch.Unable(p, earlier, roles.Arithmetic) == "" {
			event.Notice(rec, "run %s was submitted earlier and is not finished: waiting for it", earlier.Run())
		}
		if _, err := roles.Execute(ctx, earlier, s.Ledger); err != nil && !errors.As(err, new(*dispatch.RunError)) {
			return nil, nil, err
		}
	}
	rec.Record(event.Began{Run: s.Plan.Run(), Resumed: s.Known, Stages: s.Plan.Stages, Members: s.Plan.Members()})
	report, err := roles.Execute(ctx, s.Plan, s.Ledger)
	if err != nil {
		return nil, nil, err
	}
	dispatch.Prune(ctx, p, job.Keep, rec)
	if err := source.ForgetLearnt(ctx, p, s.Plan.Run(), rec); err != nil {
		return nil, nil, fmt.Errorf("remove versions trained on forgotten rows: %w", err)
	}
	report.IngestSeconds = ingested.Took.Seconds()
	m, err := p.Model(ctx, s.Plan.Run())
	return report, m, err
}

// prepared ingests what [Train] does, and returns the job with its stages. If they must be chosen, this process chooses them: it
// needs no other.
func prepared(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, job topics.Job, rec event.Recorder) (topics.Job, *source.Ingested,
	error) {
	if err := source.CheckSource(ctx, p, job); err != nil {
		return job, nil, err
	}
	if err := topics.Create(ctx, p, &job); err != nil {
		return job, nil, err
	}
	ingested, err := source.IngestExamples(ctx, p, job, rec)
	if err != nil {
		return job, nil, err
	}
	job, err = replay.Resolve(ctx, p, dispatch.NewProcess(blas), job, ingested, rec)
	return job, ingested, err
}

// Submit submits the run that [Train] would execute, and returns its id. Workers and solvers in other processes execute the run.
func Submit(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, o dispatch.TrainOptions,
	rec event.Recorder) (id string, err error) {
	rec = event.Serialised(rec)
	p := topics.OpenFor(log, job, o.Allocator)
	job, ingested, err := prepared(ctx, p, blas, job, rec)
	if err != nil {
		return "", err
	}
	s, err := dispatch.SubmitJob(ctx, p, blas, job, ingested, o, rec)
	if err != nil {
		return "", err
	}
	for _, earlier := range s.First {
		text := fmt.Sprintf("run %s was submitted earlier and is not finished: waiting for it", earlier.Run())
		if here := dispatch.Arithmetic(blas); !earlier.Arithmetic.Admits(here) {
			text += fmt.Sprintf(". Its arithmetic differs (%s); cancel it with --supersede",
				dispatch.Differences(earlier.Arithmetic, here, "this process"))
		}
		rec.Record(event.Noticed{Text: text})
	}
	return s.Plan.Run(), nil
}
