package pipeline

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sr"
	"github.com/twmb/franz-go/pkg/sr/srfake"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
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
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
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
	return assert.Must(source.Sources(t.Context(), topics.Open(log, name, nil)))(t)
}

func removeSource(t *testing.T, log *kafkalog.Log, name, id string) {
	t.Helper()
	assert.Must(source.RemoveSources(t.Context(), topics.Open(log, name, nil), []string{id}))(t)
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
		assert.Need(t, len(s) == 1 && s[0].State == state && s[0].Rows == 640 && s[0].Messages == 10 && s[0].Left == left,
			"%+v, expected one that is %s, with %d of 10 messages", s, state, left)
		return s[0].ID
	}
	removeSource(t, log, files.Name, expect(source.Sealed, 7))
	expect(source.Removed, 7)
	report, _ := train(t, log, files)
	assert.Equal(t, report.Rows, 640, "rows of the file")
	expect(source.Sealed, 10)
	report, _ = train(t, log, topic)
	assert.Equal(t, report.Rows, 640, "rows")
	assert.Equal(t, report.PassedOver, coverage.PassedOver{coverage.Removed: 7}, "what is passed over")
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
	assert.NoError(t, log.Create(t.Context(), topics.Topics(files)...))
	s := sourcesOf(t, log, files.Name)
	assert.Need(t, len(s) == 1 && s[0].State == source.Unfinished && s[0].Rows == -1 && s[0].Messages == written && s[0].Left == written &&
		time.Since(s[0].Since) <= time.Hour,
		"%+v, expected an unfinished source of %d messages", s, written)
	assert.MustFail(source.RemoveSources(t.Context(), topics.Open(log, files.Name, nil), []string{s[0].ID}))(t,
		"there is no source "+strconv.Quote(s[0].ID))
	train(t, log, files)
	s = sourcesOf(t, log, files.Name)
	assert.True(t, len(s) == 1 && s[0].State == source.Sealed && s[0].Messages == 100, "%+v, expected a sealed source of 100 messages", s)
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
	report, _ := trainRecorded(t, log, again, recorder.Record)
	assert.Equal(t, report.Rows, 300, "rows")
	for _, e := range eventsOf[event.Ingested](recorder) {
		assert.True(t, e.Known, "ingested again: %+v", e)
	}
	again.Examples.Train = nil
	report, _ = train(t, log, again)
	assert.True(t, report.Rows == 300 && len(report.PassedOver) == 0, "%d rows, passed over %v", report.Rows, report.PassedOver)

	conflict := job
	conflict.Examples.Train, conflict.Examples.Test = nil, []string{data.writeCSV(t, t.TempDir(), "test.csv")}
	err := trainError(t, log, conflict)
	for _, part := range []string{"test.csv is in examples.test", "as train.csv in examples.train"} {
		assert.Fails(t, err, part)
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
	found := assert.Must(log.Topics(t.Context(), prefix))(t)
	messages = map[string][]kafkalog.Message{}
	for _, topic := range found {
		messages[topic.Name] = readTopic(t, log, topic.Name)
	}
	topics = assert.Must(log.Configs(t.Context(), replay.Names(found)...))(t)
	return topics, messages
}

// What the owner of a foreign topic says of its sources and rows counts for those who read it.
func TestOwnerOfAForeignTopicSaysWhatCounts(t *testing.T) {
	long(t)
	owner, topic := newSourcesJob(t, 640)
	log := openEmbedded(t)
	assert.NoError(t, source.Ingest(t.Context(), log, owner, nil))
	other := owner
	other.Examples.Train = []string{rings(128, 2, 2, 9).writeCSV(t, t.TempDir(), "other.csv")}
	assert.NoError(t, source.Ingest(t.Context(), log, other, nil))
	reader := readerOf(topic, "reader")
	same := func(rows int64, passedOver coverage.PassedOver) {
		t.Helper()
		want, _ := train(t, log, topic)
		report, _ := train(t, log, reader)
		assert.True(t, report.WeightsDigest == want.WeightsDigest && report.Rows == rows && maps.Equal(report.PassedOver, passedOver),
			"%d rows, passed over %v, digest %s; expected %d, %v, %s", report.Rows, report.PassedOver, report.WeightsDigest, rows, passedOver,
			want.WeightsDigest)
	}
	same(768, nil)
	states := sourcesOf(t, log, owner.Name)
	removeSource(t, log, owner.Name, states[slices.IndexFunc(states, func(s source.SourceState) bool { return s.Rows == 128 })].ID)
	same(640, coverage.PassedOver{coverage.Removed: 2})
	forget(t, log, topic, source.ToForget{Rows: rowsNamed(t, topic, "test.examples/0/0")})
	same(576, coverage.PassedOver{coverage.Removed: 2, coverage.ForgottenRow: 64})
	versions, err := topics.Open(log, reader.Name, nil).Versions(t.Context())
	assert.True(t, err == nil && len(versions) == 1,
		"%d versions, %v; expected the one that has not learnt what was forgotten", len(versions), err)
	by := dispatch.NewProcess(openBLAS(t))
	assert.Must(replay.Verify(t.Context(), topics.OpenFor(log, reader, nil), by, reader, protocol.Latest, nil))(t)
	own := reader
	own.Examples.Topic = ""
	assert.MustFail(replay.Verify(t.Context(), topics.OpenFor(log, own, nil), by, own, protocol.Latest, nil))(t,
		"reads the examples of")
	own.Examples.Topic = "pictures"
	assert.Fails(t, trainError(t, log, own), "topic pictures does not exist")
	assert.Equal(t, assert.Must(log.Exists(t.Context(), "pictures"))(t), false, "the topic exists")
}

// A bound by offsets leaves out what retention would have deleted: the weights are the same. The report counts it, and
// none of it as missing.
func TestBoundsByOffsets(t *testing.T) {
	owner, topic := newSourcesJob(t, 640) // five messages in each of two partitions
	log, shorter := openEmbedded(t), openEmbedded(t)
	for _, l := range []*kafkalog.Log{log, shorter} {
		assert.NoError(t, source.Ingest(t.Context(), l, owner, nil))
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
		assert.Equal(t, messages, 10-c.outside, "from %v to %v: messages of the plan's spans", c.from, c.to)
	}
	bounded.Examples.From, bounded.Examples.To = []string{"1", "2", "3"}, nil
	assert.Fails(t, trainError(t, log, bounded), "has 3 offsets")
	bounded.Examples.From = []string{"5"}
	assert.Fails(t, trainError(t, log, bounded), "no examples on")
}

// A bound by time means the first message whose rows have this time or a later one: that of the messages of a followed topic that they
// come from, which ingest has written later.
func TestBoundsByTime(t *testing.T) {
	for name, later := range map[string]time.Duration{"produced": 0, "ingested": time.Hour} {
		t.Run(name, func(t *testing.T) {
			job := newForeignJob(t, rffStage(link.Softmax, 20, 3))
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
				assert.NoError(t, client.ProduceSync(t.Context(), record).FirstErr())
			}
			job.Examples.From, job.Examples.To = []string{at(2).Format(time.RFC3339Nano)}, []string{at(6).Format(time.RFC3339Nano)}
			report, m := train(t, log, job)
			assert.Equal(t, fmt.Sprint(m.Manifest.Plan.Spans), "[[0]@2–6]", "spans")
			assert.True(t, report.Rows == 120 && report.PassedOver[coverage.Outside] == 4, "%d rows, passed over %v", report.Rows, report.PassedOver)
			job.Examples.From, job.Examples.To = []string{at(6).Add(time.Minute).Format(time.RFC3339)}, nil
			assert.Fails(t, trainError(t, log, job), "it has [0]@0–8")
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
	assert.NoError(t, source.Ingest(t.Context(), log, owner, nil))
	reader := readerOf(topic, "reader")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	made, ended := make(chan event.Retrained, 9), make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, connect(t, log), openBLAS(t), reader, false, func(e event.Event) {
			if e, ok := e.(event.Retrained); ok {
				made <- e
			}
		})
		ended <- err
	}()
	next := func(rows ...int64) {
		t.Helper()
		select {
		case e := <-made:
			assert.True(t, slices.Contains(rows, e.WindowRows), "%+v, expected a window of %d rows", e, rows)
		case err := <-ended:
			t.Fatalf("the chain has ended: %v", err)
		}
	}
	next(256) // four messages
	next(512)
	other := owner
	other.Examples.Train = []string{rings(192, 2, 2, 9).writeCSV(t, t.TempDir(), "other.csv")}
	assert.NoError(t, source.Ingest(t.Context(), log, other, nil))
	next(640, 768) // without the messages of the source, if an update was made of them before the seal was there
	forget(t, log, topic, source.ToForget{Rows: rowsNamed(t, topic, "test.examples/0/0/3")})
	next(639, 767) // without the forgotten one
	cancel()
	assert.Fails(t, <-ended, context.Canceled)
	chains := map[string][]string{}
	settings, before := topicsOf(t, log, owner.Name+".")
	for _, job := range []topics.Job{readerOf(topic, "second"), topic} {
		assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		if chains[job.Name] = digests(t, log, job.Name); job.Name == "second" {
			settingsAfter, after := topicsOf(t, log, owner.Name+".")
			assert.True(t, len(after) == len(before) && maps.EqualFunc(settings, settingsAfter, maps.Equal),
				"a chain has changed topics of the owner: %v, %v", settings, settingsAfter)
		}
	}
	assert.Equal(t, chains["second"], chains[owner.Name], "versions, and those of the owner")
	assert.Equal(t, len(chains["second"]), 4, "versions")
	moved := topic
	moved.Name = "second"
	assert.MustFail(Retrain(t.Context(), log, openBLAS(t), moved, true, nil))(t, "reads the examples of")
}

// Messages that were deleted before a version learnt them are lost, which is said also if no message follows.
func TestLostMessagesAreSaidAtTheEnd(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	retrainToEnd(t, log, job)
	fill(t, log, job, 4, 7)
	deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, 0, 7)
	report, rec := retrainToEnd(t, log, job)
	if len(report.Updates) > 0 || !said(rec, "test.examples[0] deleted offsets 4 to 6 before a version of the chain learnt their messages") {
		t.Errorf("%d versions, and the notices are %v", len(report.Updates), eventsOf[event.Noticed](rec))
	}
}

// clicks is a job whose examples come from a topic of five partitions, and the log that has the topic. Row i is a line of CSV, and its
// second feature is i.
func clicks(t *testing.T, log *kafkalog.Log, rows int) topics.Job {
	t.Helper()
	return clicksOn(t, log, "clicks", rows)
}

