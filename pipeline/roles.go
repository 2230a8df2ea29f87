package pipeline

import (
	"context"
	"errors"
	"slices"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas"
)

// Work makes visits for the runs of a pipeline, one run after the other, to the
// partitions that its consumer group gives it, until ctx ends. Any number of
// processes may do so. It makes the topics where they are missing.
func Work(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, rec Recorder) error {
	rec = &serialised{to: rec}
	here, err := arithmetic(blas)
	if err != nil {
		return err
	}
	bytes, err := memoryBudget(job.Memory)
	if err != nil {
		return err
	}
	d := newDesk(log, job.Name, nil)
	if err := d.prepare(ctx, &job, d.examples, d.residuals, d.statistics, d.weights, d.plans, d.quarantine); err != nil {
		return err
	}
	join := func() member { return log.Join(d.workers(), d.examples) }
	return d.serve(ctx, here, rec, join, func(ctx context.Context, o owner, plan *schemas.Plan, watch int64) error {
		return newWorker(d, blas, plan, watch, o, bytes, rec).work(ctx)
	})
}

// Solve solves the runs of a pipeline, one after the other, for as long as its
// consumer group has it own the plans, until ctx ends. Of several processes that
// do so one is active, the others stand by. It makes the topics where they are
// missing.
func Solve(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job Job, rec Recorder) error {
	rec = &serialised{to: rec}
	here, err := arithmetic(blas)
	if err != nil {
		return err
	}
	d := newDesk(log, job.Name, nil)
	if err := d.prepare(ctx, &job, d.statistics, d.weights, d.plans); err != nil {
		return err
	}
	join := func() member { return log.Join(d.solvers(), d.plans) }
	return d.serve(ctx, here, rec, join, func(ctx context.Context, o owner, plan *schemas.Plan, watch int64) error {
		return d.solveWhenOwner(ctx, o, plan, watch, rec)
	})
}

// workers and solvers are the consumer groups of the roles.
func (t topics) workers() string { return t.name + ".work" }
func (t topics) solvers() string { return t.name + ".solve" }

// member is an owner that can leave its group.
type member interface {
	owner
	Leave() error
}

// role does its part of a run until the run has ended, or can't go on.
type role func(ctx context.Context, o owner, plan *schemas.Plan, watch int64) error

// serve has a role do its part of all runs, in the order of their plans, until ctx
// ends. A process of another arithmetic than a run's leaves its group for as long
// as that run takes, so that others get its partitions.
func (d desk) serve(ctx context.Context, here schemas.Arithmetic, rec Recorder, join func() member, do role) error {
	plans, err := d.ledger(ctx)
	if err != nil {
		return err
	}
	plans.tell(rec)
	for {
		group := join() // before there is a run: a group takes its time
		aside, err := d.serveIn(ctx, group, here, plans, rec, do)
		if parting := group.Leave(); parting != nil && ctx.Err() == nil {
			notice(rec, "leave the group: %v", parting)
		}
		if err != nil {
			return err
		}
		notice(rec, "run %s was planned with %+v, this process has %+v: it stands aside until the run has ended", aside.Run(), aside.Arithmetic, here)
		s := d.queue(ctx, plans, newAlone(0), rec)
		err = s.over(ctx, aside.Run())
		s.incoming.Close()
		if err != nil {
			return err
		}
	}
}

// serveIn serves as a member of a group, until a run comes that is of another
// arithmetic.
func (d desk) serveIn(ctx context.Context, group owner, here schemas.Arithmetic, plans *ledger, rec Recorder, do role) (aside *schemas.Plan, err error) {
	s := d.queue(ctx, plans, group, rec)
	defer s.incoming.Close()
	for {
		plan, err := s.due(ctx)
		if err != nil || plan.Arithmetic != here {
			return plan, err
		}
		run := plans.run(plan)
		rec.Record(Began{Run: run, Stages: plan.Stages})
		if err := do(ctx, group, plan, plans.next); err != nil {
			return nil, err
		}
		if err := s.over(ctx, run); err != nil {
			return nil, err
		}
	}
}

// queue is the runs that wait for a role, as the plans topic grows.
type queue struct {
	desk
	plans    *ledger
	owner    owner
	rec      Recorder
	incoming mail
	owned    []int // that was told of
}

// queue goes on where the ledger has read to, until its mail is closed.
func (d desk) queue(ctx context.Context, plans *ledger, o owner, rec Recorder) *queue {
	return &queue{desk: d, plans: plans, owner: o, rec: rec, incoming: d.log.Mail(ctx, o.Changed(), address{d.plans, 0, plans.next, true})}
}

// due waits for a run that has not ended.
func (q *queue) due(ctx context.Context) (*schemas.Plan, error) {
	for {
		if first := q.plans.unfinished(); len(first) > 0 {
			return first[0], nil
		}
		if owned := q.owner.Owned(); !slices.Equal(owned, q.owned) {
			q.owned = owned
			q.rec.Record(Owned{Partitions: owned})
		}
		if err := q.next(ctx); err != nil {
			return nil, err
		}
	}
}

// over waits until a run has ended, and tells of it.
func (q *queue) over(ctx context.Context, run string) error {
	for q.plans.ends[run] == nil {
		if err := q.next(ctx); err != nil {
			return err
		}
	}
	end := q.plans.ends[run]
	q.rec.Record(Ended{Run: end.Run, State: end.State, Reason: end.Reason})
	return nil
}

// next takes a message of the plans topic, or finds that something has changed.
func (q *queue) next(ctx context.Context) error {
	if err := membership(q.owner); err != nil {
		return err
	}
	l, _, err := q.incoming.Next(ctx, mostPatience)
	if err != nil || l == nil {
		return err
	}
	if err := q.plans.add(l.entry); err != nil {
		passOver(q.rec, "plans", err)
	}
	return nil
}

// solveWhenOwner solves a run whenever its solver is to be this process, until
// the run has ended.
func (d desk) solveWhenOwner(ctx context.Context, o owner, plan *schemas.Plan, watch int64, rec Recorder) error {
	for {
		mine, err := d.standBy(ctx, o, plan.Run(), watch)
		if err != nil || !mine {
			return err
		}
		if err := newSolver(d, plan, watch, o, rec).solve(ctx); !errors.Is(err, errNotOwner) {
			return err
		}
		notice(rec, "another solver goes on: standing by")
	}
}

// standBy waits until the plans are owned, or the run has ended.
func (d desk) standBy(ctx context.Context, o owner, run string, watch int64) (mine bool, err error) {
	if mine, err := owns(o, 0); err != nil || mine {
		return mine, err
	}
	plans := d.log.Mail(ctx, o.Changed(), address{d.plans, 0, watch, true})
	defer plans.Close()
	for {
		l, _, err := plans.Next(ctx, mostPatience)
		if err != nil {
			return false, err
		}
		if l != nil && isEndOf(l.Message, run) {
			return false, nil
		}
		if mine, err := owns(o, 0); err != nil || mine {
			return mine, err
		}
	}
}
