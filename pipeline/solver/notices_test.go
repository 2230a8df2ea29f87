package solver

import (
	"testing"

	"github.com/stagewise/stagewise/accumulate"
)

// A warning lists the labels without training rows, and similar labels if these are unique.
func TestLabelsWithoutTrainingRows(t *testing.T) {
	for _, test := range []struct {
		trained   []string
		untrained map[string]int64
		want      string
	}{
		{[]string{"a", "b"}, nil, ""},
		{[]string{"0", "1"}, map[string]int64{"0.0": 10, "1.0": 5}, `classes without training rows, so 15 holdout or test rows can't be predicted: "0.0" (is "0" meant?) and "1.0" (is "1" meant?)`},
		{[]string{"iris", "rose"}, map[string]int64{"iris.": 1}, `a class without training rows, so 1 holdout or test row can't be predicted: "iris." (is "iris" meant?)`},
		{[]string{"<=50K", ">50K"}, map[string]int64{"<=50K.": 2, " >50k ": 1}, `classes without training rows, so 3 holdout or test rows can't be predicted: " >50k " (is ">50K" meant?) and "<=50K." (is "<=50K" meant?)`},
		{[]string{"setosa", "virginica"}, map[string]int64{"setossa": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "setossa" (is "setosa" meant?)`},
		{[]string{"Iris-setosa", "virginica"}, map[string]int64{"iris setosa": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "iris setosa" (is "Iris-setosa" meant?)`},
		{[]string{"1", "2"}, map[string]int64{"3": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "3"`},
		{[]string{"a b", "a-b"}, map[string]int64{"a_b": 2}, `a class without training rows, so 2 holdout or test rows can't be predicted: "a_b"`},
		{[]string{"a", "b"}, map[string]int64{"b": 2}, ""}, // another partition has training rows of it
	} {
		labels := accumulate.LabelSet{}
		for label := range test.untrained {
			labels.Add(label, 0)
		}
		for _, label := range test.trained {
			labels.Add(label, 3)
		}
		if got := noticeUntrained(labels, test.untrained); got != test.want {
			t.Errorf("%q, %v:\n%s, expected\n%s", test.trained, test.untrained, got, test.want)
		}
	}
}
