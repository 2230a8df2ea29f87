package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// survey finds the labels, counts the rows of each split, and quarantines unusable messages. Unless the run keeps the
// preparation of the version that it starts from, the survey also sums the moments of columns and samples rows. A repeated
// survey reads all messages again: those in memory lack the unusable ones, and the log may have changed.
func (w *Worker) survey(ctx context.Context, v protocol.Visit, shares []*partition.Share) error {
	offered, err := w.offeredModel(ctx)
	if err != nil {
		return err
	}
	current, err := visit.NewSurvey(ctx, w.Run, offered)
	if err != nil {
		return err
	}
	progress, found := w.progress(v, shares), map[*partition.Share]*visit.Findings{}
	surveyed := map[*partition.Share]int{} // number of segments
	if err := w.claim(ctx); err != nil {
		return err
	}
	claimed, interval := w.Clock.Now(), w.claimInterval()
	err = w.executor.Run(ctx, &visit.Scan{
		Run: w.Run, Shares: shares, Whole: true, Extent: (*partition.Share).Recent, MaxWrites: maxWrites,
		Processor: visit.Outcomes(current.Processor, func(at *visit.Load, of *visit.Findings) (visit.Write, error) {
			p := at.Share
			progress(of.Sum.Rows)
			for _, q := range of.Events {
				w.rec.Record(q)
			}
			of.Events = nil
			if current.Err() != nil {
				return nil, nil
			}
			whole := found[p]
			if whole == nil {
				whole, found[p] = of, of
			} else if err := whole.Merge(of); err != nil {
				return nil, err
			}
			if err := solve.CheckClasses(len(whole.Labels)); err != nil {
				return nil, err
			}
			surveyed[p] = at.Index + 1
			if columns := whole.ColumnRows.Columns(); columns > 0 {
				w.reserveFound(columns, len(whole.Labels), surveyed)
			}
			if at.Index < p.Recent()-1 {
				if w.Clock.Since(claimed) < interval {
					return nil, nil
				}
				claimed = w.Clock.Now()
				return w.claim, nil
			}
			delete(found, p)
			identity := func(kind wire.Kind) wire.Identity { return w.identity(kind, v, p) }
			return func(ctx context.Context) error { return w.publishSurvey(ctx, current.Records(whole, identity)) }, nil
		}),
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

// claimInterval returns the interval of claims during a survey: short enough that the run is not given up.
func (w *Worker) claimInterval() time.Duration {
	if w.GiveUp == 0 {
		return protocol.MaxPatience
	}
	return min(protocol.MaxPatience, w.GiveUp/4)
}

// publishSurvey writes the survey's records of a share.
func (w *Worker) publishSurvey(ctx context.Context, r visit.SurveyRecords) error {
	if r.Sample != nil {
		if err := publish(ctx, w, r.Sample); err != nil {
			return err
		}
	}
	return publish(ctx, w, r.Visit)
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
