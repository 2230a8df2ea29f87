package pipeline

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
		report, _ := trainRecorded(t, log, job, recorder)
		if events := len(eventsOf[event.Quarantined](recorder)); report.Rows != 600 || report.Quarantined != int64(len(bad)) ||
			events != len(bad) {
			t.Errorf("%d rows, %d messages reported in quarantine, %d events; expected 600, %d, %d", report.Rows, report.Quarantined, events,
				len(bad), len(bad))
		}
		if messages := readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine); len(messages) != len(bad) {
			t.Errorf("%d messages on the quarantine topic, expected %d", len(messages), len(bad))
		}
	}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		if header(m, "reason") == "" || header(m, "offset") == "" || header(m, "partition") != "1" {
			t.Errorf("headers %v, expected a reason, an offset and partition 1", m.Headers)
		}
	}
	for name, m := range bad {
		t.Run("stop at "+name, func(t *testing.T) {
			stopping, log := job, openEmbedded(t)
			stopping.OnBadMessage = schemas.StopOnBadMessage
			produce(t, log, job, 1, whole, m, whole)
			if err := trainError(t, log, stopping); !errors.As(err, new(*dispatch.RunError)) || !strings.Contains(err.Error(),
				"test.examples[1]@1") {
				t.Errorf("got error %v, expected a *RunError that names test.examples[1]@1", err)
			} else if strings.Contains(err.Error(), "square") || name == "unknown label" && !strings.Contains(err.Error(), "label …") {
				t.Errorf("got error %v, expected no value of a row", err)
			}
		})
	}
}

// If no message can be used, the error says why the first can't be, where it is and how many there are. Each message is in
// quarantine, unless the run stops at a bad message.
func TestNoUsableMessage(t *testing.T) {
	want := "no examples on test.examples: none of its 3 messages can be used. The first is test.examples[0]@0: row 0, feature " +
		"1: +Inf is not a finite number"
	for _, policy := range []string{"", schemas.StopOnBadMessage} {
		job, _ := newForeignJob(t, rings(30, 2, 3, 1))
		job.Examples.Partitions, job.Prepare.PCA, job.Segment = 2, 2, 2
		if policy != "" {
			job.OnBadMessage = policy
		}
		log := openEmbedded(t)
		infinite := exampleMessage(t, examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, inf}})
		produce(t, log, job, 0, infinite, exampleMessage(t, examples.Rows{Rows: 0, Cols: 2, Floats: []float32{}}))
		produce(t, log, job, 1, kafkalog.Message{Value: []byte("hello")}, infinite)
		for range 2 {
			if err := trainError(t, log, job); !errors.As(err, new(*dispatch.RunError)) || !strings.Contains(err.Error(), want) {
				t.Errorf("got error %v, expected a *RunError with %q", err, want)
			}
			kept := len(readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine))
			if policy == "" && kept != 3 || policy != "" && kept != 0 {
				t.Errorf("on_bad_message %q: %d messages in quarantine", policy, kept)
			}
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
			mem := arrowtest.Allocator(t)
			features, label := arrow.DataType(list), arrow.DataType(arrow.ListOf(arrow.BinaryTypes.String))
			if name == "sparse" {
				features, label = arrow.ListOf(pair), arrow.BinaryTypes.String
			}
			schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: features}, {Name: "label", Type: label, Nullable: true}}, nil)
			record, _, err := array.RecordFromJSON(mem, schema, strings.NewReader(c.row))
			noError(t, err)
			defer record.Release()
			value := must(examples.Encode(record, mem))(t)
			log := openEmbedded(t)
			produce(t, log, job, 0, kafkalog.Message{Value: value})
			if err := trainError(t, log, job); !strings.Contains(err.Error(), c.want) {
				t.Errorf("got error %v, expected %q", err, c.want)
			}
		})
	}
}

// A message without rows is valid, even if it is the first.
func TestMessageWithoutRows(t *testing.T) {
	job, good := newForeignJob(t, rings(300, 2, 3, 1))
	log := openEmbedded(t)
	produce(t, log, job, 0, exampleMessage(t, examples.Rows{Rows: 0, Cols: 2, Floats: []float32{}, Words: []string{}}), good)
	if report, _ := train(t, log, job); report.Rows != 300 || report.Quarantined != 0 {
		t.Errorf("%d rows, %d messages in quarantine; expected 300 and 0", report.Rows, report.Quarantined)
	}
}

