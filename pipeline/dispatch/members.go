package dispatch

import (
	"context"
	"errors"
	"sync"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
)

// TrainOptions are the options of a submission. The zero value finishes earlier runs first.
type TrainOptions struct {
	// Supersede cancels the pipeline's other unfinished runs instead of finishing them first. On the embedded broker they are
	// always cancelled, since no other process can be working on them.
	Supersede bool
	// Trigger means that a trigger, such as a timer, submits the run. The run cancels waiting runs of other triggers, and a
	// later one cancels it while it waits. A run that has started is not cancelled.
	Trigger bool
	// Allocator allocates Arrow memory; nil means the Go heap.
	Allocator memory.Allocator
}

// Members are this process's memberships in the groups of workers and solvers, with the resources of its worker and
// solver.
type Members struct {
	*topics.Pipeline
	Process
	Cache         *visit.Cache // of the worker
	Recorder      event.Recorder
	Works, Solves protocol.Owner
	// JoinWorkers and LeaveWorkers join and leave the group of workers.
	JoinWorkers, LeaveWorkers func()
	Leave                     func() // leaves both groups
}

// Join joins the consumer groups of the pipeline. On the embedded broker this process owns all partitions. If cache is nil, nothing stays
// in memory for later runs.
func Join(ctx context.Context, p *topics.Pipeline, job topics.Job, cache *visit.Cache, blas *kernel.BLAS,
	rec event.Recorder) (*Members, error) {
	bytes, err := visit.CacheBytes(job.Memory)
	if err != nil {
		return nil, err
	}
	p.MatrixBytes = bytes
	if cache == nil {
		cache = visit.NewRunCache(bytes)
	}
	CheckCache(ctx, p, cache)
	m := &Members{Pipeline: p, Process: NewProcess(blas), Cache: cache, Recorder: rec,
		JoinWorkers: func() {}, LeaveWorkers: func() {}, Leave: func() {}}
	if p.Admin.Embedded() {
		m.Works, m.Solves = protocol.NewSoleOwner(job.Examples.Partitions), protocol.NewSoleOwner(1)
		return m, nil
	}
	var works *kafkalog.Member
	m.JoinWorkers = func() {
		works = p.Admin.JoinGroups(p.Topics.Group(protocol.RoleWork), p.Topics.Examples, job.ShareSize)
		m.Works = works
	}
	m.JoinWorkers()
	solves := p.Admin.Join(p.Topics.Group(protocol.RoleSolve), p.Topics.Plans)
	m.Solves = solves
	m.LeaveWorkers = func() {
		if err := works.Leave(); err != nil {
			event.Notice(rec, "leave the group of workers: %v", err)
		}
	}
	m.Leave = func() {
		var leaving sync.WaitGroup // concurrently, since each may take a few seconds
		leaving.Go(m.LeaveWorkers)
		if err := solves.Leave(); err != nil {
			event.Notice(rec, "leave the group of solvers: %v", err)
		}
		leaving.Wait()
	}
	return m, nil
}

// CheckCache empties a cache if the examples topic is or may be compacted: the messages of its rows may then no
// longer be on the topic.
func CheckCache(ctx context.Context, p *topics.Pipeline, cache *visit.Cache) {
	configs, err := p.Admin.Configs(ctx, p.Topics.Examples)
	if err != nil || configs[p.Topics.Examples]["cleanup.policy"] != "delete" {
		cache.Retain(nil)
	}
}

// errLeft means that a role has left a run that has not ended: the plans topic has lost messages, or has another end of an earlier run. So
// an earlier run goes first, or the run starts at other offsets.
var errLeft = errors.New("the run has another start, or another run goes first")

// Execute executes a run, after the unfinished runs that were submitted before it, as worker and solver until it has ended, and returns its
// report. l has its plan. The error is a *[StandAsideError] if this process can't execute one of them.
func (m *Members) Execute(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) (*schemas.Report, error) {
	for id := plan.Run(); ; {
		if !l.GoesOn(id) { // another process has finished it
			return Follow(ctx, m.Pipeline, plan, l, false, m.Recorder)
		}
		var first *schemas.Plan // from the ledger: the end of the run before it determines where it starts
		for _, first = range l.Unfinished() {
			break
		}
		report, err := m.execute(ctx, first, l)
		if !errors.Is(err, errLeft) && (!Ended(err) || first.Run() == id) {
			return report, err
		}
		if l, err = m.ReadLedger(ctx); err != nil {
			return nil, err
		}
	}
}

