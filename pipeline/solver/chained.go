package solver

import (
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// chained is the additional state of a solver for a run of a chain: the starting point of the run, the survey's findings,
// its fits, and the state for the next run.
type chained struct {
	start    start
	found    surveyedSums
	fits     fits
	left     left
	compared *gateComparison // with the version for subscribers; nil: the gate has no rows to compare
}

// report adds the fields of a chain to the report.
func (c *chained) report(plan *schemas.Plan, r *schemas.Report) {
	if plan.Chain == nil {
		return
	}
	retrain := &schemas.RetrainReport{Version: r.Version, Kind: schemas.RunFull, Rows: r.Rows,
		Forgotten: r.PassedOver[coverage.ForgottenRow], Overflow: r.PassedOver[coverage.Overflowing],
		NoLabel: r.PassedOver[coverage.NoLabel], Offered: true}
	for _, lost := range plan.Chain.Lost {
		retrain.Lost += lost.Len()
	}
	retrain.Spans, retrain.From, retrain.Until = plan.Added().Hulls(), plan.Chain.From, plan.Chain.Until
	if plan.Update() != nil {
		retrain.Kind = schemas.RunUpdate
		if losses := statistics.LossesOf(c.found.Sum.Tensors())[examples.Train]; losses.Weight > 0 {
			retrain.PrequentialError, retrain.PrequentialLoss = finite(losses.ErrorPercent()), finite(losses.MeanLoss())
			retrain.Curve = errorCurve(c.found.Messages, plan.Chain)
			retrain.Served = servedReports(c.found.Served)
			split := r.Splits[examples.Train.String()]
			retrain.PrequentialLogLoss, retrain.PrequentialBrier, retrain.PrequentialECE, retrain.PrequentialRMSE = split.LogLoss,
				split.Brier, split.ECE, split.RMSE
		}
	} else if len(plan.Chain.Increments) > 0 { // it adds rows only if an update was impossible
		retrain.Rows = 0
		if last := len(c.found.Increments) - 1; last >= 0 && c.found.Increments[last].Number == plan.Chain.Number {
			retrain.Rows = c.found.Increments[last].Learnt()
		}
	}
	retrain.MostlyBad = c.found.mostlyBad(plan)
	if plan.Chain.Lacking != nil {
		retrain.Lacking = plan.Chain.Lacking.Columns
	}
	if len(plan.Added()) > 0 { // otherwise only the window's rows, which earlier reports have
		for _, u := range c.found.Unknown {
			retrain.UnknownRows += u.Rows
		}
	}
	if n := len(r.Stages); n > 0 {
		retrain.HoldoutError = r.Stages[n-1].HoldoutError
	}
	r.Retrain = retrain
}
