package dispatch

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
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
)

// Work executes a pipeline's runs as a worker, one after the other, for the partitions that its consumer group assigns to
// this process. It returns when ctx ends. There may be any number of workers. It creates missing topics.
func Work(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, rec event.Recorder) error {
	rec = event.Serialised(rec)
	p := topics.OpenFor(log, job, nil)
	t := p.Topics
	cache, err := open(ctx, p, job, rec, []string{t.Versions, t.Plans}, t.Examples, t.Residuals, t.Statistics, t.Weights, t.Quarantine)
	if err != nil {
		return err
	}
	join := func() Member {
		return log.JoinGroups(p.Topics.Group(protocol.RoleWork), p.Topics.Examples, job.ShareSize)
	}
	work := func(ctx context.Context, o protocol.Owner, plan *schemas.Plan) error {
		CheckCache(ctx, p, cache)
		return worker.New(p.Client, blas, plan, o, worker.Options{Cache: cache}, rec).Work(ctx)
	}
	return Serve(ctx, p, Arithmetic(blas), rec, join, work)
}

// Solve solves a pipeline's runs, one after the other, while its consumer group assigns the plans topic to this process.
// It returns when ctx ends. Of several solvers, one is active and the others stand by. It creates missing topics.
func Solve(ctx context.Context, log *kafkalog.Log, blas *kernel.BLAS, job topics.Job, rec event.Recorder) error {
	rec = event.Serialised(rec)
	p := topics.OpenFor(log, job, nil)
	t := p.Topics
	cache, err := open(ctx, p, job, rec, []string{t.Versions, t.State, t.Plans}, t.Examples, t.Statistics, t.Weights, t.Quarantine)
	if err != nil {
		return err
	}
	join := func() Member { return log.Join(p.Topics.Group(protocol.RoleSolve), p.Topics.Plans) }
	solve := func(ctx context.Context, o protocol.Owner, plan *schemas.Plan) error {
		if !plan.Update().IsLocal() { // the cache is for updates that are too small to distribute
			cache.Retain(nil) // the matrices of the run may take all memory
		}
		CheckCache(ctx, p, cache)
		if err := SolveWhenOwner(ctx, p, blas, worker.Options{Cache: cache, Solves: true}, o, plan, rec); err != nil {
			return err
		}
		if owner, err := protocol.Owns(o, 0); err != nil || !owner {
			return err // standby solvers need not prune again
		}
		Prune(ctx, p, job.Keep, rec)
		return nil
	}
	return Serve(ctx, p, Arithmetic(blas), rec, join, solve)
}

// open creates and checks the topics that a role needs, some of which must be compacted, and returns the memory for examples.
func open(ctx context.Context, p *topics.Pipeline, job topics.Job, rec event.Recorder, compacted []string,
	others ...string) (*visit.Cache, error) {
	bytes, err := visit.CacheBytes(job.Memory)
	if err != nil {
		return nil, err
	}
	if err := topics.Require(ctx, p, &job, append(others, compacted...)...); err != nil {
		return nil, err
	}
	if err := topics.CheckPolicies(ctx, p, rec, compacted...); err != nil {
		return nil, err
	}
	p.MatrixBytes = bytes
	return visit.NewCache(bytes), nil
}

// Prune removes unneeded messages. An error is only recorded: the next run removes them.
func Prune(ctx context.Context, p *topics.Pipeline, keep int, rec event.Recorder) {
	if err := p.Prune(ctx, cmp.Or(keep, topics.DefaultKeep)); err != nil && ctx.Err() == nil {
		event.Notice(rec, "old versions and plans stay until a later run: %v", err)
	}
}

// Member is an owner that can leave its consumer group.
type Member interface {
	protocol.Owner
	Leave() error // leaves the group
}

// role executes a run as worker or solver until the run has ended. An error means that the role can't continue.
type role func(ctx context.Context, o protocol.Owner, plan *schemas.Plan) error

