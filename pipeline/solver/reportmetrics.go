package solver

import (
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
)

// splitMetrics is the metrics of a visit, by split.
type splitMetrics map[examples.Split]event.Metrics

// percentAndLoss returns the error and the loss of a split; nil if it has no rows.
func (m splitMetrics) percentAndLoss(split examples.Split) (percent, loss *float64) {
	if of, any := m[split]; any {
		return &of.Error, &of.Loss
	}
	return nil, nil
}

// average returns the report of the mean of the given number of members.
func (m splitMetrics) average(members int) *schemas.AverageReport {
	r := &schemas.AverageReport{Members: members, TrainError: m[examples.Train].Error, TrainLoss: m[examples.Train].Loss}
	r.TestError, r.TestLoss = m.percentAndLoss(examples.Test)
	r.HoldoutError, r.HoldoutLoss = m.percentAndLoss(examples.Holdout)
	return r
}

// pass returns the report of a pass, with the evaluation of its fit.
func (m splitMetrics) pass(e *solve.Evaluation) *schemas.PassReport {
	r := &schemas.PassReport{Pass: e.Number, Objective: wire.Finite(e.Objective), Accepted: e.Accepted}
	r.TrainError, r.TrainLoss = m[examples.Train].Error, m[examples.Train].Loss
	r.TestError, r.TestLoss = m.percentAndLoss(examples.Test)
	r.HoldoutError, r.HoldoutLoss = m.percentAndLoss(examples.Holdout)
	return r
}
