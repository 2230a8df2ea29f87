package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

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
	"github.com/stagewise/stagewise/schemas/wire"
)

// newSourcesJob returns a job whose file makes a message for each 64 rows, and the same job without its file.
func newSourcesJob(t *testing.T, rows int) (files, topic topics.Job) {
	t.Helper()
	files = newJob(t, rings(rows, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	files.Examples.Partitions, files.Examples.BatchRows = 2, 64
	topic = files
	topic.Examples.Train = nil
	return files, topic
}

func sourcesOf(t *testing.T, log *kafkalog.Log, name string) []source.SourceState {
	t.Helper()
	return must(source.Sources(t.Context(), topics.Open(log, name, nil)))(t)
}

func removeSource(t *testing.T, log *kafkalog.Log, name, id string) {
	t.Helper()
	must(source.RemoveSources(t.Context(), topics.Open(log, name, nil), []string{id}))(t)
}

// What retention has left of a source is listed, and a removed source that is not whole any more is ingested again.
func TestExpiredSourceIsListed(t *testing.T) {
	files, topic := newSourcesJob(t, 640)
	log := openEmbedded(t)
	train(t, log, files)
	examples := protocol.TopicsOf(files.Name).Examples
	deleteRecords(t, log, examples, 0, 3)
	expect := func(state string, left int64) string {
		t.Helper()
		s := sourcesOf(t, log, files.Name)
		if len(s) != 1 || s[0].State != state || s[0].Rows != 640 || s[0].Messages != 10 || s[0].Left != left {
			t.Fatalf("%+v, expected one that is %s, with %d of 10 messages", s, state, left)
		}
		return s[0].ID
	}
	id := expect(source.Sealed, 7)
	removeSource(t, log, files.Name, id)
	expect(source.Removed, 7)
	if report, _ := train(t, log, files); report.Rows != 640 {
		t.Errorf("%d rows of the file, expected 640", report.Rows)
	}
	expect(source.Sealed, 10)
	report, _ := train(t, log, topic)
	if want := (coverage.PassedOver{coverage.Removed: 7}); report.Rows != 640 || !maps.Equal(report.PassedOver, want) {
		t.Errorf("%d rows, passed over %v; expected 640 and %v", report.Rows, report.PassedOver, want)
	}
	for partition, end := range map[int32]int64{0: 10, 1: 10} {
		deleteRecords(t, log, examples, partition, end)
	}
	expect(source.Sealed, 0)
}

// The sources are listed whose ingest was interrupted. They can't be removed: nothing of them counts.
func TestUnfinishedSourceIsListed(t *testing.T) {
	files, _ := newSourcesJob(t, 6400)
	dir := t.TempDir()
	trainUntilOn(t, dir, files, func(e event.Event) bool { i, ok := e.(event.Ingested); return ok && i.Rows >= 3000 })
	log := openAt(t, dir)
	written := int64(len(readTopic(t, log, protocol.TopicsOf(files.Name).Examples)))
	noError(t, log.Create(t.Context(), topics.Topics(files)...))
	s := sourcesOf(t, log, files.Name)
	if len(s) != 1 || s[0].State != source.Unfinished || s[0].Rows != -1 || s[0].Messages != written || s[0].Left != written ||
		time.Since(s[0].Since) > time.Hour {
		t.Fatalf("%+v, expected an unfinished source of %d messages", s, written)
	}
	if _, err := source.RemoveSources(t.Context(), topics.Open(log, files.Name, nil), []string{s[0].ID}); !strings.Contains(fmt.Sprint(err),
		"there is no source "+strconv.Quote(s[0].ID)) {
		t.Errorf("removed an unfinished source: %v", err)
	}
	train(t, log, files)
	if s := sourcesOf(t, log, files.Name); len(s) != 1 || s[0].State != source.Sealed || s[0].Messages != 100 {
		t.Errorf("%+v, expected a sealed source of 100 messages", s)
	}
}

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
	err := trainError(t, log, conflict)
	for _, part := range []string{"test.csv is in examples.test", "as train.csv in examples.train"} {
		if !strings.Contains(fmt.Sprint(err), part) {
			t.Errorf("%q does not contain %q", err, part)
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
	topics = must(log.Configs(t.Context(), replay.Names(found)...))(t)
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
	if _, err := replay.Verify(t.Context(), topics.OpenFor(log, own, nil), dispatch.NewProcess(openBLAS(t)), own, protocol.Latest, event.Ignore{}); !strings.Contains(fmt.Sprint(err),
		"reads the examples of") {
		t.Errorf("got %v, expected that the examples are others", err)
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
	if err := trainError(t, log, reader); !strings.Contains(fmt.Sprint(err), "topic pictures does not exist") {
		t.Errorf("got %v, expected that there is no topic", err)
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
	if err := trainError(t, log, bounded); !strings.Contains(fmt.Sprint(err), "has 3 offsets") {
		t.Errorf("got %v, expected that there are too many offsets", err)
	}
	bounded.Examples.From = []string{"5"}
	if err := trainError(t, log, bounded); !strings.Contains(fmt.Sprint(err), "no examples on") {
		t.Errorf("got %v, expected that there are no examples", err)
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
			if !strings.Contains(fmt.Sprint(err), "it has [0]@0–8") {
				t.Errorf("got %v, expected that there are no examples", err)
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
	if _, err := Retrain(t.Context(), log, openBLAS(t), moved, true, event.Ignore{}); !strings.Contains(fmt.Sprint(err), "reads the examples of") {
		t.Errorf("got %v, expected that the examples are others", err)
	}
}

// Messages that were deleted before a version learnt them are lost, which is said also if no message follows.
func TestLostMessagesAreSaidAtTheEnd(t *testing.T) {
	log, job := openEmbedded(t), forgetfulJob(t)
	produceRings(t, log, job, 0, 4)
	retrainToEnd(t, log, job)
	produceRings(t, log, job, 4, 7)
	deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, 0, 7)
	report, rec := retrainToEnd(t, log, job)
	said := slices.ContainsFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool {
		return strings.Contains(n.Text, "test.examples[0] deleted offsets 4 to 6 before a version of the chain learnt their messages")
	})
	if len(report.Updates) > 0 || !said {
		t.Errorf("%d versions, and the notices are %v", len(report.Updates), eventsOf[event.Noticed](rec))
	}
}
