package pipeline

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// hostile returns the messages that schemas must refuse, by name.
func hostile(t *testing.T) map[string]kafkalog.Message {
	t.Helper()
	files, err := filepath.Glob("../schemas/stream/testdata/hostile/*.arrow")
	if err != nil || len(files) < 40 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	messages := map[string]kafkalog.Message{}
	for _, file := range files {
		value, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		messages[filepath.Base(file)] = kafkalog.Message{Key: []byte(file), Value: value}
	}
	return messages
}

// quarantined are the messages in quarantine by offset, each once and with a reason.
func quarantined(t *testing.T, log *kafkalog.Log, job Job) map[int64]kafkalog.Message {
	t.Helper()
	messages := map[int64]kafkalog.Message{}
	for _, m := range read(t, log, run.TopicsOf(job.Name).Quarantine) {
		offset, err := strconv.ParseInt(header(m, "offset"), 10, 64)
		if _, twice := messages[offset]; err != nil || twice || header(m, "reason") == "" ||
			string(m.Key) != fmt.Sprintf("%s/%s/%d", header(m, "topic"), header(m, "partition"), offset) {
			t.Errorf("key %s, headers %v, again: %v", m.Key, m.Headers, twice)
		}
		messages[offset] = m
	}
	return messages
}

// Hostile messages between good ones are put into quarantine as they are, each
// once, and the run is the one that it is if something else that is no message
// stands in their places: whatever is kept in memory.
func TestHostileMessages(t *testing.T) {
	job, good := foreign(t, rings(30, 2, 3, 1))
	log, other := openEmbedded(t), openEmbedded(t)
	var all []kafkalog.Message
	bad := hostile(t)
	for _, m := range bad {
		all = append(all, good, m)
		accept(t, other, job, 0, good, kafkalog.Message{Value: []byte("x")})
	}
	accept(t, log, job, 0, all...)
	want, _ := train(t, other, job)
	for _, memory := range []int64{1 << 30, 1} {
		job.Memory = memory
		recorder := &events{}
		report, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
		if err != nil {
			t.Fatal(err)
		}
		if report.WeightsDigest != want.WeightsDigest || report.Rows != int64(30*len(bad)) {
			t.Errorf("digest %s of %d rows, expected %s", report.WeightsDigest, report.Rows, want.WeightsDigest)
		}
		there := quarantined(t, log, job)
		if n := len(bad); report.Quarantined != int64(n) || want.Quarantined != int64(n) || len(of[event.Quarantined](recorder)) != n || len(there) != n {
			t.Errorf("%d reported, %d told, %d there, expected %d", report.Quarantined, len(of[event.Quarantined](recorder)), len(there), n)
		}
		for offset, m := range there {
			if from := all[offset]; !bytes.Equal(m.Value, from.Value) || header(m, "key") != string(from.Key) || header(m, "bytes") != strconv.Itoa(len(from.Value)) {
				t.Errorf("offset %d: %d bytes of key %s", offset, len(m.Value), header(m, "key"))
			}
		}
	}
}

// What is in quarantine is counted, and there once, however often the survey is
// interrupted and made again.
func TestQuarantineAfterAnInterruption(t *testing.T) {
	job, good := foreign(t, rings(30, 2, 3, 1))
	log := openEmbedded(t)
	bad := hostile(t)
	for _, m := range bad {
		accept(t, log, job, 0, good, m)
	}
	for n := 1; n < len(bad); n += 13 {
		told := 0
		until(t, log, job, func(e event.Event) bool {
			if _, ok := e.(event.Quarantined); ok {
				told++
			}
			return told == n
		})
	}
	until(t, log, job, func(e event.Event) bool { _, ok := e.(event.Surveyed); return ok })
	report, _ := train(t, log, job)
	if there := quarantined(t, log, job); report.Quarantined != int64(len(bad)) || len(there) != len(bad) {
		t.Errorf("%d reported, %d there, expected %d", report.Quarantined, len(there), len(bad))
	}
}