// Another producer's topic may have messages that are larger than the quarantine takes. They are cut there, and a header says
// how large they were.
func TestOversizedMessages(t *testing.T) {
	job, good := newForeignJob(t, rings(30, 2, 3, 1))
	log := openEmbedded(t)
	const size = 20 << 20
	batch := kafkalog.Topic{Name: protocol.TopicsOf(job.Name).Examples, Partitions: 1,
		Config: map[string]string{"max.message.bytes": strconv.Itoa(2 * size)}}
	noError(t, log.Create(t.Context(), batch))
	wide := exampleMessage(t, examples.Rows{Rows: 10, Cols: size / 40, Floats: make([]float32, size/4)})
	produce(t, log, job, 0, good, kafkalog.Message{Value: bytes.Repeat([]byte("x"), size)}, good, wide, good)
	report, _ := train(t, log, job)
	messages := readQuarantine(t, log, job)
	if report.Quarantined != 2 || len(messages) != 2 || report.Rows != 90 {
		t.Errorf("%d rows, %d messages in quarantine by the report, %d on the topic; expected 90, 2, 2", report.Rows, report.Quarantined,
			len(messages))
	}
	for offset, want := range map[int64]struct {
		bytes  int
		reason string
	}{1: {size, "bytes announced"}, 3: {len(wide.Value), "524288 features, the first message of the run has 2"}} {
		m := messages[offset]
		if header(m, "bytes") != strconv.Itoa(want.bytes) || len(m.Value) != 891_808 || !strings.Contains(header(m, "reason"), want.reason) {
			t.Errorf("offset %d: %d of %s bytes, reason %q; expected 891808 of %d bytes, reason %q", offset, len(m.Value),
				header(m, "bytes"), header(m, "reason"), want.bytes, want.reason)
		}
	}
}

// hostileMessages returns the messages, by file name, that package schemas must reject.
func hostileMessages(t *testing.T) map[string]kafkalog.Message {
	t.Helper()
	files, err := filepath.Glob("../schemas/stream/testdata/hostile/*.arrow")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files in ../schemas/testdata/hostile, error %v; expected at least 40", len(files), err)
	}
	messages := map[string]kafkalog.Message{}
	for _, file := range files {
		value := must(os.ReadFile(file))(t)
		messages[filepath.Base(file)] = kafkalog.Message{Key: []byte(file), Value: value}
	}
	return messages
}

// readQuarantine returns the messages in quarantine by the offset that they had. It checks that each is there once and has a
// reason.
func readQuarantine(t *testing.T, log *kafkalog.Log, job topics.Job) map[int64]kafkalog.Message {
	t.Helper()
	messages := map[int64]kafkalog.Message{}
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Quarantine) {
		offset, err := strconv.ParseInt(header(m, "offset"), 10, 64)
		if _, twice := messages[offset]; twice {
			t.Errorf("%s is in quarantine twice", m.Key)
		}
		if want := fmt.Sprintf("%s/%s/%d", header(m, "topic"), header(m, "partition"), offset); err != nil || header(m, "reason") == "" ||
			string(m.Key) != want {
			t.Errorf("key %s and headers %v, expected key %s and a reason", m.Key, m.Headers, want)
		}
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
		r := must(Retrain(t.Context(), log, openBLAS(t), job, true, recorder))(t)
		if len(r.Updates) != 1 || len(eventsOf[event.Retrained](recorder)) != 1 {
			t.Fatalf("%+v, expected one version", r.Updates)
		}
		got := r.Updates[0].MostlyBad
		if got != nil {
			if !strings.Contains(got.Reason, "damaged") {
				t.Errorf("the reason is %q", got.Reason)
			}
			got.Reason = ""
		}
		if (got == nil) != (test.want == nil) || got != nil && *got != *test.want {
			t.Errorf("%+v, expected %+v", got, test.want)
		}
	}
}
