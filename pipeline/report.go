package pipeline

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/schemas"
)

// Report is what a run says of itself, as JSON. Errors are percent.
type Report struct {
	Name          string                 `json:"name"`
	Version       int                    `json:"version"`
	Run           string                 `json:"run"`
	Rows          int64                  `json:"rows"` // trained on; those of the other splits are under Splits
	Classes       int                    `json:"classes"`
	Labels        []string               `json:"labels"`
	Quarantined   int64                  `json:"quarantined"`
	IngestSeconds float64                `json:"ingest_seconds"`
	Seconds       float64                `json:"seconds"` // from the plan to the last weights on their topic
	Stages        []StageReport          `json:"stages"`
	TrainError    float64                `json:"train_error"`
	TestError     *float64               `json:"test_error"` // null without test rows
	Splits        map[string]SplitReport `json:"splits"`
	WeightsDigest schemas.Digest         `json:"weights_digest"`
}

// StageReport is one stage of a report. Stage counts from 0.
type StageReport struct {
	Stage        int      `json:"stage"`
	Link         string   `json:"link"`
	Passes       int      `json:"passes"`
	Seconds      float64  `json:"seconds"`
	TrainError   float64  `json:"train_error"`
	TestError    *float64 `json:"test_error"`
	TrainLoss    float64  `json:"train_loss"`
	TestLoss     *float64 `json:"test_loss"`
	HoldoutError *float64 `json:"holdout_error,omitempty"`
	HoldoutLoss  *float64 `json:"holdout_loss,omitempty"`
}

// SplitReport is what the final predictions are worth on one split.
type SplitReport struct {
	Rows      int64     `json:"rows"`
	Error     float64   `json:"error"`
	Loss      float64   `json:"loss"`     // the last stage's link's own
	LogLoss   float64   `json:"log_loss"` // of the probabilities, clipped at 1e-6
	Brier     float64   `json:"brier"`
	ECE       float64   `json:"ece"`       // expected calibration error, 15 bins of confidence
	Confusion [][]int64 `json:"confusion"` // [true class][predicted class], rows
}

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
	for split, s := range schemas.LossesOf(sum.Tensors()) {
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
		Name: s.plan.Name, Version: version, Run: s.run, Rows: s.rows[schemas.Train], Classes: labels.Len(), Labels: labels.Text(),
		Quarantined: s.quarantined, Stages: s.stages, Splits: map[string]SplitReport{},
	}
	last := s.stages[len(s.stages)-1]
	r.TrainError, r.TestError = last.TrainError, last.TestError
	for split, score := range scoresOf(s.last) {
		q := s.last.QualityOf(split, labels.Len())
		r.Splits[split.String()] = SplitReport{
			Rows: score.Rows, Error: score.Error, Loss: score.Loss,
			LogLoss: known(q.LogLoss), Brier: known(q.Brier), ECE: known(q.ECE), Confusion: q.Confusion,
		}
	}
	return r
}

// pieces cuts text where a record can be cut, between characters.
func pieces(text string) (list []string) {
	const most = 8 << 10
	for len(text) > most {
		at := most
		for !utf8.RuneStart(text[at]) {
			at--
		}
		list, text = append(list, text[:at]), text[at:]
	}
	return append(list, text)
}

// reportOf is the inverse of tell.
func reportOf(r *schemas.Weights) (*Report, error) {
	t, ok := r.Tensors.Find(schemas.TensorReport)
	if !ok {
		return nil, &schemas.ShapeError{Tensor: schemas.TensorReport}
	}
	report := &Report{}
	if err := json.Unmarshal([]byte(strings.Join(t.Text, "")), report); err != nil {
		return nil, fmt.Errorf("%w: report of run %s: %w", schemas.ErrDamaged, r.Run, err)
	}
	return report, nil
}
