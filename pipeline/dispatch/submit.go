package dispatch

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"time"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// submission is a run on the plans topic.
type submission struct {
	Plan   *schemas.Plan
	First  []*schemas.Plan  // earlier unfinished runs
	Known  bool             // the run was already on the topic
	Ledger *protocol.Ledger // read after the submission: has the plan
}

// SubmitJob submits a run of a job with ingested files.
func SubmitJob(ctx context.Context, p *topics.Pipeline, blas *kernel.BLAS, job topics.Job, files *source.Ingested, o TrainOptions,
	rec event.Recorder) (*submission, error) {
	s := &submission{}
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	l.Report(rec)
	if p.Admin.Embedded() && !l.AnyUnfinished() {
		// The messages of these topics are only needed for unfinished runs. The embedded broker cleans its log periodically by whole
		// files, and each run leaves a Gram matrix for each stage and partition.
		err := p.Admin.Delete(ctx, p.Topics.Statistics, p.Topics.Residuals, p.Topics.Weights)
		if err == nil {
			err = topics.Create(ctx, p, &job)
		}
		if err != nil {
			return nil, err
		}
	}
	job.Examples = files.Reading(job.Examples)
	if versions := l.Versions(); job.Warm == protocol.Latest && len(versions) > 0 { // even if it is withheld, or another one is pinned
		job.Warm = versions[len(versions)-1].Run
	}
	plan, err := Plan(ctx, p, job, Arithmetic(blas), files.Seals, l, files.Retention)
	if err != nil {
		return nil, err
	}
	if err := topics.GrowFor(ctx, p, plan, &job); err != nil {
		return nil, err
	}
	plan.Trigger = o.Trigger
	s.Plan, s.Ledger, err = Enqueue(ctx, p, plan, l, o.Supersede || p.Admin.Embedded(), rec)
	if err != nil {
		return nil, err
	}
	s.Known = s.Plan.Submission != plan.Submission
	for id, other := range s.Ledger.Unfinished() {
		if id == s.Plan.Run() {
			break
		}
		s.First = append(s.First, other)
	}
	return s, nil
}

// Enqueue writes the plan to the plans topic. If there is an unfinished run with the same content, that run is resumed
// instead. It returns the run's plan, and a ledger that has it.
func Enqueue(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, l *protocol.Ledger, supersede bool,
	rec event.Recorder) (*schemas.Plan, *protocol.Ledger, error) {
	content, resumed := plan.Content(), false
	for _, other := range l.Unfinished() {
		if other.Content() == content {
			plan, resumed = other, true
			break
		}
	}
	id := plan.Run()
	if supersede || plan.Trigger {
		if err := cancelOthers(ctx, p, id, supersede, rec); err != nil {
			return nil, nil, err
		}
	}
	read := p.ReadLedger
	if !resumed {
		read = func(ctx context.Context) (*protocol.Ledger, error) { return p.Submit(ctx, plan) }
	}
	l, err := read(ctx)
	if err != nil {
		return nil, nil, err
	}
	if submitted := l.Plan(id); submitted != nil { // it may have ended
		return submitted, l, nil
	}
	return nil, nil, &RunError{Run: id, State: "ended", Reason: "other processes have finished or cancelled it, and many runs " +
		"after it; run the same command again to begin the next run"}
}

// cancelOthers cancels the other unfinished runs: all of them, or the waiting runs of triggers.
func cancelOthers(ctx context.Context, p *topics.Pipeline, id string, all bool, rec event.Recorder) error {
	l, err := p.ReadLedger(ctx) // runs may have ended while the plan was made
	if err != nil {
		return err
	}
	waits := false // the first run may have started
	for earlier, plan := range l.Unfinished() {
		if earlier == id || !all && !(waits && plan.Trigger) {
			waits = true
			continue
		}
		waits = true
		end := &schemas.End{Run: earlier, State: schemas.Cancelled, Reason: "superseded by run " + id, Attempt: p.Fresh()}
		if err := End(ctx, p, end); err != nil {
			return fmt.Errorf("cancel run %s: %w", earlier, err)
		}
		event.Notice(rec, "unfinished run %s is cancelled: run %s replaces it", earlier, id)
	}
	return nil
}

// End ends a run for a process that is not its solver.
func End(ctx context.Context, p *topics.Pipeline, end *schemas.End) (err error) {
	if end.Since, err = p.Now(ctx); err == nil {
		_, err = p.Log.Append(ctx, p.Topics.Plans, 0, end.Message())
	}
	return err
}

// RunError is the error of a run that ended without a version. State is schemas.Failed or schemas.Cancelled, or "ended" if
// it ended during submission. Reason may be empty.
type RunError struct{ Run, State, Reason string }

func (e *RunError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("run %s was %s", e.Run, e.State)
	}
	return fmt.Sprintf("run %s %s: %s", e.Run, e.State, e.Reason)
}

// UnknownRunError is the error of a run without a plan on the plans topic.
type UnknownRunError struct{ Run, Topic string }

func (e *UnknownRunError) Error() string {
	return fmt.Sprintf("there is no run %s on %s", e.Run, e.Topic)
}

// Attach follows a run of other processes to its end, and returns its report and its model. The run may already have
// ended. The error may be a *[RunError] or an *[UnknownRunError].
func Attach(ctx context.Context, p *topics.Pipeline, id string, rec event.Recorder) (*schemas.Report, *model.Model, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan := l.Plan(id)
	if plan == nil {
		return nil, nil, &UnknownRunError{id, p.Topics.Plans}
	}
	rec.Record(event.Began{Run: id, Followed: true, Stages: plan.Stages, Members: plan.Members()})
	report, err := Follow(ctx, p, plan, l, true, rec)
	if err != nil {
		return nil, nil, err
	}
	m, err := p.Model(ctx, id)
	return report, m, err
}