// A worker that has waited in vain makes its survey again: of what the log has,
// not of what it has kept.
func TestSurveyMadeAgain(t *testing.T) {
	for name, of := range map[string]func(*testing.T, *kafkalog.Log) Job{
		"ingested": func(t *testing.T, _ *kafkalog.Log) Job {
			return jobOn(t, rings(300, 2, 2, 1), table{}, stage(link.Softmax, 20, 3))
		},
		"foreign": func(t *testing.T, log *kafkalog.Log) Job {
			job, good := foreign(t, rings(300, 2, 2, 1))
			accept(t, log, job, 0, good, kafkalog.Message{Value: []byte("x")}, kafkalog.Message{Value: []byte("x")}, kafkalog.Message{Value: []byte("x")}, good)
			return job
		},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := of(t, log)
			d, plan := submitted(t, log, job, event.Ignore{})
			all := run.NewAlone(job.Examples.Partitions)
			// the worker loses all of its partitions after each survey, and gets them back
			owner, surveys := newSimMember(), 0
			owner.assign(all...)
			ctx, cancel := cancelled(t)
			defer cancel()
			recorder := &events{on: func(e event.Event) {
				switch e := e.(type) {
				case event.Visited:
					if surveys++; surveys == 3 {
						cancel()
					}
					owner.assign()
				case event.Owned:
					if len(e.Partitions) == 0 {
						owner.assign(all...)
					}
				}
			}}
			w := worker.New(d.Client, openBLAS(t), plan, 0, owner, worker.Options{Bytes: 1 << 30}, recorder)
			if err := w.Work(ctx); !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
			digests := map[string]string{}
			for _, m := range read(t, log, d.Topics.Statistics) {
				key := string(m.Key)
				if digest := header(m, "digest"); digests[key] != "" && digests[key] != digest {
					t.Errorf("%s is another the next time", key)
				} else {
					digests[key] = digest
				}
			}
			quarantined(t, log, job)
		})
	}
}

