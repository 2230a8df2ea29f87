package heed

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// Heeded returns the part of the forget topic that was read; nil if it was empty.
func (f *Forgotten) Heeded() *schemas.Heeded {
	if len(f.entries) == 0 {
		return nil
	}
	return &schemas.Heeded{Entries: len(f.entries), Last: f.last}
}

// lacks reports whether the topic has lost messages that heeded covers, and no operator has accepted the loss.
func (f *Forgotten) lacks(heeded *schemas.Heeded) bool {
	if heeded == nil || slices.Contains(f.lost, *heeded) {
		return false
	}
	return len(f.entries) < heeded.Entries || heeded.Last != "" && !f.entries[heeded.Last]
}

// heededBy returns the part of the forget topic that a plan applies; nil if none. Plans of earlier releases do not record it.
func heededBy(plan *schemas.Plan) *schemas.Heeded {
	if plan.Heeded == nil && len(plan.Forgotten) > 0 {
		return &schemas.Heeded{Entries: 1}
	}
	return plan.Heeded
}

// CheckForgotten returns a *[ForgetLostError] if the forget topic lacks messages that a version has applied.
func CheckForgotten(p *topics.Pipeline, f *Forgotten, version *schemas.Manifest) error {
	heeded := heededBy(version.Plan)
	if version.Plan.Topic != topics.ForeignTopic(p) || !f.lacks(heeded) {
		return nil
	}
	return &ForgetLostError{Topic: topics.ForgetTopic(p), Version: version.Version, Heeded: *heeded, Has: len(f.entries)}
}

// CheckNewest calls [CheckForgotten] with the newest readable version.
func CheckNewest(ctx context.Context, p *topics.Pipeline, l *protocol.Ledger, f *Forgotten) error {
	for _, place := range slices.Backward(l.Versions()) {
		manifest, err := p.Version(ctx, place.Run)
		if ctx.Err() != nil {
			return err
		}
		if err == nil {
			return CheckForgotten(p, f, manifest)
		}
	}
	return nil
}

// ForgetLostError means that the forget topic has lost messages, so that a run would train on forgotten rows.
type ForgetLostError struct {
	Topic   string
	Version int            // version that has applied the lost messages; 0: a running process has
	Heeded  schemas.Heeded // the part that it has applied
	Has     int            // number of messages on the topic
}

// Error includes the operator's options.
func (e *ForgetLostError) Error() string {
	who := "this process"
	if e.Version > 0 {
		who = fmt.Sprintf("version %d", e.Version)
	}
	return fmt.Sprintf("%s has lost forgotten rows: %s applied %d of its messages, but it now has %d messages, or others: restore it "+
		"from a backup, or use `stagewise forget --lost restore` to forget again the rows that versions name, or `--lost drop` to "+
		"let runs learn those rows", e.Topic, who, e.Heeded.Entries, e.Has)
}

// The operator's decisions when the forget topic has lost messages.
const (
	RestoreLost = "restore" // forget again the rows that the plans of versions list as forgotten
	DropLost    = "drop"    // continue without them
)

// ErrNothingLost means that the forget topic has lost nothing.
var ErrNothingLost = errors.New("the forget topic has all messages that versions applied: nothing is lost")

// DecideLost returns the messages that record the operator's decision, so that runs continue although the forget topic has
// lost messages, and the rows to forget again.
func DecideLost(ctx context.Context, p *topics.Pipeline, f *Forgotten, decision string) (said []schemas.Forget,
	rows coverage.Forgotten, err error) {
	versions, err := p.Versions(ctx)
	if err != nil {
		return nil, nil, err
	}
	var lost []schemas.Heeded
	for i := range versions {
		plan := versions[i].Plan
		heeded := heededBy(plan)
		if plan.Topic != topics.ForeignTopic(p) || !f.lacks(heeded) {
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
		return nil, nil, ErrNothingLost
	case decision == DropLost:
		return said, nil, nil
	}
	bounds, err := p.Log.Spans(ctx, p.Topics.Examples)
	return said, rows.Within(bounds), err
}
