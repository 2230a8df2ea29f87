package pipeline

import (
	"context"
	"errors"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/heed"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

// execution executes a run until it has ended, or follows its execution, and returns its report. The ledger has the run's
// plan.
type execution func(context.Context, *schemas.Plan, *protocol.Ledger) (*schemas.Report, error)

// runner submits the runs of a chain, and follows them to their ends.
type runner struct {
	*topics.Pipeline
	job       topics.Job
	owner     protocol.Owner     // of the plans topic in the group of runners: the owner submits
	here      schemas.Arithmetic // of this process
	join      func(context.Context) (work execution, leave func(), err error)
	work      execution                                                       // while this process is the active one
	choose    func(context.Context, *schemas.Plan, int64) (topics.Job, error) // chooses stages by the first plan; nil: the job has them
	rec       event.Recorder
	retention topics.ExamplesRetention
	backlog   *backlog
	forgotten *heed.Forgotten
	learnt    []schemas.Place // versions trained on forgotten rows
	report    *Retraining
	reported  sync.Mutex        // held by Record
	settings  []schemas.Setting // of the job
	differs   string            // the settings that differ from those of the newest plan, as reported

	chain    chainState
	proven   bool         // the examples topic has the messages processed by the chain
	earlier  []earlier    // versions before the head, newest first
	refused  bool         // deletion of their records was denied
	passed   map[int]bool // incomplete versions
	failures int          // since the last version
	made     string       // last run submitted by this process
	waits    bool         // for a second class, which was reported
	only     []string     // the only class left in the window without forgotten rows; empty: more, or unknown

	windowBytes int64                                      // see schemas.WindowBytes
	pause       func(context.Context, time.Duration) error // after a failed run, to give the cause time to pass
}

// newRunner returns the runner of a job's chain. It joins the groups of workers and solvers only when this process is the
// active one of its group, because the partitions of a standby process would wait.
func newRunner(p *topics.Pipeline, job topics.Job, owner protocol.Owner, here schemas.Arithmetic,
	join func(context.Context) (execution, func(), error), rec event.Recorder) *runner {
	forgotten := heed.NewForgotten()
	return &runner{Pipeline: p, job: job, owner: owner, here: here, join: join, rec: rec,
		backlog: newBacklog(examplesTopic{p, forgotten}, firstLabels(job)), forgotten: forgotten,
		settings: job.Settings(), report: &Retraining{Name: job.Name},
		passed: map[int]bool{}, windowBytes: schemas.WindowBytes,
		pause: func(ctx context.Context, wait time.Duration) error { return topics.PauseFor(ctx, p, wait) }}
}

// examplesTopic is the examples topic of a pipeline without forgotten rows, for its backlog.
type examplesTopic struct {
	*topics.Pipeline
	forgotten *heed.Forgotten
}

// Range implements [backlogTopic].
func (t examplesTopic) Range(s coverage.Span) protocol.Reader {
	return t.Log.Range(t.Topics.Examples, s.Partition, s.From, s.To)
}

// Examples implements [backlogTopic].
func (t examplesTopic) Examples(partition int, m protocol.Message) (*examples.Batch, error) {
	batch, err := t.Codec.DecodeExamples(m.Value)
	if err != nil {
		return nil, err
	}
	return batch.Without(t.forgotten.Rows, partition, m.Offset), nil
}

func (t examplesTopic) String() string { return t.Topics.Examples }

// run makes one version after the other, while this process is the active one of its group.
func (r *runner) run(ctx context.Context, untilEnd bool) error {
	for {
		if err := r.standBy(ctx); err != nil {
			return err
		}
		if err := r.compareSettings(ctx); err != nil {
			return err
		}
		work, leave, err := r.join(ctx)
		if err != nil {
			return err
		}
		r.work = work
		err = r.ingestAndGoOn(ctx, untilEnd)
		leave()
		if !errors.Is(err, errNotActive) {
			return err
		}
	}
}

// ingestAndGoOn makes one version after the other, and concurrently ingests the job's topic. With untilEnd that topic is
// first read to its end.
func (r *runner) ingestAndGoOn(ctx context.Context, untilEnd bool) error {
	switch {
	case r.job.Examples.FromTopic == "":
		return r.goOn(ctx, untilEnd)
	case untilEnd:
		if err := source.FollowTopic(ctx, r.Pipeline, r.job, true, r); err != nil {
			return err
		}
		return r.goOn(ctx, true)
	}
	group, ctx := errgroup.WithContext(ctx)
	ingesting, stop := context.WithCancel(ctx)
	group.Go(func() error {
		return dispatch.UnlessStopped(ingesting, source.FollowInTurn(ingesting, r.Pipeline, r.job, r))
	})
	group.Go(func() error {
		defer stop()
		return r.goOn(ctx, false)
	})
	return group.Wait()
}

// Record implements [event.Recorder] for the ingest of the job's topic: it adds what is lost to the report.
func (r *runner) Record(e event.Event) {
	if lost, ok := e.(event.ColumnLost); ok && lost.Rows > 0 {
		r.reported.Lock()
		if r.report.LostColumns == nil {
			r.report.LostColumns = map[string]int64{}
		}
		r.report.LostColumns[lost.Column] += lost.Rows
		r.reported.Unlock()
	}
	if lost, ok := e.(event.Lost); ok {
		r.reported.Lock()
		r.report.LostMessages += lost.To - lost.From
		r.reported.Unlock()
	}
	r.rec.Record(e)
}

// goOn makes one version after the other. The error is errNotActive if another process continues.
func (r *runner) goOn(ctx context.Context, untilEnd bool) error {
	for {
		if err := r.checkActive(); err != nil {
			return err
		}
		l, err := r.ReadLedger(ctx)
		if err != nil {
			return err
		}
		waited, err := r.finish(ctx, l)
		if err != nil {
			return err
		}
		if waited {
			continue
		}
		if again, err := r.announce(ctx, l); err != nil {
			return err
		} else if again {
			continue
		}
		if err := r.findHead(ctx, l); err != nil {
			return err
		}
		if err := r.forget(ctx, l); err != nil {
			return err
		}
		plan, err := r.next(ctx, untilEnd)
		if err != nil || plan == nil {
			return err
		}
		if err := r.checkActive(); err != nil {
			return err
		}
		plan.Since.Plans = l.Next
		if err := r.submit(ctx, plan); err != nil {
			return err
		}
	}
}

// errNotActive means that another process retrains the pipeline now.
var errNotActive = errors.New("another process retrains this pipeline")

// checkActive returns errNotActive unless this process is the active one of its group.
func (r *runner) checkActive() error {
	active, err := protocol.Owns(r.owner, 0)
	if err == nil && !active {
		err = errNotActive
	}
	return err
}

// standBy waits until this process is the active one of its group.
func (r *runner) standBy(ctx context.Context) error {
	return topics.AwaitTurn(ctx, r.Pipeline, r.owner, protocol.RoleRun, errNotActive, r.compareSettings, r.rec)
}
