package pipeline

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// UnknownRunError says that no such run was ever submitted.
type UnknownRunError struct{ Run, Topic string }

func (e *UnknownRunError) Error() string {
	return fmt.Sprintf("there is no run %s on %s", e.Run, e.Topic)
}

// Attach follows a run that others work on to its end, or finds how it has
// ended, and answers with its report and its model.
func Attach(ctx context.Context, log *kafkalog.Log, name, run string, rec Recorder) (*Report, *Model, error) {
	d := newDesk(log, name, nil)
	l, err := d.ledger(ctx)
	if err != nil {
		return nil, nil, err
	}
	plan := l.plan(run)
	if plan == nil {
		return nil, nil, &UnknownRunError{run, d.plans}
	}
	rec.Record(Began{Run: run, Followed: true, Stages: plan.Stages})
	report, err := d.follow(ctx, plan, rec)
	if err != nil {
		return nil, nil, err
	}
	model, err := LoadModel(ctx, log, name, run)
	return report, model, err
}

// follow follows a run to its end, and tells what its topics say of it.
func (d desk) follow(ctx context.Context, plan *schemas.Plan, rec Recorder) (*Report, error) {
	c := newChain(plan, d.codec, ignored{})
	f := &follower{desk: d, plan: plan, run: c.run, rec: rec, chain: c}
	news := d.log.Mail(ctx, nil, address{d.plans, 0, 0, true}, address{d.weights, 0, plan.Since.Weights, true})
	defer news.Close()
	wait := patience
	for f.end == nil {
		l, late, err := news.Next(ctx, wait)
		if err != nil {
			return nil, err
		}
		if late {
			v, _, _ := f.chain.due()
			notice(rec, "run %s waits for visit %d of %s: are workers and a solver there?", f.run, v.number, stageName(v.stage))
			wait = min(2*wait, mostPatience)
		}
		if l == nil {
			continue
		}
		wait = patience
		switch m := l.Message; {
		case m.Get("run") != f.run:
		case l.topic == d.weights:
			f.takeWeights(m)
		default:
			f.takePlans(m)
		}
	}
	if f.end.State != schemas.Done { // a solver that did not know may have done it after all
		l, err := d.ledger(ctx)
		if err != nil {
			return nil, err
		}
		f.end = l.ends[f.run]
	}
	rec.Record(Ended{Run: f.run, State: f.end.State, Reason: f.end.Reason})
	if f.end.State != schemas.Done {
		return nil, &RunError{f.run, f.end.State, f.end.Reason}
	}
	if f.report == nil { // compaction may have left it behind the end
		err := d.each(ctx, d.plans, 0, func(r entry) error {
			if r.Get("run") == f.run {
				f.takePlans(r.Message)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	if f.report == nil {
		return nil, fmt.Errorf("run %s is done, but its report is not on %s", f.run, d.plans)
	}
	return f.report, nil
}

// follower is who follows a run without a part in it. Damaged messages are none.
type follower struct {
	desk
	plan    *schemas.Plan
	run     string
	rec     Recorder
	chain   *chain
	reports schemas.Collector[float32]
	report  *Report
	end     *schemas.End
}

// takeWeights takes a message of the weights topic.
func (f *follower) takeWeights(m schemas.Message) {
	if more, err := f.chain.add(m); err != nil || !more {
		return
	}
	if len(f.chain.weights) > 0 {
		v, _, _ := f.chain.due()
		f.rec.Record(Advanced{Run: f.run, Stage: v.stage, Visit: v.number})
		return
	}
	f.rec.Record(f.chain.surveyed(0))
}

// takePlans takes a message of the plans topic.
func (f *follower) takePlans(m schemas.Message) {
	switch m.Kind() {
	case schemas.KindStage:
		if stage, err := schemas.DecodeJSON[schemas.StageReport](m); err == nil {
			f.rec.Record(StageEnded{StageReport: *stage, Stages: len(f.plan.Stages)})
		}
	case schemas.KindReport:
		if whole, err := f.codec.collectSingle(&f.reports, m); err == nil && whole != nil && f.report == nil {
			if report, err := schemas.ReportOf(whole); err == nil {
				f.report = report
			}
		}
	case schemas.KindEnd:
		if f.end == nil {
			f.end = endOf(m)
		}
	}
}

// once tells of a survey and of a stage the first time: a solver here tells of
// them, and so does who follows the run, as it may be solved elsewhere.
type once struct {
	to       Recorder
	surveyed bool
	stages   map[int]bool
}

func newOnce(to Recorder) *once { return &once{to: to, stages: map[int]bool{}} }

func (o *once) Record(e Event) {
	switch e := e.(type) {
	case Surveyed:
		if o.surveyed {
			return
		}
		o.surveyed = true
	case StageEnded:
		if o.stages[e.Stage] {
			return
		}
		o.stages[e.Stage] = true
	}
	o.to.Record(e)
}