// tellWaits records what a run of other processes waits for, and the group members, after no progress for the duration
// quiet.
func tellWaits(ctx context.Context, p *topics.Pipeline, chain *protocol.Chain, l *protocol.Ledger, quiet time.Duration,
	rec event.Recorder) {
	due, _ := chain.Due()
	waits := event.Followed{Run: chain.Run, Stage: due.Stage, Visit: due.Number, Staff: staff(ctx, p), Quiet: quiet}
	for id := range l.Unfinished() {
		if id == chain.Run {
			break
		}
		waits.Behind = append(waits.Behind, id)
	}
	rec.Record(waits)
}

// staff asks the brokers for the members of the pipeline's groups. Without permission to describe groups, the run can
// still be followed.
func staff(ctx context.Context, p *topics.Pipeline) (s event.Staff) {
	if s.Embedded, s.Unknown = p.Admin.IsEmbedded(ctx); s.Unknown != nil {
		return s
	}
	if s.Workers, s.Unknown = p.Admin.Members(ctx, p.Topics.Group(protocol.RoleWork)); s.Unknown != nil {
		return s
	}
	s.Solvers, s.Unknown = p.Admin.Members(ctx, p.Topics.Group(protocol.RoleSolve))
	return s
}

// Follow follows a run to its end, records its progress, and returns its report. l has the run's plan. If the run is attached, all of its
// roles are in other processes. The roles of this process report their own waits.
func Follow(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, l *protocol.Ledger, attached bool,
	rec event.Recorder) (*schemas.Report, error) {
	f := &follower{Pipeline: p, plan: plan, attached: attached, rec: rec, chain: protocol.NewOutline(plan, p.Memory)}
	run := f.chain.Run
	end := l.End(run)
	if end == nil {
		var err error
		if end, err = f.untilEnd(ctx); err != nil {
			return nil, err
		}
	}
	l, err := f.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	end = cmp.Or(l.End(run), end) // the one that counts
	rec.Record(event.Ended{Run: run, State: end.State, Reason: end.Reason})
	if end.State != schemas.Done {
		return nil, &RunError{run, end.State, end.Reason}
	}
	report, err := f.Report(ctx, run)
	switch {
	case protocol.IsMissing(err):
		return nil, &ReportGoneError{run, f.Topics.Versions}
	case err != nil:
		return nil, fmt.Errorf("read the report of run %s: %w", run, err)
	}
	return report, nil
}

// follower reads the topics of a run without taking part in it. It ignores damaged messages.
type follower struct {
	*topics.Pipeline
	plan     *schemas.Plan
	attached bool
	rec      event.Recorder
	chain    *protocol.Chain
}

// untilEnd reads the run's messages until its end, and returns it.
func (f *follower) untilEnd(ctx context.Context) (*schemas.End, error) {
	weights, run := f.Topics.Weights, f.chain.Run
	_, end, err := f.Log.Bounds(ctx, weights, 0)
	if err != nil {
		return nil, err
	}
	next := min(f.plan.Since.Weights, end) // the topic may be recreated
	plans, err := f.FollowPlans(ctx, nil, nil, protocol.Position{Topic: weights, Offset: next, Compacted: true})
	if err != nil {
		return nil, err
	}
	defer plans.Close()
	quiet, told := time.Duration(0), !f.attached
	for wait := protocol.MinPatience; plans.End(run) == nil; {
		if !told && next >= end { // all earlier messages have been read
			tellWaits(ctx, f.Pipeline, f.chain, plans.Ledger, 0, f.rec)
			told = true
		}
		delivery, late, err := plans.Await(ctx, wait)
		if err != nil {
			return nil, err
		}
		if late {
			if plans.Plan(run) == nil && plans.End(run) == nil {
				return &schemas.End{Run: run, State: "ended", Reason: "its plan is no longer on " + f.Topics.Plans +
					"; run the same command again to begin the next run"}, nil
			}
			quiet += wait
			if f.attached {
				tellWaits(ctx, f.Pipeline, f.chain, plans.Ledger, quiet, f.rec)
			}
			wait = protocol.Patience(wait)
		}
		if delivery == nil {
			continue
		}
		wait, quiet = protocol.MinPatience, 0
		if delivery.Topic == weights {
			next = delivery.Offset + 1
			f.apply(delivery.Message)
		}
	}
	// Reports of stages precede the end of the run, but on another topic.
	for m, err := range f.Remaining(ctx, weights, 0, next, math.MaxInt64) {
		if err != nil {
			return plans.End(run), err
		}
		f.apply(m)
	}
	return plans.End(run), nil
}

// ReportGoneError means that the report of a finished run is gone: its version was removed, or the topic has lost messages.
type ReportGoneError struct{ Run, Topic string }

// Error includes the topic.
func (e *ReportGoneError) Error() string {
	return fmt.Sprintf("run %s is done, but its report is no longer on %s", e.Run, e.Topic)
}

// apply applies a message of the run on the weights topic: a stage report, or a record of the chain.
func (f *follower) apply(m protocol.Message) {
	switch {
	case m.Run() != f.chain.Run:
	case m.Kind() == schemas.KindStage:
		if stage, err := schemas.DecodeJSON[schemas.StageReport](m.Message); err == nil {
			f.rec.Record(event.StageEnded{StageReport: *stage, Stages: len(f.plan.Stages)})
		}
	default:
		if grown, err := f.chain.Add(m.Message); err != nil || !grown {
			return
		}
		if f.chain.Began() {
			v, _ := f.chain.Due()
			f.rec.Record(event.Advanced{Run: f.chain.Run, Stage: v.Stage, Visit: v.Number})
			return
		}
		f.rec.Record(f.chain.Surveyed(0))
	}
}
