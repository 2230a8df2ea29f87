package main

import (
	"strings"
	"testing"
)

// A stage of class counts after one of columns has the weight that predicts the holdout rows best: a run with that
// weight has the same digest, and one with another weight has no fewer wrong holdout rows.
func TestTrainClassCounts(t *testing.T) {
	inCounted(t)
	stages := func(weight string) []string {
		return []string{"--set", "stages=[{features: {kind: columns}, link: identity, method: cg, passes: 1}, {features: {kind: class_counts" + weight + "}, link: identity}]", "--set", "examples.holdout=0.2"}
	}
	chosen := reportOf(t, append(stages(""), "--model", "model")...)
	weight := chosen.Stages[1].Weight
	if weight == nil || *weight == 0 || chosen.Stages[0].Weight != nil {
		t.Fatalf("the weight of the second stage is %v", weight)
	}
	for _, memory := range []string{"1", "20000", "1GB"} {
		if same := reportOf(t, append(stages(", weight: "+weight.String()), "--set", "memory="+
			memory)...); same.WeightsDigest != chosen.WeightsDigest {
			t.Errorf("memory %s: another digest with the weight %v that was chosen", memory, weight)
		}
	}
	for _, other := range []string{"0", "0.001", "0.3", "4"} {
		report := reportOf(t, stages(", weight: "+other)...)
		if *report.Stages[1].HoldoutError < *chosen.Stages[1].HoldoutError {
			t.Errorf("weight %s: holdout error %v %%, that of the weight %v that was chosen is %v %%", other, *report.Stages[1].HoldoutError,
				weight, *chosen.Stages[1].HoldoutError)
		}
		if other == "0" && *report.Stages[1].HoldoutError != *report.Stages[0].HoldoutError {
			t.Errorf("a stage with the weight 0 changes the holdout error from %v to %v %%", *report.Stages[0].HoldoutError,
				*report.Stages[1].HoldoutError)
		}
	}
	labels, wrong := predicted(t, "-i", "test.libsvm"), 0.0
	for i, label := range labels {
		if !strings.HasSuffix(label, string(rune('0'+i%3))) {
			wrong++
		}
	}
	if got := 100 * wrong / float64(len(labels)); got < *chosen.TestError-1e-9 || got > *chosen.TestError+1e-9 {
		t.Errorf("%v %% of what predict says is wrong, the report says %v %%", got, *chosen.TestError)
	}
}

// Alone, and as the first stage, class counts are naive Bayes. They go with each link of classes.
func TestTrainClassCountsFirst(t *testing.T) {
	for _, link := range []string{"identity", "softmax"} {
		inCounted(t)
		for _, set := range []string{
			"stages=[{features: {kind: class_counts}, link: " + link + "}]",
			"stages=[{features: {kind: class_counts}, link: " + link + "}, {features: {kind: columns}, link: " + link + "}]",
		} {
			if report := reportOf(t, "--set", set); *report.TestError > 12 {
				t.Errorf("%s: the test error is %v %%", set, *report.TestError)
			}
		}
	}
}

func TestClassCountsRefusals(t *testing.T) {
	inCounted(t)
	kind := []string{"train", "-c", "counted.yaml", "--set", "stages.0.method=auto", "--set", "stages.0.features.kind=class_counts"}
	for set, want := range map[string]string{
		"examples.holdout=0": "no holdout row has a label and a weight above 0, so the weight of class_counts can't be " +
			"chosen: set examples.holdout, or the weight",
		"stages.0.features.weight=-1": "stages.0.features.weight: -1: expected auto or a number ≥ 0",
		"examples.labels=several": "stages.0.features.kind: class_counts: expected another kind, because these features count " +
			"the rows of each class, and rows have one label each",
		"examples.train=train.csv examples.test= prepare.min_rows=0 prepare.values=none prepare.idf=0 prepare.scale=none name=t": "features.kind: class_counts: the examples are dense, and this is for sparse rows",
	} {
		args := kind
		for s := range strings.FieldsSeq(set) {
			args = append(args, "--set", s)
		}
		if code, _, stderr := stagewise(args...); code == exitDone || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s\nexpected %s", set, code, stderr, want)
		}
	}
}
