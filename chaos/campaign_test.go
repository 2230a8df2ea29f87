//go:build unix

package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/schemas"
)

func TestCheckVersions(t *testing.T) {
	const titles = "version  run  stages  test error  digest\n"
	for _, test := range []struct {
		list    string
		version int
		run     string
		wrong   string
	}{
		{"1  aaa  7  2 %  x\n", 1, "aaa", ""},
		{"1  aaa  7  2 %  x\n2  bbb  7  2 %  x\n", 2, "bbb", ""},
		{"1  aaa  7  2 %  x\n2  aaa  7  2 %  x\n", 2, "aaa", "version 2"},
		{"1  aaa  7  2 %  x\n1  bbb  7  2 %  x\n", 2, "bbb", "version 2"},
		{"1  aaa  7  2 %  x\n3  bbb  7  2 %  x\n", 3, "bbb", "version 2"},
		{"1  aaa  7  2 %  x\n", 2, "bbb", "1 versions"},
		{"1  aaa  7  2 %  x\n", 1, "bbb", "1 versions"},
		{"", 1, "aaa", "0 versions"},
	} {
		err := checkVersions(titles+test.list, test.version, test.run)
		if (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%q: %v, expected %q", test.list, err, test.wrong)
		}
	}
}

func TestCompare(t *testing.T) {
	of := func(change func(*pipeline.Report)) *pipeline.Report {
		r := &pipeline.Report{
			Version: 1, Run: "a", Rows: 10, Seconds: 3, WeightsDigest: "d", Stages: []pipeline.StageReport{{Seconds: 1, TrainLoss: 0.5}},
			Splits: map[string]pipeline.SplitReport{"train": {Rows: 10, Confusion: [][]int64{{5, 0}, {1, 4}}}},
		}
		change(r)
		return r
	}
	base := of(func(*pipeline.Report) {})
	if err := compare(base, of(func(r *pipeline.Report) {
		r.Version, r.Run, r.Seconds, r.IngestSeconds, r.Stages[0].Seconds = 2, "b", 4, 1, 2
	})); err != nil {
		t.Error(err)
	}
	for name, change := range map[string]func(*pipeline.Report){
		"digest":    func(r *pipeline.Report) { r.WeightsDigest = "e" },
		"rows":      func(r *pipeline.Report) { r.Rows = 11 },
		"loss":      func(r *pipeline.Report) { r.Stages[0].TrainLoss = 0.51 },
		"confusion": func(r *pipeline.Report) { r.Splits["train"].Confusion[0][1] = 1 },
	} {
		if compare(base, of(change)) == nil {
			t.Errorf("another %s is not seen", name)
		}
	}
}

// A watch tells how far the newest run is, whatever older ones and repetitions say, and how long faults held it up.
func TestWatch(t *testing.T) {
	w := &watch{due: map[string]moment{}, changed: make(chan struct{})}
	message := func(kind schemas.Kind, run, stage, visit string, notes ...schemas.Header) schemas.Message {
		return schemas.Message{Headers: append([]schemas.Header{
			{Key: "kind", Value: string(kind)}, {Key: "run", Value: run}, {Key: "stage", Value: stage}, {Key: "visit", Value: visit}, {Key: "partition", Value: "0"},
		}, notes...), Value: []byte(`{"state": "done"}`)}
	}
	now := time.Now()
	for _, step := range []struct {
		m    schemas.Message
		due  moment
		took time.Duration
	}{
		{message(schemas.KindWeights, "old", "6", "5"), moment{}, 0},
		{message(schemas.KindPlan, "a", "", ""), moment{schemas.Survey, 0}, time.Second},
		{message(schemas.KindPlan, "b", "", ""), moment{schemas.Survey, 0}, time.Second},
		{message(schemas.KindWeights, "old", "7", "5"), moment{schemas.Survey, 0}, time.Second},
		{message(schemas.KindPrepare, "a", "-1", "0"), moment{0, 0}, 2 * time.Second},
		{message(schemas.KindWeights, "a", "0", "1"), moment{0, 1}, 2 * time.Second},
		{message(schemas.KindPrepare, "a", "-1", "0"), moment{0, 1}, 2 * time.Second},
		{message(schemas.KindWeights, "a", "0", "2", schemas.Header{Key: "final", Value: "1"}), moment{1, 0}, 2 * time.Second},
	} {
		if len(w.open) == 0 {
			w.open = []injury{{kind: killWorker, at: now}}
		}
		now = now.Add(time.Second)
		if err := w.see(step.m, now); err != nil {
			t.Fatal(err)
		}
		if due := w.due[w.run]; due != step.due || w.recovery().took < step.took {
			t.Fatalf("%v after %v, slowest recovery %v; expected %v, %v", due, step.m.Headers, w.recovery().took, step.due, step.took)
		}
	}
	if err := w.see(message(schemas.KindEnd, "old", "", ""), now); err != nil || w.state() != nil {
		t.Error("ended by another run's end")
	}
	if err := w.see(message(schemas.KindEnd, "a", "", ""), now); !errors.Is(err, errEnded) || w.state().State != schemas.Done {
		t.Errorf("%v, %+v", err, w.state())
	}
	if w.await(t.Context(), moment{0, 0}) {
		t.Error("a fault would come after the run's end")
	}
}
