package pipeline

import (
	"context"
	"fmt"
	"time"

	"github.com/stagewise/stagewise/schemas"
)

// tell publishes the report.
func (s *solver) tell(ctx context.Context, report *Report) error {
	messages, err := report.Messages(s.chain.head(), s.codec.single)
	if err != nil {
		return err
	}
	return s.log.Scatter(ctx, s.plans, 0, messages...)
}

// tellStage publishes what a stage came to, for who follows the run from
// elsewhere.
func (s *solver) tellStage(ctx context.Context, report StageReport) error {
	_, err := s.write(ctx, s.plans, 0, report.Message(s.run))
	return err
}

// finish publishes the manifest of the version, which makes it count.
func (s *solver) finish(ctx context.Context) (*Report, error) {
	l, err := s.ledger(ctx)
	if err != nil {
		return nil, err
	}
	if end := l.ends[s.run]; end != nil && end.State != schemas.Done {
		return nil, errEnded
	}
	earlier, err := s.versions(ctx)
	if err != nil {
		return nil, err
	}
	version := 1
	for _, m := range earlier {
		if m.Run == s.run { // a solver before this one came as far
			version = m.Version
			break
		}
		version = max(version, m.Version+1)
	}
	report := s.report(version)
	manifest := &schemas.Manifest{
		Name: s.plan.Name, Version: version, Run: s.run, Plan: s.plan, Labels: report.Labels,
		Rows: map[string]int64{}, Prepare: s.chain.surveyDigest(), Metrics: map[string]float64{"train_error": report.TrainError},
	}
	if report.TestError != nil {
		manifest.Metrics["test_error"] = *report.TestError
	}
	for name, split := range report.Splits {
		manifest.Rows[name] = split.Rows
	}
	for t := range s.plan.Stages {
		final, digest := s.chain.final(t)
		manifest.Blocks = append(manifest.Blocks, schemas.BlockDigest{Stage: t, Visit: final.Visit, Passes: final.Final.Passes, Digest: digest})
	}
	model, err := modelOf(s.chain, manifest)
	if err != nil {
		return nil, err
	}
	manifest.WeightsDigest = model.Digest()
	report.WeightsDigest = manifest.WeightsDigest
	if _, err := s.write(ctx, s.weights, 0, manifest.Message()); err != nil {
		return nil, fmt.Errorf("publish version %d: %w", version, err)
	}
	report.Seconds = time.Since(s.began).Seconds()
	return report, nil
}
