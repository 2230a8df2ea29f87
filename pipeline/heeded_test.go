package pipeline

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// forgetfulJob is a chain over one partition, of 80 rows an update.
func forgetfulJob(t *testing.T) topics.Job {
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages, job.Examples.Partitions, job.Keep = []schemas.Stage{rffStage(link.Softmax, 16, 3)}, 1, 1000
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 80, topics.FullOptions{}
	return job
}

// produceRings produces messages of 40 rows, by their seeds.
func produceRings(t *testing.T, log *kafkalog.Log, job topics.Job, from, to int) {
	for i := from; i < to; i++ {
		produce(t, log, job, 0, exampleMessage(t, rings(40, 4, 3, uint64(i)).exampleRows()))
	}
}

func newestVersion(t *testing.T, log *kafkalog.Log, job topics.Job) protocol.Finished {
	t.Helper()
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	if err != nil || len(versions) == 0 {
		t.Fatalf("%d versions, %v", len(versions), err)
	}
	return versions[len(versions)-1]
}

// If the forget topic has lost what versions have heeded, no run is planned until the operator decides: to forget again
// what versions name, or to go on without.
func TestLostForgetTopicStopsRuns(t *testing.T) {
	long(t)
	for _, decision := range []string{source.RestoreLost, source.DropLost} {
		for _, lose := range []string{"deleted", "made anew with other rows", "deleted while it runs"} {
			t.Run(decision+", "+lose, func(t *testing.T) {
				log, job := openEmbedded(t), forgetfulJob(t)
				retrain := func(rec event.Recorder) error {
					_, err := Retrain(t.Context(), log, openBLAS(t), job, true, rec)
					return err
				}
				produceRings(t, log, job, 0, 10)
				noError(t, retrain(event.Ignore{}))
				rows := rowsNamed(t, job, "test.examples/0/1-4")
				forget(t, log, job, source.ToForget{Rows: rows})
				forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/7/3")})
				noError(t, retrain(event.Ignore{}))
				heeded := newestVersion(t, log, job).Plan.Heeded
				if heeded == nil || heeded.Entries != 2 {
					t.Fatalf("the version heeds %+v, expected two messages", heeded)
				}
				remove := func() {
					if err := log.Delete(t.Context(), job.Name+".forget"); err != nil {
						t.Error(err)
					}
				}
				produceRings(t, log, job, 10, 16)
				rec := event.Recorder(event.Ignore{})
				switch lose {
				case "deleted while it runs":
					rec = recorderFunc(func(e event.Event) {
						if e, ok := e.(event.Retrained); ok && e.Number > 0 && remove != nil {
							remove()
							remove = nil
						}
					})
				case "made anew with other rows":
					remove()
					for _, row := range []string{"8/1", "8/2", "8/3"} {
						forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/"+row)})
					}
				default:
					remove()
				}
				lost, ok := errors.AsType[*source.ForgetLostError](retrain(rec))
				if !ok || lost.Heeded.Entries != 2 || !strings.Contains(lost.Error(), "--lost restore") {
					t.Fatalf("error %v", lost)
				}
				if _, ok := errors.AsType[*source.ForgetLostError](trainError(t, log, job)); !ok {
					t.Error("train goes on")
				}
				forget(t, log, job, source.ToForget{Lost: decision})
				noError(t, retrain(event.Ignore{}))
				job.Retrain.Full.Every = 1
				produceRings(t, log, job, 16, 20)
				must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
				if has := newestVersion(t, log, job).Plan.Forgotten.Covers(rows); has != (decision == source.RestoreLost) {
					t.Errorf("the newest version forgets %v: %v", rows, has)
				}
				if _, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Lost: decision}); !errors.Is(err,
					source.ErrNothingLost) {
					t.Errorf("error %v, expected that nothing is lost", err)
				}
			})
		}
	}
}

// What is forgotten is rows of one message, as its checksum says: another message at its offset, of a topic of examples
// that was made anew, is learnt. What earlier releases have written has no checksum, and is of whatever message is
// there.
func TestForgetMeansOneMessage(t *testing.T) {
	long(t)
	log, job := openEmbedded(t), forgetfulJob(t)
	produceRings(t, log, job, 0, 6)
	train(t, log, job)
	forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/1-3", "test.examples/0/5/7")})
	if report, _ := train(t, log, job); report.PassedOver[coverage.ForgottenRow] != 3*40+1 {
		t.Fatalf("passed over: %v", report.PassedOver)
	}
	noError(t, log.Delete(t.Context(), "test.examples"))
	produceRings(t, log, job, 100, 102)
	produceRings(t, log, job, 2, 3) // the message that was at the offset
	report, _ := train(t, log, job)
	if n := report.PassedOver[coverage.ForgottenRow]; n != 40 || report.Rows != 80 {
		t.Errorf("%d rows forgotten, %d learnt, expected 40 and 80", n, report.Rows)
	}
	produceRings(t, log, job, 103, 107)
	rec := &eventRecorder{}
	report, _ = trainRecorded(t, log, job, rec)
	if n := report.PassedOver[coverage.ForgottenRow]; n != 40 {
		t.Errorf("%d rows forgotten, expected 40", n)
	}
	notices := ""
	for _, n := range eventsOf[event.Noticed](rec) {
		notices += n.Text + "\n"
	}
	if !strings.Contains(notices, "[0]@1–2") || !strings.Contains(notices, "[0]@3–4") || strings.Contains(notices, "[0]@2") {
		t.Errorf("notices %q, expected the offsets 1, 3 and 5", notices)
	}
	old := schemas.Forget{Rows: rowsNamed(t, job, "test.examples/0/4/0-4")}
	must(topics.Open(log, job.Name, nil).Log.Append(t.Context(), "test.forget", 0, old.Message()))(t)
	if report, _ := train(t, log, job); report.PassedOver[coverage.ForgottenRow] != 45 {
		t.Errorf("passed over: %v, expected 45 rows", report.PassedOver)
	}
	var left []int
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	for _, v := range versions {
		left = append(left, v.Version)
	}
	if !slices.Equal(left, []int{3, 5}) || err != nil {
		t.Errorf("the versions %v are left, %v; expected that those are removed that have learnt forgotten rows, and no others", left, err)
	}
}