// Ended reports whether an error of [Members.Execute] means that the run has ended. One that others have removed since has no report.
func Ended(err error) bool {
	return err == nil || errors.As(err, new(*RunError)) || errors.As(err, new(*ReportGoneError))
}

// execute executes the run that goes first.
func (m *Members) execute(ctx context.Context, plan *schemas.Plan, l *protocol.Ledger) (report *schemas.Report, err error) {
	if why := Unable(m.Pipeline, plan, m.Arithmetic); why != "" {
		return nil, &StandAsideError{plan.Run(), why}
	}
	if _, alone := m.Works.(protocol.SoleOwner); alone { // partitions may have been added since this process joined
		m.Works = protocol.NewSoleOwner(topics.PartitionsFor(plan))
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var first sync.Once // error of the first role to fail, which stops the others
	working, stop := context.WithCancel(ctx)
	defer stop()
	rec := event.Serialised(once(m.Recorder))
	part := func(do func() error) func() {
		return func() {
			if ended := do(); ended != nil {
				first.Do(func() { err = ended })
				cancel()
			}
		}
	}
	role := func(do func() error) func() {
		return part(func() error {
			if err := do(); err != nil {
				return UnlessStopped(working, err)
			}
			l, err := m.ReadLedger(working)
			if err == nil && l.GoesOn(plan.Run()) {
				err = errLeft
			}
			return UnlessStopped(working, err)
		})
	}
	m.together(role(func() error {
		return m.work(working, plan, rec)
	}), role(func() error {
		return SolveWhenOwner(working, m.Pipeline, m.BLAS, m.resources(), m.Solves, plan, rec)
	}), part(func() error {
		defer stop()
		var err error
		report, err = Follow(ctx, m.Pipeline, plan, l, false, rec)
		return err
	}))
	if err != nil {
		return nil, err
	}
	return report, nil
}

// resources returns the resources of the visits of this process.
func (m *Members) resources() worker.Options {
	return worker.Options{Cache: m.Cache, Solves: true, Executor: m.Executor}
}

// work executes a run as worker until the run has ended.
func (m *Members) work(ctx context.Context, plan *schemas.Plan, rec event.Recorder) error {
	for said := ""; ; {
		err := worker.New(m.Client, m.BLAS, plan, m.Works, m.resources(), rec).Work(ctx)
		stopped, ok := errors.AsType[*worker.StoppedError](err)
		if !ok {
			return err
		}
		if why := stopped.Error(); !m.Alone && why != said { // alone, the run fails for that reason
			event.Notice(rec, "%s", why)
			said = why
		}
		m.LeaveWorkers() // so that other processes get its partitions
		err = stopped.Report(ctx)
		m.JoinWorkers() // even after an error: the run may have ended first, and the next run needs the member
		if err != nil {
			return err
		}
	}
}

// UnlessStopped drops the error of a role that was stopped because its run has ended.
func UnlessStopped(working context.Context, err error) error {
	if working.Err() != nil && errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// once returns a recorder that drops repeated events of the survey and of each stage. Both the solver of this process and the
// follower record them, because another process may solve the run.
func once(to event.Recorder) event.Recorder {
	recorded := map[any]bool{} // by stage; "survey" for the survey
	return func(e event.Event) {
		var what any
		switch e := e.(type) {
		case event.Surveyed:
			what = "survey"
		case event.StageEnded:
			what = e.Stage
		}
		if !recorded[what] {
			to.Record(e)
			recorded[what] = what != nil
		}
	}
}

// Process is the computing resources of a process.
type Process struct {
	BLAS       *kernel.BLAS
	Arithmetic schemas.Arithmetic // arithmetic of its sums
	Executor   visit.Executor     // executor of its workers; nil: [visit.Concurrent]
	// Together calls functions concurrently, and returns when all have returned; nil: each runs in a goroutine.
	Together func(parts ...func())
}

// NewProcess returns this process with all of its cores.
func NewProcess(blas *kernel.BLAS) Process {
	return Process{BLAS: blas, Arithmetic: Arithmetic(blas)}
}

// together calls functions concurrently, and returns when all have returned.
func (p *Process) together(parts ...func()) {
	if p.Together != nil {
		p.Together(parts...)
		return
	}
	var running sync.WaitGroup
	for _, part := range parts {
		running.Go(part)
	}
	running.Wait()
}