// clicksOn is clicks on a topic of another name.
func clicksOn(t *testing.T, log *kafkalog.Log, topic string, rows int) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format = nil, topic, "csv"
	job.Examples.Partitions, job.Examples.BatchRows = 2, 8
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: 5}))
	clickOn(t, log, topic, 0, rows)
	return job
}

// clickOn writes the rows from to to (excluded) to a topic, one or three in a message.
func clickOn(t *testing.T, log *kafkalog.Log, topic string, from, to int) {
	t.Helper()
	for partition := 0; from < to; partition++ {
		var value strings.Builder
		for range min(1+2*(partition%2), to-from) {
			fmt.Fprintf(&value, "%c,%d,%d\n", 'a'+rune(from%2), from%2, from)
			from++
		}
		assert.Must(log.Append(t.Context(), topic, partition%5, kafkalog.Message{Value: []byte(value.String())}))(t)
	}
}

// countedRows returns the second features of the rows that a run without files counts, sorted.
func countedRows(t *testing.T, log *kafkalog.Log, job topics.Job) (rows []int) {
	t.Helper()
	eachCounted(t, log, job, func(row int, _ string) { rows = append(rows, row) })
	slices.Sort(rows)
	return rows
}

// eachCounted calls do for each row that a run without files counts, with its second feature and its label.
func eachCounted(t *testing.T, log *kafkalog.Log, job topics.Job, do func(row int, label string)) {
	t.Helper()
	mem := assert.Allocator(t)
	replays := map[int]*protocol.SpanCounting{}
	counting := protocol.NewCounting(&schemas.Plan{Foreign: true})
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		if replays[m.Partition] == nil {
			replays[m.Partition] = counting.Replay(coverage.Span{Partition: m.Partition})
		}
		if replays[m.Partition].Accept(protocol.FromKafka(m)) != "" {
			continue
		}
		batch := assert.Must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, batch.Rows*batch.Cols)
		batch.Features(features, batch.Cols)
		for i := range batch.Rows {
			do(int(features[i*batch.Cols+1]), batch.Label(i))
		}
	}
}

func followToEnd(t *testing.T, log *kafkalog.Log, job topics.Job) *eventRecorder {
	t.Helper()
	recorder := &eventRecorder{}
	assert.NoError(t, source.Follow(t.Context(), log, job, true, recorder.Record))
	return recorder
}

// A value that can't be used goes into quarantine with its place and the reason, or ends ingest if the job says so. The others count.
func TestFollowQuarantines(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 30)
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	traced := func(value string) []kafkalog.Header {
		return []kafkalog.Header{{Key: "traceparent", Value: []byte(value)}}
	}
	assert.Must(log.Append(t.Context(), "clicks", 3, kafkalog.Message{Key: []byte("k"), Value: []byte("a,0,x"), Headers: traced(trace)},
		kafkalog.Message{Headers: traced("none")}))(t)
	clickOn(t, log, "clicks", 30, 60)
	strict := job
	strict.OnBadMessage = schemas.StopOnBadMessage
	err := source.Follow(t.Context(), log, strict, true, ignore)
	assert.True(t, strings.HasPrefix(fmt.Sprint(err), "clicks[3]@"), "%v", err)
	assert.Fails(t, err, `: column 2: … is not a number: `)
	recorder := followToEnd(t, log, job)
	assert.Equal(t, countedRows(t, log, job), upTo(0, 60), "the rows that count")
	var reasons []string
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		bad := protocol.FromKafka(m)
		assert.True(t, bad.Get("topic") == "clicks" && bad.Get("partition") == "3" && strings.HasPrefix(bad.Key, "clicks/3/"),
			"a message in quarantine has the key %s and the headers %v", bad.Key, bad.Headers)
		assert.Equal(t, bad.Get("traceparent"), map[bool]string{true: trace}[bad.Get("key") == "k"], "traceparent")
		reasons = append(reasons, bad.Get("reason"))
	}
	assert.Equal(t, reasons, []string{`column 2: "x" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, ` +
		"examples.missing_values lists the words for a missing value",
		"an empty value: expected one example a line, without a header"},
		"reasons of quarantine")
	events := eventsOf[event.Quarantined](recorder)
	assert.True(t, len(events) == 2 && events[0].Topic == "clicks", "recorded %v", events)
}

// upTo returns the numbers from from to to (excluded).
func upTo(from, to int) (list []int) {
	for i := from; i < to; i++ {
		list = append(list, i)
	}
	return list
}

// clicksAt makes the topic of clicks anew with one partition, and with the rows from 0 to before, and later those from from to to. Each
// has a time of its own.
func clicksAt(t *testing.T, log *kafkalog.Log, before, from, to int) {
	t.Helper()
	assert.NoError(t, log.Delete(t.Context(), "clicks"))
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "clicks", Partitions: 1}))
	var records []*kgo.Record
	for _, i := range append(upTo(0, before), upTo(from, to)...) {
		at := time.UnixMilli(1_700_000_000_000)
		if i >= max(from, before) {
			at = time.UnixMilli(1_800_000_000_000)
		}
		records = append(records, &kgo.Record{Topic: "clicks", Value: fmt.Appendf(nil, "%c,%d,%d\n", 'a'+rune(i%2), i%2, i),
			Timestamp: at.Add(time.Duration(i) * time.Second)})
	}
	assert.NoError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
}

// If a topic no longer has what was read last, ingest stops until the operator has said whether to go on behind that or
// to read another topic. No row counts twice unless it is another topic.
func TestFollowTopicThatHasChanged(t *testing.T) {
	for name, test := range map[string]struct {
		before, from, to int    // of clicksAt, after 100 rows were read
		why              string // "" if it is the same topic
		behind           []int  // the rows that count then beside the first 100, if reading goes on behind, first and end
	}{
		"it has more":                    {before: 100, from: 100, to: 130, behind: []int{100, 130}},
		"it has lost the last":           {before: 99, why: "it ends at offset 99"},
		"it has lost some":               {before: 40, why: "it ends at offset 40"},
		"it has lost all":                {why: "it ends at offset 0"},
		"it has lost some and got more":  {before: 80, from: 100, to: 150, why: "another message is there", behind: []int{120, 150}},
		"it has lost some and got fewer": {before: 80, from: 100, to: 110, why: "it ends at offset 90"},
		"it was made anew":               {from: 200, to: 300, why: "another message is there"},
		"it was made anew with more":     {from: 200, to: 310, why: "another message is there", behind: []int{300, 310}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // who decides waits for a while, lest a leader has more to say
			for _, choice := range []string{ingest.ChangedTopicBehind, ingest.ChangedTopicAnew} {
				log := openEmbedded(t)
				job := clicks(t, log, 0)
				job.Examples.Partitions = 1
				clicksAt(t, log, 100, 0, 0)
				followToEnd(t, log, job)
				assert.Equal(t, countedRows(t, log, job), upTo(0, 100), "the rows that count")
				clicksAt(t, log, test.before, test.from, test.to)
				err := source.Follow(t.Context(), log, job, true, nil)
				changed, ok := errors.AsType[*source.ChangedTopicError](err)
				assert.Need(t, ok == (test.why != "") && (err == nil || ok), "got error %v, expected one because of %q", err, test.why)
				assert.True(t, !ok || changed.Why == test.why && changed.Last == 99 &&
					strings.Contains(err.Error(), "examples.on_changed_topic to behind"), "got error %v, expected %s", err, test.why)
				job.Examples.OnChangedTopic = choice
				want := upTo(0, 100)
				switch {
				case choice == ingest.ChangedTopicAnew && ok:
					want = slices.Concat(want, upTo(0, test.before), upTo(test.from, test.to))
				case len(test.behind) > 0:
					want = append(want, upTo(test.behind[0], test.behind[1])...)
				}
				followToEnd(t, log, job)
				if len(want) > 100 { // the choice is on the topic
					followToEnd(t, log, job)
					job.Examples.OnChangedTopic = ingest.ChangedTopicStop
					followToEnd(t, log, job)
				}
				slices.Sort(want)
				assert.Equal(t, countedRows(t, log, job), want, "%s: the rows that count", choice)
			}
		})
	}
}

// What retention has deleted of a topic, read or not, is no change of the topic. What was not read is said.
func TestFollowTopicThatForgets(t *testing.T) {
	for first, want := range map[int64]int{50: 130, 100: 130, 110: 120} {
		log := openEmbedded(t)
		job := clicks(t, log, 0)
		job.Examples.Partitions = 1
		clicksAt(t, log, 100, 0, 0)
		followToEnd(t, log, job)
		for i := range 30 {
			assert.Must(log.Append(t.Context(), "clicks", 0, kafkalog.Message{Value: fmt.Appendf(nil, "a,0,%d", 100+i)}))(t)
		}
		deleteRecords(t, log, "clicks", 0, first)
		rec := followToEnd(t, log, job)
		assert.Equal(t, len(countedRows(t, log, job)), want, "without the offsets before %d: rows that count", first)
		said := slices.ContainsFunc(eventsOf[event.Lost](rec), func(e event.Lost) bool {
			return e == event.Lost{Topic: "clicks", From: 100, To: 110}
		})
		assert.Equal(t, said, first == 110, "without the offsets before %d: something is lost", first)
	}
}

// sizes writes rows from to to (excluded) to the topic sizes, and returns a job whose examples come from there.
func sizes(t *testing.T, log *kafkalog.Log, format string) (job topics.Job, write func(from, to int)) {
	t.Helper()
	job = newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 10, 1))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "sizes", format, 2, 8
	if format == "json" {
		o.Label, o.Columns.Use, o.Categorical = "kind", []string{"length", "width", "colour"}, []string{"colour"}
	} else {
		o.Label, o.Columns.Use = "0", []string{"1", "2"}
	}
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 50, topics.FullOptions{}
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 1}))
	return job, func(from, to int) {
		for i := from; i < to; i++ {
			value := fmt.Sprintf("%c,%d,%d,%d", 'a'+rune(i%2), 10*(i%2)+i%7, i%5, i)
			if format == "json" {
				value = fmt.Sprintf(`{"kind": "%c", "length": %d, "width": %d, "height": %d, "colour": "%c", "code": 1}`, 'a'+rune(i%2),
					10*(i%2)+i%7, i%5, i, 'r'+rune(i%3))
			}
			assert.Must(log.Append(t.Context(), o.FromTopic, 0, kafkalog.Message{Value: []byte(value)}))(t)
		}
	}
}

