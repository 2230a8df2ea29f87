package screen

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// The last lines of a run say how good predictions are, of the rows that say most.
func TestConcludeTasks(t *testing.T) {
	of := func(v float64) *float64 { return &v }
	numbers := map[string]statistics.Distances{"tax": {RMSE: 1.0725, R2: 0.9774}, "price": {RMSE: 4865.2, R2: 0.99801}}
	for want, splits := range map[string]map[string]schemas.SplitReport{
		"": {"train": {Rows: 9}},
		"test: price: RMSE 4865, R² 0.998; tax: RMSE 1.073, R² 0.977\n": {"test": {Targets: numbers},
			"train": {Targets: map[string]statistics.Distances{"tax": {}}}},
		"holdout: Hamming loss 0.008, micro-F1 0.989\n": {"holdout": {Hamming: of(0.0078), MicroF1: of(0.9888)}, "train": {}},
		"test: AUC 0.9127\n": {"test": classified([][]int64{{78, 2}, {2, 18}}, [2]float64{1, 1}, 0.91268),
			"train": classified([][]int64{{720, 0}, {9, 171}}, [2]float64{1, 1}, 0.99)},
	} {
		if got := concluded(splits); got != want {
			t.Errorf("%s\nexpected\n%s", got, want)
		}
	}
}

// An error is no better than that of always predicting the commonest class unless it is lower, by what rows in which exactly one of the two
// is right can show; ranks may be good all the same.
func TestConcludeAgainstTheMajority(t *testing.T) {
	even, few := [2]float64{1, 1}, ` rows are too few to tell`
	const useful, threshold = "; the AUC is clearly better than chance", ": set threshold, for example to best_f1"
	for name, c := range map[string]struct {
		confusion [][]int64
		weights   [2]float64 // of the rows of the first class, which is the commonest, and of the others
		auc       float64
		want      string
	}{
		"class weights make a class of few rows the commonest": {[][]int64{{20, 0}, {8, 32}}, [2]float64{20, 1}, 0.97, ""},
		"class weights, of which rows lose more than they win": {[][]int64{{950, 50}, {5, 15}}, [2]float64{1, 20}, 0.9, ""},
		"a rare class": {[][]int64{{582, 1}, {4, 3}}, even, 0.994,
			`error 0.85 % is not clearly better than that of always predicting "no", 1.19 %: 590` + few + useful},
		"a rare class, never predicted": {[][]int64{{990, 0}, {10, 0}}, even, 0.93,
			`error 1.00 % is no better than that of always predicting "no": 1.00 %` + useful + threshold},
		"few rows":        {[][]int64{{75, 5}, {12, 8}}, even, 0.55, `error 17.00 % is not clearly better than that of always predicting "no", 20.00 %: 100` + few},
		"many rows":       {[][]int64{{7500, 500}, {1200, 800}}, even, 0.55, ""},
		"few that differ": {[][]int64{{9990, 0}, {5, 5}}, even, 0.5, ""},
		"noise":           {[][]int64{{70, 10}, {11, 9}}, even, 0.52, `error 21.00 % is no better than that of always predicting "no": 20.00 %`},
		"one class only":  {[][]int64{{100, 0}, {0, 0}}, even, 0.5, `error 0.00 % is no better than that of always predicting "no": 0.00 %`},
	} {
		want := fmt.Sprintf("test: AUC %.4f\n", c.auc)
		if c.want != "" {
			want += "test " + c.want + "\n"
		}
		if got := concluded(map[string]schemas.SplitReport{"test": classified(c.confusion, c.weights, c.auc)}); got != want {
			t.Errorf("%s: %s\nexpected\n%s", name, got, want)
		}
	}
}

// classified is the report of rows of two classes, of which the first is the commonest.
func classified(confusion [][]int64, weights [2]float64, auc float64) schemas.SplitReport {
	s := schemas.SplitReport{Confusion: confusion, ClassMeasures: statistics.ClassMeasures{AUC: &auc, F1: make([]float64, 2)}}
	var wrong, rare, all float64
	for i, row := range confusion {
		for j, n := range row {
			w := weights[i] * float64(n)
			s.Rows, all = s.Rows+n, all+w
			if i != j {
				wrong += w
			}
			rare += float64(i) * w
		}
	}
	s.Error, rare = 100*wrong/all, 100*rare/all
	s.MajorityError = &rare
	return s
}

// concluded returns the last lines of a run about its splits.
func concluded(splits map[string]schemas.SplitReport) string {
	var out bytes.Buffer
	Conclude(&out, &schemas.Report{Name: "p", Version: 3, Stages: make([]schemas.StageReport, 1), TrainError: 2, Seconds: 1, Majority: "no",
		Labels: []string{"no", "yes"}, Splits: splits}, "", "")
	return strings.TrimSuffix(strings.TrimPrefix(out.String(), "train error 2.00 %, 1.0 s\n"), "model: version 3 on the topic p.versions\n")
}
