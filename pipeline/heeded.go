package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/schemas"
)

// heeded returns how much of the forget topic was read; nil if there was nothing.
func (f *forgotten) heeded() *schemas.Heeded {
	if len(f.entries) == 0 {
		return nil
	}
	return &schemas.Heeded{Entries: len(f.entries), Last: f.last}
}

// lacks reports whether the topic has lost some of what was heeded, and no operator has decided to go on without it.
func (f *forgotten) lacks(heeded *schemas.Heeded) bool {
	if heeded == nil || slices.Contains(f.lost, *heeded) {
		return false
	}
	return len(f.entries) < heeded.Entries || heeded.Last != "" && !f.entries[heeded.Last]
}

// heededBy returns how much of the forget topic a plan heeds; nil if it heeds nothing. Plans of earlier releases do not say it.
func heededBy(plan *schemas.Plan) *schemas.Heeded {
	if plan.Heeded == nil && len(plan.Forgotten) > 0 {
		return &schemas.Heeded{Entries: 1}
	}
	return plan.Heeded
}

// checkForgotten returns a *[ForgetLostError] if the forget topic lacks what a version has heeded.
func (p *pipeline) checkForgotten(f *forgotten, version *schemas.Manifest) error {
	heeded := heededBy(version.Plan)
	if version.Plan.Topic != p.archiveTopic() || !f.lacks(heeded) {
		return nil
	}
	return &ForgetLostError{Topic: p.forgetTopic(), Version: version.Version, Heeded: *heeded, Has: len(f.entries)}
}

// checkNewest is checkForgotten of the newest version that can be read.
func (p *pipeline) checkNewest(ctx context.Context, l *run.Ledger, f *forgotten) error {
	for _, place := range slices.Backward(l.Versions()) {
		manifest, err := p.Version(ctx, place.Run)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			return p.checkForgotten(f, manifest)
		}
	}
	return nil
}

// ForgetLostError says that the forget topic has lost rows that were forgotten, so that a run would learn from them.
type ForgetLostError struct {
	Topic   string
	Version int            // that has heeded what is lost; 0: a process has read it
	Heeded  schemas.Heeded // by it
	Has     int            // messages that the topic has
}

// Error says how the operator decides.
func (e *ForgetLostError) Error() string {
	who := "this process"
	if e.Version > 0 {
		who = fmt.Sprintf("version %d", e.Version)
	}
	return fmt.Sprintf("%s has lost rows that were forgotten: %s has heeded %d messages of it, and it has %d of them or others: "+
		"write it again from a copy, or decide with `stagewise forget --lost restore` to forget again what versions name, or with `--lost drop` to let runs learn those rows", e.Topic, who, e.Heeded.Entries, e.Has)
}

// What an operator may decide when the forget topic has lost something.
const (
	RestoreLost = "restore" // forget again the rows that the plans of versions have as forgotten
	DropLost    = "drop"    // go on without them
)

// errNothingLost says that there is nothing to decide.
var errNothingLost = errors.New("the forget topic has all that versions have heeded: nothing is lost")

// decideLost returns what is to be said so that runs go on although the forget topic f has lost something, and the rows to forget again.
func (p *pipeline) decideLost(ctx context.Context, f *forgotten, decision string) (said []schemas.Forget, rows schemas.Forgotten, err error) {
	versions, err := p.Versions(ctx)
	if err != nil {
		return nil, nil, err
	}
	var lost []schemas.Heeded
	for i := range versions {
		plan := versions[i].Plan
		heeded := heededBy(plan)
		if plan.Topic != p.archiveTopic() || !f.lacks(heeded) {
			continue
		}
		rows = rows.Union(plan.Forgotten)
		if !slices.Contains(lost, *heeded) {
			lost = append(lost, *heeded)
			said = append(said, schemas.Forget{Lost: heeded})
		}
	}
	switch {
	case len(said) == 0:
		return nil, nil, errNothingLost
	case decision == DropLost:
		return said, nil, nil
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	return said, rows.Within(bounds), err
}
