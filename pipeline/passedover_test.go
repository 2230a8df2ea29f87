package pipeline

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// A message of another producer counts, whatever headers it has. A run of files passes over it, and says so.
func TestHeadersOfOthers(t *testing.T) {
	job, message := newForeignJob(t, rings(300, 2, 2, 1))
	log := openEmbedded(t)
	tagged := message
	tagged.Headers = []kafkalog.Header{
		{Key: "source", Value: []byte("shop/7")}, {Key: "sequence", Value: []byte("0")}, {Key: "kind", Value: []byte("plan")},
		{Key: "stagewise-source", Value: []byte("no attempt")},
	}
	produce(t, log, job, 0, message, tagged)
	recorder := &eventRecorder{}
	report, _ := trainRecorded(t, log, job, recorder)
	if report.Rows != 600 || len(report.PassedOver) != 0 {
		t.Errorf("%d rows, passed over %v; expected 600 and nothing", report.Rows, report.PassedOver)
	}

	files := newJob(t, rings(200, 2, 2, 2), table{}, job.Stages...)
	trainRecorded(t, log, files, recorder)
	// A run reads from the first message of its files to the last. The next one begins after them.
	produce(t, log, job, 0, tagged)
	more := files
	more.Examples.Train = append(files.Examples.Train, rings(200, 2, 2, 3).writeCSV(t, t.TempDir(), "more.csv"))
	report, _ = trainRecorded(t, log, more, recorder)
	if want := (coverage.PassedOver{coverage.OtherProducer: 1}); report.Rows != 400 || !maps.Equal(report.PassedOver, want) {
		t.Errorf("%d rows, passed over %v; expected 400 and %v", report.Rows, report.PassedOver, want)
	}
	surveys := eventsOf[event.Surveyed](recorder)
	if got := surveys[len(surveys)-1].PassedOver; !maps.Equal(got, report.PassedOver) {
		t.Errorf("the event says %v, the report %v", got, report.PassedOver)
	}
}

// The content of a file counts once: however it is cut into messages, whatever it is called, and whichever classes are allowed.
func TestContentCountsOnce(t *testing.T) {
	data := rings(300, 2, 2, 1)
	job := newJob(t, data, table{}, rffStage(link.Identity, 10, 1))
	log := openEmbedded(t)
	train(t, log, job)
	again := job
	again.Examples.Train = []string{data.writeCSV(t, t.TempDir(), "renamed.csv")}
	again.Examples.BatchRows, again.Examples.Partitions, again.Examples.Classes = 50, 7, []string{"ring0", "ring1"}
	recorder := &eventRecorder{}
	if report, _ := trainRecorded(t, log, again, recorder); report.Rows != 300 {
		t.Errorf("%d rows, expected 300", report.Rows)
	}
	for _, e := range eventsOf[event.Ingested](recorder) {
		if !e.Known {
			t.Errorf("ingested again: %+v", e)
		}
	}
	again.Examples.Train = nil
	if report, _ := train(t, log, again); report.Rows != 300 || len(report.PassedOver) != 0 {
		t.Errorf("%d rows, passed over %v; expected 300 and nothing", report.Rows, report.PassedOver)
	}

	conflict := job
	conflict.Examples.Train, conflict.Examples.Test = nil, []string{data.writeCSV(t, t.TempDir(), "test.csv")}
	var split *source.SplitError
	if err := trainError(t, log, conflict); !errors.As(err, &split) {
		t.Fatalf("got error %v, expected a *SplitError", err)
	}
	for _, part := range []string{"test.csv is in examples.test", "as train.csv in examples.train"} {
		if !strings.Contains(split.Error(), part) {
			t.Errorf("%q does not contain %q", split, part)
		}
	}
}

// A source that lacks a message ends the run, and the next one ingests it again.
func TestIncompleteSourceIsIngestedAgain(t *testing.T) {
	job := newJob(t, rings(600, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	original, log := openEmbedded(t), openEmbedded(t)
	train(t, original, job)
	topicNames := protocol.TopicsOf(job.Name)
	noError(t, log.Create(t.Context(), topics.Topics(job)...))
	for i, m := range readTopic(t, original, topicNames.Examples) {
		if i == 1 { // a message of another producer stands where it stood
			m = kafkalog.Message{Partition: m.Partition, Value: m.Value}
		}
		must(log.Append(t.Context(), topicNames.Examples, m.Partition, m))(t)
	}
	for _, m := range readTopic(t, original, topicNames.Plans) {
		if header(m, "kind") == string(schemas.KindSource) {
			must(log.Append(t.Context(), topicNames.Plans, 0, m))(t)
		}
	}
	if err := trainError(t, log, job); !errors.As(err, new(*dispatch.RunError)) || !strings.Contains(err.Error(),
		"has 2 of 3 messages in partition 0") {
		t.Errorf("got error %v, expected a *RunError about a source with 2 of 3 messages", err)
	}
	if report, _ := train(t, log, job); report.Rows != 600 {
		t.Errorf("%d rows, expected 600", report.Rows)
	}
}
