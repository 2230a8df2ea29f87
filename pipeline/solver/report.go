package solver

import (
	"cmp"
	"slices"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
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

// measured returns the errors and losses.
func (m splitMetrics) measured() schemas.Measured {
	r := schemas.Measured{TrainError: m[examples.Train].Error, TrainLoss: m[examples.Train].Loss}
	r.TestError, r.TestLoss = m.percentAndLoss(examples.Test)
	r.HoldoutError, r.HoldoutLoss = m.percentAndLoss(examples.Holdout)
	return r
}

// pass returns the report of a pass, with the evaluation of its fit.
func (m splitMetrics) pass(e *solve.Evaluation) *schemas.PassReport {
	of := m.measured()
	return &schemas.PassReport{Pass: e.Number, Objective: wire.Finite(e.Objective), Accepted: e.Accepted, TrainError: of.TrainError,
		TrainLoss: of.TrainLoss, TestError: of.TestError, TestLoss: of.TestLoss, HoldoutError: of.HoldoutError, HoldoutLoss: of.HoldoutLoss}
}

// finalReport is the metrics of the final predictions of a run.
type finalReport struct {
	Sum         *accumulate.Sum
	Labels      []string               // classes or target names
	TargetScale []float32              // unit of each target; nil for classification
	Thresholds  *statistics.Thresholds // nil unless multi-label
	Threshold   float64                // for two classes; 0: none
}

// split returns the report of a split.
func (f *finalReport) split(split examples.Split, metrics event.Metrics) schemas.SplitReport {
	r := schemas.SplitReport{Rows: metrics.Rows, Error: metrics.Error, Loss: metrics.Loss}
	if f.TargetScale != nil {
		all, each := f.Sum.DistancesOf(split, f.TargetScale)
		if all == nil {
			return r
		}
		r.RMSE, r.MAE, r.R2 = finite(all.RMSE), finite(all.MAE), finite(all.R2)
		r.Targets = map[string]statistics.Distances{}
		for c, d := range each {
			r.Targets[f.Labels[c]] = statistics.Distances{RMSE: wire.Finite(d.RMSE), MAE: wire.Finite(d.MAE), R2: wire.Finite(d.R2)}
		}
		return r
	}
	k := len(f.Labels)
	if f.Thresholds != nil {
		if m := f.Sum.LabelsAt(split, k, *f.Thresholds); m != nil {
			r.Hamming, r.MicroF1, r.MacroF1, r.SubsetAccuracy = finite(m.Hamming), finite(m.MicroF1), finite(m.MacroF1), finite(m.SubsetAccuracy)
			r.PrecisionAt = f.Sum.PrecisionOf(split)
		}
	}
	q := f.Sum.QualityOf(split, k)
	r.LogLoss, r.Brier, r.ECE = finite(q.LogLoss), finite(q.Brier), finite(q.ECE)
	r.Confusion, r.Reliability = q.Confusion, q.Bins
	for i := range r.Reliability { // scores that have overflowed give NaN probabilities
		r.Reliability[i].Confidence = wire.Finite(r.Reliability[i].Confidence)
	}
	r.ClassMeasures = f.Sum.MeasuresOf(split, k)
	if f.Threshold > 0 {
		r.Decided = f.Sum.DecisionAt(split, f.Threshold).Decided(f.Threshold)
	}
	return r
}

// finite returns a pointer to the result of [wire.Finite].
func finite(v float64) *float64 {
	v = wire.Finite(v)
	return &v
}

// servedReports returns the reports of served predictions by version; nil if there are none.
func servedReports(served []statistics.ServedLosses) (reports []schemas.ServedReport) {
	for _, s := range served {
		reports = append(reports, schemas.ServedReport{Version: s.Version, Rows: int64(s.Rows), Error: s.ErrorPercent()})
	}
	return reports
}

// temperedReport returns the report of the temperature that predicts the holdout rows best; nil if none was measured.
func temperedReport(sealed *accumulate.Sum) *schemas.TemperedReport {
	temperature, loss, ok := sealed.TemperedOf()
	if !ok {
		return nil
	}
	return &schemas.TemperedReport{Temperature: temperature, HoldoutLoss: wire.Finite(loss)}
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

// errorCurve returns the prequential error of an update, by message.
func errorCurve(messages []statistics.MessageLosses, chain *schemas.Chain) (curve []statistics.ErrorBin) {
	for _, m := range inLogOrder(messages, chain) {
		curve = append(curve, m.Bin(distance(&m, chain)))
	}
	return statistics.Shorten(curve, curveBins)
}
