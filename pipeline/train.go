// Package pipeline trains: one run of a job, or a chain of runs as examples arrive.
//
//	job, log ──source──▶ examples ──dispatch──▶ plan, plans topic
//
//	        ┌──────────────── weights ◀───────────────┐
//	        ▼                                         │
//	plan ─▶ worker: ingest ▶ stages ▶ sink ▶ accumulate ─▶ statistics ─▶ solver: reduce ▶ solve
//	        │   ▲                                     ▲
//	        └─ residuals and their seals ─────────────┘
//
// The roles are in pipeline/worker and pipeline/solver, and their protocol is in pipeline/protocol. They communicate only
// through topics, even within one process. The next step of a worker is a pure function of the plan and the accepted
// weights. So a process that is killed and restarted continues where it stopped.
//
// Around the roles, imports run in one direction: topics, source, dispatch, replay, then this package.
//
// The next run of a chain follows from its newest version, its window, and the messages that no run has processed:
//
//	messages, sealed sources ──backlog──cut──▶ spans of the next increment
//	newest version, window, new spans ──▶ plan of an update, or of a full run
//
// An update adds an increment to the sums and removes others; a full run fits the whole window.
package pipeline

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// Train ingests the job's files, or the current messages of its source topic, submits a run of the job, and executes it
// with a worker and a solver in this process until the run has ended. It resumes an unfinished run with the same content.
// With brokers, other processes may work on the run too. The error is a *[dispatch.RunError] if the run has ended without
// a version, and a *[dispatch.StandAsideError] if this process can't execute an earlier run.
func Train(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, o dispatch.TrainOptions,
	rec event.Recorder) (*schemas.Report, *model.Model, error) {
	lost := &losses{to: rec}
	rec = event.Serialised(lost.record)
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
		if _, err := roles.Execute(ctx, earlier, s.Ledger); !dispatch.Ended(err) {
			return nil, nil, err
		}
		if s.Ledger, err = p.ReadLedger(ctx); err != nil {
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
	report.IngestSeconds, report.LostMessages = ingested.Took.Seconds(), lost.messages
	m, err := p.Model(ctx, s.Plan.Run())
	return report, m, err
}

// losses counts what a source that is followed has lost, for reports.
type losses struct {
	to       event.Recorder
	messages int64            // offsets that can't be ingested
	columns  map[string]int64 // rows without a column that earlier rows had, by column; nil: none
}

func (l *losses) record(e event.Event) {
	switch lost := e.(type) {
	case event.Lost:
		l.messages += lost.To - lost.From
	case event.ColumnLost:
		if l.columns == nil {
			l.columns = map[string]int64{}
		}
		if lost.Topic != "" && lost.Rows > 0 {
			l.columns[lost.Column] += lost.Rows
		}
	}
	l.to.Record(e)
}

// prepared ingests the examples of a job for [Train] and [Submit], and returns the job with its stages. If these must be chosen,
// this process chooses them alone.
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

// Search ingests the files of the first job, and trains all jobs: see [replay.SearchIngested]. Jobs without stages use
// those chosen for the first of them. A rule that ends stages ends those of each job as in [Train], and the auto ridge of sparse
// rows is chosen for each. Jobs on sparse rows without a configured preparation and fit use those chosen for the first job with the
// same link.
func Search(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, jobs []topics.Job, folds int, rec event.Recorder,
	with func(int, *replay.Candidate) error) error {
	rec = event.Serialised(rec)
	p, by := topics.OpenFor(log, jobs[0], nil), dispatch.NewProcess(blas)
	if err := topics.Create(ctx, p, &jobs[0]); err != nil {
		return err
	}
	first := jobs[0] // sparse rows become dense if all jobs need that
	takesSparse := func(j topics.Job) bool { return !j.Examples.Dense }
	first.Examples.Dense = !slices.ContainsFunc(jobs, takesSparse)
	files, err := source.IngestExamples(ctx, p, first, rec)
	if err != nil {
		return err
	}
	chosen := map[schemas.Link]topics.Job{} // shared choices by link; empty: without stages
	for i := range jobs {
		job := &jobs[i]
		if !replay.NeedsChoice(*job, false) {
			continue
		}
		shared, link := len(job.Stages) == 0 || job.Untuned, schemas.Link("")
		if job.Untuned && !job.Unlinked {
			link = job.Stages[0].Link
		}
		of, known := chosen[link]
		if !shared || !known {
			if of, err = replay.Resolve(ctx, p, by, *job, files, rec); err != nil {
				return err
			}
		}
		if shared {
			chosen[link] = of
		}
		switch {
		case job.Untuned || len(job.Stages) > 0:
			job.Prepare = of.Prepare
		case job.Prepare.Scale == stages.ScaleAuto:
			job.Prepare.Scale = of.Prepare.Scale
		}
		job.Stages = of.Stages
	}
	return replay.SearchIngested(ctx, p, by, jobs, files, folds, rec, with)
}
