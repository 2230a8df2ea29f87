package source

import (
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// EarlierRun is an ancestor run of a version.
type EarlierRun struct {
	Plan     *schemas.Plan
	Version  int               // version that the run has made; 0: unknown
	Manifest *schemas.Manifest // manifest of that version; nil if it was removed
}

// Name returns the name of the run's result for error messages.
func (r *EarlierRun) Name() string {
	if r.Version == 0 {
		return "the version of run " + r.Plan.Run()
	}
	return fmt.Sprintf("version %d", r.Version)
}

// HistoryOf returns the ancestor runs of a version in order, from the last cold start.
func HistoryOf(ctx context.Context, p *topics.Pipeline, version string) (runs []EarlierRun, err error) {
	asked, err := p.Version(ctx, version)
	if err != nil {
		return nil, err
	}
	past, err := ReadHistory(ctx, p)
	if err != nil {
		return nil, err
	}
	return past.Runs(asked)
}

// History is the known runs of a pipeline.
type History struct {
	ledger   *protocol.Ledger
	versions []protocol.Finished
	topic    string // plans topic
}

// ReadHistory reads the known runs of the pipeline.
func ReadHistory(ctx context.Context, p *topics.Pipeline) (*History, error) {
	l, err := p.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	versions, err := p.Versions(ctx)
	return &History{l, versions, p.Topics.Plans}, err
}

// Runs returns the ancestor runs of a version in order, from the last cold start. The error is a *[MissingPlanError].
func (h *History) Runs(asked *schemas.Manifest) (runs []EarlierRun, err error) {
	for id := asked.Run; ; {
		r := EarlierRun{Plan: h.ledger.Plan(id)}
		if end := h.ledger.End(id); end != nil && end.Version != nil {
			r.Version = end.Version.Version
		}
		if i := slices.IndexFunc(h.versions, func(f protocol.Finished) bool { return f.Run == id }); i >= 0 {
			r.Manifest = &h.versions[i].Manifest
			r.Plan, r.Version = r.Manifest.Plan, r.Manifest.Version
		}
		if id == asked.Run { // the version may have been removed in the meantime
			r.Manifest, r.Plan, r.Version = asked, asked.Plan, asked.Version
		}
		if r.Plan == nil {
			return nil, &MissingPlanError{Version: asked.Version, Run: id, Topic: h.topic}
		}
		runs = append(runs, r)
		if r.Plan.Warm == nil {
			slices.Reverse(runs)
			return runs, nil
		}
		id = r.Plan.Warm.Run
	}
}

// MissingPlanError means that a version can't be reproduced because the plan of an ancestor run is missing.
type MissingPlanError struct {
	Version int    // version to reproduce
	Run     string // run whose plan is missing
	Topic   string // plans topic
}

// Error includes the missing plan.
func (e *MissingPlanError) Error() string {
	return fmt.Sprintf("version %d depends on run %s, whose plan is no longer on %s: it can't be reproduced", e.Version, e.Run, e.Topic)
}

// PlansOf returns the plans of runs.
func PlansOf(runs []EarlierRun) (plans []*schemas.Plan) {
	for _, r := range runs {
		plans = append(plans, r.Plan)
	}
	return plans
}

// NewestVersion returns the run of the version with the highest number, whether withheld or pinned: training with warm latest
// continues from it. It returns [protocol.Latest] if there is no version.
func NewestVersion(l *protocol.Ledger) string {
	versions := l.Versions()
	if len(versions) == 0 {
		return protocol.Latest
	}
	return versions[len(versions)-1].Run
}
