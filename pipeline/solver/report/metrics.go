package report

import (
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// Metrics is the metrics of a visit, by split.
type Metrics map[examples.Split]event.Metrics

// Of returns the error and the loss of a split; nil if it has no rows.
func (m Metrics) Of(split examples.Split) (percent, loss *float64) {
	if of, any := m[split]; any {
		return &of.Error, &of.Loss
	}
	return nil, nil
}

// Average returns the report of the mean of the given number of members.
func (m Metrics) Average(members int) *schemas.AverageReport {
	r := &schemas.AverageReport{Members: members, TrainError: m[examples.Train].Error, TrainLoss: m[examples.Train].Loss}
	r.TestError, r.TestLoss = m.Of(examples.Test)
	r.HoldoutError, r.HoldoutLoss = m.Of(examples.Holdout)
	return r
}

// Pass returns the report of a pass, with the evaluation of its fit.
func (m Metrics) Pass(e *solve.Evaluation) *schemas.PassReport {
	r := &schemas.PassReport{Pass: e.Number, Objective: wire.Finite(e.Objective), Accepted: e.Accepted}
	r.TrainError, r.TrainLoss = m[examples.Train].Error, m[examples.Train].Loss
	r.TestError, r.TestLoss = m.Of(examples.Test)
	r.HoldoutError, r.HoldoutLoss = m.Of(examples.Holdout)
	return r
}
