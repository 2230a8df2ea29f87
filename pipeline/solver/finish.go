package solver

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
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
	for split, metrics := range event.MetricsOf(s.last.Tensors()) {
		r.Splits[split.String()] = s.splitReport(split, metrics, r.Thresholds)
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

// measured returns the errors and losses in the metrics of a visit.
func measured(metrics map[examples.Split]event.Metrics) schemas.Measured {
	r := schemas.Measured{TrainError: metrics[examples.Train].Error, TrainLoss: metrics[examples.Train].Loss}
	if of, any := metrics[examples.Test]; any {
		r.TestError, r.TestLoss = &of.Error, &of.Loss
	}
	if of, any := metrics[examples.Holdout]; any {
		r.HoldoutError, r.HoldoutLoss = &of.Error, &of.Loss
	}
	return r
}

// passReport returns the report of a pass, with the evaluation of its fit.
func passReport(of schemas.Measured, e *solve.Evaluation) *schemas.PassReport {
	return &schemas.PassReport{Pass: e.Number, Objective: wire.Finite(e.Objective), Accepted: e.Accepted, TrainError: of.TrainError,
		TrainLoss: of.TrainLoss, TestError: of.TestError, TestLoss: of.TestLoss, HoldoutError: of.HoldoutError, HoldoutLoss: of.HoldoutLoss}
}

// splitReport returns the metrics of the final predictions of a split. thresholds is nil unless the task is multi-label.
func (s *Solver) splitReport(split examples.Split, metrics event.Metrics, thresholds *statistics.Thresholds) schemas.SplitReport {
	r, labels := schemas.SplitReport{Rows: metrics.Rows, Error: metrics.Error, Loss: metrics.Loss}, s.chain.Prepared.Labels
	if scale := s.chain.Prepared.TargetScale; scale != nil {
		all, each := s.last.DistancesOf(split, scale)
		if all == nil {
			return r
		}
		r.RMSE, r.MAE, r.R2 = finite(all.RMSE), finite(all.MAE), finite(all.R2)
		r.Targets = map[string]statistics.Distances{}
		for c, d := range each {
			r.Targets[labels.Text()[c]] = statistics.Distances{RMSE: wire.Finite(d.RMSE), MAE: wire.Finite(d.MAE), R2: wire.Finite(d.R2)}
		}
		return r
	}
	k := labels.Len()
	if thresholds != nil {
		if m := s.last.LabelsAt(split, k, *thresholds); m != nil {
			r.Hamming, r.MicroF1, r.MacroF1, r.SubsetAccuracy = finite(m.Hamming), finite(m.MicroF1), finite(m.MacroF1), finite(m.SubsetAccuracy)
			r.PrecisionAt = s.last.PrecisionOf(split)
		}
	}
	q := s.last.QualityOf(split, k)
	r.LogLoss, r.Brier, r.ECE = finite(q.LogLoss), finite(q.Brier), finite(q.ECE)
	r.Confusion, r.Reliability = q.Confusion, q.Bins
	for i := range r.Reliability { // scores that have overflowed give NaN probabilities
		r.Reliability[i].Confidence = wire.Finite(r.Reliability[i].Confidence)
	}
	r.ClassMeasures = s.last.MeasuresOf(split, k)
	if threshold := s.threshold(); threshold > 0 {
		r.Decided = s.last.DecisionAt(split, threshold).Decided(threshold)
	}
	return r
}

// finite returns a pointer to the result of [wire.Finite].
func finite(v float64) *float64 {
	v = wire.Finite(v)
	return &v
}

// inLogOrder returns the prequential losses of an update's messages, in the order in which cuts use them.
func inLogOrder(messages []statistics.MessageLosses, chain *schemas.Chain) []statistics.MessageLosses {
	messages = slices.Clone(messages)
	slices.SortStableFunc(messages, func(a, b statistics.MessageLosses) int {
		return cmp.Or(cmp.Compare(distance(&a, chain), distance(&b, chain)), cmp.Compare(a.Partition, b.Partition))
	})
	return messages
}

// distance returns the distance of a message from the start of its partition.
func distance(m *statistics.MessageLosses, chain *schemas.Chain) int64 {
	if m.Partition < len(chain.Begins) {
		return m.Offset - chain.Begins[m.Partition]
	}
	return m.Offset
}

// curveBins is the maximum number of bins of a curve.
const curveBins = 100