// Serve executes all runs in the order of their plans, until ctx ends. If a run has an arithmetic other than here, or
// other examples, the process leaves its group until that run has ended, so that other processes get its partitions.
func Serve(ctx context.Context, p *topics.Pipeline, here schemas.Arithmetic, rec event.Recorder, join func() Member, do role) error {
	for said := ""; ; {
		group := join() // join early, because joining takes seconds
		other, err := serveAs(ctx, p, group, here, rec, do)
		if leaving := group.Leave(); leaving != nil && ctx.Err() == nil {
			event.Notice(rec, "leave the consumer group: %v", leaving)
		}
		if stopped, ok := errors.AsType[*worker.StoppedError](err); ok {
			if why := stopped.Error(); why != said {
				event.Notice(rec, "%s: other processes get its partitions", why)
				said = why
			}
			if err = stopped.Report(ctx); err == nil {
				continue
			}
		}
		if err != nil {
			return err
		}
		aside := event.StoodAside{Run: other.Run(), Why: Unable(p, other, here)}
		rec.Record(aside)
		if err := EndedOrGivenUp(ctx, p, other, rec); err != nil {
			return err
		}
		aside.Over = true
		rec.Record(aside)
	}
}

// StandAsideError means that a process can't execute a run that was planned with another arithmetic, because its sums would
// have other bits, or for other examples.
type StandAsideError struct{ Run, Why string }

func (e *StandAsideError) Error() string {
	return fmt.Sprintf("run %s goes first, but this process can't execute it: %s. Finish the run where it was planned, or cancel "+
		"it with --supersede", e.Run, e.Why)
}

// Unable returns why a process with the arithmetic here can't execute a run; "" if it can.
func Unable(p *topics.Pipeline, plan *schemas.Plan, here schemas.Arithmetic) string {
	if !plan.Arithmetic.Admits(here) {
		return "its arithmetic differs: " + Differences(plan.Arithmetic, here, "this process")
	}
	if err := topics.CheckExamples(p, plan, "it"); err != nil {
		return err.Error()
	}
	return ""
}

// EndedOrGivenUp waits for the end of a run that this process can't execute. If no process starts the run, it ends the
// run, so that the next runs can start.
func EndedOrGivenUp(ctx context.Context, p *topics.Pipeline, other *schemas.Plan, rec event.Recorder) error {
	id := other.Run()
	plans, err := p.FollowPlans(ctx, rec, nil)
	if err != nil {
		return err
	}
	defer plans.Close()
	for began := p.Clock.Now(); plans.GoesOn(id); {
		if p.GiveUp > 0 && p.Clock.Since(began) >= p.GiveUp {
			if err := giveUp(ctx, p, other, rec); err != nil {
				return err
			}
			began = p.Clock.Now()
		}
		if _, _, err := plans.Await(ctx, protocol.MinPatience); err != nil {
			return err
		}
	}
	recordEnd(plans.End(id), rec)
	return nil
}

// recordEnd records the end of a run; nil if the topic has lost it.
func recordEnd(end *schemas.End, rec event.Recorder) {
	if end != nil {
		rec.Record(event.Ended{Run: end.Run, State: end.State, Reason: end.Reason})
	}
}

