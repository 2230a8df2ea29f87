package main

import (
	"bytes"
	"testing"

	"github.com/stagewise/stagewise/schemas"
)

// The last lines of a run say how good predictions of numbers and of several labels are, of the rows that say most.
func TestConcludeTasks(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	numbers := map[string]schemas.Distances{"tax": {RMSE: 1.0725, R2: 0.9774}, "price": {RMSE: 4865.2, R2: 0.99801}}
	for want, splits := range map[string]map[string]schemas.SplitReport{
		"": {"train": {Rows: 9}},
		"test: price: RMSE 4865, R² 0.998; tax: RMSE 1.073, R² 0.977\n": {"test": {Targets: numbers}, "train": {Targets: map[string]schemas.Distances{"tax": {}}}},
		"holdout: Hamming loss 0.008, micro-F1 0.989\n":                 {"holdout": {Hamming: of(0.0078), MicroF1: of(0.9888)}, "train": {}},
	} {
		var out bytes.Buffer
		conclude(&out, &schemas.Report{Name: "p", Version: 3, Stages: make([]schemas.StageReport, 1), TrainError: 2, Seconds: 1, Splits: splits}, "", "")
		if got, all := out.String(), "train error 2.00 %, 1.0 s\n"+want+"model: version 3 on the topic p.versions\n"; got != all {
			t.Errorf("%s\nexpected\n%s", got, all)
		}
	}
}
