package pipeline

import (
	"math"
	"time"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
)

// Report is what a run that is done says of itself.
type Report = schemas.Report

// StageReport is one stage of a report.
type StageReport = schemas.StageReport

// known is a figure that JSON can carry: one that has overflown is the greatest
// there is.
func known(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return math.MaxFloat64
	}
	return v
}

// scoresOf is what a visit's sums say of each split that has rows.
func scoresOf(sum *accumulate.Sum) map[schemas.Split]Score {
	scores := map[schemas.Split]Score{}
	for split, s := range schemas.ScoresOf(sum.Tensors()) {
		if s.Rows > 0 {
			scores[schemas.Split(split)] = Score{Rows: int64(s.Rows), Error: s.ErrorPercent(), Loss: known(s.MeanLoss())}
		}
	}
	return scores
}

func stageReport(stage int, link string, passes int, elapsed time.Duration, sealed *accumulate.Sum) StageReport {
	r := StageReport{Stage: stage, Link: link, Passes: passes, Seconds: elapsed.Seconds()}
	scores := scoresOf(sealed)
	train := scores[schemas.Train]
	r.TrainError, r.TrainLoss = train.Error, train.Loss
	if test, ok := scores[schemas.Test]; ok {
		r.TestError, r.TestLoss = &test.Error, &test.Loss
	}
	if holdout, ok := scores[schemas.Holdout]; ok {
		r.HoldoutError, r.HoldoutLoss = &holdout.Error, &holdout.Loss
	}
	return r
}

// report is what the solver says of the run when its last stage is sealed.
func (s *solver) report(version int) *Report {
	labels := s.chain.prepared.Labels
	r := &Report{
		Name: s.plan.Name, Version: version, Run: s.run, Rows: s.chain.survey.Rows[schemas.Train], Classes: labels.Len(), Labels: labels.Text(),
		Quarantined: s.chain.survey.Quarantined, Stages: s.stages, Splits: map[string]schemas.SplitReport{},
	}
	last := s.stages[len(s.stages)-1]
	r.TrainError, r.TestError = last.TrainError, last.TestError
	for split, score := range scoresOf(s.last) {
		q := s.last.QualityOf(split, labels.Len())
		r.Splits[split.String()] = schemas.SplitReport{
			Rows: score.Rows, Error: score.Error, Loss: score.Loss,
			LogLoss: known(q.LogLoss), Brier: known(q.Brier), ECE: known(q.ECE), Confusion: q.Confusion,
		}
	}
	return r
}
