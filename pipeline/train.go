package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// TrainOptions says how a run is submitted. With the zero value, earlier runs are finished first.
type TrainOptions struct {
	// Supersede cancels the pipeline's other unfinished runs instead of finishing them first. On the embedded broker they are
	// always cancelled, as no other process can be working on them.
	Supersede bool
	// Trigger says that a trigger submits the run, such as a timer. It cancels the runs of triggers that wait for others, and is
	// cancelled by a later one while it waits. A run that has begun goes on.
	Trigger bool
	// Store is the memory of this process's workers, for a process that trains a pipeline again and again: a run then reads only what is
	// new. It counts instead of the job's Memory. With nil a run keeps nothing for the next.
	Store *partition.Store
	// Allocator is where Arrow's memory comes from; nil is Go's.
	Allocator memory.Allocator
}

// StandAsideError says that a run that goes first was planned by a process with another arithmetic. This process can't continue
// it, as its sums would have other bits.
type StandAsideError struct {
	Run         string             // the run that goes first
	There, Here schemas.Arithmetic // of the run's plan, and of this process
}

func (e *StandAsideError) Error() string {
	return fmt.Sprintf("run %s goes first and has another arithmetic (%s): finish the run where it was planned, or cancel it with --supersede",
		e.Run, differences(e.There, e.Here, "this process"))
}

// Train ingests the job's files, submits a run of the job, and works on it with a worker and a solver in this process until the run
// has ended. It resumes an unfinished run of the same content. With brokers, other processes may work on the run too. The error is
// a *[RunError] if the run has ended without a version, and a *[StandAsideError] if this process can't work on a run that goes
// first.
func Train(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, o TrainOptions, rec event.Recorder) (*schemas.Report, *model.Model, error) {
	rec = event.Serialised(rec)
	p := openForRuns(log, job, o.Allocator)
	if err := p.create(ctx, &job); err != nil {
		return nil, nil, err
	}
	ingested, err := p.ingestFiles(ctx, job, rec)
	if err != nil {
		return nil, nil, err
	}
	// Not before: others would wait for the partitions of a process that still ingests. Not later: joining takes seconds.
	roles, err := p.join(ctx, job, o.Store, blas, rec)
	if err != nil {
		return nil, nil, err
	}
	defer roles.leave()
	s, err := p.submitJob(ctx, blas, job, ingested, o, rec)
	if err != nil {
		return nil, nil, err
	}
	for _, earlier := range s.first {
		if here := arithmetic(blas); !earlier.Arithmetic.Admits(here) {
			return nil, nil, &StandAsideError{earlier.Run(), earlier.Arithmetic, here}
		}
		if err := p.checkExamples(earlier, "run "+earlier.Run()+", which goes first,"); err != nil {
			return nil, nil, err
		}
		event.Notice(rec, "run %s was submitted earlier and is not finished: it goes first", earlier.Run())
		if _, err := roles.execute(ctx, earlier, s.ledger); err != nil && !errors.As(err, new(*RunError)) {
			return nil, nil, err
		}
	}
	rec.Record(event.Began{Run: s.plan.Run(), Resumed: s.known, Stages: s.plan.Stages, Members: s.plan.Members()})
	report, err := roles.execute(ctx, s.plan, s.ledger)
	if err != nil {
		return nil, nil, err
	}
	p.prune(ctx, job.Keep, rec)
	if err := p.forget(ctx, s.plan.Run(), rec); err != nil {
		return nil, nil, fmt.Errorf("remove versions that have learnt from forgotten rows: %w", err)
	}
	report.IngestSeconds = ingested.took.Seconds()
	m, err := p.Model(ctx, s.plan.Run())
	return report, m, err
}

// members are the memberships of this process in the groups of workers and solvers, and what its worker and solver need.
type members struct {
	*pipeline
	blas          *kernel.BLAS
	bytes         int64            // for rows, blocks and matrices
	store         *partition.Store // counts instead of bytes; nil: nothing stays for later runs
	rec           event.Recorder
	works, solves run.Owner
	// joinWorkers and leaveWorkers join and leave the group of workers.
	joinWorkers, leaveWorkers func()
	leave                     func() // leaves both groups
}

