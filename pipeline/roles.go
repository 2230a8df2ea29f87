package pipeline

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
)

// Work makes the visits of a pipeline's runs, one run after the other, to the partitions that its consumer group assigns to this
// process. It returns when ctx ends. Any number of processes may work. It creates topics that are missing.
func Work(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, rec event.Recorder) error {
	here := arithmetic(blas)
	bytes, err := partition.Bytes(job.Memory)
	if err != nil {
		return err
	}
	p := openForRuns(log, job, nil)
	t := p.Topics
	if err := p.require(ctx, &job, t.Examples, t.Residuals, t.Statistics, t.Weights, t.Versions, t.Plans, t.Quarantine); err != nil {
		return err
	}
	rec = event.Serialised(rec)
	if err := p.checkPolicies(ctx, rec, t.Versions, t.Plans); err != nil {
		return err
	}
	store := partition.NewStore(bytes)
	join := func() member { return log.Join(t.Workers(), t.Examples) }
	return p.serve(ctx, here, rec, join, func(ctx context.Context, o run.Owner, plan *schemas.Plan, watch int64) error {
		p.checkStore(ctx, store)
		return worker.New(p.Client, blas, plan, watch, o, worker.Options{Store: store}, rec).Work(ctx)
	})
}

// Solve solves a pipeline's runs, one after the other, while its consumer group assigns the plans topic to this process. It returns
// when ctx ends. If several processes solve, one is active and the others stand by. It creates topics that are missing.
func Solve(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, rec event.Recorder) error {
	here := arithmetic(blas)
	p := openForRuns(log, job, nil)
	t := p.Topics
	if err := p.require(ctx, &job, t.Statistics, t.Weights, t.Versions, t.State, t.Plans); err != nil {
		return err
	}
	rec = event.Serialised(rec)
	if err := p.checkPolicies(ctx, rec, t.Versions, t.State, t.Plans); err != nil {
		return err
	}
	join := func() member { return log.Join(t.Solvers(), t.Plans) }
	return p.serve(ctx, here, rec, join, func(ctx context.Context, o run.Owner, plan *schemas.Plan, watch int64) error {
		if err := p.solveWhenOwner(ctx, blas, o, plan, watch, rec); err != nil {
			return err
		}
		if owner, err := run.Owns(o, 0); err != nil || !owner {
			return err // those that stand by need not remove the same again
		}
		p.prune(ctx, job.Keep, rec)
		return nil
	})
}

// prune removes what nobody needs any more. Trouble with that is no trouble for anybody else: the next run removes it.
func (p *pipeline) prune(ctx context.Context, keep int, rec event.Recorder) {
	if err := p.Prune(ctx, cmp.Or(keep, DefaultKeep)); err != nil && ctx.Err() == nil {
		event.Notice(rec, "old versions and plans are not removed now, but after a later run: %v", err)
	}
}

// member is an owner that can leave its consumer group.
type member interface {
	run.Owner
	Leave() error
}

// role works on a run, or solves it, until the run has ended. An error means that the role can't continue. The run's end is on the
// plans topic at offset watch or later.
type role func(ctx context.Context, o run.Owner, plan *schemas.Plan, watch int64) error

