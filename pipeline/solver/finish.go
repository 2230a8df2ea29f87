package solver

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// publishReport writes the report of the run.
func (s *Solver) publishReport(ctx context.Context, report *schemas.Report) error {
	messages, err := report.Messages(s.chain.Head(), s.Codec.EncodeSingle)
	if err != nil {
		return err
	}
	return s.Log.Scatter(ctx, s.Topics.Plans, 0, messages...)
}

// finish publishes the manifest, which makes the version count, and returns the report of the run. The error is errEnded if somebody
// else has cancelled the run.
func (s *Solver) finish(ctx context.Context) (*schemas.Report, error) {
	l, err := s.ReadLedger(ctx)
	if err != nil {
		return nil, err
	}
	if end := l.End(s.run); end != nil && end.State != schemas.Done {
		return nil, errEnded
	}
	earlier, err := s.Versions(ctx)
	if err != nil {
		return nil, err
	}
	version := 1
	for _, m := range earlier {
		if m.Run == s.run { // an earlier solver of the run has published its manifest
			version = m.Version
			break
		}
		version = max(version, m.Version+1)
	}
	report := s.report(version)
	manifest := &schemas.Manifest{
		Name: s.plan.Name, Version: version, Run: s.run, Plan: s.plan, Labels: report.Labels,
		Rows: map[string]int64{}, Prepare: s.chain.SurveyDigest(), Metrics: map[string]float64{"train_error": report.TrainError},
	}
	if report.TestError != nil {
		manifest.Metrics["test_error"] = *report.TestError
	}
	for name, split := range report.Splits {
		manifest.Rows[name] = split.Rows
	}
	for t := range s.plan.Stages {
		final, digest := s.chain.Final(t)
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: t, Visit: final.Visit, Passes: final.Final.Passes, Digest: digest})
	}
	m, err := s.chain.Model(manifest)
	if err != nil {
		return nil, err
	}
	manifest.WeightsDigest = m.Digest()
	report.WeightsDigest = manifest.WeightsDigest
	if _, err := s.Log.Append(ctx, s.Topics.Weights, 0, manifest.Message()); err != nil {
		return nil, fmt.Errorf("publish version %d: %w", version, err)
	}
	report.Seconds = time.Since(s.began).Seconds()
	return report, nil
}

// report returns the report of the run, whose last stage is sealed.
func (s *Solver) report(version int) *schemas.Report {
	labels := s.chain.Prepared.Labels
	r := &schemas.Report{
		Name: s.plan.Name, Version: version, Run: s.run, Rows: s.chain.Survey.Rows[schemas.Train], Classes: labels.Len(), Labels: labels.Text(),
		Quarantined: s.chain.Survey.Quarantined, PassedOver: s.chain.Survey.PassedOver, Stages: s.stages, Splits: map[string]schemas.SplitReport{},
	}
	last := s.stages[len(s.stages)-1]
	r.TrainError, r.TestError = last.TrainError, last.TestError
	for split, metrics := range event.MetricsOf(s.last.Tensors()) {
		q := s.last.QualityOf(split, labels.Len())
		r.Splits[split.String()] = schemas.SplitReport{
			Rows: metrics.Rows, Error: metrics.Error, Loss: metrics.Loss,
			LogLoss: event.Finite(q.LogLoss), Brier: event.Finite(q.Brier), ECE: event.Finite(q.ECE), Confusion: q.Confusion,
		}
	}
	return r
}
