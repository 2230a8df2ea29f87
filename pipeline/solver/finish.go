package solver

import (
	"context"
	"fmt"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// finish publishes the version, which is visible once the run's end names it. The error is errEnded if another process has
// ended the run.
func (s *Solver) finish(ctx context.Context) (*schemas.Place, error) {
	l, err := s.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if !l.GoesOn(s.run) {
		return nil, errEnded
	}
	report := s.report(l.NextVersion())
	if s.plan.Outcomes {
		spans := s.plan.Added()
		if len(spans) == 0 { // a full version without new rows
			spans = s.plan.Spans
		}
		joined, err := protocol.ReadJoined(ctx, s.Client, spans)
		if err != nil {
			return nil, fmt.Errorf("read how outcomes were joined: %w", err)
		}
		report.Outcomes = schemas.OutcomesOf(joined)
	}
	if report.Retrain != nil {
		report.Retrain.Outcomes = report.Outcomes
		report.Retrain.Offered = !report.Outcomes.Withhold()
	}
	manifest := &schemas.Manifest{
		Name: s.plan.Name, Version: report.Version, Run: s.run, Plan: s.plan, Labels: report.Labels,
		Columns: s.chain.Survey.Columns, Rows: map[string]int64{}, Prepare: s.chain.SurveyDigest(),
		Metrics: map[string]float64{"train_error": report.TrainError},
	}
	if report.TestError != nil {
		manifest.Metrics["test_error"] = *report.TestError
	}
	if holdout := report.Stages[len(report.Stages)-1].Final().HoldoutError; holdout != nil {
		manifest.Metrics["holdout_error"] = *holdout
	}
	if s.plan.Task() != examples.Numbers {
		manifest.LabelType = examples.TypeOf(report.Labels)
	}
	manifest.Threshold, manifest.Thresholds = s.threshold(), report.Thresholds
	for name, split := range report.Splits {
		manifest.Rows[name] = split.Rows
	}
	switch {
	case s.plan.Update() != nil:
		manifest.PlansFrom = s.chained.start.plansFrom
	case s.plan.Chain != nil:
		manifest.PlansFrom = s.plan.Since.Plans
	}
	m, err := s.chain.Model(manifest)
	if err != nil {
		return nil, err
	}
	for t := range s.plan.Stages {
		final, digest := s.chain.Block(t, m)
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: t, Visit: final.Visit, Passes: final.Final.Passes,
			Ridge: final.Ridge, Digest: digest, Structure: s.chain.Structure(t)})
	}
	if manifest.Window, err = s.publishWindow(ctx, report); err != nil {
		return nil, fmt.Errorf("write the state for the next run: %w", err)
	}
	if report.Retrain != nil {
		manifest.WindowRows = report.Retrain.WindowRows
	}
	manifest.WeightsDigest = m.Digest()
	report.WeightsDigest = manifest.WeightsDigest
	place, err := s.PublishVersion(ctx, manifest, s.chain.Records(m), func() *schemas.Report {
		report.Seconds = s.Clock.Since(s.began).Seconds()
		return report
	})
	if err != nil {
		return nil, fmt.Errorf("publish version %d: %w", report.Version, err)
	}
	place.Withheld = report.Withheld()
	s.leave(m)
	return place, nil
}

// report returns the report of a run with a sealed last stage.
func (s *Solver) report(version int) *schemas.Report {
	labels := s.chain.Prepared.Labels
	r := &schemas.Report{
		Name: s.plan.Name, Version: version, Run: s.run, Rows: s.chain.Survey.Rows[examples.Train], Classes: labels.Len(), Labels: labels.Text(),
		Quarantined: s.chain.Survey.Quarantined, PassedOver: s.chain.Survey.PassedOver, Stages: s.stages,
		Splits: map[string]schemas.SplitReport{}, Temperature: s.plan.Stages[len(s.plan.Stages)-1].Temperature,
	}
	final := s.stages[len(s.stages)-1].Final()
	r.TrainError, r.TestError = final.TrainError, final.TestError
	r.Thresholds = s.thresholds()
	if majority := s.last.MajorityOf(labels.Len()); majority >= 0 {
		r.Majority = r.Labels[majority]
	}
	last := finalReport{Sum: s.last, Labels: labels.Text(), TargetScale: s.chain.Prepared.TargetScale, Thresholds: r.Thresholds,
		Threshold: s.threshold()}
	for split, metrics := range event.MetricsOf(s.last.Tensors()) {
		r.Splits[split.String()] = last.split(split, metrics)
	}
	s.chained.report(s.plan, r)
	return r
}

// thresholds returns the thresholds of a multi-label version: the best for the holdout rows, which the weights were not
// fitted to. An update keeps those of the previous version.
func (s *Solver) thresholds() *statistics.Thresholds {
	if s.plan.Task() != examples.SeveralLabels {
		return nil
	}
	if s.plan.Update() != nil && s.chain.Earlier() != nil && s.chain.Earlier().Manifest.Thresholds != nil {
		return s.chain.Earlier().Manifest.Thresholds
	}
	t := s.last.ThresholdsOf(examples.Holdout, s.chain.Prepared.Labels.Len())
	return &t
}

// threshold returns the threshold of a two-class version; 0: none. An update keeps that of the previous version. Without
// holdout rows of both classes it is 1/2.
func (s *Solver) threshold() float64 {
	switch rule := s.plan.Threshold; {
	case rule.IsZero():
		return 0
	case s.plan.Update() != nil && s.chain.Earlier() != nil:
		return s.chain.Earlier().Manifest.Threshold
	case rule.Chosen():
		t, _ := s.last.ThresholdOf(examples.Holdout, rule.Cost)
		return t
	default:
		return rule.At
	}
}
