package pipeline

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// No run trains on part of a source: after an ingest that failed or was interrupted, the next one makes the source whole, and
// the run has exactly its rows.
func TestHalfAnIngestIsNeverTrainedOn(t *testing.T) {
	data := rings(6000, 2, 2, 1)
	job := newJob(t, data, table{}, rffStage(link.Identity, 10, 1))
	log := openEmbedded(t)

	path := filepath.Join(t.TempDir(), "bad.csv")
	text, err := os.ReadFile(job.Examples.Train[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, append(text, "ring0,1,two\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	invalid := job
	invalid.Examples.Train = []string{path}
	var fileError *input.Error
	if err := trainError(t, log, invalid); !errors.As(err, &fileError) || fileError.Line != 6001 || !strings.Contains(err.Error(),
		`"two" is not a number`) {
		t.Errorf("got error %v, expected that \"two\" in line 6001 is not a number", err)
	}
	for rows := int64(1000); rows < 6000; rows += 1000 {
		trainUntil(t, log, job, func(e event.Event) bool { i, ok := e.(event.Ingested); return ok && i.Rows >= rows })
	}
	if n := len(readTopic(t, log, protocol.TopicsOf(job.Name).Examples)); n <= 94 {
		t.Fatalf("%d messages on the topic, expected more than the 94 of the source", n)
	}
	if report, _ := train(t, log, job); report.Rows != 6000 {
		t.Errorf("%d rows, expected 6000", report.Rows)
	}
	// A job without files trains on all sealed sources. There is only this one.
	job.Examples.Train = nil
	if report, _ := train(t, log, job); report.Rows != 6000 {
		t.Errorf("%d rows, expected 6000", report.Rows)
	}
}

// Of several files, the one whose ingest was interrupted goes on where it stopped: nothing is written again.
func TestInterruptedIngestOfTheSecondFileGoesOn(t *testing.T) {
	job := newJob(t, rings(1000, 2, 2, 1), rings(3000, 2, 2, 2), rffStage(link.Identity, 10, 1))
	whole, dir := openEmbedded(t), t.TempDir()
	train(t, whole, job)
	want := len(readTopic(t, whole, protocol.TopicsOf(job.Name).Examples))
	for rows := int64(500); rows < 3000; rows += 500 {
		trainUntilOn(t, dir, job, func(e event.Event) bool {
			i, ok := e.(event.Ingested)
			return ok && i.Split == examples.Test && i.Rows >= rows
		})
	}
	log := openAt(t, dir)
	if report, _ := train(t, log, job); report.Rows != 1000 || report.Splits["test"].Rows != 3000 {
		t.Errorf("%d and %d rows, expected 1000 and 3000", report.Rows, report.Splits["test"].Rows)
	}
	if n := len(readTopic(t, log, protocol.TopicsOf(job.Name).Examples)); n != want {
		t.Errorf("%d messages on the topic, expected the %d of an ingest that was not interrupted", n, want)
	}
}

// A message that was written twice counts once: a client writes again if a broker applied a write and answered with an error.
// A message that is missing ends the run.
func TestRepeatedAndMissingMessages(t *testing.T) {
	job := newJob(t, rings(600, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	original := openEmbedded(t)
	want, _ := train(t, original, job)
	topicNames := protocol.TopicsOf(job.Name)
	// trainChanged trains on a copy of the log, in which change has changed the examples of each partition.
	trainChanged := func(t *testing.T, change func([]kafkalog.Message) []kafkalog.Message) (*schemas.Report, error) {
		log := openEmbedded(t)
		if err := log.Create(t.Context(), topics.Topics(job)...); err != nil {
			t.Fatal(err)
		}
		copied, seals := topics.Open(log, job.Name, arrowtest.Allocator(t)), []*schemas.SourceSeal{}
		for _, m := range readTopic(t, original, topicNames.Plans) {
			if header(m, "kind") == string(schemas.KindSource) {
				seal, err := schemas.DecodeJSON[schemas.SourceSeal](protocol.FromKafka(m))
				if err != nil {
					t.Fatal(err)
				}
				seals = append(seals, seal)
			}
		}
		byPartition := map[int][]kafkalog.Message{}
		for _, m := range readTopic(t, original, topicNames.Examples) {
			byPartition[m.Partition] = append(byPartition[m.Partition], m)
		}
		for p := range 4 {
			if _, err := log.Append(t.Context(), topicNames.Examples, p, change(byPartition[p])...); err != nil {
				t.Fatal(err)
			}
			_, end, err := log.Bounds(t.Context(), topicNames.Examples, p)
			if err != nil {
				t.Fatal(err)
			}
			for i := range seals[0].Spans {
				if seals[0].Spans[i].Partition == p {
					seals[0].Spans[i].To = end
				}
			}
		}
		if _, err := copied.Log.Append(t.Context(), topicNames.Plans, 0, seals[0].Message()); err != nil {
			t.Fatal(err)
		}
		report, _, err := Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)}, &eventRecorder{})
		return report, err
	}
	report, err := trainChanged(t, func(m []kafkalog.Message) []kafkalog.Message {
		var twice []kafkalog.Message
		for i := range m {
			twice = append(append(twice, m[max(0, i-1):i+1]...), m[i])
		}
		return twice
	})
	if err != nil || report.Rows != want.Rows {
		t.Errorf("with repeated messages: report %+v, error %v; expected %d rows", report, err, want.Rows)
	}
	_, err = trainChanged(t, func(m []kafkalog.Message) []kafkalog.Message { return append(m[:1:1], m[2:]...) })
	if err == nil || !strings.Contains(err.Error(), "messages in partition") {
		t.Errorf("with a missing message: got error %v, expected one about the messages in a partition", err)
	}
}
