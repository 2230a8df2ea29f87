package dispatch

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

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

// Described reads the runs and versions of the pipeline for [Describe].
func Described(ctx context.Context, p *topics.Pipeline) (d *described, err error) {
	d = &described{Pipeline: p}
	if d.ledger, err = d.ReadLedger(ctx); err != nil {
		return nil, err
	}
	d.states, err = Runs(ctx, p)
	return d, err
}

// Run returns the state of a run, by id or version.
func (d *described) Run(ctx context.Context, want string) (*RunDetails, error) {
	place, err := d.ledger.Find(want)
	if errors.As(err, new(*protocol.NoVersionError)) && d.ledger.Plan(want) == nil {
		return nil, &UnknownRunError{want, d.Topics.Plans}
	}
	if err != nil && !errors.As(err, new(*protocol.NoVersionError)) {
		return nil, err
	}
	r := &RunDetails{Pipeline: d.Topics.Name, RunState: RunState{Run: want, Version: place.Version, State: schemas.Done, Rows: -1},
		Plan: d.ledger.Plan(want)}
	if err == nil {
		r.Run = place.Run
		manifest, err := d.Client.Version(ctx, place.Run)
		if err != nil {
			return nil, err
		}
		r.Plan, r.Rows = manifest.Plan, manifest.Rows[examples.Train.String()]
		if r.Report, err = d.Client.Report(ctx, place.Run); err != nil {
			return nil, err
		}
	}
	if i := slices.IndexFunc(d.states, func(s RunState) bool { return s.Run == r.Run }); i >= 0 {
		r.RunState = d.states[i]
	}
	return r, nil
}
