package screen

import (
	"bytes"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// The last lines of a run say how good predictions are, of the rows that say most, and that an error is no better than
// that of predicting one class always, unless it is by more than two standard errors.
func TestConcludeTasks(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	classes := func(rows int64, percent, majority, auc float64) schemas.SplitReport {
		return schemas.SplitReport{Rows: rows, Error: percent, ClassMeasures: statistics.ClassMeasures{MajorityError: of(majority), AUC: of(auc),
			F1: make([]float64, 2)}}
	}
	numbers := map[string]statistics.Distances{"tax": {RMSE: 1.0725, R2: 0.9774}, "price": {RMSE: 4865.2, R2: 0.99801}}
	for want, splits := range map[string]map[string]schemas.SplitReport{
		"": {"train": {Rows: 9}},
		"test: price: RMSE 4865, R² 0.998; tax: RMSE 1.073, R² 0.977\n": {"test": {Targets: numbers},
			"train": {Targets: map[string]statistics.Distances{"tax": {}}}},
		"holdout: Hamming loss 0.008, micro-F1 0.989\n": {"holdout": {Hamming: of(0.0078), MicroF1: of(0.9888)}, "train": {}},
		"test: AUC 0.9127\n":                            {"test": classes(100, 4, 20, 0.91268), "train": classes(900, 1, 20, 0.99)},
		"test: AUC 0.7000\ntest error 17.00 % is no better than that of always predicting \"no\": 20.00 %\n": {
			"test": classes(100, 17, 20, 0.7)},
		"holdout: AUC 0.7000\n": {"holdout": classes(10000, 17, 20, 0.7)},
		"test error 21.00 % is no better than that of always predicting \"no\": 20.00 %\n": {"test": {Rows: 1e6, Error: 21,
			ClassMeasures: statistics.ClassMeasures{MajorityError: of(20), AUC: of(0.7), F1: make([]float64, 3)}}},
	} {
		var out bytes.Buffer
		Conclude(&out, &schemas.Report{Name: "p", Version: 3, Stages: make([]schemas.StageReport, 1), TrainError: 2, Seconds: 1, Majority: "no",
			Splits: splits}, "", "")
		if got, all := out.String(), "train error 2.00 %, 1.0 s\n"+want+"model: version 3 on the topic p.versions\n"; got != all {
			t.Errorf("%s\nexpected\n%s", got, all)
		}
	}
}