// Bad messages in a row are let go of as soon as they are in quarantine.
func TestBadMessagesAreNotKept(t *testing.T) {
	const count, size = 120, 800_000
	job, good := foreign(t, rings(30, 2, 3, 1))
	log := openEmbedded(t)
	accept(t, log, job, 0, good)
	for i := range count {
		accept(t, log, job, 0, kafkalog.Message{Value: bytes.Repeat([]byte{byte(i)}, size)})
	}
	live := func() int64 {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		return int64(now.HeapAlloc)
	}
	told, before, most := 0, live(), int64(0)
	_, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
		if _, ok := e.(event.Quarantined); ok {
			if told++; told%20 == 0 {
				most = max(most, live()-before)
			}
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	// what the benches and the feed hold, and what the log and its broker have at hand, which is as much of twice as many
	if room := int64(8*runtime.GOMAXPROCS(0)*size + 50<<20); told != count || most > room {
		t.Errorf("%d messages, %d bytes in memory, expected at most %d", told, most, room)
	}
}

// Very many bad messages take one pass over the quarantine, and a few requests.
func TestManyBadMessages(t *testing.T) {
	const count = 10_000
	job, good := foreign(t, rings(30, 2, 3, 1))
	job.Segment = 16
	log := openEmbedded(t)
	bad := make([]kafkalog.Message, count)
	for i := range bad {
		bad[i].Value = []byte{1, byte(i)}
	}
	accept(t, log, job, 0, append(append([]kafkalog.Message{good}, bad...), good)...)
	for range 2 {
		if report, _ := train(t, log, job); report.Quarantined != count || report.Rows != 60 {
			t.Errorf("%d in quarantine, %d rows", report.Quarantined, report.Rows)
		}
		if there := quarantined(t, log, job); len(there) != count {
			t.Errorf("%d messages on the quarantine topic", len(there))
		}
	}
}

// A topic of others may allow messages that are larger than any of ours; what of
// one does not fit the quarantine is cut, and how large it was stands there.
func TestOversizedMessages(t *testing.T) {
	job, good := foreign(t, rings(30, 2, 3, 1))
	log := openEmbedded(t)
	const size = 20 << 20
	examples := kafkalog.Topic{Name: run.TopicsOf(job.Name).Examples, Partitions: 1, Config: map[string]string{"max.message.bytes": strconv.Itoa(2 * size)}}
	if err := log.Create(t.Context(), examples); err != nil {
		t.Fatal(err)
	}
	wide := encoded(t, schemas.ExampleRows{Rows: 10, Cols: size / 40, Floats: make([]float32, size/4)})
	accept(t, log, job, 0, good, kafkalog.Message{Value: bytes.Repeat([]byte("x"), size)}, good, wide, good)
	report, _ := train(t, log, job)
	there := quarantined(t, log, job)
	if report.Quarantined != 2 || len(there) != 2 || report.Rows != 90 {
		t.Errorf("%d rows, %d reported, %d in quarantine", report.Rows, report.Quarantined, len(there))
	}
	for offset, want := range map[int64]struct {
		bytes  int
		reason string
	}{1: {size, "bytes announced"}, 3: {len(wide.Value), "524288 features, the first message of the run has 2"}} {
		m := there[offset]
		if header(m, "bytes") != strconv.Itoa(want.bytes) || len(m.Value) != 891_808 || !strings.Contains(header(m, "reason"), want.reason) {
			t.Errorf("offset %d: %d of %s bytes: %s", offset, len(m.Value), header(m, "bytes"), header(m, "reason"))
		}
	}
}

// Damaged records on our own topics are none, whatever they claim: they are
// passed over, and the run is what it is without them.
func TestHostileRecords(t *testing.T) {
	job := resumable(t)
	want, _ := train(t, openEmbedded(t), job)
	log := openEmbedded(t)
	d, plan := submitted(t, log, job, event.Ignore{})
	partitions, err := log.Partitions(t.Context(), d.Topics.Statistics)
	if err != nil {
		t.Fatal(err)
	}
	put := func(topic string, partition int, m schemas.Message) {
		t.Helper()
		if _, err := d.Log.Append(t.Context(), topic, partition, m); err != nil {
			t.Fatal(err)
		}
	}
	bad := hostile(t)
	for _, kind := range []schemas.Kind{schemas.KindVisit, schemas.KindGram, schemas.KindSample, schemas.KindSeal, schemas.KindPrepare, schemas.KindWeights, schemas.KindReport} {
		topic, in := d.Topics.Statistics, func(p int) int { return run.StatisticsPartition(p, partitions) }
		switch kind {
		case schemas.KindPrepare, schemas.KindWeights:
			topic, in = d.Topics.Weights, func(int) int { return 0 }
		case schemas.KindReport:
			topic, in = d.Topics.Plans, func(int) int { return 0 }
		}
		for i, changed := range []schemas.Header{
			{}, {Key: "chunks", Value: "10000"}, {Key: "chunks", Value: "9999999999999999999"}, {Key: "chunk", Value: "-1"}, {Key: "stage", Value: "-9223372036854775808"},
			{Key: "visit", Value: "9223372036854775807"}, {Key: "partition", Value: "1e9"}, {Key: "run", Value: strings.Repeat("r", 1000)}, {Key: "digest", Value: strings.Repeat("d", 1000)},
		} {
			for _, m := range bad {
				headers := []schemas.Header{
					changed, {Key: "kind", Value: string(kind)}, {Key: "run", Value: plan.Run()}, {Key: "stage", Value: "-1"}, {Key: "visit", Value: "0"},
					{Key: "partition", Value: "0"}, {Key: "parent", Value: string(plan.Digest())}, {Key: "chunk", Value: "0"}, {Key: "chunks", Value: "1"}, {Key: "digest", Value: fmt.Sprint(i)},
				}
				if i > 0 && len(m.Value) > 10_000 {
					continue
				}
				put(topic, in(i%4), schemas.Message{Key: fmt.Sprint(kind, i, string(m.Key)), Headers: headers, Value: m.Value})
			}
		}
	}
	for i, content := range []string{"", "null", "{", `{"segment":1,"spans":[{"to":1152921504606846976}]}`, `{"segment":1,"stages":[{"features":{"kind":"rff","size":1000000000}}]}`,
		`{"segment":1,"classes":["a","a"],"stages":[{}]}`, strings.Repeat("[", 100_000), `{"segment":1e999}`} {
		for _, kind := range []schemas.Kind{schemas.KindPlan, schemas.KindEnd, schemas.KindSource} {
			if kind == schemas.KindEnd && content == "null" {
				continue // an end of no run
			}
			put(d.Topics.Plans, 0, schemas.Message{Key: fmt.Sprint(kind, i), Headers: []schemas.Header{{Key: "kind", Value: string(kind)}, {Key: "run", Value: "another"}}, Value: []byte(content)})
		}
		put(d.Topics.Weights, 0, schemas.Message{Key: fmt.Sprint("manifest", i), Headers: []schemas.Header{{Key: "kind", Value: "manifest"}, {Key: "run", Value: fmt.Sprint(i)}}, Value: []byte(`{"plan":` + content + `}`)})
	}
	recorder := &events{}
	report, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, undisturbed %s", report.WeightsDigest, want.WeightsDigest)
	}
	topics := map[string]bool{}
	for _, n := range of[event.Noticed](recorder) {
		for _, topic := range []string{"statistics", "weights", "plans"} {
			if strings.HasPrefix(n.Text, "a message of the "+topic+" topic is passed over: ") {
				topics[topic] = true
			}
		}
	}
	if len(topics) != 3 {
		t.Errorf("notices of %v", topics)
	}
	if versions, err := Versions(t.Context(), log, job.Name); err != nil || len(versions) != 1 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// A span that asks for more segments than anybody has memory for is no plan.
func TestPlanOfTooManySegments(t *testing.T) {
	plan := &schemas.Plan{Segment: 1, Spans: schemas.Spans{{From: 0, To: 1 << 60}}}
	if err := plan.Check(); !errors.As(err, new(*schemas.SegmentsError)) {
		t.Error(err)
	}
}