// The columns of a followed topic are known by name: in another order they are the same columns, and others are refused
// before anything is ingested, so that nothing is lost once the columns are restored.
func TestFollowedColumnsAreKnownByName(t *testing.T) {
	long(t)
	for name, test := range map[string]struct {
		format, want string // the error; "": the rows are those of the earlier columns
		change       func(*topics.Job)
	}{
		"another order": {"json", "", func(job *topics.Job) { job.Examples.Columns.Use = []string{"colour", "width", "length"} }},
		"fewer": {"json", `examples.columns.use lacks the column "width"`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"length", "colour"} }},
		"more": {"json", `examples.columns.use also has the column "height"`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"length", "width", "colour", "height"} }},
		"others": {"json", `examples.columns.use lacks the column "width" and has "height"`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"length", "height", "colour"} }},
		"a number for a word":  {"json", `column "colour" has other categories`, func(job *topics.Job) { job.Examples.Categorical = nil }},
		"another label":        {"json", `come from can't be used any more: sizes[0]@`, func(job *topics.Job) { job.Examples.Label = "kinds" }},
		"other words":          {"json", "no words in the column width", func(job *topics.Job) { job.Examples.Categorical = []string{"width"} }},
		"lines, another order": {"csv", "", func(job *topics.Job) { job.Examples.Columns.Use = []string{"2", "1"} }},
		"lines, fewer": {"csv", `columns.use: ["1"], but version 4 of the chain has learnt rows with ["1" "2"]`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"1"} }},
		"lines, others": {"csv", `columns.use: ["1" "3"], but version 4`,
			func(job *topics.Job) { job.Examples.Columns.Use = []string{"1", "3"} }},
		"lines, all": {"csv", `columns.use: [], but version 4`, func(job *topics.Job) { job.Examples.Columns.Use = nil }},
	} {
		t.Run(name, func(t *testing.T) {
			log, twin := openEmbedded(t), openEmbedded(t)
			job, write := sizes(t, log, test.format)
			_, writeTwin := sizes(t, twin, test.format)
			changed := job
			test.change(&changed)
			learn := func(l *kafkalog.Log) {
				assert.Must(Retrain(t.Context(), l, openBLAS(t), job, true, nil))(t)
			}
			write(0, 150)
			followToEnd(t, log, job)
			write(150, 200)
			if test.format == "json" { // only versions know the numbers of columns
				assert.Fails(t, source.Follow(t.Context(), log, changed, true, nil), test.want)
			}
			learn(log)
			write(200, 360)
			assert.Fails(t, source.Follow(t.Context(), log, changed, true, nil), test.want)
			_, err := Retrain(t.Context(), log, openBLAS(t), changed, true, nil)
			assert.Fails(t, err, test.want)
			learn(log)
			writeTwin(0, 150)
			followToEnd(t, twin, job)
			writeTwin(150, 200)
			learn(twin)
			writeTwin(200, 360)
			learn(twin)
			if got, want := digests(t, log, job.Name), digests(t, twin, job.Name); !slices.Equal(got, want) || len(got) != 7 {
				t.Errorf("the versions are\n%s\nexpected seven as without the change\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			assert.Equal(t, len(readTopic(t, log, job.Name+".quarantine")), 0, "messages in quarantine")
		})
	}
}

// A schema registry that is away for ten minutes loses no message: ingest waits, says so once in a while, and goes on.
func TestFollowWaitsForTheRegistry(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	registry := srfake.New()
	defer registry.Close()
	const schema = `{"type":"record","name":"Click","fields":[{"name":"label","type":"string"},{"name":"side","type":"int"},{"name":"at","type":"int"}]}`
	registry.SeedSchema("clicks-value", 1, 1, sr.Schema{Schema: schema})
	job.Examples.Format, job.Examples.Registry.URL, job.Examples.Columns.Use = "avro", registry.URL(), []string{"side", "at"}
	for i := range 40 {
		content := assert.Must(avro.MustParse(schema).Encode(map[string]any{"label": string(rune('a' + i%2)), "side": i % 2, "at": i}))(t)
		assert.Must(log.Append(t.Context(), "clicks", i%5, kafkalog.Message{Value: append([]byte{0, 0, 0, 0, 1}, content...)}))(t)
	}
	registry.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		http.Error(w, "starting", http.StatusServiceUnavailable)
		return true
	})
	p := topics.Open(log, job.Name, nil)
	assert.NoError(t, topics.Create(t.Context(), p, &job))
	recorder := &eventRecorder{}
	f := source.NewFollow(p, job, true, event.Serialised(recorder.Record))
	var mutex sync.Mutex
	var waited time.Duration
	f.Pause = func(_ context.Context, d time.Duration) error {
		mutex.Lock()
		defer mutex.Unlock()
		if waited += d; waited > 10*time.Minute {
			registry.ClearInterceptors()
		}
		return nil
	}
	assert.NoError(t, f.Run(t.Context()))
	assert.Equal(t, countedRows(t, log, job), upTo(0, 40), "the rows that count")
	assert.Equal(t, eventsOf[event.Quarantined](recorder), nil, "what is in quarantine")
	assert.True(t, said(recorder, "waits for the schema registry; no message is skipped") && said(recorder, "answers 503") &&
		said(recorder, "answers again"),
		"notices %v", eventsOf[event.Noticed](recorder))
}

// The words of a categorical column are those that a topic has when it is followed first. Later rows have the same
// features, and a word that comes later is one of the others.
func TestFollowWithCategories(t *testing.T) {
	log, mem := openEmbedded(t), assert.Allocator(t)
	job := clicks(t, log, 0)
	job.Examples.Categorical = []string{"1"}
	follow := func() error { return source.Follow(t.Context(), log, job, true, ignore) }
	assert.Fails(t, follow(), "no message has a word in the column 1 of examples.categorical yet")
	named := job
	named.Examples.Format, named.Examples.Label, named.Examples.Categorical = "json", "cliked", []string{"colour"}
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "misspelt", Partitions: 1}))
	send(t, log, timed{topic: "misspelt", value: `{"clicked": "a", "colour": "red"}`})
	named.Examples.FromTopic = "misspelt"
	assert.Fails(t, source.Follow(t.Context(), log, named, true, ignore), `no column "cliked"`)
	for _, values := range [][]string{{"a,red,1", "b,blue,2\na,red,3"}, {"b,green,4"}} {
		for partition, value := range values {
			assert.Must(log.Append(t.Context(), "clicks", partition, kafkalog.Message{Value: []byte(value)}))(t)
		}
		assert.NoError(t, follow())
	}
	got := map[float32][]float32{} // by the last feature
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		batch := assert.Must(examples.Decode(m.Value, mem))(t)
		columns, err := examples.ParseColumns(batch.ColumnsText())
		assert.True(t, err == nil && strings.Join(columns[0].Categories, " ") == "blue red", "the columns %+v, error %v", columns, err)
		features := make([]float32, batch.Rows*batch.Cols)
		batch.Features(features, batch.Cols)
		for i := range batch.Rows {
			row := features[i*batch.Cols : (i+1)*batch.Cols]
			got[row[3]] = row
		}
	}
	for last, place := range map[float32]int{1: 1, 2: 0, 3: 1, 4: 2} {
		assert.True(t, len(got[last]) == 4 && got[last][place] == 1, "row %v has the features %v", last, got[last])
	}
	job.Examples.Categorical, job.Examples.Missing.Mode = []string{"2"}, layout.MissingMean
	assert.Fails(t, follow(), "have no words in the column 2: expected the columns of when the topic was first followed")
}

