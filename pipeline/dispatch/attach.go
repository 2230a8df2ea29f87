package dispatch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
)

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
	if l.End(id) == nil {
		chain := protocol.NewOutline(plan, p.Codec)
		if _, err := chain.Read(ctx, p.Client); err != nil && !errors.As(err, new(*protocol.ExpiredError)) { // an expired chain is incomplete
			return nil, nil, err
		}
		tellWaits(ctx, p, chain, l, 0, rec)
	}
	f := NewFollower(p, plan, l, rec)
	f.Attached = true
	report, err := f.Follow(ctx)
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
	if s.Workers, s.Unknown = p.Admin.Members(ctx, p.Topics.Workers()); s.Unknown != nil {
		return s
	}
	s.Solvers, s.Unknown = p.Admin.Members(ctx, p.Topics.Solvers())
	return s
}

// Follow follows a run to its end, records its progress, and returns its report. l has the run's plan.
func Follow(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan, l *protocol.Ledger, rec event.Recorder) (*schemas.Report, error) {
	return NewFollower(p, plan, l, rec).Follow(ctx)
}

// NewFollower returns a follower of a run, which records its progress until it has ended.
func NewFollower(p *topics.Pipeline, plan *schemas.Plan, l *protocol.Ledger, rec event.Recorder) *follower {
	chain := protocol.NewOutline(plan, p.Codec)
	return &follower{Pipeline: p, plan: plan, run: chain.Run, rec: rec, chain: chain, End: l.End(chain.Run)}
}

func (f *follower) Follow(ctx context.Context) (*schemas.Report, error) {
	if f.End == nil {
		if err := f.untilEnd(ctx); err != nil {
			return nil, err
		}
	}
	l, err := f.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if end := l.End(f.run); end != nil { // the one that counts
		f.End = end
	}
	f.rec.Record(event.Ended{Run: f.run, State: f.End.State, Reason: f.End.Reason})
	if f.End.State != schemas.Done {
		return nil, &RunError{f.run, f.End.State, f.End.Reason}
	}
	if f.report == nil { // the report precedes the end, but on another topic
		if err := f.readReport(ctx); err != nil {
			return nil, fmt.Errorf("read the report of run %s: %w", f.run, err)
		}
	}
	if f.report == nil { // a chain has deleted it; the version also has it, until it is removed
		f.report, err = f.Client.Report(ctx, f.run)
		if err != nil && !protocol.IsMissing(err) {
			return nil, fmt.Errorf("read the report of run %s: %w", f.run, err)
		}
	}
	if f.report == nil {
		return nil, &ReportGoneError{f.run, f.Topics.Weights}
	}
	return f.report, nil
}

// follower reads the topics of a run without taking part in it. It ignores damaged messages.
type follower struct {
	*topics.Pipeline
	plan    *schemas.Plan
	run     string // run id
	rec     event.Recorder
	chain   *protocol.Chain
	reports wire.Documents  // chunks of the report
	report  *schemas.Report // nil: not read yet
	End     *schemas.End    // nil: not read yet
	// Attached means that all roles of the run are in other processes. The roles of this process report their own waits.
	Attached bool
}

// untilEnd reads the run's messages until its end, and its report, which precedes the end but is on the weights topic.
func (f *follower) untilEnd(ctx context.Context) error {
	_, end, err := f.Log.Bounds(ctx, f.Topics.Weights, 0)
	if err != nil {
		return err
	}
	plans, err := f.FollowPlans(ctx, nil, nil,
		protocol.Position{Topic: f.Topics.Weights, Offset: min(f.plan.Since.Weights, end), Compacted: true}) // the topic may be recreated
	if err != nil {
		return err
	}
	defer plans.Close()
	f.End = plans.End(f.run)
	quiet := time.Duration(0)
	for wait := protocol.MinPatience; f.End == nil || f.End.State == schemas.Done && f.report == nil; {
		delivery, late, err := plans.Await(ctx, wait)
		if err != nil {
			return err
		}
		if late && f.End != nil {
			return nil
		}
		if late {
			if !plans.GoesOn(f.run) {
				f.missed(plans.Ledger)
				return nil
			}
			quiet += wait
			if f.Attached {
				tellWaits(ctx, f.Pipeline, f.chain, plans.Ledger, quiet, f.rec)
			}
			wait = protocol.Patience(wait)
		}
		if delivery == nil {
			continue
		}
		wait, quiet = protocol.MinPatience, 0
		if m := delivery.Message.Message; delivery.Topic == f.Topics.Weights && m.Run() == f.run {
			f.apply(m)
		}
		f.End = plans.End(f.run)
	}
	return nil
}

// ReportGoneError means that the report of a finished run was deleted: by retention, or by a chain with newer versions.
type ReportGoneError struct{ Run, Topic string }

// Error includes the topic.
func (e *ReportGoneError) Error() string {
	return fmt.Sprintf("run %s is done, but its report is no longer on %s", e.Run, e.Topic)
}

// missed sets the end of a run that has ended although the subscription has not delivered the end.
func (f *follower) missed(l *protocol.Ledger) {
	if f.End = l.End(f.run); f.End == nil {
		f.End = &schemas.End{Run: f.run, State: "ended", Reason: "its plan is no longer on " + f.Topics.Plans +
			"; run the same command again to begin the next run"}
	}
}

// apply applies a message of the run on the weights topic: the report, a stage report, or a record of the chain.
func (f *follower) apply(m wire.Message) {
	switch m.Kind() {
	case schemas.KindStage:
		if stage, err := schemas.DecodeJSON[schemas.StageReport](m); err == nil {
			f.rec.Record(event.StageEnded{StageReport: *stage, Stages: len(f.plan.Stages)})
		}
	case schemas.KindReport:
		f.applyReport(m)
	default:
		if grown, err := f.chain.Add(m); err != nil || !grown {
			return
		}
		if f.chain.Began() {
			v, _ := f.chain.Due()
			f.rec.Record(event.Advanced{Run: f.run, Stage: v.Stage, Visit: v.Number})
			return
		}
		f.rec.Record(f.chain.Surveyed(0))
	}
}

// applyReport adds a chunk of the run's report. The first complete report counts.
func (f *follower) applyReport(m wire.Message) {
	whole, ok, err := f.reports.Add(m)
	if err != nil || !ok || f.report != nil {
		return
	}
	if report, err := schemas.DecodeJSON[schemas.Report](whole); err == nil {
		f.report = report
	}
}

// readReport reads the report from the weights topic.
func (f *follower) readReport(ctx context.Context) error {
	return f.Remaining(ctx, f.Topics.Weights, 0, f.plan.Since.Weights, math.MaxInt64, func(m protocol.Message) error {
		if m.Run() == f.run && m.Kind() == schemas.KindReport {
			f.applyReport(m.Message)
		}
		return nil
	})
}
