package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// readerOf returns a job of another pipeline that reads the examples of a job.
func readerOf(owner topics.Job, name string) topics.Job {
	owner.Name, owner.Examples.Train, owner.Examples.Test = name, nil, nil
	owner.Examples.Topic = protocol.TopicsOf("test").Examples
	return owner
}

// topicsOf returns the topics that begin with a prefix, with their settings and their messages.
func topicsOf(t *testing.T, log *kafkalog.Log, prefix string) (topics map[string]map[string]string,
	messages map[string][]kafkalog.Message) {
	t.Helper()
	found, err := log.Topics(t.Context(), prefix)
	noError(t, err)
	messages = map[string][]kafkalog.Message{}
	for _, topic := range found {
		messages[topic.Name] = readTopic(t, log, topic.Name)
	}
	if topics, err = log.Configs(t.Context(), replay.Names(found)...); err != nil {
		t.Fatal(err)
	}
	return topics, messages
}

// What the owner of a foreign topic says of its sources and rows counts for those who read it.
func TestOwnerOfAForeignTopicSaysWhatCounts(t *testing.T) {
	long(t)
	owner, topic := newSourcesJob(t, 640)
	log := openEmbedded(t)
	noError(t, source.Ingest(t.Context(), log, owner, event.Ignore{}))
	other := owner
	other.Examples.Train = []string{rings(128, 2, 2, 9).writeCSV(t, t.TempDir(), "other.csv")}
	noError(t, source.Ingest(t.Context(), log, other, event.Ignore{}))
	reader := readerOf(topic, "reader")
	same := func(rows int64, passedOver coverage.PassedOver) {
		t.Helper()
		want, _ := train(t, log, topic)
		report, _ := train(t, log, reader)
		if report.WeightsDigest != want.WeightsDigest || report.Rows != rows || !maps.Equal(report.PassedOver, passedOver) {
			t.Errorf("%d rows, passed over %v, digest %s; expected %d, %v, %s", report.Rows, report.PassedOver, report.WeightsDigest, rows,
				passedOver, want.WeightsDigest)
		}
	}
	same(768, nil)
	states := sourcesOf(t, log, owner.Name)
	i := slices.IndexFunc(states, func(s source.SourceState) bool { return s.Rows == 128 })
	removeSource(t, log, owner.Name, states[i].ID)
	same(640, coverage.PassedOver{coverage.Removed: 2})
	forget(t, log, topic, source.ToForget{Rows: rowsNamed(t, topic, "test.examples/0/0")})
	same(576, coverage.PassedOver{coverage.Removed: 2, coverage.ForgottenRow: 64})
	versions, err := topics.Open(log, reader.Name, nil).Versions(t.Context())
	if err != nil || len(versions) != 1 {
		t.Errorf("%d versions, %v; expected the one that has not learnt what was forgotten", len(versions), err)
	}
	if _, err := replay.Verify(t.Context(), topics.OpenFor(log, reader, nil), dispatch.NewProcess(openBLAS(t)), reader, protocol.Latest, event.Ignore{}); err != nil {
		t.Error(err)
	}
	own := reader
	own.Examples.Topic = ""
	if _, err := replay.Verify(t.Context(), topics.OpenFor(log, own, nil), dispatch.NewProcess(openBLAS(t)), own, protocol.Latest, event.Ignore{}); !errors.As(err,
		new(*topics.OtherExamplesError)) {
		t.Errorf("got %v, expected an *OtherExamplesError", err)
	}
}

// A topic that no pipeline owns has no sources: all of its messages count.
func TestForeignTopicWithoutAnOwner(t *testing.T) {
	long(t)
	job, message := newForeignJob(t, rings(100, 3, 3, 1))
	log := openEmbedded(t)
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "images", Partitions: 1}))
	must(log.Append(t.Context(), "images", 0, message))(t)
	produce(t, log, job, 0, message)
	want, _ := train(t, log, job)
	reader := job
	reader.Name, reader.Examples.Topic = "reader", "images"
	if report, _ := train(t, log, reader); report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, expected %s", report.WeightsDigest, want.WeightsDigest)
	}
	reader.Examples.Topic = "pictures"
	if err := trainError(t, log, reader); !errors.As(err, new(*topics.NoForeignTopicError)) {
		t.Errorf("got %v, expected a *NoForeignTopicError", err)
	}
	if exists, err := log.Exists(t.Context(), "pictures"); exists || err != nil {
		t.Errorf("the topic exists: %v, %v", exists, err)
	}
}