// A column that rows had, and that most new rows lack, as a producer has renamed it, is named. Its rows go to quarantine,
// and change no version, unless the column is optional. Rows that lack a column now and then count, as they always have.
func TestColumnsThatMostNewRowsLack(t *testing.T) {
	long(t)
	// Row i is the format i % n of n, with its length, its width, its colour and its kind.
	good := []string{`{"length": %[1]v, "width": %[2]v, "colour": %[3]q, "kind": %[4]q}`}
	renamed := []string{`{"Length": %[1]v, "Width": %[2]v, "colour": "r", "kind": %[4]q}`}
	one := []string{`{"Length": %[1]v, "width": %[2]v, "colour": "r", "kind": %[4]q}`}
	null := []string{`{"length": %[1]v, "width": null, "colour": "r", "kind": %[4]q}`}
	word := []string{`{"length": %[1]v, "width": %[2]v, "kind": %[4]q}`}
	sometimes := slices.Concat(good, null, null)
	mixed := slices.Concat(good, renamed, renamed) // two of three producers have the new release
	few := slices.Concat(one, good, good, good)    // one of four
	for name, test := range map[string]struct {
		before, after []string
		optional      []string
		each          int // number of messages after which they are ingested; 0: all at once
		lost          string
		bad           int
		all           bool // no rows are held out
		mixed         bool // the word is hashed
		text          bool // the word is a text
	}{
		"all renamed":            {before: good, after: renamed, lost: "length width", bad: 300},
		"one":                    {before: good, after: one, lost: "length", bad: 300},
		"null":                   {before: good, after: null, lost: "width", bad: 300},
		"words":                  {before: good, after: word, lost: "colour", bad: 300},
		"as they come":           {before: good, after: renamed, each: 50, lost: "length width", bad: 300},
		"two of three producers": {before: good, after: mixed, lost: "length width", bad: 200},
		"one of four producers":  {before: good, after: few},
		"always now and then":    {before: sometimes, after: sometimes},
		"always":                 {before: null, after: null},
		"optional":               {before: good, after: one, optional: []string{"length"}, lost: "length"},
		"optional, as they come": {before: good, after: one, each: 50, optional: []string{"length"}, lost: "length"},
		"optional, no gate":      {before: good, after: one, optional: []string{"length"}, lost: "length", all: true},
		"hashed words":           {before: good, after: word, lost: "colour", bad: 300, mixed: true},
		"texts":                  {before: good, after: word, lost: "colour", bad: 300, text: true},
		"mixed":                  {before: good, after: renamed, lost: "length width", bad: 300, mixed: true},
		"mixed, as they come":    {before: good, after: one, each: 50, lost: "length", bad: 300, mixed: true},
		"optional, another":      {before: good, after: renamed, optional: []string{"length"}, lost: "length width", bad: 300},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 0, 5))
			job.Stages[0].Features.Kind = "columns"
			o := &job.Examples
			o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "sizes", "json", 1, 16
			o.Label, o.Columns.Use, o.Categorical = "kind", []string{"length", "width", "colour"}, []string{"colour"}
			o.Missing, o.Holdout = layout.Missing{Mode: layout.MissingMean, Columns: test.optional}, 0.2
			if test.all {
				o.Holdout = 0
			}
			if test.text {
				o.Text, o.Categorical, o.Columns.Use, o.Words.Columns = "colour", nil, []string{"length", "width"}, 16
			}
			if test.mixed {
				o.Hash = layout.Hash{Columns: 64}
			}
			job.Retrain = topics.DefaultRetrain()
			job.Retrain.Rows = 100
			assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 1}))
			random, rec, report := rand.New(rand.NewPCG(1, 2)), &eventRecorder{}, &Retraining{}
			lost, bad, drifts, lacking := map[string]int64{}, map[string]bool{}, 0, 0
			retrain := func() {
				t.Helper()
				report = assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, rec.Record))(t)
				for column, rows := range report.LostColumns {
					lost[column] += rows
				}
				for _, u := range report.Updates {
					if u.Drift {
						drifts++
					}
					if len(u.Lacking) > 0 {
						lacking++
					}
					if test.all != u.Unseen && len(u.Lacking) > 0 || u.Unseen && u.Offered || len(u.Lacking) > 0 && u.Offered && u.Gate == nil {
						t.Errorf("version %d lacks %q: unseen %v, offered %v, gate %v", u.Version, u.Lacking, u.Unseen, u.Offered, u.Gate)
					}
				}
			}
			for i := range 700 {
				formats, kind := test.before, i%2
				if i >= 300 && i < 600 {
					formats = test.after
				}
				length, width := float64(kind)*2+random.Float64(), random.Float64()
				value := fmt.Appendf(nil, formats[i%len(formats)], length, width, string('r'+rune(kind)), string('x'+rune(kind)))
				assert.Must(log.Append(t.Context(), o.FromTopic, 0, kafkalog.Message{Value: value}))(t)
				if test.each > 0 && i >= 300 && i%test.each == test.each-1 {
					retrain()
				}
			}
			retrain()
			var names []string
			for _, name := range []string{"length", "width", "colour"} {
				if rows := lost[name]; rows > 0 {
					names = append(names, name)
					assert.True(t, rows == int64(test.bad) || slices.Contains(test.optional, name), "%d rows lack %s, expected %d", rows, name, test.bad)
				}
			}
			got := strings.Join(names, " ")
			some := slices.ContainsFunc(eventsOf[event.ColumnLost](rec), func(e event.ColumnLost) bool { return e.Rows > 0 })
			assert.True(t, got == test.lost && (got != "") == some, "lost are the columns %q, expected %q", got, test.lost)
			for _, m := range readTopic(t, log, job.Name+".quarantine") {
				q, err := schemas.QuarantinedOf(protocol.FromKafka(m))
				bad[string(m.Key)] = true // messages after the last usable one are read again by the next process
				assert.True(t, err == nil && strings.Contains(q.Reason, "no value in column") &&
					(!strings.Contains(string(q.Value), "Length") || strings.Contains(q.Reason, `the message has "`)),
					"in quarantine is %+v, %v", q, err)
			}
			assert.True(t, len(test.optional) == 0 || test.bad != 0 || lacking != 0, "no version reports the column")
			assert.True(t, len(bad) == test.bad && (drifts <= 0 || test.lost == ""),
				"%d messages are in quarantine, expected %d; %d alarms", len(bad), test.bad, drifts)
		})
	}
}

// views and buys are the topics of rows and of their outcomes.
const views, buys = "views", "buys"

// timed is a message with a time, in milliseconds since the beginning of the test's day.
type timed struct {
	topic      string
	partition  int
	key, value string
	time       int64
}

// day is when the times of timed begin.
const day = 1_764_000_000_000

// viewJob is a job whose rows of JSON wait for outcomes, on a log that has both topics, whose names begin with a prefix.
func viewJob(t *testing.T, log *kafkalog.Log, prefix string, rowPartitions, outcomePartitions int) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format = nil, prefix+views, "json"
	o.Partitions, o.BatchRows = 2, 8
	o.Columns.Use = []string{"x", "n"}
	o.Outcome = ingest.Defaults().Outcome
	o.Outcome.Topic, o.Outcome.Label, o.Outcome.Absent = prefix+buys, "kind", []string{"none"}
	o.Outcome.Within, o.Outcome.Early, o.Outcome.Grace = time.Minute, 5*time.Second, 10*time.Second
	problems := o.Check()
	assert.Need(t, len(problems) == 0, "%v", problems)
	for topic, partitions := range map[string]int{prefix + views: rowPartitions, prefix + buys: outcomePartitions} {
		assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: topic, Partitions: partitions}))
	}
	return job
}

// view is a row: n tells it from others.
func view(partition int, key string, n int, at int64) timed {
	return timed{views, partition, key, fmt.Sprintf(`{"id": %q, "x": %d, "n": %d}`, key, n%7, n), at}
}

// buy is an outcome.
func buy(partition int, key, kind string, at int64) timed {
	return timed{buys, partition, key, fmt.Sprintf(`{"view": %q, "kind": %q}`, key, kind), at}
}

// send writes messages in their order.
func send(t *testing.T, log *kafkalog.Log, messages ...timed) {
	t.Helper()
	var records []*kgo.Record
	for _, m := range messages {
		r := &kgo.Record{Topic: m.topic, Partition: int32(m.partition), Value: []byte(m.value), Timestamp: time.UnixMilli(day + m.time)}
		if m.key != "" {
			r.Key = []byte(m.key)
		}
		if m.value == "" {
			r.Value = nil
		}
		records = append(records, r)
	}
	assert.NoError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
}

// While a row waits, an outcome that can't be used says nothing of the rows. If none of the outcomes can be used, that is an error of their
// topic. A row is an example once, also if its outcome is deleted since.
func TestOutcomesThatCannotBeUsed(t *testing.T) {
	log := openEmbedded(t)
	job := viewJob(t, log, "", 1, 1)
	send(t, log, view(0, "a", 1, 1000), timed{buys, 0, "", `{"kind": "book"}`, 1500})
	err := source.Follow(t.Context(), log, job, true, nil)
	nothing, ok := errors.AsType[*source.NothingUsableError](err)
	assert.True(t, ok && nothing.Topic == buys && nothing.Messages == 1, "no outcome can be used: got error %v", err)
	send(t, log, buy(0, "b", "book", 2000), timed{buys, 0, "", `{"kind": "film"}`, 2500})
	followToEnd(t, log, job)
	send(t, log, buy(0, "a", "film", 3000))
	followToEnd(t, log, job)
	assert.NoError(t, log.DeleteBefore(t.Context(), buys, 0, 4))
	send(t, log, timed{buys, 0, "tick", "", 1_000_000})
	followToEnd(t, log, job)
	assert.Equal(t, len(readTopic(t, log, job.Name+".examples")), 1, "the examples of a row")
}

// Rows find outcomes whose keys have another encoding, in whatever partition. If most outcomes find none, no version is offered, and both
// keys are shown.
func TestKeysOfOutcomes(t *testing.T) {
	long(t)
	as := func(format string) func(int) []byte {
		return func(n int) []byte { return fmt.Appendf(nil, format, 1000+n) }
	}
	text := as("%d")
	long := func(n int) []byte { return []byte{0, 0, 0, 0, 0, 0, byte((1000 + n) >> 8), byte(1000 + n)} }
	for name, test := range map[string]struct {
		row, outcome func(n int) []byte
		late         time.Duration // of outcomes, beside their own time
		alone, come  int64         // outcomes without a row, and those that come too late
	}{
		"JSON":    {text, as(`"%d"`), 0, 0, 0},
		"struct":  {as(`{"of": "a", "id": %d}`), as(`{"id":%d,"of":"a"}`), 0, 0, 0},
		"Avro":    {text, as("\x00\x00\x00\x00\x07\x08%d"), 0, 0, 0},
		"long":    {long, text, 0, 0, 0},
		"spelt":   {text, as("id %d"), 0, 200, 0},
		"mixed":   {text, func(n int) []byte { return fmt.Appendf(nil, []string{"K%d", "%d"}[n/2%2], 1000+n) }, 0, 100, 0},
		"seconds": {text, text, -1000 * time.Hour, 200, 0},
		"late":    {text, text, 0, 0, 65},
		"integer": {as("10%d"), func(n int) []byte { return binary.AppendVarint([]byte{0, 0, 0, 0, 7}, int64(101_000+n)) }, 0, 0, 0},
		"hash":    {text, text, 0, 0, 0}, // of another partitioner
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := viewJob(t, log, "", 2, 2)
			job.Examples.Targets, job.Examples.Outcome.Label, job.Examples.Outcome.Absent = []string{"price"}, "", []string{"0"}
			job.Retrain = topics.DefaultRetrain()
			begin, records := time.Now().Add(-time.Hour), []*kgo.Record(nil)
			for i := range 400 {
				at := begin.Add(time.Duration(i) * time.Second)
				records = append(records, &kgo.Record{Topic: views, Partition: int32(i % 2), Key: test.row(i), Value: fmt.Appendf(nil, `{"x": %d, "n": %d}`, i%2, i), Timestamp: at})
				if i%2 == 1 {
					partition := int32(1)
					if test.alone+test.come == 0 { // another hash of other bytes
						partition = int32(i / 2 % 2)
					}
					records = append(records, &kgo.Record{Topic: buys, Partition: partition, Key: test.outcome(i), Value: []byte(`{"price": 2}`), Timestamp: at.Add(time.Second + test.late)})
				}
			}
			for p := range int32(2) {
				tick := kgo.Record{Topic: buys, Partition: p, Key: []byte("tick"), Timestamp: begin.Add(time.Hour)}
				records = append(records, &tick)
				if test.come > 0 {
					early := tick
					early.Timestamp = begin.Add(200 * time.Second)
					records = slices.Insert(records, 0, &early)
				}
			}
			early := int64(0)
			if test.alone+test.come == 0 && name != "hash" { // a row is decided before outcomes show how their keys are encoded
				early = 1
				send(t, log, view(0, "0", 1, 1000), timed{buys, 0, "tick", "", 100_000}, timed{buys, 1, "tick", "", 100_000})
				followToEnd(t, log, job)
			}
			assert.NoError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
			report, rec := retrainToEnd(t, log, job)
			last := report.Updates[len(report.Updates)-1]
			o := last.Outcomes
			assert.Need(t, o != nil && o.Rows == 400+early && o.Outcomes == 200 && o.Alone == test.alone && o.Late == test.come &&
				o.Absent == 200+early+test.alone+test.come && last.Offered == (2*test.alone <= 200),
				"offered %v with %+v, expected %d outcomes without a row", last.Offered, o, test.alone)
			joined := eventsOf[event.Joined](rec)
			c := joined[len(joined)-1].Counts
			assert.True(t, c.Outcomes == 200 && c.Alone() == test.alone, "ingest has counted %+v", c)
			assert.True(t, test.come == 0 || strings.Contains(schemas.JoinText(c), "65 after their row was decided: messages are out of order by up to 3m18s, and examples.outcome.grace: 4m0s"), "the disorder is not shown: %+v", c)
			said := slices.DeleteFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool { return !strings.Contains(n.Text, "have no row") })
			assert.True(t, len(said) == min(1, int(test.alone)) && (len(said) == 0 || strings.Count(said[0].Text, ", read as ") == 2) &&
				(name != "mixed" || strings.Contains(said[0].Text, `read as "K`)),
				"%d outcomes have no row, and the notices are %q", test.alone, said)
			assert.True(t, last.Offered || strings.Contains(o.Why(), `its key has the bytes 31 33 39 39, read as "1399"`), "keys are not shown: %s", o.Why())
		})
	}
}

