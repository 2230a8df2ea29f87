package pipeline

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// ends returns where the partitions of all topics end.
func ends(t *testing.T, log *kafkalog.Log) map[string]int64 {
	t.Helper()
	topics := must(log.Topics(t.Context(), ""))(t)
	list := map[string]int64{}
	for _, topic := range topics {
		for n := range topic.Partitions {
			_, end, err := log.Bounds(t.Context(), topic.Name, n)
			noError(t, err)
			list[fmt.Sprintf("%s[%d]", topic.Name, n)] = end
		}
	}
	return list
}

// checkVerified verifies a version, and checks which versions are the same, and that nothing is written to the topics of the pipeline and
// nothing left beside them. It returns the events.
func checkVerified(t *testing.T, log *kafkalog.Log, job topics.Job, version string, want ...int) *eventRecorder {
	t.Helper()
	before, rec := ends(t, log), &eventRecorder{}
	same := must(replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, version, rec))(t)
	var got []int
	for _, v := range same {
		got = append(got, v.Version)
	}
	if !slices.Equal(got, want) {
		t.Errorf("version %s: verified %v, expected %v", version, got, want)
	}
	if after := ends(t, log); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the topics end at %v, expected %v", after, before)
	}
	return rec
}

// checkReported checks that reproduced versions are reported as those of a chain were: with the same errors, and offered or not.
func checkReported(t *testing.T, report *Retraining, rec *eventRecorder) {
	t.Helper()
	for _, e := range eventsOf[event.Retrained](rec) {
		got := e.RetrainReport
		i := slices.IndexFunc(report.Updates, func(u *schemas.RetrainReport) bool { return u.Version == got.Version })
		if i < 0 {
			t.Fatalf("version %d is not one of the chain", got.Version)
		}
		want := *report.Updates[i]
		want.Seconds, got.Curve = got.Seconds, nil // the report has no curves of versions
		if !reflect.DeepEqual(got, want) {
			here, _ := json.Marshal(got)
			there, _ := json.Marshal(want)
			t.Errorf("version %d is reported as %s, expected %s", got.Version, here, there)
		}
	}
}

// A version is made again with the same bits: that of one run, one that starts from another, and those of a chain, from
// their last full runs on. Of the versions on the way those that were removed are made too.
func TestVerify(t *testing.T) {
	long(t)
	t.Run("train", func(t *testing.T) {
		log, job := openEmbedded(t), newMultiStageJob(t)
		train(t, log, job)
		checkVerified(t, log, job, "latest", 1)
		job.Warm, job.Stages[0].Passes = "1", 5
		train(t, log, job)
		checkVerified(t, log, job, "2", 1, 2)
		checkVerified(t, log, job, "1", 1)
	})
	t.Run("chain", func(t *testing.T) {
		log, job := openEmbedded(t), chainJob(t, "softmax")
		job.Examples.Holdout = 0.2 // there is a gate
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		versions := must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
		fulls := 0
		for i, v := range versions {
			want := []int{v.Version}
			for at := i; versions[at].Plan.Update() != nil; at-- {
				want = append([]int{versions[at-1].Version}, want...)
			}
			if v.Plan.Update() == nil {
				fulls++
			}
			if i >= 6 {
				rec := checkVerified(t, log, job, fmt.Sprint(v.Version), want...)
				checkReported(t, report, rec)
			}
		}
		if fulls < 2 {
			t.Errorf("%d full runs, expected several", fulls)
		}
	})
	t.Run("removed versions", func(t *testing.T) {
		log, job := openAlone(t), chainJob(t, "identity")
		job.Keep, job.Retrain.Full = 2, topics.FullOptions{Every: 1000}
		job.Retrain.Rows, job.Examples.BatchRows = 30, 10
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		last := len(report.Updates)
		live, tombstones := map[string]bool{}, 0
		for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Plans) {
			if m.Value == nil {
				tombstones++
			}
			if bytes.HasPrefix(m.Key, []byte("plan/")) {
				live[string(m.Key)] = m.Value != nil
			}
		}
		for key, stays := range live {
			if !stays || len(live) != last {
				t.Fatalf("%s stays: %v; %d plans of %d versions", key, stays, len(live), last)
			}
		}
		checkReported(t, report, checkVerified(t, log, job, "latest", last-1, last))
	})
}

