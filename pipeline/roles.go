package pipeline

import (
	"context"
	"errors"
	"fmt"

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
	if err := d.prepare(ctx, &job); err != nil {
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
	if err := d.prepare(ctx, &job); err != nil {
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
func (d desk) serve(ctx context.Context, here schemas.Arithmetic, rec Recorder, join func() member, do role) (err error) {
	var group member
	leave := func() {
		if group != nil {
			err = errors.Join(err, group.Leave())
			group = nil
		}
	}
	defer leave()
	plans := &ledger{}
	incoming := d.log.Mail(ctx, nil, address{d.plans, 0, 0, true})
	defer incoming.Close()
	for {
		if group == nil {
			group = join() // before there is a run: a group takes its time
		}
		plan, err := d.due(ctx, incoming, plans, rec)
		if err != nil {
			return err
		}
		if plan.Arithmetic == here {
			rec.Record(Began{Run: plan.Run(), Stages: plan.Stages})
			if err := do(ctx, group, plan, plans.next); err != nil {
				return err
			}
		} else {
			leave()
			rec.Record(Noticed{fmt.Sprintf("run %s was planned with %+v, this process has %+v: it stands aside until the run has ended", plan.Run(), plan.Arithmetic, here)})
		}
		end, err := d.over(ctx, incoming, plans, plan.Run())
		if err != nil {
			return err
		}
		rec.Record(Ended{Run: end.Run, State: end.State, Reason: end.Reason})
	}
}

// due waits for a run that has not ended.
func (d desk) due(ctx context.Context, incoming mail, plans *ledger, rec Recorder) (*schemas.Plan, error) {
	for caughtUp := false; ; {
		// What is on the topic already is read to its end first, or a run that has
		// ended long ago would be begun.
		if !caughtUp {
			_, end, err := d.log.Bounds(ctx, d.plans, 0)
			if err != nil {
				return nil, err
			}
			caughtUp = plans.next >= end
		}
		if first := plans.unfinished(); caughtUp && len(first) > 0 {
			return first[0], nil
		}
		l, _, err := incoming.Next(ctx, patience)
		if err != nil {
			return nil, err
		}
		if l == nil {
			caughtUp = false // offsets at the end may hold no message
			continue
		}
		if err := plans.add(l.Message); err != nil {
			rec.Record(Noticed{fmt.Sprintf("a message of the plans topic is passed over: %s[0]@%d: %v", d.plans, l.Offset, err)})
		}
	}
}

// over waits until a run has ended.
func (d desk) over(ctx context.Context, incoming mail, plans *ledger, run string) (*schemas.End, error) {
	for plans.ends[run] == nil {
		l, _, err := incoming.Next(ctx, patience)
		if err != nil {
			return nil, err
		}
		if l != nil {
			_ = plans.add(l.Message) // a damaged one is none
		}
	}
	return plans.ends[run], nil
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
		rec.Record(Noticed{"another solver goes on: standing by"})
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
		if l != nil && isEndOf(message(l.Message), run) {
			return false, nil
		}
		if mine, err := owns(o, 0); err != nil || mine {
			return mine, err
		}
	}
}