// An examples topic keeps its number of partitions if the configuration changes later, and the residuals topic has as many.
func TestTopicKeepsItsPartitions(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	job.Examples.Partitions = 6
	first, _ := train(t, log, job)
	job.Examples.Partitions = 2
	second, _ := train(t, log, job)
	assert.Equal(t, first.WeightsDigest, second.WeightsDigest, "the digest with 6 partitions, and with 2 in the configuration")
	assert.Equal(t, second.Rows, 400, "rows")
}

// Every topic that is created has its clean-up, its retention and the size of its files from the options, also the zero options.
func TestTopicsHaveTheirSettings(t *testing.T) {
	job := newMultiStageJob(t)
	job.Topics = topics.DefaultTopics()
	job.Topics.Replication = 2
	job.Topics.Segment, job.Topics.SegmentTime = 8<<20, 2*time.Minute
	job.Topics.Retention = topics.Retention{
		Examples: 3 * time.Hour, Residuals: 4 * time.Hour, Statistics: 5 * time.Hour, Weights: 6 * time.Hour, Tombstones: 7 * time.Hour,
	}
	want := map[string]string{"examples": "10800000", "residuals": "14400000", "statistics": "18000000", "weights": "21600000",
		"quarantine": "-1"}
	for _, topic := range topics.Topics(job) {
		name := strings.TrimPrefix(topic.Name, job.Name+".")
		assert.True(t, topic.Replication == 2 && topic.Config["segment.bytes"] == "8388608" && topic.Config["segment.ms"] == "120000",
			"%s: %+v", name, topic)
		if topic.Compact {
			assert.Equal(t, topic.Config["min.compaction.lag.ms"], map[bool]string{true: "25200000"}[name == "plans"], "ms of %s", name)
			assert.True(t, topic.Config["delete.retention.ms"] == "25200000" && topic.Config["max.compaction.lag.ms"] == "25200000" &&
				want[name] == "", "%s: %+v", name, topic)
			continue
		}
		assert.True(t, topic.Config["cleanup.policy"] == "delete" && topic.Config["retention.ms"] == want[name] && want[name] != "",
			"%s: %+v, expected retention %s", name, topic, want[name])
	}
	log := openEmbedded(t)
	zero := newMultiStageJob(t)
	assert.NoError(t, log.Create(t.Context(), topics.Topics(zero)...))
	for _, topic := range topics.Topics(zero) {
		configs := assert.Must(log.Configs(t.Context(), topic.Name))(t)
		for key, value := range topic.Config {
			assert.Equal(t, configs[topic.Name][key], value, "%s: %s", topic.Name, key)
		}
	}
}

// A run does not begin if a topic may delete its records while the run needs them.
func TestShortRetention(t *testing.T) {
	for name, topic := range map[string]kafkalog.Topic{
		"statistics": {Partitions: 4, Config: map[string]string{"retention.ms": "60000"}},
		"weights":    {Partitions: 1, Config: map[string]string{"retention.ms": "0"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newMultiStageJob(t)
			topic.Name = job.Name + "." + name
			assert.NoError(t, log.Create(t.Context(), topic))
			assert.Fails(t, trainError(t, log, job), topic.Name+" retains messages for only")
		})
	}
}

// Each message that can't be used goes into quarantine once, with the reason, and the run ignores it. With
// OnBadMessage: stop, the run fails instead.
func TestBadMessages(t *testing.T) {
	long(t)
	data := rings(300, 2, 3, 1)
	whole := exampleMessage(t, data.exampleRows())
	flipped := append([]byte(nil), whole.Value...)
	flipped[40] ^= 0xff
	bad := map[string]kafkalog.Message{
		"text":        {Value: []byte("hello")},
		"nothing":     {Value: []byte{}},
		"cut short":   {Value: whole.Value[:len(whole.Value)/2]},
		"flipped":     {Value: flipped},
		"other width": exampleMessage(t, examples.Rows{Rows: 1, Cols: 3, Floats: []float32{1, 2, 3}, Words: []string{"ring0"}}),
		"not finite":  exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, inf}, Words: []string{"ring0"}}),
		"negative weight": exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, 2}, Words: []string{"ring0"},
			Weights: []float32{-1}}),
		"unknown label":   exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, 2}, Words: []string{"square"}}),
		"missing feature": exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, nan}, Words: []string{"ring0"}}),
		"overflow":        exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, 3e38}, Words: []string{"ring0"}}),
	}
	job := newJob(t, data, table{}, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.Classes, job.Examples.Partitions = nil, []string{"ring0", "ring1", "ring2"}, 2

	log := openEmbedded(t)
	produce(t, log, job, 1, whole)
	for _, m := range bad {
		produce(t, log, job, 1, m)
	}
	produce(t, log, job, 1, whole)
	for range 2 {
		recorder := &eventRecorder{}
		report, _ := trainRecorded(t, log, job, recorder.Record)
		events := len(eventsOf[event.Quarantined](recorder))
		assert.Equal(t, report.Rows, 600, "rows")
		assert.Equal(t, report.Quarantined, int64(len(bad)), "messages reported in quarantine")
		assert.Equal(t, events, len(bad), "events")
		assert.Equal(t, len(readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)), len(bad), "messages on the quarantine topic")
	}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		assert.True(t, header(m, "reason") != "" && header(m, "offset") != "" && header(m, "partition") == "1",
			"headers %v, expected a reason, an offset and partition 1", m.Headers)
	}
	for name, m := range bad {
		t.Run("stop at "+name, func(t *testing.T) {
			stopping, log := job, openEmbedded(t)
			stopping.OnBadMessage = schemas.StopOnBadMessage
			produce(t, log, job, 1, whole, m, whole)
			err := trainError(t, log, stopping)
			assert.Fails(t, err, new(*dispatch.RunError), "test.examples[1]@1")
			text := fmt.Sprint(err)
			assert.True(t, !strings.Contains(text, "square") && (name != "unknown label" || strings.Contains(text, "label …")),
				"got error %v, expected no value of a row", err)
		})
	}
}

// If no message can be used, the error says why the first can't be, where it is and how many there are. Each message is in
// quarantine, unless the run stops at a bad message.
func TestNoUsableMessage(t *testing.T) {
	infinite := exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, inf}})
	infinities := []kafkalog.Message{infinite, {Value: []byte("hello")}, infinite}
	overflowing := []kafkalog.Message{exampleMessage(t, examples.Rows{Rows: 5, Cols: 2, Floats: slices.Repeat([]float32{3e38}, 10)})}
	for _, test := range []struct {
		policy   string
		messages []kafkalog.Message
		kept     int // in quarantine
		want     string
	}{
		{"", infinities, 3, "none of its 3 messages can be used. The first is test.examples[0]@0: row 0, feature 1: +Inf is not a finite number"},
		{schemas.StopOnBadMessage, infinities, 0, "none of its 3 messages can be used. The first is test.examples[0]@0: row 0, feature 1: +Inf"},
		{"", overflowing, 1, "none of its 1 messages can be used. The first is test.examples[0]@0: rows 0, 1, 2 and 2 more are left out: the " +
			"features overflow"},
	} {
		job := newForeignJob(t, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
		job.Examples.Partitions, job.Prepare.PCA, job.Segment = 2, 2, 2
		if test.policy != "" {
			job.OnBadMessage = test.policy
		}
		log := openEmbedded(t)
		writeAll(t, log, job, test.messages)
		produce(t, log, job, 0, exampleMessage(t, examples.Rows{Rows: 0, Cols: 2, Floats: []float32{}}))
		for range 2 {
			assert.Fails(t, trainError(t, log, job), new(*dispatch.RunError), "no examples on test.examples: "+test.want)
			assert.Equal(t, len(readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)), test.kept,
				"on_bad_message %q: messages in quarantine", test.policy)
		}
	}
}

// Valid examples that this program can't train on end the run, and the error says why.
func TestUnsupportedExamples(t *testing.T) {
	job := newJob(t, rings(1, 2, 2, 1), table{}, rffStage(link.Softmax, 5, 1))
	job.Examples.Train = nil
	list := arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)
	pair := arrow.StructOf(arrow.Field{Name: "index", Type: arrow.PrimitiveTypes.Int32}, arrow.Field{Name: "value",
		Type: arrow.PrimitiveTypes.Float32})
	for name, c := range map[string]struct{ row, want string }{
		"several labels": {row: `[{"features":[1,2],"label":["a","b"]}]`, want: "expected one label"},
		"sparse": {row: `[{"features":[{"index":3,"value":1}],"label":"a"},{"features":[],"label":"b"}]`,
			want: "features.kind: rff: the examples are sparse"},
	} {
		t.Run(name, func(t *testing.T) {
			mem := assert.Allocator(t)
			features, label := arrow.DataType(list), arrow.DataType(arrow.ListOf(arrow.BinaryTypes.String))
			if name == "sparse" {
				features, label = arrow.ListOf(pair), arrow.BinaryTypes.String
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: features}, {Name: "label", Type: label, Nullable: true}}, nil)
			record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(c.row))
			assert.NoError(t, err)
			defer record.Release()
			value := assert.Must(examples.Encode(record, mem))(t)
			log := openEmbedded(t)
			produce(t, log, job, 0, kafkalog.Message{Value: value})
			assert.Fails(t, trainError(t, log, job), c.want)
		})
	}
}