// giveUp ends a run as failed unless a process has started it.
func giveUp(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, rec event.Recorder) error {
	taken, err := takenUp(ctx, p, plan)
	if err != nil || taken {
		return err
	}
	id, reason := plan.Run(), &protocol.UnclaimedError{What: "worker and no solver", After: p.GiveUp, Arithmetic: plan.Arithmetic}
	err = End(ctx, p, &schemas.End{Run: id, State: schemas.Failed, Reason: reason.Error(), Attempt: p.Fresh()})
	if errors.As(err, new(*kafkalog.AccessError)) {
		event.Notice(rec, "run %s should be given up, but this process lacks the permission: %v", id, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("give up run %s: %w", id, err)
	}
	return nil
}

// takenUp reports whether a worker or a solver has written anything for a run.
func takenUp(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan) (taken bool, err error) {
	id := plan.Run()
	look := func(topic string, partition int, from int64) (bool, error) {
		for m, err := range p.Remaining(ctx, topic, partition, from, math.MaxInt64) {
			if err != nil || m.Run() == id {
				return err == nil, err
			}
		}
		return false, nil
	}
	taken, err = look(p.Topics.Weights, 0, plan.Since.Weights)
	for n, from := range plan.Since.Statistics {
		if taken || err != nil {
			break
		}
		taken, err = look(p.Topics.Statistics, n, from)
	}
	return taken, err
}

// serveAs executes runs as a member of a group, until a run that this process can't execute. It returns that run's plan.
func serveAs(ctx context.Context, p *topics.Pipeline, group protocol.Owner, here schemas.Arithmetic, rec event.Recorder,
	do role) (other *schemas.Plan, err error) {
	plans, err := p.FollowPlans(ctx, rec, group.Changed())
	if err != nil {
		return nil, err
	}
	defer plans.Close()
	for {
		id, plan, err := next(ctx, plans, group, rec)
		if err != nil {
			return nil, err
		}
		if Unable(p, plan, here) != "" {
			return plan, nil
		}
		rec.Record(event.Began{Run: id, Stages: plan.Stages, Members: plan.Members()})
		if err := do(ctx, group, plan); err != nil {
			return nil, err
		}
		for late := false; plans.GoesOn(id) && !late; {
			if _, late, err = plans.Await(ctx, protocol.MinPatience); err == nil {
				err = protocol.CheckMembership(group)
			}
			if err != nil {
				return nil, err
			}
		}
		recordEnd(plans.End(id), rec)
	}
}

// next waits for an unfinished run, and returns its id and plan. Meanwhile it records the partitions that this process owns.
func next(ctx context.Context, plans *protocol.Plans, group protocol.Owner, rec event.Recorder) (id string, plan *schemas.Plan, err error) {
	for owned := []int(nil); ; {
		for id, plan := range plans.Unfinished() {
			return id, plan, nil
		}
		if now := group.Owned(); !slices.Equal(now, owned) {
			owned = now
			rec.Record(event.Owned{Partitions: owned})
		}
		if err := protocol.CheckMembership(group); err != nil {
			return "", nil, err
		}
		if _, _, err := plans.Await(ctx, protocol.MinPatience); err != nil {
			return "", nil, err
		}
	}
}

// SolveWhenOwner solves a run while this process owns the plans topic. It returns when the run has ended. local is the resources of the
// visits if the run is an update that is too small to distribute.
func SolveWhenOwner(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, local worker.Options, o protocol.Owner, plan *schemas.Plan,
	rec event.Recorder) error {
	id := plan.Run()
	for {
		owner, err := standBy(ctx, p, o, id, plan.Since)
		if err != nil || !owner {
			return err
		}
		rec.Record(event.Solving{Run: id, Active: true})
		options := solver.Options{
			Store: p.Sums, Retention: func(ctx context.Context) (time.Duration, error) { return topics.WeightsRetention(ctx, p) },
			Local: func(chain *protocol.Chain, earlier *model.Model) solver.Visits {
				return worker.NewLocal(p.Client, blas, plan, chain, earlier, local, rec)
			},
		}
		if err := solver.New(p.Client, blas, plan, o, options, rec).Solve(ctx); !errors.Is(err, solver.ErrNotOwner) {
			return err
		}
		rec.Record(event.Solving{Run: id})
		event.Notice(rec, "another solver continues this run: standing by")
	}
}

// standBy waits until this process owns the plans topic, and returns true, or until the run has ended, and returns false.
func standBy(ctx context.Context, p *topics.Pipeline, o protocol.Owner, id string, since schemas.Since) (owner bool, err error) {
	if owner, err := protocol.Owns(o, 0); err != nil || owner {
		return owner, err
	}
	plans, err := p.FollowPlans(ctx, nil, o.Changed())
	if err != nil {
		return false, err
	}
	defer plans.Close()
	for plans.Current(id, since) {
		if _, _, err := plans.Await(ctx, protocol.MaxPatience); err != nil {
			return false, err
		}
		if owner, err := protocol.Owns(o, 0); err != nil || owner {
			return owner, err
		}
	}
	return false, nil
}
