package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// RunDetails is what the topics say of a run.
type RunDetails struct {
	RunState
	Pipeline string // its name
	Plan     *schemas.Plan
	// Report says how it went; nil: it has made no version, or the report is gone.
	Report *schemas.Report
}

// Describe returns what the topics say of runs. Each is given by its id, or by its version: the number, or [run.Latest]; those of another
// pipeline than name with the name of that before a slash, as wide/3. The error may be an *[UnknownRunError].
func Describe(ctx context.Context, log *kafkalog.Log, name string, wanted ...string) (list []RunDetails, err error) {
	known := map[string]*described{}
	for _, want := range wanted {
		of, id := name, want
		if other, rest, ok := strings.Cut(want, "/"); ok {
			of, id = other, rest
		}
		if known[of] == nil {
			if known[of], err = describe(ctx, log, of); err != nil {
				return nil, fmt.Errorf("pipeline %s: %w", of, err)
			}
		}
		d, err := known[of].run(ctx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, *d)
	}
	return list, nil
}

// described is what is known of all runs of a pipeline.
type described struct {
	*pipeline
	ledger *run.Ledger
	states []RunState
}

func describe(ctx context.Context, log *kafkalog.Log, name string) (*described, error) {
	d := &described{pipeline: open(log, name, nil)}
	var err error
	if d.ledger, err = d.ReadHistory(ctx); err != nil {
		return nil, err
	}
	d.states, err = Runs(ctx, log, name)
	return d, err
}

// run returns what is known of a run, given its id or its version.
func (d *described) run(ctx context.Context, want string) (*RunDetails, error) {
	place, err := d.ledger.Find(want)
	if errors.As(err, new(*run.NoVersionError)) && d.ledger.Plan(want) == nil {
		return nil, &UnknownRunError{want, d.Topics.Plans}
	}
	if err != nil && !errors.As(err, new(*run.NoVersionError)) {
		return nil, err
	}
	r := &RunDetails{Pipeline: d.Topics.Name, RunState: RunState{Run: want, Version: place.Version, State: schemas.Done, Rows: -1}, Plan: d.ledger.Plan(want)}
	if err == nil {
		r.Run = place.Run
		manifest, err := d.Client.Version(ctx, place.Run)
		if err != nil {
			return nil, err
		}
		r.Plan, r.Rows = manifest.Plan, manifest.Rows[schemas.Train.String()]
		if r.Report, err = d.Client.Report(ctx, place.Run); err != nil {
			return nil, err
		}
	}
	if i := slices.IndexFunc(d.states, func(s RunState) bool { return s.Run == r.Run }); i >= 0 {
		r.RunState = d.states[i]
	}
	if r.Report == nil && r.State == schemas.Done { // of an earlier release: it stays on the weights topic for a while
		f := d.newFollower(r.Plan, d.ledger, event.Ignore{})
		if err := f.readReport(ctx); err != nil {
			return nil, err
		}
		r.Report = f.report
	}
	return r, nil
}