// Another producer's topic may have messages that are larger than the quarantine takes. They are cut there, and a header says
// how large they were.
func TestOversizedMessages(t *testing.T) {
	job, good := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, rings(30, 2, 3, 1).exampleRows())
	log := openEmbedded(t)
	const size = 20 << 20
	batch := kafkalog.Topic{Name: protocol.TopicsOf(job.Name).Examples, Partitions: 1,
		Config: map[string]string{"max.message.bytes": strconv.Itoa(2 * size)}}
	assert.NoError(t, log.Create(t.Context(), batch))
	wide := exampleMessage(t, examples.Rows{Rows: 10, Cols: size / 40, Floats: make([]float32, size/4)})
	produce(t, log, job, 0, good, kafkalog.Message{Value: bytes.Repeat([]byte("x"), size)}, good, wide, good)
	report, _ := train(t, log, job)
	messages := readQuarantine(t, log, job)
	assert.Equal(t, report.Quarantined, 2, "messages in quarantine by the report")
	assert.Equal(t, len(messages), 2, "messages on the topic")
	assert.Equal(t, report.Rows, 90, "rows")
	for offset, want := range map[int64]struct {
		bytes  int
		reason string
	}{1: {size, "bytes announced"}, 3: {len(wide.Value), "524288 features, the first message of the run has 2"}} {
		m := messages[offset]
		assert.True(t, header(m, "bytes") == strconv.Itoa(want.bytes) && len(m.Value) == 891_808 &&
			strings.Contains(header(m, "reason"), want.reason), "offset %d: %d of %s bytes, reason %q; expected 891808 of %d, reason %q",
			offset, len(m.Value), header(m, "bytes"), header(m, "reason"), want.bytes, want.reason)
	}
}

// hostileMessages returns the messages, by file name, that package schemas must reject.
func hostileMessages(t *testing.T) map[string]kafkalog.Message {
	t.Helper()
	files, err := filepath.Glob("../schemas/stream/testdata/hostile/*.arrow")
	assert.Need(t, err == nil && len(files) >= 40, "%d files in ../schemas/testdata/hostile, error %v; expected at least 40", len(files), err)
	messages := map[string]kafkalog.Message{}
	for _, file := range files {
		messages[filepath.Base(file)] = kafkalog.Message{Key: []byte(file), Value: assert.Must(os.ReadFile(file))(t)}
	}
	return messages
}

// readQuarantine returns the messages in quarantine by the offset that they had. It checks that each is there once and has a reason.
func readQuarantine(t *testing.T, log *kafkalog.Log, job topics.Job) map[int64]kafkalog.Message {
	t.Helper()
	messages := map[int64]kafkalog.Message{}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		offset, err := strconv.ParseInt(header(m, "offset"), 10, 64)
		_, twice := messages[offset]
		assert.True(t, !twice, "%s is in quarantine twice", m.Key)
		want := fmt.Sprintf("%s/%s/%d", header(m, "topic"), header(m, "partition"), offset)
		assert.True(t, err == nil && header(m, "reason") != "" && string(m.Key) == want,
			"key %s and headers %v, expected key %s and a reason", m.Key, m.Headers, want)
		messages[offset] = m
	}
	return messages
}

// If most of the messages with new rows can't be used, the version says so, with the first reason. Half of them are no alarm.
func TestMostlyBadMessages(t *testing.T) {
	whole := exampleMessage(t, rings(300, 2, 3, 1).exampleRows())
	text := kafkalog.Message{Value: []byte("hello")}
	job := newJob(t, table{}, table{}, rffStage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.Partitions, job.Retrain = nil, 2, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 1000, topics.FullOptions{}
	log := openEmbedded(t)
	for _, test := range []struct {
		first, second []kafkalog.Message // of the partitions
		want          *coverage.BadMessages
	}{
		{[]kafkalog.Message{whole, text}, []kafkalog.Message{text, whole}, nil},
		{[]kafkalog.Message{whole}, []kafkalog.Message{text, text}, &coverage.BadMessages{Messages: 2, Of: 3, Partition: 1, Offset: 2}},
		{[]kafkalog.Message{text}, []kafkalog.Message{text}, &coverage.BadMessages{Messages: 2, Of: 2, Partition: 0, Offset: 3}},
		{[]kafkalog.Message{whole}, nil, nil},
	} {
		produce(t, log, job, 0, test.first...)
		produce(t, log, job, 1, test.second...)
		recorder := &eventRecorder{}
		r := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, recorder.Record))(t)
		assert.Need(t, len(r.Updates) == 1 && len(eventsOf[event.Retrained](recorder)) == 1, "%+v, expected one version", r.Updates)
		got := r.Updates[0].MostlyBad
		if got != nil {
			assert.True(t, strings.Contains(got.Reason, "damaged"), "the reason is %q", got.Reason)
			got.Reason = ""
		}
		assert.True(t, (got == nil) == (test.want == nil) && (got == nil || *got == *test.want), "%+v, expected %+v", got, test.want)
	}
}

// Damaged records on the pipeline's own topics are skipped, whatever their headers claim. The weights are the same as without them.
func TestHostileRecords(t *testing.T) {
	long(t)
	job := newMultiStageJob(t)
	want, _ := train(t, openEmbedded(t), job)
	log := openEmbedded(t)
	p, plan := submitJob(t, log, job, nil, false)
	partitions := assert.Must(log.Partitions(t.Context(), p.Topics.Statistics))(t)
	write := func(topic string, partition int, m wire.Message) {
		t.Helper()
		assert.Must(p.Log.Append(t.Context(), topic, partition, m))(t)
	}
	bad := hostileMessages(t)
	for _, kind := range []wire.Kind{statistics.KindVisit, statistics.KindGram, statistics.KindSample, statistics.KindSeal,
		statistics.KindPrepare, schemas.KindWeights, schemas.KindReport} {
		topic, partitionOf := p.Topics.Statistics, func(p int) int { return p % partitions }
		switch kind {
		case statistics.KindPrepare, schemas.KindWeights:
			topic, partitionOf = p.Topics.Weights, func(int) int { return 0 }
		case schemas.KindReport:
			topic, partitionOf = p.Topics.Plans, func(int) int { return 0 }
		}
		for i, changed := range []wire.Header{
			{}, {Key: "chunks", Value: "10000"}, {Key: "chunks", Value: "9999999999999999999"}, {Key: "chunk", Value: "-1"}, {Key: "stage", Value: "-9223372036854775808"},
			{Key: "visit", Value: "9223372036854775807"}, {Key: "partition", Value: "1e9"}, {Key: "run", Value: strings.Repeat("r", 1000)}, {Key: "digest", Value: strings.Repeat("d", 1000)},
		} {
			for _, m := range bad {
				headers := []wire.Header{
					changed, {Key: "kind", Value: string(kind)}, {Key: "run", Value: plan.Run()}, {Key: "stage", Value: "-1"}, {Key: "visit", Value: "0"},
					{Key: "partition", Value: "0"}, {Key: "parent", Value: string(plan.Digest())}, {Key: "chunk", Value: "0"}, {Key: "chunks", Value: "1"}, {Key: "digest", Value: fmt.Sprint(i)},
				}
				if i > 0 && len(m.Value) > 10_000 {
					continue
				}
				write(topic, partitionOf(i%4), wire.Message{Key: fmt.Sprint(kind, i, string(m.Key)), Headers: headers, Value: m.Value})
			}
		}
	}
	for i, content := range []string{"", "null", "{", `{"segment":1,"spans":[{"to":1152921504606846976}]}`,
		`{"segment":1,"stages":[{"features":{"kind":"rff","size":1000000000}}]}`,
		`{"segment":1,"classes":["a","a"],"stages":[{}]}`, strings.Repeat("[", 100_000), `{"segment":1e999}`} {
		for _, kind := range []wire.Kind{schemas.KindPlan, schemas.KindEnd, schemas.KindSource} {
			if kind == schemas.KindEnd && content == "null" {
				continue // this would be a valid end, of a run without an id
			}
			write(p.Topics.Plans, 0, wire.Message{Key: fmt.Sprint(kind, i), Headers: []wire.Header{{Key: "kind", Value: string(kind)},
				{Key: "run", Value: "another"}}, Value: []byte(content)})
		}
		write(p.Topics.Weights, 0, wire.Message{Key: fmt.Sprint("manifest", i), Headers: []wire.Header{{Key: "kind", Value: "manifest"},
			{Key: "run", Value: fmt.Sprint(i)}}, Value: []byte(`{"plan":` + content + `}`)})
	}
	recorder := &eventRecorder{}
	report, _ := trainRecorded(t, log, job, recorder.Record)
	assert.Equal(t, report.WeightsDigest, want.WeightsDigest, "the digest with damaged records, and without")
	topicNames := map[string]bool{}
	for _, n := range eventsOf[event.Noticed](recorder) {
		for _, topic := range []string{"statistics", "weights", "plans"} {
			if strings.HasPrefix(n.Text, "skipping a message of the "+topic+" topic: ") {
				topicNames[topic] = true
			}
		}
	}
	assert.Equal(t, len(topicNames), 3, "topics that notices name")
	assert.Equal(t, len(assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)), 1, "versions")
}

// kindStage returns a stage of a kind of features.
func kindStage(kind string, l schemas.Link) schemas.Stage {
	s := rffStage(l, 24, 3)
	s.Features, s.GramRows = stages.DefaultsOf(kind), solve.GramAll
	if kind != stages.Columns && kind != stages.ClassCounts {
		s.Features.Size = 24
	}
	return s
}

// treesStage returns a stage of four trees, grown on fewer rows than there are.
func treesStage(l schemas.Link, passes int) schemas.Stage {
	s := kindStage(stages.Trees, l)
	s.Features.Size, s.Features.Leaves, s.Features.Sample, s.Passes, s.Rate = 16, 4, 24, passes, 0.5
	if solve.WholeSteps(l) {
		s.Rate = 0
	}
	return s
}

// overflowMessages returns tables of 40 rows as messages, of which row 7 of message bad is changed.
func overflowMessages(t *testing.T, n, bad int, sparse bool, change func(rows *examples.Rows)) (messages []kafkalog.Message) {
	for i := range n {
		rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
		if i == bad {
			change(&rows)
		}
		if sparse {
			rows.Sparse = &examples.SparseRows{}
			for at, v := range rows.Floats {
				if rows.Sparse.Append(int32(at%4), v); at%4 == 3 {
					rows.Sparse.End()
				}
			}
			rows.Floats, rows.Cols = nil, 0
		}
		messages = append(messages, exampleMessage(t, rows))
	}
	return messages
}

