package worker

import (
	"context"
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
)

// offeredModel returns the version for subscribers, with which the gate compares; nil if the run has no gate, or the
// version is gone.
func (w *Worker) offeredModel(ctx context.Context) (*model.Model, error) {
	if _, gated := visit.JudgedSplit(w.plan); !gated {
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

// judgesAgain reports whether a visit of an update may be the one with its final weights, in which the gate compares the
// versions on the rows of revisited increments.
func (w *Worker) judgesAgain(v protocol.Visit) bool {
	u := w.plan.Update()
	_, gated := visit.JudgedSplit(w.plan)
	return gated && u != nil && len(u.Refresh) > 0 && v.Stage == len(w.plan.Stages)-1 && v.Number >= u.Passes
}

// offeredAgain returns the version for subscribers if it can be compared on rows that the chain has visited before: if it
// has the preparation of the stored rows, and was not trained on any of them, because the same rows were held out.
// Otherwise it returns nil.
func (w *Worker) offeredAgain(ctx context.Context) (*model.Model, error) {
	m, err := w.offeredModel(ctx)
	if m == nil || err != nil {
		return nil, err
	}
	theirs := m.Manifest.Plan
	if theirs.Holdout != w.plan.Holdout || theirs.Seed != w.plan.Seed || !w.earlier.SharesInputs(m) || !visit.SameLoss(w.plan, theirs) {
		return nil, nil
	}
	return m, nil
}