// serve does all runs in the order of their plans, until ctx ends. If a run has another arithmetic than this process (here), or
// other examples, the process leaves its group until that run has ended, so that other processes get its partitions.
func (p *pipeline) serve(ctx context.Context, here schemas.Arithmetic, rec event.Recorder, join func() member, do role) error {
	plans, err := p.ReadLedger(ctx)
	if err != nil {
		return err
	}
	plans.Report(rec)
	for {
		group := join() // join before there is a run, as joining takes seconds
		other, err := p.serveAs(ctx, group, here, plans, rec, do)
		if leaving := group.Leave(); leaving != nil && ctx.Err() == nil {
			event.Notice(rec, "leave the consumer group: %v", leaving)
		}
		if stopped, ok := errors.AsType[*worker.StoppedError](err); ok {
			event.Notice(rec, "%v: other processes get its partitions", stopped)
			if err = stopped.Report(ctx); err == nil {
				err = p.refresh(ctx, plans)
			}
			if err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		aside := event.StoodAside{Run: other.Run(), Why: p.unable(other, here)}
		rec.Record(aside)
		if err := p.endedOrGivenUp(ctx, plans, other, rec); err != nil {
			return err
		}
		aside.Over = true
		rec.Record(aside)
	}
}

// unable returns why this process can't work on a run; "" if it can.
func (p *pipeline) unable(plan *schemas.Plan, here schemas.Arithmetic) string {
	if !plan.Arithmetic.Admits(here) {
		return "it has another arithmetic: " + differences(plan.Arithmetic, here, "this process")
	}
	if err := p.checkExamples(plan, "it"); err != nil {
		return err.Error()
	}
	return ""
}

// endedOrGivenUp waits until a run goes on no more that this process can't work on. If nobody takes the run up, it gives the run up, so
// that those behind it get their turn.
func (p *pipeline) endedOrGivenUp(ctx context.Context, plans *run.Ledger, other *schemas.Plan, rec event.Recorder) error {
	id := other.Run()
	for began := time.Now(); plans.GoesOn(id); {
		if p.GiveUp > 0 && time.Since(began) >= p.GiveUp {
			if err := p.giveUp(ctx, other, rec); err != nil {
				return err
			}
			began = time.Now()
		}
		q := p.queue(ctx, plans, run.NewSoleOwner(0), rec)
		late, err := q.ended(ctx, id)
		q.subscription.Close()
		if err == nil && late {
			err = p.refresh(ctx, plans)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// giveUp ends a run as failed unless somebody has taken it up.
func (p *pipeline) giveUp(ctx context.Context, plan *schemas.Plan, rec event.Recorder) error {
	taken, err := p.takenUp(ctx, plan)
	if err != nil || taken {
		return err
	}
	id, reason := plan.Run(), &run.UnclaimedError{What: "worker and no solver", After: p.GiveUp, Arithmetic: plan.Arithmetic}
	err = p.end(ctx, &schemas.End{Run: id, State: schemas.Failed, Reason: reason.Error(), Attempt: p.Fresh()})
	if errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "run %s should be given up, but this process may not do so: %v", id, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("give up run %s: %w", id, err)
	}
	return nil
}

// takenUp reports whether a worker or a solver has written anything for a run.
func (p *pipeline) takenUp(ctx context.Context, plan *schemas.Plan) (taken bool, err error) {
	id, found := plan.Run(), errors.New("found")
	look := func(topic string, partition int, from int64) error {
		return p.Remaining(ctx, topic, partition, from, math.MaxInt64, func(m run.Message) error {
			if m.Run() == id {
				return found
			}
			return nil
		})
	}
	err = look(p.Topics.Weights, 0, plan.Since.Weights)
	for n, from := range plan.Since.Statistics {
		if err != nil {
			break
		}
		err = look(p.Topics.Statistics, n, from)
	}
	if errors.Is(err, found) {
		return true, nil
	}
	return false, err
}

// refresh reads a ledger again.
func (p *pipeline) refresh(ctx context.Context, plans *run.Ledger) error {
	latest, err := p.ReadLedger(ctx)
	if err == nil {
		*plans = *latest
	}
	return err
}

// serveAs does runs as a member of a group, until it gets a run that this process can't work on. It returns that run's plan.
func (p *pipeline) serveAs(ctx context.Context, group run.Owner, here schemas.Arithmetic, plans *run.Ledger, rec event.Recorder, do role) (other *schemas.Plan, err error) {
	q := p.queue(ctx, plans, group, rec)
	defer func() { q.subscription.Close() }()
	for stale := false; ; {
		if stale || plans.Long() { // a long ledger would grow for as long as the process runs
			stale = false
			if err := p.refresh(ctx, plans); err != nil {
				return nil, err
			}
			q.subscription.Close()
			q = p.queue(ctx, plans, group, rec)
		}
		id, plan, err := q.next(ctx)
		if err != nil {
			return nil, err
		}
		if plan == nil || plans.Uncertain(id) {
			stale = true
			continue
		}
		if p.unable(plan, here) != "" {
			return plan, nil
		}
		rec.Record(event.Began{Run: id, Stages: plan.Stages, Members: plan.Members()})
		if err := do(ctx, group, plan, plans.Next); err != nil {
			return nil, err
		}
		if stale, err = q.ended(ctx, id); err != nil {
			return nil, err
		}
	}
}

// queue is the runs that a role has yet to do. It follows the plans topic.
type queue struct {
	plans        *run.Ledger
	owner        run.Owner
	rec          event.Recorder
	subscription run.Subscription
	owned        []int // the partitions that were recorded last
}

// queue returns a queue that reads the plans topic from where the ledger ends. The caller closes its subscription.
func (p *pipeline) queue(ctx context.Context, plans *run.Ledger, o run.Owner, rec event.Recorder) *queue {
	from := run.Position{Topic: p.Topics.Plans, Offset: plans.Next, Compacted: true}
	return &queue{plans: plans, owner: o, rec: rec, subscription: p.Log.Subscribe(ctx, o.Changed(), from)}
}

// next waits for a run that has not ended, and returns its id and its plan; nil if nothing has come for so long that the ledger should be read
// again. After an unclean election of a leader, a plan may have an offset that the queue has read already.
func (q *queue) next(ctx context.Context) (id string, plan *schemas.Plan, err error) {
	for {
		for id, plan := range q.plans.Unfinished() {
			return id, plan, nil
		}
		if owned := q.owner.Owned(); !slices.Equal(owned, q.owned) {
			q.owned = owned
			q.rec.Record(event.Owned{Partitions: owned})
		}
		if late, err := q.take(ctx); err != nil || late {
			return "", nil, err
		}
	}
}

// ended waits until a run has ended, and records it. late reports that nothing has come for so long that the ledger should be read
// again.
func (q *queue) ended(ctx context.Context, id string) (late bool, err error) {
	for q.plans.End(id) == nil {
		if late, err := q.take(ctx); err != nil || late {
			return late, err
		}
	}
	end := q.plans.End(id)
	q.rec.Record(event.Ended{Run: end.Run, State: end.State, Reason: end.Reason})
	return false, nil
}

// take adds the next message of the plans topic to the ledger. It also returns if the owned partitions have changed, or, late, after a
// while without a message.
func (q *queue) take(ctx context.Context) (late bool, err error) {
	if err := run.CheckMembership(q.owner); err != nil {
		return false, err
	}
	delivery, late, err := q.subscription.Next(ctx, run.MinPatience)
	if err != nil || delivery == nil {
		return late, err
	}
	if err := q.plans.Add(delivery.Message); err != nil {
		event.Skip(q.rec, "plans", err)
	}
	return false, nil
}

// solveWhenOwner solves a run while this process owns the plans topic. It returns when the run has ended.
func (p *pipeline) solveWhenOwner(ctx context.Context, blas *kernel.BLAS, o run.Owner, plan *schemas.Plan, watch int64, rec event.Recorder) error {
	id := plan.Run()
	for {
		owner, err := p.standBy(ctx, o, id, plan.Since, watch)
		if err != nil || !owner {
			return err
		}
		rec.Record(event.Solving{Run: id, Active: true})
		if err := solver.New(p.Client, blas, plan, watch, o, solver.Options{Store: p.sums, Retention: p.weightsRetention}, rec).Solve(ctx); !errors.Is(err, solver.ErrNotOwner) {
			return err
		}
		rec.Record(event.Solving{Run: id})
		event.Notice(rec, "another solver continues this run: standing by")
	}
}

// standBy waits until this process owns the plans topic, and returns true, or until the run has ended, and returns false.
func (p *pipeline) standBy(ctx context.Context, o run.Owner, id string, since schemas.Since, watch int64) (owner bool, err error) {
	if owner, err := run.Owns(o, 0); err != nil || owner {
		return owner, err
	}
	subscription := p.Log.Subscribe(ctx, o.Changed(), run.Position{Topic: p.Topics.Plans, Offset: watch, Compacted: true})
	defer subscription.Close()
	for {
		delivery, late, err := subscription.Next(ctx, run.MaxPatience)
		if err != nil {
			return false, err
		}
		if late {
			if goesOn, err := p.GoesOn(ctx, id, since); err != nil || !goesOn {
				return false, err
			}
		}
		if delivery != nil && run.Ends(delivery.Message.Message, id) {
			return false, nil
		}
		if owner, err := run.Owns(o, 0); err != nil || owner {
			return owner, err
		}
	}
}