// A bound by offsets leaves out what retention would have deleted: the weights are the same. The report counts it, and
// none of it as missing.
func TestBoundsByOffsets(t *testing.T) {
	owner, topic := newSourcesJob(t, 640) // five messages in each of two partitions
	log, shorter := openEmbedded(t), openEmbedded(t)
	for _, l := range []*kafkalog.Log{log, shorter} {
		noError(t, source.Ingest(t.Context(), l, owner, event.Ignore{}))
	}
	deleteRecords(t, shorter, protocol.TopicsOf(owner.Name).Examples, 0, 3)
	deleteRecords(t, shorter, protocol.TopicsOf(owner.Name).Examples, 1, 1)
	want, _ := train(t, shorter, topic)
	bounded := topic
	for _, c := range []struct {
		from, to []string
		outside  int64
		digest   wire.Digest // "": not compared
	}{
		{[]string{"3", "1"}, nil, 4, want.WeightsDigest},
		{[]string{"3", "1"}, []string{"9"}, 4, want.WeightsDigest},
		{nil, []string{"3"}, 4, ""},
		{[]string{"1"}, []string{"4"}, 4, ""},
		{[]string{"0", "5"}, []string{"5", "5"}, 5, ""}, // nothing of partition 1
		{[]string{"0"}, []string{"100"}, 0, ""},
	} {
		bounded.Examples.From, bounded.Examples.To = c.from, c.to
		report, m := train(t, log, bounded)
		expected := coverage.PassedOver{}
		expected.Count(coverage.Outside, c.outside)
		if report.Rows != 64*(10-c.outside) || !maps.Equal(report.PassedOver, expected) || c.digest != "" && report.WeightsDigest != c.digest {
			t.Errorf("from %v to %v: %d rows, passed over %v, digest %s; expected %d, %v and %s", c.from, c.to, report.Rows,
				report.PassedOver, report.WeightsDigest, 64*(10-c.outside), expected, c.digest)
		}
		messages := int64(0)
		for _, span := range m.Manifest.Plan.Spans {
			messages += span.Len()
		}
		if messages != 10-c.outside {
			t.Errorf("from %v to %v: the plan has spans %v", c.from, c.to, m.Manifest.Plan.Spans)
		}
	}
	bounded.Examples.From, bounded.Examples.To = []string{"1", "2", "3"}, nil
	if err := trainError(t, log, bounded); !errors.As(err, new(*topics.BoundError)) {
		t.Errorf("got %v, expected a *BoundError", err)
	}
	bounded.Examples.From = []string{"5"}
	if err := trainError(t, log, bounded); !errors.As(err, new(*topics.NothingBetweenError)) {
		t.Errorf("got %v, expected a *NothingBetweenError", err)
	}
}

