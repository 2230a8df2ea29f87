package dispatch

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// States of an unfinished run. The states of an ended run are schemas.Done, schemas.Failed and schemas.Cancelled.
const (
	waiting = "waiting" // RunState.Reason says for what
	running = "running"
)

// RunState is the state of a run on the plans topic.
type RunState struct {
	Run     string
	Version int // version that the run has made; 0: none, or it was removed
	State   string
	// Since is the time of the run's end or submission, by the clock of the writer.
	Since time.Time
	// Rows is the number of training rows: of the run's sources, or, if it reads the topic without sources and has made a
	// version, of the version. −1: unknown.
	Rows int64
	// Reason is why the run failed or was cancelled, the due visit, or what the run waits for. It may be empty.
	Reason string
}

// Runs returns the runs of a pipeline, ordered by the time of their last state change. The plans topic drops runs that
// ended long ago.
func Runs(ctx context.Context, p *topics.Pipeline) ([]RunState, error) {
	d, err := Described(ctx, p)
	if err != nil {
		return nil, err
	}
	return d.states, nil
}

// rowsOf returns the number of training rows of a plan's sources; −1 if it also reads messages without a source.
func rowsOf(plan *schemas.Plan) (rows int64) {
	if plan.Foreign {
		return -1
	}
	for _, s := range plan.Sources {
		if s.Split == examples.Train.String() {
			rows += s.Rows
		}
	}
	return rows
}

// progress returns the state of an unfinished run that no other run precedes.
func progress(ctx context.Context, p *topics.Pipeline, plan *schemas.Plan) (state, reason string, err error) {
	chain := protocol.NewOutline(plan, p.Memory)
	for m, err := range p.Remaining(ctx, p.Topics.Weights, 0, plan.Since.Weights, math.MaxInt64) {
		if err != nil {
			return "", "", fmt.Errorf("read weights: %w", err)
		}
		if m.Run() == chain.Run {
			_, _ = chain.Add(m.Message) // observers ignore damaged messages
		}
	}
	if !chain.Began() {
		return waiting, "for workers and a solver to finish the survey", nil
	}
	v, _ := chain.Due()
	if v.Stage >= len(plan.Stages) {
		return running, "its version is being written", nil
	}
	return running, event.VisitOf(v.Stage, v.Number, len(plan.Stages)) + " is due", nil
}

// EndedError means that a run can't be cancelled because it has ended.
type EndedError struct{ Run, State string }

func (e *EndedError) Error() string {
	return fmt.Sprintf("run %s has ended already: it is %s", e.Run, e.State)
}

// Cancel cancels a run, or all unfinished runs if id is empty, and returns the ids of the cancelled runs. The error may be
// an *[UnknownRunError] or an *[EndedError].
func Cancel(ctx context.Context, p *topics.Pipeline, id string) (cancelled []string, err error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if id != "" && l.Plan(id) == nil {
		return nil, &UnknownRunError{id, p.Topics.Plans}
	}
	if end := l.End(id); end != nil {
		return nil, &EndedError{id, end.State}
	}
	for unfinished := range l.Unfinished() {
		if id != "" && unfinished != id {
			continue
		}
		end := &schemas.End{Run: unfinished, State: schemas.Cancelled, Reason: "by runs cancel", Attempt: p.Fresh()}
		if err := End(ctx, p, end); err != nil {
			return cancelled, fmt.Errorf("cancel run %s: %w", unfinished, err)
		}
		cancelled = append(cancelled, unfinished)
	}
	return cancelled, nil
}

// RunDetails is the state of a run on the topics.
type RunDetails struct {
	RunState
	Pipeline string // pipeline name
	Plan     *schemas.Plan
	// Report is the report of the run; nil: the run has made no version, or the report is gone.
	Report *schemas.Report
}

// Describe returns the state of runs on the topics. A run is given by its id or its version: a number or
// [protocol.Latest]. A run of a pipeline other than name has that pipeline's name and a slash before it, as in wide/3. The
// error may be an *[UnknownRunError].
func Describe(ctx context.Context, log *kafkalog.Log, name string, wanted ...string) (list []RunDetails, err error) {
	known := map[string]*described{}
	for _, want := range wanted {
		of, id := name, want
		if other, rest, ok := strings.Cut(want, "/"); ok {
			of, id = other, rest
		}
		if known[of] == nil {
			if known[of], err = Described(ctx, topics.Open(log, of, nil)); err != nil {
				return nil, fmt.Errorf("pipeline %s: %w", of, err)
			}
		}
		d, err := known[of].Run(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, *d)
	}
	return list, nil
}

// described is the state of all runs of a pipeline.
type described struct {
	*topics.Pipeline
	ledger *protocol.Ledger
	states []RunState
}

// Described reads the runs and versions of the pipeline for [Runs] and [Describe].
func Described(ctx context.Context, p *topics.Pipeline) (*described, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := p.Versions(ctx)
	if err != nil {
		return nil, err
	}
	d, first := &described{Pipeline: p, ledger: l}, "" // first unfinished run
	for id, plan := range l.Runs() {
		s := RunState{Run: id, Since: l.Changed(id), Rows: rowsOf(plan)}
		if i := slices.IndexFunc(versions, func(v protocol.Finished) bool { return v.Run == id }); i >= 0 {
			s.Version, s.Rows = versions[i].Version, versions[i].Rows[examples.Train.String()]
		}
		switch end := l.End(id); {
		case end != nil:
			s.State, s.Reason = end.State, end.Reason
		case first == "":
			first = id
			if s.State, s.Reason, err = progress(ctx, p, plan); err != nil {
				return nil, err
			}
		default:
			s.State, s.Reason = waiting, "for run "+first+", which goes first"
		}
		d.states = append(d.states, s)
	}
	slices.SortStableFunc(d.states, func(a, b RunState) int { return a.Since.Compare(b.Since) })
	return d, nil
}

// Run returns the state of a run, by id or version.
func (d *described) Run(ctx context.Context, want string) (*RunDetails, error) {
	place, err := d.ledger.Find(want)
	r := &RunDetails{Pipeline: d.Topics.Name, RunState: RunState{Run: want, Version: place.Version, State: schemas.Done, Rows: -1},
		Plan: d.ledger.Plan(want)}
	switch {
	case err == nil:
		made, report, err := d.Client.Described(ctx, place)
		if err != nil {
			return nil, err
		}
		r.Run, r.Plan, r.Rows, r.Report = place.Run, made.Plan, made.Rows[examples.Train.String()], report
	case r.Plan == nil:
		return nil, &UnknownRunError{want, d.Topics.Plans}
	}
	if i := slices.IndexFunc(d.states, func(s RunState) bool { return s.Run == r.Run }); i >= 0 {
		r.RunState = d.states[i]
	}
	return r, nil
}
