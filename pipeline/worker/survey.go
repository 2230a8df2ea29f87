package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// survey finds the labels, counts the rows of each split, and quarantines unusable messages. Unless the run keeps the
// preparation of the version that it starts from, the survey also sums the moments of columns and samples rows. A repeated
// survey reads all messages again, as the log may have changed.
func (w *Worker) survey(ctx context.Context, v protocol.Visit, shares []*visit.Share) error {
	offered, err := w.offeredModel(ctx)
	if err != nil {
		return err
	}
	current, err := visit.NewSurvey(ctx, w.Run, offered)
	if err != nil {
		return err
	}
	progress, outcomes := w.progress(v, shares), visit.Outcomes{}
	if err := w.claim(ctx); err != nil {
		return err
	}
	claimed, interval := w.Clock.Now(), w.claimInterval()
	err = w.executor.Run(ctx, &visit.Scan{
		Run: w.Run, Shares: shares, Whole: true, Extent: recent, MaxWrites: maxWrites, Processor: current.Processor,
		Collect: func(at *visit.Load, o *visit.Outcome) (visit.Write, error) {
			p := at.Share
			progress(o.Sum.Rows)
			for _, q := range o.Events {
				w.rec.Record(q)
			}
			if current.Err() != nil {
				return nil, nil
			}
			whole, err := outcomes.Add(at, o, p.Recent)
			if err != nil {
				return nil, err
			}
			found := cmp.Or(whole, outcomes[p]).Found
			if err := solve.CheckClasses(len(found.Labels)); err != nil {
				return nil, err
			}
			if columns := len(found.ColumnRows); columns > 0 {
				w.reserveFound(columns, len(found.Labels))
			}
			switch {
			case whole != nil:
				return func(ctx context.Context) error { return w.publishSurvey(ctx, current, v, p, whole) }, nil
			case w.Clock.Since(claimed) < interval:
				return nil, nil
			}
			claimed = w.Clock.Now()
			return w.claim, nil
		},
	})
	if err != nil {
		return err
	}
	return current.Err()
}

// claim announces on the statistics topic that this worker is surveying.
func (w *Worker) claim(ctx context.Context) error {
	if w.records != nil {
		return nil
	}
	c := schemas.Claim{Run: w.ID}
	_, err := w.Log.Append(ctx, w.Topics.Statistics, w.statisticsOf(w.first(w.shares[0])), c.Message())
	return err
}

// claimInterval returns the interval of claims during a survey: short enough that the run does not fail as unclaimed.
func (w *Worker) claimInterval() time.Duration {
	if w.GiveUp == 0 {
		return protocol.MaxPatience
	}
	return min(protocol.MaxPatience, w.GiveUp/4)
}

// publishSurvey writes the survey's records of a share.
func (w *Worker) publishSurvey(ctx context.Context, of *visit.Survey, v protocol.Visit, p *visit.Share, o *visit.Outcome) error {
	sample, survey := of.Records(o, func(kind wire.Kind) wire.Identity { return w.identity(kind, v, p) })
	if sample != nil {
		if err := publish(ctx, w, sample); err != nil {
			return err
		}
	}
	return publish(ctx, w, survey)
}

// offeredModel returns the version for subscribers, with which the gate compares; nil if the run has no gate, or the
// version is gone.
func (w *Worker) offeredModel(ctx context.Context) (*model.Model, error) {
	if _, gated := visit.JudgedSplit(w.Plan); !gated {
		return nil, nil
	}
	offered := &w.Plan.Chain.Gate.Offered
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
	u := w.Plan.Update()
	_, gated := visit.JudgedSplit(w.Plan)
	return gated && u != nil && len(u.Refresh) > 0 && v.Stage == len(w.Plan.Stages)-1 && v.Number >= u.Passes
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
	if theirs.Holdout != w.Plan.Holdout || theirs.Seed != w.Plan.Seed || !w.Earlier.SharesInputs(m) || !visit.SameLoss(w.Plan, theirs) {
		return nil, nil
	}
	return m, nil
}
