package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/judge"
)

// offeredModel returns the version that subscribers have, which the gate of the run compares with; nil if the run has
// no gate, or the version is gone.
func (w *Worker) offeredModel(ctx context.Context) (*model.Model, error) {
	if _, gated := judge.Split(w.plan); !gated {
		return nil, nil
	}
	offered := &w.plan.Chain.Gate.Offered
	m, err := w.ModelOf(ctx, offered)
	if errors.As(err, new(*protocol.NoVersionError)) || errors.As(err, new(*protocol.GoneError)) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the offered version: %w", err)
	}
	return m, nil
}

// judgesAgain reports whether a visit of an update may be the one with the weights that it ends with, where the gate
// compares the version with the one that subscribers have by the rows of increments that are visited again.
func (w *Worker) judgesAgain(v protocol.Visit) bool {
	u := w.plan.Update()
	_, gated := judge.Split(w.plan)
	return gated && u != nil && len(u.Refresh) > 0 && v.Stage == len(w.plan.Stages)-1 && v.Number >= u.Passes
}

// offeredAgain returns the version that subscribers have, if it can be compared by rows that the chain has visited before: then it has the
// preparation that they are kept with, and has not learnt one of them, as the same rows were held out. Otherwise it returns nil.
func (w *Worker) offeredAgain(ctx context.Context) (*model.Model, error) {
	m, err := w.offeredModel(ctx)
	if m == nil || err != nil {
		return nil, err
	}
	theirs := m.Manifest.Plan
	if theirs.Holdout != w.plan.Holdout || theirs.Seed != w.plan.Seed || !w.earlier.SharesInputs(m) || !judge.SameLoss(w.plan, theirs) {
		return nil, nil
	}
	return m, nil
}