// openAlone opens an embedded broker that no other process can reach: what no longer counts is removed at once.
func openAlone(t *testing.T) *kafkalog.Log {
	t.Helper()
	log := must(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()}))(t)
	closeAfter(t, log)
	return log
}

// What is missing, or differs, is named.
func TestVerifyNamesWhatIsMissing(t *testing.T) {
	stage := rffStage(link.Softmax, 20, 3)
	job := newJob(t, rings(640, 2, 2, 1), table{}, stage)
	job.Examples.Partitions = 2
	verify := func(log *kafkalog.Log) error {
		_, err := replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, protocol.Latest, event.Ignore{})
		return err
	}
	t.Run("no version", func(t *testing.T) {
		log := openEmbedded(t)
		noError(t, log.Create(t.Context(), topics.Topics(job)...))
		if err := verify(log); !errors.As(err, new(*protocol.NoVersionError)) {
			t.Errorf("got %v", err)
		}
	})
	t.Run("expired examples", func(t *testing.T) {
		log := openEmbedded(t)
		train(t, log, job)
		deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, 1, 3)
		err := verify(log)
		missing, ok := errors.AsType[*replay.MissingExamplesError](err)
		if want := (coverage.Spans{{Partition: 1, From: 0, To: 3}}); !ok || !slices.Equal(missing.Spans, want) ||
			!strings.Contains(err.Error(), "test.examples[1]@0–3") {
			t.Errorf("got %v, expected that %v are gone", err, want)
		}
	})
	t.Run("other examples", func(t *testing.T) {
		log := openEmbedded(t)
		train(t, log, job)
		examples := protocol.TopicsOf(job.Name).Examples
		messages := readTopic(t, log, examples)
		noError(t, log.Delete(t.Context(), examples))
		noError(t, log.Create(t.Context(), topics.Topics(job)[0]))
		other := exampleMessage(t, rings(64, 2, 2, 7).exampleRows())
		for _, m := range messages {
			if m.Partition == 1 && m.Offset == 2 {
				m.Value = other.Value
			}
			produce(t, log, job, m.Partition, m)
		}
		err := verify(log)
		differs, ok := errors.AsType[*replay.DigestError](err)
		if !ok || differs.Got == differs.Want || len(differs.Changed) != 1 || differs.Changed[0].Partition != 1 {
			t.Errorf("got %v, expected other weights of other examples in partition 1", err)
		}
	})
	t.Run("a plan", func(t *testing.T) {
		log, first := openEmbedded(t), job
		train(t, log, first)
		first.Warm, first.Keep = protocol.Latest, 1
		train(t, log, first)
		plans := protocol.TopicsOf(job.Name).Plans
		second := int64(0)
		for _, m := range readTopic(t, log, plans) {
			if bytes.HasPrefix(m.Key, []byte("plan/")) {
				second = m.Offset
			}
		}
		deleteRecords(t, log, plans, 0, second)
		if err := verify(log); !errors.As(err, new(*source.MissingPlanError)) {
			t.Errorf("got %v, expected that a plan is gone", err)
		}
	})
	t.Run("arithmetic", func(t *testing.T) {
		p, here := topics.Open(openEmbedded(t), job.Name, nil), dispatch.Arithmetic(openBLAS(t))
		there := here
		there.Vector = "none"
		runs := []source.EarlierRun{{Version: 3, Plan: &schemas.Plan{Arithmetic: there}}}
		err := replay.CheckHistory(t.Context(), p, runs, here, event.Ignore{})
		if !strings.Contains(err.Error(),
			"version 3 was made with a different arithmetic (vector none, this process has ") {
			t.Errorf("got %v", err)
		}
	})
}

// Who interrupts a verification leaves no topics.
func TestInterruptedVerifyLeavesNothing(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	train(t, log, job)
	before := ends(t, log)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := replay.Verify(ctx, topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, protocol.Latest, &interrupter{12, cancel}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, expected an interruption", err)
	}
	if after := ends(t, log); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("the topics end at %v, expected %v", after, before)
	}
}
