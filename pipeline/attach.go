package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// RunError says that a run has ended without a version. State is schemas.Failed or schemas.Cancelled, or "ended" if it ended while
// it was submitted. Reason may be empty.
type RunError struct{ Run, State, Reason string }

func (e *RunError) Error() string {
	if e.Reason == "" {
		return fmt.Sprintf("run %s was %s", e.Run, e.State)
	}
	return fmt.Sprintf("run %s %s: %s", e.Run, e.State, e.Reason)
}

// UnknownRunError says that there is no plan of a run on the plans topic.
type UnknownRunError struct{ Run, Topic string }

func (e *UnknownRunError) Error() string {
	return fmt.Sprintf("there is no run %s on %s", e.Run, e.Topic)
}

// Attach follows a run that other processes work on to its end, and returns its report and its model. The run may have ended
// already. The error may be a *[RunError] or an *[UnknownRunError].
func Attach(ctx context.Context, log *kafkalog.Log, name, id string, rec event.Recorder) (*schemas.Report, *model.Model, error) {
	p := open(log, name, nil)
	l, err := p.ReadLedger(ctx)
	if err == nil && l.Plan(id) == nil {
		l, err = p.ReadHistory(ctx)
	}
	if err != nil {
		return nil, nil, err
	}
	plan := l.Plan(id)
	if plan == nil {
		return nil, nil, &UnknownRunError{id, p.Topics.Plans}
	}
	rec.Record(event.Began{Run: id, Followed: true, Stages: plan.Stages, Members: plan.Members()})
	if l.End(id) == nil {
		chain := run.NewOutline(plan, p.Codec)
		if _, err := chain.Read(ctx, p.Client); err != nil && !errors.As(err, new(*run.ExpiredError)) { // it is told as far as it is known
			return nil, nil, err
		}
		p.tellWaits(ctx, chain, l, 0, rec)
	}
	f := p.newFollower(plan, l, rec)
	f.attached = true
	report, err := f.follow(ctx, l)
	if err != nil {
		return nil, nil, err
	}
	m, err := p.Model(ctx, id)
	return report, m, err
}

// tellWaits records what a run that others work on waits for, and who they are. Nothing has come of the run for so long.
func (p *pipeline) tellWaits(ctx context.Context, chain *run.Chain, l *run.Ledger, quiet time.Duration, rec event.Recorder) {
	due, _ := chain.Due()
	waits := event.Followed{Run: chain.Run, Stage: due.Stage, Visit: due.Number, Staff: p.staff(ctx), Quiet: quiet}
	for id := range l.Unfinished() {
		if id == chain.Run {
			break
		}
		waits.Behind = append(waits.Behind, id)
	}
	rec.Record(waits)
}

// staff asks the brokers who works on the runs of the pipeline. Who may not know that can follow a run all the same.
func (p *pipeline) staff(ctx context.Context) (s event.Staff) {
	if s.Embedded, s.Unknown = p.admin.IsEmbedded(ctx); s.Unknown != nil {
		return s
	}
	if s.Workers, s.Unknown = p.admin.Members(ctx, p.Topics.Workers()); s.Unknown != nil {
		return s
	}
	s.Solvers, s.Unknown = p.admin.Members(ctx, p.Topics.Solvers())
	return s
}

// follow follows a run to its end, records its progress, and returns its report. l has the run's plan.
func (p *pipeline) follow(ctx context.Context, plan *schemas.Plan, l *run.Ledger, rec event.Recorder) (*schemas.Report, error) {
	return p.newFollower(plan, l, rec).follow(ctx, l)
}

func (p *pipeline) newFollower(plan *schemas.Plan, l *run.Ledger, rec event.Recorder) *follower {
	chain := run.NewOutline(plan, p.Codec)
	return &follower{pipeline: p, plan: plan, run: chain.Run, rec: rec, chain: chain, end: l.End(chain.Run)}
}

func (f *follower) follow(ctx context.Context, l *run.Ledger) (*schemas.Report, error) {
	if f.end == nil {
		if err := f.untilEnd(ctx, l.Next); err != nil {
			return nil, err
		}
	}
	l, err := f.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	f.end = l.Counting(f.end)
	f.rec.Record(event.Ended{Run: f.run, State: f.end.State, Reason: f.end.Reason})
	if f.end.State != schemas.Done {
		return nil, &RunError{f.run, f.end.State, f.end.Reason}
	}
	if f.report == nil { // it precedes the end, but on another topic
		if err := f.readReport(ctx); err != nil {
			return nil, fmt.Errorf("read the report of run %s: %w", f.run, err)
		}
	}
	if f.report == nil {
		return nil, &ReportGoneError{f.run, f.Topics.Weights}
	}
	return f.report, nil
}