// join joins the consumer groups of the pipeline. On the embedded broker this process owns all partitions.
func (p *pipeline) join(ctx context.Context, job Job, store *partition.Store, blas *kernel.BLAS, rec event.Recorder) (*members, error) {
	bytes, err := partition.Bytes(job.Memory)
	if err != nil {
		return nil, err
	}
	p.checkStore(ctx, store)
	m := &members{pipeline: p, blas: blas, bytes: bytes, store: store, rec: rec, joinWorkers: func() {}, leaveWorkers: func() {}, leave: func() {}}
	if p.admin.Embedded() {
		m.works, m.solves = run.NewSoleOwner(job.Examples.Partitions), run.NewSoleOwner(1)
		return m, nil
	}
	var works *kafkalog.Member
	m.joinWorkers = func() {
		works = p.admin.Join(p.Topics.Workers(), p.Topics.Examples)
		m.works = works
	}
	m.joinWorkers()
	solves := p.admin.Join(p.Topics.Solvers(), p.Topics.Plans)
	m.solves = solves
	m.leaveWorkers = func() {
		if err := works.Leave(); err != nil {
			event.Notice(rec, "leave the group of workers: %v", err)
		}
	}
	m.leave = func() {
		var leaving sync.WaitGroup // leave both at once, as each may take a few seconds
		leaving.Go(m.leaveWorkers)
		if err := solves.Leave(); err != nil {
			event.Notice(rec, "leave the group of solvers: %v", err)
		}
		leaving.Wait()
	}
	return m, nil
}

// checkStore empties a store, which may be nil, if the examples topic is compacted, or if this process can't know: what is in memory
// may then no longer be on the topic.
func (p *pipeline) checkStore(ctx context.Context, store *partition.Store) {
	if store == nil {
		return
	}
	configs, err := p.admin.Configs(ctx, p.Topics.Examples)
	if err != nil || configs[p.Topics.Examples]["cleanup.policy"] != "delete" {
		store.Retain(nil)
	}
}

// execute works on a run and solves it until the run has ended, and returns its report. l has the run's plan.
func (m *members) execute(ctx context.Context, plan *schemas.Plan, l *run.Ledger) (report *schemas.Report, err error) {
	if l.End(plan.Run()) != nil { // other processes were faster
		return m.follow(ctx, plan, l, m.rec)
	}
	if _, alone := m.works.(run.SoleOwner); alone { // there may be more partitions than when this process joined
		m.works = run.NewSoleOwner(partitionsFor(plan))
	}
	roles, ctx := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(ctx)
	defer stop()
	rec := event.Serialised(newOnce(m.rec))
	roles.Go(func() error {
		return unlessStopped(working, m.work(working, plan, l.Next, rec))
	})
	roles.Go(func() error {
		return unlessStopped(working, m.solveWhenOwner(working, m.blas, m.solves, plan, l.Next, rec))
	})
	roles.Go(func() error {
		defer stop()
		var err error
		report, err = m.follow(ctx, plan, l, rec)
		return err
	})
	if err := roles.Wait(); err != nil {
		return nil, err
	}
	return report, nil
}

// work works on a run until the run has ended.
func (m *members) work(ctx context.Context, plan *schemas.Plan, watch int64, rec event.Recorder) error {
	for {
		err := worker.New(m.Client, m.blas, plan, watch, m.works, worker.Options{Bytes: m.bytes, Store: m.store, Solves: true}, rec).Work(ctx)
		stopped, ok := errors.AsType[*worker.StoppedError](err)
		if !ok {
			return err
		}
		event.Notice(rec, "%v", stopped)
		m.leaveWorkers() // other processes get its partitions
		if err := stopped.Report(ctx); err != nil {
			return err
		}
		m.joinWorkers()
	}
}

// unlessStopped drops the error of a role that was stopped because its run has ended.
func unlessStopped(working context.Context, err error) error {
	if working.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// once is a recorder that drops repeated events of the survey and of each stage. The solver of this process records them, and so
// does follow, as another process may solve the run.
type once struct {
	next     event.Recorder
	surveyed bool
	stages   map[int]bool
}

func newOnce(next event.Recorder) *once { return &once{next: next, stages: map[int]bool{}} }

// Record records an event unless it repeats.
func (o *once) Record(e event.Event) {
	switch e := e.(type) {
	case event.Surveyed:
		if o.surveyed {
			return
		}
		o.surveyed = true
	case event.StageEnded:
		if o.stages[e.Stage] {
			return
		}
		o.stages[e.Stage] = true
	}
	o.next.Record(e)
}