// setTo returns what makes all features of row 7 that large, and gives it a label unless that is empty.
func setTo(v float32, label string) func(*examples.Rows) {
	return func(rows *examples.Rows) {
		for j := range 4 {
			rows.Floats[7*4+j] = v
		}
		if label != "" {
			rows.Words[7] = label
		}
	}
}

// weightless makes row 7 one that no run learns from.
func weightless(rows *examples.Rows) {
	setTo(0, "")(rows)
	rows.Weights = slices.Repeat([]float32{1}, rows.Rows)
	rows.Weights[7] = 0
}

// writeAll writes messages to the partitions of a job without files.
func writeAll(t *testing.T, log *kafkalog.Log, job topics.Job, messages []kafkalog.Message) {
	for i, m := range messages {
		produce(t, log, job, i%job.Examples.Partitions, m)
	}
}

// A row that overflows costs a run nothing but itself: the run ends, with the weights of a log in which the row has no
// weight. The row's message is in quarantine once, with the row and the reason, and the report counts the row.
func TestRowThatOverflowsCostsItself(t *testing.T) {
	long(t)
	type test struct {
		kind   string
		link   schemas.Link
		sparse bool
		bad    int    // the message
		label  string // the only row with it; "": that of another
		change func(*topics.Job)
	}
	unchanged := func(*topics.Job) {}
	tests := map[string]test{}
	for _, kind := range []string{stages.RFF, stages.Columns, stages.Polynomial, stages.Logits, stages.SORF} {
		for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
			tests[fmt.Sprintf("%s %s", kind, l)] = test{kind, l, false, 3, "", unchanged}
		}
	}
	for _, kind := range []string{stages.Columns, stages.Gradient} {
		tests["sparse "+kind] = test{kind, link.Softmax, true, 3, "", unchanged}
	}
	tests["standard"] = test{stages.Columns, link.Softmax, false, 3, "", func(j *topics.Job) { j.Prepare.Scale = stages.ScaleStandard }}
	tests["components"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Prepare.PCA = 3 }}
	tests["standard components"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) {
		j.Prepare.PCA, j.Prepare.Scale = 3,
			stages.ScaleStandard
	}}
	tests["any arithmetic"] = test{stages.Polynomial, link.Softmax, false, 3, "", func(j *topics.Job) { j.Arithmetic = topics.ArithmeticAny }}
	tests["little memory"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Memory = 1 }}
	tests["holdout"] = test{stages.RFF, link.Softmax, false, 3, "", func(j *topics.Job) { j.Examples.Holdout = 0.3 }}
	tests["the first message"] = test{stages.Columns, link.Softmax, false, 0, "", unchanged} // from which the point of the moments is taken
	tests["a label of its own"] = test{stages.RFF, link.Softmax, false, 3, "rare", unchanged}
	tests["a label of its own in the first message"] = test{stages.RFF, link.Softmax, false, 0, "rare", unchanged}
	for name, c := range tests {
		t.Run(name, func(t *testing.T) {
			job := newForeignJob(t, kindStage(c.kind, c.link), kindStage(c.kind, c.link))
			c.change(&job)
			digest := func(messages []kafkalog.Message, want int64) wire.Digest {
				log, recorder := openEmbedded(t), &eventRecorder{}
				writeAll(t, log, job, messages)
				for range 2 { // the second run finds the row in quarantine
					report, m := trainRecorded(t, log, job, recorder.Record)
					got := report.PassedOver[coverage.Overflowing]
					assert.True(t, got == want && report.Quarantined == want, "%d overflow, %d in quarantine; expected %d", got, report.Quarantined, want)
					rows := report.Splits["train"].Rows + report.Splits["holdout"].Rows
					assert.True(t, rows == 240-want && report.Classes == 3, "%d rows of %d classes, expected %d of 3", rows, report.Classes, 240-want)
					if quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine); want > 0 {
						assert.Need(t, len(quarantined) == 1, "in quarantine: %v", quarantined)
						assert.Equal(t, header(quarantined[0], "partition")+"@"+header(quarantined[0], "offset"), fmt.Sprintf("0@%d", c.bad), "where it was")
						assert.True(t, strings.Contains(header(quarantined[0], "reason"), "row 7 is left out: the features overflow"), "%v", quarantined)
					}
					p := probabilities(t, m, table{rows: [][]float32{{3e38, -3e38, 3e38, 3e38}, {1e19, 0, 0, 0}}})
					assert.True(t, !slices.ContainsFunc(p.Data, func(v float32) bool { return v-v != 0 }),
						"rows that overflow are predicted as %v", p.Data)
				}
				versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
				assert.Need(t, err == nil && len(versions) == 2 && versions[0].WeightsDigest == versions[1].WeightsDigest,
					"versions %v, %v: expected two with the same digest", versions, err)
				return versions[0].WeightsDigest
			}
			want := digest(overflowMessages(t, 6, c.bad, c.sparse, weightless), 0)
			assert.Equal(t, digest(overflowMessages(t, 6, c.bad, c.sparse, setTo(3e38, c.label)), 1), want, "the digest with the row, and without")
		})
	}
}

// A run ends, and predicts no NaN, whatever size the features of one row have.
func TestRowOfAnySize(t *testing.T) {
	long(t)
	for _, kind := range []string{stages.RFF, stages.Columns, stages.Polynomial} {
		for _, scale := range []string{stages.ScaleNone, stages.ScaleStandard} {
			for _, l := range []schemas.Link{link.Softmax, link.Calibrated} {
				t.Run(fmt.Sprint(kind, " ", scale, " ", l), func(t *testing.T) {
					job := newForeignJob(t, kindStage(kind, l), kindStage(kind, l))
					job.Stages[0].Features.Degree, job.Stages[1].Features.Degree = 8, 3
					job.Prepare.Scale, job.Examples.Holdout = scale, 0.2
					job.Retrain = topics.DefaultRetrain()
					job.Retrain.Rows = 80
					for _, size := range []float32{1e5, 1e16, 1e30} {
						for _, bad := range []int{1, 4} { // before the chain's first version, and behind it
							log := openEmbedded(t)
							writeAll(t, log, job, overflowMessages(t, 6, bad, false, setTo(size, "")))
							_, m := train(t, log, job)
							p := probabilities(t, m, rings(20, 4, 3, 99)).Data
							assert.True(t, !slices.ContainsFunc(p, func(v float32) bool { return v-v != 0 }), "a row of %g in message %d: %v", size, bad, p)
							if bad == 1 || l == link.Calibrated {
								continue // whose chains make full runs alone
							}
							job := job
							job.Name = "chain"
							writeAll(t, log, job, overflowMessages(t, 6, bad, false, setTo(size, "")))
							report, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
							assert.True(t, err == nil && len(report.Updates) >= 3, "a row of %g: error %v", size, err)
						}
					}
				})
			}
		}
	}
}

// Features of a stage may overflow where the row's do not. A full run leaves them out of the stage, whatever its memory, and the report of
// the stage counts the row. The survey of an update finds the row, and puts its message into quarantine.
func TestFeaturesOfAStageOverflow(t *testing.T) {
	stage := kindStage(stages.Polynomial, link.Softmax)
	stage.Features.Degree = 4
	job := newStreamJob(t, 80, kindStage(stages.RFF, link.Softmax), stage)
	large := func(rows *examples.Rows) { rows.Floats[7*4] = 1e5 }
	var digests []wire.Digest
	for _, memory := range []int64{1 << 30, 1} {
		job, log := job, openEmbedded(t)
		job.Memory = memory
		writeAll(t, log, job, overflowMessages(t, 6, 3, false, large))
		report, _ := train(t, log, job)
		assert.True(t, report.Stages[0].Overflow == 0 && report.Stages[1].Overflow == 1 && len(report.PassedOver) == 0 && report.Rows == 240,
			"stages %+v, %d rows, %v passed over; expected that a row overflows in stage 1", report.Stages, report.Rows, report.PassedOver)
		digests = append(digests, report.WeightsDigest)
	}
	assert.Equal(t, digests[0], digests[1], "digests by memory")
	log := openEmbedded(t)
	writeAll(t, log, job, overflowMessages(t, 6, 3, false, large))
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
	assert.Need(t, err == nil && len(report.Updates) == 3 && report.Updates[1].Overflow == 1, "report %+v, error %v", report, err)
	quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)
	assert.True(t, len(quarantined) == 1 &&
		header(quarantined[0], "reason") == "row 7 is left out: the inputs, blocks or scores of the version before overflow",
		"in quarantine: %v", quarantined)
}

// A feature that is too large for float32 costs a message its row alone, as one that is too large to be summed does.
func TestFloat64ThatOverflows(t *testing.T) {
	job := newForeignJob(t, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
	schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: arrow.FixedSizeListOf(4, arrow.PrimitiveTypes.Float64)},
		{Name: "label", Type: arrow.BinaryTypes.String}}, nil)
	var rows []string
	data := rings(40, 4, 3, 1)
	for i, x := range data.rows {
		first := fmt.Sprint(x[0])
		if i == 7 {
			first = "-1e300"
		}
		rows = append(rows, fmt.Sprintf(`{"features": [%s, %v, %v, %v], "label": %q}`, first, x[1], x[2], x[3], data.labels[i]))
	}
	mem := assert.Allocator(t)
	record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader("["+strings.Join(rows, ",")+"]"))
	assert.NoError(t, err)
	defer record.Release()
	value := assert.Must(examples.Encode(record, mem))(t)
	for _, scale := range []string{stages.ScaleNone, stages.ScaleStandard, stages.ScaleUnit} {
		log := openEmbedded(t)
		job.Prepare.Scale = scale
		produce(t, log, job, 0, kafkalog.Message{Value: value})
		report, _ := train(t, log, job)
		assert.True(t, report.Rows == 39 && report.PassedOver[coverage.Overflowing] == 1 && report.Quarantined == 1, "%s: %+v", scale, report)
	}
}

