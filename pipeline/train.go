package pipeline

import (
	"context"
	"errors"
	"fmt"
	"sync"
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
// that is unfinished is gone on with.
func Train(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, o TrainOptions, rec Recorder) (*Report, *Model, error) {
	rec = &serialised{to: rec}
	began := time.Now()
	d := newDesk(log, job.Name, o.Allocator)
	if err := d.create(ctx, &job); err != nil {
		return nil, nil, err
	}
	sources, err := d.ingest(ctx, job, rec)
	if err != nil {
		return nil, nil, err
	}
	ingested := time.Since(began)
	l, err := d.ledger(ctx)
	if err != nil {
		return nil, nil, err
	}
	for _, damaged := range l.damaged {
		rec.Record(Noticed{fmt.Sprintf("a message of the plans topic is passed over: %v", damaged)})
	}
	if log.Embedded() && len(l.unfinished()) == 0 {
		if err := d.clear(ctx, job); err != nil {
			return nil, nil, err
		}
	}
	plan, err := d.plan(ctx, job, blas, sources, l, rec)
	if err != nil {
		return nil, nil, err
	}
	known := l.plan(plan.Run()) != nil
	plan, first, err := d.submit(ctx, plan, l, o.Supersede || log.Embedded(), rec)
	if err != nil {
		return nil, nil, err
	}
	for _, earlier := range first {
		if earlier.Arithmetic != plan.Arithmetic {
			return nil, nil, &StandAsideError{earlier.Run(), earlier.Arithmetic, plan.Arithmetic}
		}
		rec.Record(Noticed{fmt.Sprintf("run %s was planned before and is not finished: it goes first", earlier.Run())})
		if _, err := d.execute(ctx, blas, earlier, job.Memory, rec); err != nil && !errors.As(err, new(*RunError)) {
			return nil, nil, err
		}
	}
	rec.Record(Began{Run: plan.Run(), Resumed: known, Stages: plan.Stages})
	report, err := d.execute(ctx, blas, plan, job.Memory, rec)
	if err != nil {
		return nil, nil, err
	}
	report.IngestSeconds = ingested.Seconds()
	model, err := LoadModel(ctx, log, job.Name, plan.Run())
	return report, model, err
}

// clear empties the topics that only a run under way reads. The embedded
// broker deletes nothing by age, and a run leaves a Gram matrix a stage and
// partition.
func (d desk) clear(ctx context.Context, job Job) error {
	if err := d.log.Delete(ctx, d.statistics, d.residuals); err != nil {
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
		for _, other := range l.unfinished() {
			if other.Run() == run {
				continue
			}
			end := &schemas.End{Run: other.Run(), Content: other.Content(), State: schemas.Cancelled, Reason: "superseded by run " + run}
			if _, err := d.write(ctx, d.plans, 0, end.Message()); err != nil {
				return nil, nil, fmt.Errorf("cancel run %s: %w", other.Run(), err)
			}
			rec.Record(Noticed{fmt.Sprintf("run %s was not finished and is of another configuration: it is cancelled", other.Run())})
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
		if other.Run() == run {
			return other, first, nil
		}
		first = append(first, other)
	}
	return nil, nil, &RunError{Run: run, State: "ended", Reason: "somebody else finished or cancelled it meanwhile; the same command begins the next"}
}

// execute brings a worker and a solver to a run, and follows it to its end.
func (d desk) execute(ctx context.Context, blas *kernel.BLAS, plan *schemas.Plan, bytes int64, rec Recorder) (*Report, error) {
	bytes, err := memoryBudget(bytes)
	if err != nil {
		return nil, err
	}
	roles, ctx := errgroup.WithContext(ctx)
	working, stop := context.WithCancel(ctx)
	defer stop()
	var (
		end    *schemas.End
		report *Report
	)
	roles.Go(func() error { return unlessStopped(working, newWorker(d, blas, plan, bytes, rec).work(working)) })
	roles.Go(func() error { return unlessStopped(working, newSolver(d, plan, rec).solve(working)) })
	roles.Go(func() error {
		defer stop()
		var err error
		end, report, err = d.awaitEnd(ctx, plan.Run())
		return err
	})
	if err := roles.Wait(); err != nil {
		return nil, err
	}
	rec.Record(Ended{Run: end.Run, State: end.State, Reason: end.Reason})
	if end.State != schemas.Done {
		return nil, &RunError{end.Run, end.State, end.Reason}
	}
	if report == nil {
		return nil, fmt.Errorf("run %s is done, but its report is not on %s", end.Run, d.plans)
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

// awaitEnd follows the plans topic until the run has ended, and reads its report
// on the way. Damaged messages are none.
func (d desk) awaitEnd(ctx context.Context, run string) (end *schemas.End, report *Report, err error) {
	plans := d.log.Follow(d.plans, 0, 0)
	plans.SkipDeleted = true
	defer plans.Close()
	var reports schemas.Collector[float32]
	for {
		r, err := plans.Next(ctx)
		if err != nil {
			return nil, nil, fmt.Errorf("follow plans: %w", err)
		}
		m := message(r)
		if m.Get("run") != run {
			continue
		}
		switch m.Kind() {
		case schemas.KindReport:
			if whole, err := reports.Add(m, d.mem); err == nil && whole != nil && report == nil {
				if report, err = reportOf(whole); err != nil {
					return nil, nil, err
				}
			}
		case schemas.KindEnd:
			if end, err := schemas.DecodeJSON[schemas.End](m); err == nil {
				return end, report, nil
			}
		}
	}
}

// serialised lets one goroutine at a time record.
type serialised struct {
	mutex sync.Mutex
	to    Recorder
}

func (s *serialised) Record(e Event) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	s.to.Record(e)
}