// follower reads the topics of a run without working on it. It ignores damaged messages.
type follower struct {
	*pipeline
	plan    *schemas.Plan
	run     string // the id
	rec     event.Recorder
	chain   *run.Chain
	reports schemas.Documents // chunks of the report
	report  *schemas.Report   // nil: not read yet
	end     *schemas.End      // nil: not read yet
	// attached says that the roles of the run are in other processes only. Those of this process say themselves what they wait for.
	attached bool
}

// untilEnd reads the run's messages until its end, which is at offset watch of the plans topic or later, and its report, which was
// written before that on the weights topic.
func (f *follower) untilEnd(ctx context.Context, watch int64) error {
	_, end, err := f.Log.Bounds(ctx, f.Topics.Weights, 0)
	if err != nil {
		return err
	}
	subscription := f.Log.Subscribe(ctx, nil,
		run.Position{Topic: f.Topics.Plans, Offset: watch, Compacted: true},
		run.Position{Topic: f.Topics.Weights, Offset: min(f.plan.Since.Weights, end), Compacted: true}) // the topic may be made anew
	defer subscription.Close()
	quiet := time.Duration(0)
	for wait := run.MinPatience; f.end == nil || f.end.State == schemas.Done && f.report == nil; {
		delivery, late, err := subscription.Next(ctx, wait)
		if err != nil {
			return err
		}
		if late && f.end != nil {
			return nil
		}
		if late {
			l, err := f.ReadLedger(ctx)
			if err != nil || !l.GoesOn(f.run) {
				return f.missed(ctx, err)
			}
			quiet += wait
			if f.attached {
				f.tellWaits(ctx, f.chain, l, quiet, f.rec)
			}
			wait = run.Patience(wait)
		}
		if delivery == nil {
			continue
		}
		wait, quiet = run.MinPatience, 0
		switch m := delivery.Message.Message; {
		case m.Run() != f.run:
		case delivery.Topic == f.Topics.Weights:
			f.take(m)
		case f.end == nil:
			f.end = run.EndOf(m)
		}
	}
	return nil
}

// ReportGoneError says that the report of a run that is done was deleted: by retention, or by a chain that has made newer versions.
type ReportGoneError struct{ Run, Topic string }

// Error returns where the report is no longer.
func (e *ReportGoneError) Error() string {
	return fmt.Sprintf("run %s is done, but its report is no longer on %s", e.Run, e.Topic)
}

// missed finds the end of a run that goes on no more, though its end has not come. err, if not nil, is returned.
func (f *follower) missed(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	l, err := f.ReadHistory(ctx)
	if err != nil {
		return err
	}
	if f.end = l.End(f.run); f.end == nil {
		f.end = &schemas.End{Run: f.run, State: "ended", Reason: "its plan is no longer on " + f.Topics.Plans + "; run the same command again to begin the next run"}
	}
	return nil
}

// take takes what the weights topic has of the run: the report, stage reports, and records of the chain.
func (f *follower) take(m schemas.Message) {
	switch m.Kind() {
	case schemas.KindStage:
		if stage, err := schemas.DecodeJSON[schemas.StageReport](m); err == nil {
			f.rec.Record(event.StageEnded{StageReport: *stage, Stages: len(f.plan.Stages)})
		}
	case schemas.KindReport:
		f.takeReport(m)
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

// takeReport takes a chunk of the run's report. The first complete report counts.
func (f *follower) takeReport(m schemas.Message) {
	whole, ok, err := f.Codec.Document(&f.reports, m)
	if err != nil || !ok || f.report != nil {
		return
	}
	if report, err := schemas.DecodeJSON[schemas.Report](whole); err == nil {
		f.report = report
	}
}

// readReport reads the report from the weights topic.
func (f *follower) readReport(ctx context.Context) error {
	return f.Remaining(ctx, f.Topics.Weights, 0, f.plan.Since.Weights, math.MaxInt64, func(m run.Message) error {
		if m.Run() == f.run && m.Kind() == schemas.KindReport {
			f.takeReport(m.Message)
		}
		return nil
	})
}
