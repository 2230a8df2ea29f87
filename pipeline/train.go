package pipeline

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// TrainOptions are how a run is submitted.
type TrainOptions struct {
	// Supersede cancels unfinished runs of the pipeline that are not this one,
	// instead of finishing them first. On the embedded broker they are always
	// cancelled: nobody else can be at work on them.
	Supersede bool
	// Allocator is where Arrow's memory comes from; nil: Go's.
	Allocator memory.Allocator
}

// RunError says that a run has ended without a version.
type RunError struct{ Run, State, Reason string }

func (e *RunError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("run %s was %s", e.Run, e.State)
	}
	return fmt.Sprintf("run %s %s: %s", e.Run, e.State, e.Reason)
}

// StandAsideError says that a run that goes first was planned by a process with
// another arithmetic, so this one can't go on with it bit by bit.
type StandAsideError struct {
	Run         string
	There, Here schemas.Arithmetic
}

func (e *StandAsideError) Error() string {
	return fmt.Sprintf("run %s goes first and was planned with %+v, this process has %+v: finish it there, or cancel it with --supersede", e.Run, e.There, e.Here)
}

// Train ingests the job's files, makes a run of the job and brings a worker and
// a solver of its own to it, until the run has ended. A run of the same content
// that is unfinished is gone on with. With brokers, others may work and solve too.
func Train(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, o TrainOptions, rec Recorder) (*Report, *Model, error) {
	rec = &serialised{to: rec}
	d := newDesk(log, job.Name, o.Allocator)
	if err := d.create(ctx, &job); err != nil {
		return nil, nil, err
	}
	own, err := d.crew(job, blas, rec)
	if err != nil {
		return nil, nil, err
	}
	defer own.leave()
	s, err := d.submission(ctx, blas, job, o, rec)
	if err != nil {
		return nil, nil, err
	}
	for _, earlier := range s.first {
		if earlier.Arithmetic != s.plan.Arithmetic {
			return nil, nil, &StandAsideError{earlier.Run(), earlier.Arithmetic, s.plan.Arithmetic}
		}
		notice(rec, "run %s was planned before and is not finished: it goes first", earlier.Run())
		if _, err := own.execute(ctx, earlier, s.watch); err != nil && !errors.As(err, new(*RunError)) {
			return nil, nil, err
		}
	}
	rec.Record(Began{Run: s.plan.Run(), Resumed: s.known, Stages: s.plan.Stages})
	report, err := own.execute(ctx, s.plan, s.watch)
	if err != nil {
		return nil, nil, err
	}
	report.IngestSeconds = s.ingested.Seconds()
	model, err := LoadModel(ctx, log, job.Name, s.plan.Run())
	return report, model, err
}

// Submit ingests the job's files and makes a run of the job, which it leaves to
// workers and solvers elsewhere. It answers with the run's id.
func Submit(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, o TrainOptions, rec Recorder) (run string, err error) {
	rec = &serialised{to: rec}
	d := newDesk(log, job.Name, o.Allocator)
	if err := d.create(ctx, &job); err != nil {
		return "", err
	}
	s, err := d.submission(ctx, blas, job, o, rec)
	if err != nil {
		return "", err
	}
	for _, earlier := range s.first {
		text := fmt.Sprintf("run %s was planned before and is not finished: it goes first", earlier.Run())
		if earlier.Arithmetic != s.plan.Arithmetic {
			text += fmt.Sprintf(", on processes with %+v; --supersede cancels it", earlier.Arithmetic)
		}
		rec.Record(Noticed{text})
	}
	return s.plan.Run(), nil
}

// submission is a run that is on the plans topic.
type submission struct {
	plan     *schemas.Plan
	first    []*schemas.Plan // unfinished runs before it
	known    bool            // it was there before
	watch    int64           // from there on the plans topic it may end
	ingested time.Duration
}

// submission ingests the job's files and submits its run.
func (d desk) submission(ctx context.Context, blas *kernel.BLAS, job Job, o TrainOptions, rec Recorder) (*submission, error) {
	began := time.Now()
	sources, err := d.ingest(ctx, job, rec)
	if err != nil {
		return nil, err
	}
	s := &submission{ingested: time.Since(began)}
	l, err := d.ledger(ctx)
	if err != nil {
		return nil, err
	}
	l.tell(rec)
	if d.admin.Embedded() && len(l.unfinished()) == 0 {
		if err := d.clear(ctx, job); err != nil {
			return nil, err
		}
	}
	plan, err := d.plan(ctx, job, blas, sources, l, rec)
	if err != nil {
		return nil, err
	}
	s.known, s.watch = l.plan(plan.Run()) != nil, l.next
	s.plan, s.first, err = d.submit(ctx, plan, l, o.Supersede || d.admin.Embedded(), rec)
	return s, err
}

