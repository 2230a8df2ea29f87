package solver

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// finished is a run whose last stage is sealed, and whose version is on the versions topic.
type finished struct {
	report  *schemas.Report
	version *schemas.Place
}

// publishReport writes the report of the run.
func (s *Solver) publishReport(ctx context.Context, report *schemas.Report) error {
	messages, err := report.Messages()
	if err != nil {
		return err
	}
	_, err = s.Log.Append(ctx, s.Topics.Weights, 0, messages...)
	return err
}

// finish publishes the version, which counts once the run's end says so. The error is errEnded if somebody else has ended the run.
func (s *Solver) finish(ctx context.Context) (*finished, error) {
	l, err := s.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if !l.GoesOn(s.run) {
		return nil, errEnded
	}
	report := s.report(l.NextVersion())
	manifest := &schemas.Manifest{
		Name: s.plan.Name, Version: report.Version, Run: s.run, Plan: s.plan, Labels: report.Labels,
		Columns: s.chain.Survey.Columns, Rows: map[string]int64{}, Prepare: s.chain.SurveyDigest(), Metrics: map[string]float64{"train_error": report.TrainError},
	}
	if report.TestError != nil {
		manifest.Metrics["test_error"] = *report.TestError
	}
	if _, _, holdout := report.Stages[len(report.Stages)-1].Final(); holdout != nil {
		manifest.Metrics["holdout_error"] = *holdout
	}
	manifest.Thresholds = report.Thresholds
	for name, split := range report.Splits {
		manifest.Rows[name] = split.Rows
	}
	for t := range s.plan.Stages {
		final, digest := s.chain.Final(t)
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: t, Visit: final.Visit, Passes: final.Final.Passes, Ridge: final.Ridge, Digest: digest})
	}
	switch {
	case s.plan.Update() != nil:
		manifest.PlansFrom = s.chained.plansFrom
	case s.plan.Chain != nil:
		manifest.PlansFrom = s.plan.Since.Plans
	}
	m, err := s.chain.Model(manifest)
	if err != nil {
		return nil, err
	}
	if manifest.Window, err = s.publishWindow(ctx, report); err != nil {
		return nil, fmt.Errorf("write what the next run goes on from: %w", err)
	}
	if report.Retrain != nil {
		manifest.WindowRows = report.Retrain.WindowRows
	}
	manifest.WeightsDigest = m.Digest()
	report.WeightsDigest = manifest.WeightsDigest
	place, err := s.PublishVersion(ctx, manifest, s.chain.Records(), func() *schemas.Report {
		report.Seconds = time.Since(s.began).Seconds()
		return report
	})
	if err != nil {
		return nil, fmt.Errorf("publish version %d: %w", report.Version, err)
	}
	place.Withheld = report.Retrain != nil && !report.Retrain.Offered
	s.leave(m)
	return &finished{report, place}, nil
}

// report returns the report of the run, whose last stage is sealed.
func (s *Solver) report(version int) *schemas.Report {
	labels := s.chain.Prepared.Labels
	r := &schemas.Report{
		Name: s.plan.Name, Version: version, Run: s.run, Rows: s.chain.Survey.Rows[schemas.Train], Classes: labels.Len(), Labels: labels.Text(),
		Quarantined: s.chain.Survey.Quarantined, PassedOver: s.chain.Survey.PassedOver, Stages: s.stages, Splits: map[string]schemas.SplitReport{},
	}
	last := s.stages[len(s.stages)-1]
	r.TrainError, r.TestError, _ = last.Final()
	r.Thresholds = s.thresholds()
	for split, metrics := range event.MetricsOf(s.last.Tensors()) {
		r.Splits[split.String()] = s.splitReport(split, metrics)
	}
	s.chained.report(s.plan, r)
	return r
}

// thresholds returns the thresholds of the version, of several labels a row: those that are best for the holdout rows, whose scores no weights have
// seen. An update keeps those of the version before it.
func (s *Solver) thresholds() *schemas.Thresholds {
	if s.plan.Task() != schemas.SeveralLabels {
		return nil
	}
	if s.plan.Update() != nil && s.chain.Earlier() != nil && s.chain.Earlier().Manifest.Thresholds != nil {
		return s.chain.Earlier().Manifest.Thresholds
	}
	t := s.last.ThresholdsOf(schemas.Holdout, s.chain.Prepared.Labels.Len())
	return &t
}

// splitReport returns how good the final predictions of a split are.
func (s *Solver) splitReport(split schemas.Split, metrics event.Metrics) schemas.SplitReport {
	r := schemas.SplitReport{Rows: metrics.Rows, Error: metrics.Error, Loss: metrics.Loss}
	if s.plan.Task() == schemas.Numbers {
		all, each := s.last.DistancesOf(split, s.chain.Prepared.TargetScale)
		if all == nil {
			return r
		}
		r.RMSE, r.MAE, r.R2 = finite(all.RMSE), finite(all.MAE), finite(all.R2)
		r.Targets = map[string]schemas.Distances{}
		for c, d := range each {
			r.Targets[s.plan.Targets[c]] = schemas.Distances{RMSE: event.Finite(d.RMSE), MAE: event.Finite(d.MAE), R2: event.Finite(d.R2)}
		}
		return r
	}
	k := s.chain.Prepared.Labels.Len()
	if t := s.thresholds(); t != nil {
		if m := s.last.LabelsAt(split, k, *t); m != nil {
			r.Hamming, r.MicroF1, r.MacroF1, r.SubsetAccuracy = finite(m.Hamming), finite(m.MicroF1), finite(m.MacroF1), finite(m.SubsetAccuracy)
			r.PrecisionAt = s.last.PrecisionOf(split)
		}
	}
	q := s.last.QualityOf(split, k)
	r.LogLoss, r.Brier, r.ECE = finite(q.LogLoss), finite(q.Brier), finite(q.ECE)
	r.Confusion, r.Reliability = q.Confusion, finiteBins(q.Bins)
	return r
}

// finite returns a number as JSON can have it.
func finite(v float64) *float64 {
	v = event.Finite(v)
	return &v
}

// finiteBins returns bins as JSON can have them: scores that have overflowed give probabilities that are no numbers.
func finiteBins(bins []schemas.ReliabilityBin) []schemas.ReliabilityBin {
	for i := range bins {
		bins[i].Confidence = event.Finite(bins[i].Confidence)
	}
	return bins
}