// A number to predict that overflows, standardised as the chain's first version has it, costs an update its row alone.
func TestTargetThatOverflows(t *testing.T) {
	for _, target := range []float64{3e38, -1e20} {
		job := newStreamJob(t, 80, kindStage(stages.RFF, link.Identity))
		job.Examples.Targets, job.Examples.Holdout = []string{"y", "z"}, 0.25
		job.Retrain.Gate = topics.GateOptions{Split: examples.Holdout.String(), Margin: 1}
		log := openEmbedded(t)
		for i := range 6 {
			rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
			rows.Words = nil
			for row := range rows.Rows {
				rows.Targets = append(rows.Targets, 1e-3*float64(rows.Floats[4*row]), 1e-3*float64(rows.Floats[4*row+1]))
			}
			if i == 3 {
				rows.Targets[2*7] = target
			}
			produce(t, log, job, 0, exampleMessage(t, rows))
		}
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
		assert.Need(t, err == nil && len(report.Updates) == 3 && report.Updates[1].Overflow == 1, "report %+v, error %v", report, err)
		for i, u := range report.Updates[1:] { // each row is learnt or judged
			assert.True(t, u.Gate != nil && float64(u.Rows)+u.Gate.Weight-u.Gate.Revisited == float64(79+i), "%+v learns %d rows", u.Gate, u.Rows)
		}
		quarantined := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine)
		assert.True(t, len(quarantined) == 1 && header(quarantined[0], "reason") == "row 7 is left out: the standardized targets overflow",
			"in quarantine: %v", quarantined)
		rmse := report.Updates[2].PrequentialRMSE
		assert.True(t, rmse != nil && *rmse < 1e-3, "the error of the rows behind it is %v", rmse)
	}
}

// However many runs there were, a run reads as much of the topics before it begins as the tenth did, and makes the next version; the
// latest versions stay, and all of them can be read.
func TestManyRuns(t *testing.T) {
	long(t)
	const runs, keep = 60, 3
	job, message := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, rings(20, 2, 2, 1).exampleRows())
	job.Keep = keep
	log := openAlone(t) // no other process needs the past
	produce(t, log, job, 0, message)
	p := topics.Open(log, job.Name, assert.Allocator(t))
	read := func() (n int) { // the offsets that a process reads after a run
		client, calls := *p.Client, 0
		client.Log = countingLog{client.Log, &calls, &n}
		assert.Must(client.ReadLedger(t.Context()))(t)
		return n
	}
	most := 0
	for i := range runs {
		report, m := train(t, log, job)
		assert.Need(t, report.Version == i+1 && m.Manifest.Version == i+1,
			"run %d made version %d, its model is of version %d", i+1, report.Version, m.Manifest.Version)
		most = max(most, read())
	}
	limit := 2 * 64
	assert.True(t, most <= limit, "%d offsets are read after a run, expected at most %d after any number of runs", most, limit)
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	assert.Need(t, err == nil && len(versions) == keep, "%d versions, %v; expected %d", len(versions), err, keep)
	for i, v := range versions {
		assert.Equal(t, v.Version, runs-keep+1+i, "a version that stays")
		assert.Must(topics.Open(log, job.Name, nil).Model(t.Context(), v.Run))(t)
	}
	n := len(live(t, log, p.Topics.Versions))
	assert.True(t, n%keep == 0 && n/keep <= 4, "%d messages of the versions topic stay, expected those of %d versions", n, keep)
	n = len(live(t, log, p.Topics.Plans))
	assert.True(t, n <= 3*64+2, "%d messages of the plans topic stay, expected a plan, an end and a removal of 64 runs", n)
	job.Warm = "1"
	assert.Fails(t, trainError(t, log, job), new(*protocol.NoVersionError))
}

// countingLog counts the calls of a log, and the offsets that are read.
type countingLog struct {
	protocol.Log
	calls, read *int
}

func (l countingLog) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	*l.calls++
	return l.Log.Bounds(ctx, topic, partition)
}

func (l countingLog) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	*l.calls++
	return l.Log.Spans(ctx, topic)
}

func (l countingLog) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	*l.calls++
	*l.read += int(to - from)
	return l.Log.Range(ctx, topic, partition, from, to)
}

// A manifest and a report longer than a message make a version all the same.
func TestLongLabels(t *testing.T) {
	data := table{}
	for i := range 940 {
		data.rows = append(data.rows, []float32{float32(i), float32(i * i % 7)})
		data.labels = append(data.labels, fmt.Sprintf("%03d%s", i, strings.Repeat("x", 997)))
	}
	log, job := openEmbedded(t), newJob(t, data, table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Label = "0"
	report, m := train(t, log, job)
	assert.True(t, report.Classes == 940 && len(m.Labels()) == 940 && report.Version == 1,
		"version %d of %d classes, its model has %d", report.Version, report.Classes, len(m.Labels()))
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	assert.True(t, err == nil && len(versions) == 1 && versions[0].Labels[939] == data.labels[939], "%d versions, %v", len(versions), err)
}

// A run over many sources on many partitions is planned with few requests, and trains on all of them.
func TestManySources(t *testing.T) {
	long(t)
	const sources, partitions = 5000, 100
	data := table{rows: [][]float32{{0, 1}, {1, 0}}, labels: []string{"a", "b"}}
	job, message := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, data.exampleRows())
	job.Examples.Partitions = partitions
	log := openEmbedded(t)
	p := topics.Open(log, job.Name, assert.Allocator(t))
	assert.NoError(t, topics.Create(t.Context(), p, &job))
	var seals []wire.Message
	written := make([][]wire.Message, partitions)
	for i := range sources {
		// Of each source the last message is there; the others, which would be in other partitions, are gone.
		seal := schemas.SourceSeal{ID: fmt.Sprintf("%064d", i), Attempt: "1", Split: "train", Partitions: partitions,
			Messages: int64(i%partitions) + 1, Rows: 2}
		seal.Spans = coverage.Spans{{Partition: i % partitions, From: int64(len(written[i%partitions])),
			To: int64(len(written[i%partitions])) + 1}}
		seals = append(seals, seal.Message())
		written[i%partitions] = append(written[i%partitions], wire.Message{Value: message.Value, Headers: []wire.Header{
			{Key: "stagewise-source", Value: seal.Name()}, {Key: "stagewise-sequence", Value: fmt.Sprint(i % partitions)}}})
	}
	for n, messages := range written {
		assert.Must(p.Log.Append(t.Context(), p.Topics.Examples, n, messages...))(t)
	}
	assert.Must(p.Log.Append(t.Context(), p.Topics.Plans, 0, seals...))(t)
	l := readLedger(t, p)
	calls, offsets := 0, 0
	client := *p.Client
	client.Log = countingLog{client.Log, &calls, &offsets}
	counted := &topics.Pipeline{Client: &client, Admin: p.Admin}
	plan := assert.Must(dispatch.Plan(t.Context(), counted, job, dispatch.Arithmetic(openBLAS(t)), nil, l, topics.ExamplesRetention{}))(t)
	assert.True(t, len(plan.Sources) == sources && len(plan.Spans) == partitions && calls <= 8,
		"%d sources, %d spans, %d calls of the log; expected %d, %d and at most 8", len(plan.Sources), len(plan.Spans), calls, sources,
		partitions)
	messages, err := plan.Messages()
	assert.True(t, err == nil && len(messages) >= 2, "the plan has %d messages, %v; expected several", len(messages), err)
	report, _ := train(t, log, job)
	assert.Equal(t, report.Rows, 2*sources, "rows")
}

// What retention may delete before a run has ended is left out, and the report says so.
func TestExpiringExamples(t *testing.T) {
	hour := int64(3600)
	bounds := []coverage.Span{{Partition: 0, From: 0, To: 100}, {Partition: 1, From: 40, To: 100}, {Partition: 2, From: 7, To: 7}}
	for name, test := range map[string]struct {
		config map[string]string
		before func(age time.Duration) []int64
		want   []int64
	}{
		"for ever":  {map[string]string{"cleanup.policy": "delete", "retention.ms": "-1", "retention.bytes": "-1"}, nil, []int64{0, 40, 7}},
		"compacted": {map[string]string{"cleanup.policy": "compact", "retention.ms": "1", "retention.bytes": "1"}, nil, []int64{0, 40, 7}},
		"an hour": {
			map[string]string{"cleanup.policy": "delete", "retention.ms": fmt.Sprint(hour * 1000)},
			func(age time.Duration) []int64 { // a message a minute in partition 0
				assert.Equal(t, age, 45*time.Minute, "the age that is asked for, three quarters of the retention")
				return []int64{55, 30, 7}
			}, []int64{55, 40, 7},
		},
		"all is old": {
			map[string]string{"cleanup.policy": "delete", "retention.ms": "60000"},
			func(time.Duration) []int64 { return []int64{100, 100, 7} }, []int64{100, 100, 7},
		},
		// Of 60 messages, 10 came in the last hour, and a segment is a tenth of the partition.
		"bytes": {
			map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "-1", "retention.bytes": "1000", "segment.bytes": "100"},
			func(time.Duration) []int64 { return []int64{90, 90, 7} }, []int64{0, 40 + 10 + 6, 7},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := &topics.Pipeline{Client: &protocol.Client{Log: agedLog{before: test.before}}}
			got := assert.Must(topics.Staying(t.Context(), p, topics.RetentionOf(test.config), bounds))(t)
			var from []int64
			for _, span := range got {
				from = append(from, span.From)
			}
			assert.Equal(t, from, test.want, "where the spans begin")
		})
	}
}

// agedLog is a log that only knows how old its messages are.
type agedLog struct {
	protocol.Log
	before func(age time.Duration) []int64
}

func (l agedLog) Before(_ context.Context, _ string, age time.Duration) ([]int64, error) {
	return l.before(age), nil
}

// Partitions belong to who can work on them: a process that ingests is no member of the group of workers, and one that trains is.
func TestIngestIsNoMember(t *testing.T) {
	job := newJob(t, rings(3000, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.BatchRows = 8
	log := openEmbedded(t)
	client := clientOf(t, log)
	members := func() int {
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{protocol.TopicsOf(job.Name).Group(protocol.RoleWork)}
		return len(assert.Must(request.RequestWith(t.Context(), client))(t).Groups[0].Members)
	}
	ingesting, training, asked := 0, 0, 0
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e.(type) {
		case event.Ingested:
			asked++
			ingesting = max(ingesting, members())
		case event.Passed:
			training = max(training, members())
		}
	}}
	trainRecorded(t, connect(t, log), job, recorder.Record)
	assert.True(t, asked >= 100 && ingesting == 0 && training == 1,
		"asked %d times, the group of workers has %d members during ingest and %d during the run; expected 0 and 1", asked, ingesting, training)
}