// clear empties the topics that only a run under way reads. The embedded
// broker deletes nothing by age, and a run leaves a Gram matrix a stage and
// partition.
func (d desk) clear(ctx context.Context, job Job) error {
	if err := d.admin.Delete(ctx, d.statistics, d.residuals); err != nil {
		return err
	}
	return d.create(ctx, &job)
}

// submit puts the plan on its topic unless it is there, and answers with the
// plan as it is there first, and with the unfinished runs before it: they go
// first.
func (d desk) submit(ctx context.Context, plan *schemas.Plan, l *ledger, supersede bool, rec Recorder) (*schemas.Plan, []*schemas.Plan, error) {
	run := plan.Run()
	if supersede {
		l, err := d.ledger(ctx) // they may have ended while the plan was made
		if err != nil {
			return nil, nil, err
		}
		for _, other := range l.unfinished() {
			if other.Run() == run {
				continue
			}
			end := &schemas.End{Run: other.Run(), Content: other.Content(), State: schemas.Cancelled, Reason: "superseded by run " + run, Attempt: d.fresh()}
			if _, err := d.write(ctx, d.plans, 0, end.Message()); err != nil {
				return nil, nil, fmt.Errorf("cancel run %s: %w", other.Run(), err)
			}
			notice(rec, "run %s was not finished and is of another configuration: it is cancelled", other.Run())
		}
	}
	if l.plan(run) == nil {
		if _, err := d.write(ctx, d.plans, 0, plan.Message()); err != nil {
			return nil, nil, fmt.Errorf("submit run %s: %w", run, err)
		}
	}
	// somebody else may have submitted since the ledger was read
	l, err := d.ledger(ctx)
	if err != nil {
		return nil, nil, err
	}
	var first []*schemas.Plan
	for _, other := range l.unfinished() {
		if l.run(other) == run {
			return other, first, nil
		}
		first = append(first, other)
	}
	return nil, nil, &RunError{Run: run, State: "ended", Reason: "somebody else finished or cancelled it meanwhile; the same command begins the next"}
}

// crew is a worker and a solver of a process of their own, for the runs that it
// has submitted.
type crew struct {
	desk
	blas          *kernel.BLAS
	bytes         int64
	rec           Recorder
	works, solves owner
	leave         func()
}

// crew joins the groups of the pipeline, or on the embedded broker owns it all.
// It does so before there is a plan, as a group takes its time.
func (d desk) crew(job Job, blas *kernel.BLAS, rec Recorder) (*crew, error) {
	bytes, err := memoryBudget(job.Memory)
	if err != nil {
		return nil, err
	}
	c := &crew{desk: d, blas: blas, bytes: bytes, rec: rec, leave: func() {}}
	if d.admin.Embedded() {
		c.works, c.solves = newAlone(job.Examples.Partitions), newAlone(1)
		return c, nil
	}
	works, solves := d.admin.Join(d.workers(), d.examples), d.admin.Join(d.solvers(), d.plans)
	c.works, c.solves = works, solves
	c.leave = func() {
		var parting errgroup.Group // both at once: each may take a few seconds
		parting.Go(works.Leave)
		parting.Go(solves.Leave)
		if err := parting.Wait(); err != nil {
			notice(rec, "leave the groups: %v", err)
		}
	}
	return c, nil
}

// execute takes part in a run, and follows it to its end.
func (c *crew) execute(ctx context.Context, plan *schemas.Plan, watch int64) (report *Report, err error) {
	roles, ctx := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(ctx)
	defer stop()
	rec := &serialised{to: newOnce(c.rec)}
	roles.Go(func() error {
		return unlessStopped(working, newWorker(c.desk, c.blas, plan, watch, c.works, c.bytes, rec).work(working))
	})
	roles.Go(func() error { return unlessStopped(working, c.solveWhenOwner(working, c.solves, plan, watch, rec)) })
	roles.Go(func() error {
		defer stop()
		var err error
		report, err = c.follow(ctx, plan, rec)
		return err
	})
	if err := roles.Wait(); err != nil {
		return nil, err
	}
	return report, nil
}

// unlessStopped drops the error of a role whose run has ended.
func unlessStopped(working context.Context, err error) error {
	if working.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}