// A bound by time means the first message whose rows have this time or a later one: that of the messages of a followed topic that they
// come from, which ingest has written later.
func TestBoundsByTime(t *testing.T) {
	for name, later := range map[string]time.Duration{"produced": 0, "ingested": time.Hour} {
		t.Run(name, func(t *testing.T) {
			job, _ := newForeignJob(t, rings(10, 3, 3, 1))
			log := openEmbedded(t)
			produce(t, log, job, 0) // makes the topics
			client := clientOf(t, log)
			at := func(i int) time.Time { return time.UnixMilli(1_700_000_000_000 + int64(i/2)) }
			for i := range 8 {
				m := exampleMessage(t, rings(30, 3, 3, uint64(i)).exampleRows())
				record := &kgo.Record{Topic: protocol.TopicsOf(job.Name).Examples, Value: m.Value, Timestamp: at(i).Add(later)}
				if later > 0 {
					h := schemas.TimeHeader(at(i).UnixMilli())
					record.Headers = []kgo.RecordHeader{{Key: h.Key, Value: []byte(h.Value)}}
				}
				noError(t, client.ProduceSync(t.Context(), record).FirstErr())
			}
			job.Examples.From, job.Examples.To = []string{at(2).Format(time.RFC3339Nano)}, []string{at(6).Format(time.RFC3339Nano)}
			report, m := train(t, log, job)
			if got := m.Manifest.Plan.Spans; fmt.Sprint(got) != "[[0]@2–6]" || report.Rows != 120 || report.PassedOver[coverage.Outside] != 4 {
				t.Errorf("spans %v, %d rows, passed over %v", got, report.Rows, report.PassedOver)
			}
			job.Examples.From, job.Examples.To = []string{at(6).Add(time.Minute).Format(time.RFC3339)}, nil
			err := trainError(t, log, job)
			if !errors.As(err, new(*topics.NothingBetweenError)) || !strings.Contains(err.Error(), "it has [0]@0–8") {
				t.Errorf("got %v, expected a *NothingBetweenError", err)
			}
		})
	}
}

// A chain over the examples of another pipeline makes the versions that a chain of the owner makes, wakes up when the owner seals a source
// or forgets a row, and writes nothing there.
func TestChainOverAForeignTopic(t *testing.T) {
	owner, topic := newSourcesJob(t, 640)
	topic.Keep, topic.Retrain = 1000, topics.DefaultRetrain()
	topic.Retrain.Rows, topic.Retrain.After, topic.Retrain.Full = 200, 0, topics.FullOptions{}
	log := openEmbedded(t)
	noError(t, source.Ingest(t.Context(), log, owner, event.Ignore{}))
	reader := readerOf(topic, "reader")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, ended := make(chan event.Retrained, 9), make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, connect(t, log), openBLAS(t), reader, false, &eventRecorder{on: func(e event.Event) {
			if e, ok := e.(event.Retrained); ok {
				made <- e
			}
		}})
		ended <- err
	}()
	next := func(rows ...int64) {
		t.Helper()
		select {
		case e := <-made:
			if !slices.Contains(rows, e.WindowRows) {
				t.Errorf("%+v, expected a window of %d rows", e, rows)
			}
		case err := <-ended:
			t.Fatalf("the chain has ended: %v", err)
		}
	}
	next(256) // four messages
	next(512)
	other := owner
	other.Examples.Train = []string{rings(192, 2, 2, 9).writeCSV(t, t.TempDir(), "other.csv")}
	noError(t, source.Ingest(t.Context(), log, other, event.Ignore{}))
	next(640, 768) // without the messages of the source, if an update was made of them before the seal was there
	forget(t, log, topic, source.ToForget{Rows: rowsNamed(t, topic, "test.examples/0/0/3")})
	next(639, 767) // without the forgotten one
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	chains := map[string][]string{}
	settings, before := topicsOf(t, log, owner.Name+".")
	for _, job := range []topics.Job{readerOf(topic, "second"), topic} {
		must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		if chains[job.Name] = digests(t, log, job.Name); job.Name == "second" {
			if settingsAfter, after := topicsOf(t, log, owner.Name+"."); len(after) != len(before) || !maps.EqualFunc(settings,
				settingsAfter, maps.Equal) {
				t.Errorf("a chain has changed topics of the owner: %v, %v", settings, settingsAfter)
			}
		}
	}
	if !slices.Equal(chains["second"], chains[owner.Name]) || len(chains["second"]) != 4 {
		t.Errorf("versions %v, those of the owner are %v", chains["second"], chains[owner.Name])
	}
	moved := topic
	moved.Name = "second"
	if _, err := Retrain(t.Context(), log, openBLAS(t), moved, true, event.Ignore{}); !errors.As(err, new(*topics.OtherExamplesError)) {
		t.Errorf("got %v, expected an *OtherExamplesError", err)
	}
}
