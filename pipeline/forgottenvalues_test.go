package pipeline

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
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
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// secret is a row whose values are nowhere else.
type secret struct {
	features []float32
	label    string
	key      string
}

var alice = secret{[]float32{123.45678, -77.654321, 3.1415927, 4.6692016}, "alice@example.org", "alice"}

// message is a message of the row alone.
func (s secret) message(t *testing.T) kafkalog.Message {
	m := exampleMessage(t, examples.Rows{Rows: 1, Cols: len(s.features), Floats: s.features, Words: []string{s.label}})
	m.Key = []byte(s.key)
	return m
}

// among is a message that has the row after others. Its key is that of the row.
func (s secret) among(t *testing.T, rows examples.Rows) kafkalog.Message {
	rows.Floats, rows.Words = append(slices.Clone(rows.Floats), s.features...), append(slices.Clone(rows.Words), s.label)
	rows.Rows++
	m := exampleMessage(t, rows)
	m.Key = []byte(s.key)
	return m
}

// in returns the names of what a message has of the row.
func (s secret) in(m kafkalog.Message) (names []string) {
	x := protocol.FromKafka(m)
	text := x.Key
	for _, h := range x.Headers {
		text += " " + h.Value
	}
	all := append([]byte(text), m.Value...)
	for _, word := range []string{s.label, "alice"} {
		if bytes.Contains(all, []byte(word)) {
			names = append(names, word)
		}
	}
	for _, v := range s.features {
		single := binary.LittleEndian.AppendUint32(nil, math.Float32bits(v))
		double := binary.LittleEndian.AppendUint64(nil, math.Float64bits(float64(v)))
		if bytes.Contains(m.Value, single) || bytes.Contains(m.Value, double) {
			names = append(names, "a feature")
		}
	}
	return names
}

// publishedAfter fails the test for messages that have something of a row, on topics that have had so many messages before.
func publishedAfter(t *testing.T, log *kafkalog.Log, job topics.Job, before map[string]int64, s secret) {
	t.Helper()
	for _, topic := range topics.Topics(job) {
		if topic.Name == protocol.TopicsOf(job.Name).Examples {
			continue
		}
		for _, m := range readTopic(t, log, topic.Name) {
			if names := s.in(m); m.Offset >= before[topic.Name] && len(names) > 0 {
				t.Errorf("%s@%d, of kind %s, has %q of a forgotten row", topic.Name, m.Offset, header(m, "kind"), names)
			}
		}
	}
}

// endsOf returns the ends of the first partitions of the topics of a job.
func endsOf(t *testing.T, log *kafkalog.Log, job topics.Job) map[string]int64 {
	t.Helper()
	ends := map[string]int64{}
	for _, topic := range topics.Topics(job) {
		_, end, err := log.Bounds(t.Context(), topic.Name, 0)
		noError(t, err)
		ends[topic.Name] = end
	}
	return ends
}

// Nothing that is published after rows were forgotten has a value of them: of the survey, of a sample, of predictions,
// of a report, or of a message in quarantine. A class that only they had is none.
func TestNothingOfForgottenRowsIsPublished(t *testing.T) {
	long(t)
	for name, test := range map[string]struct{ chain, now bool }{"run": {false, true}, "run, later": {}, "chain": {true, true},
		"chain, later": {true, false}} {
		for _, l := range []schemas.Link{link.Softmax, link.Identity} {
			t.Run(string(l)+", "+name, func(t *testing.T) {
				log := openEmbedded(t)
				job, _ := newForeignJob(t, rings(10, 4, 3, 1))
				job.Stages, job.Examples.Partitions = []schemas.Stage{rffStage(l, 16, 3), rffStage(l, 16, 3)}, 1
				job.Keep, job.Retrain = 1000, topics.DefaultRetrain()
				job.Retrain.Rows = 80
				produce(t, log, job, 0, alice.message(t))
				produce(t, log, job, 0, alice.among(t, rings(39, 4, 3, 1).exampleRows()))
				bad := alice.message(t)
				bad.Value = append(bad.Value[:len(bad.Value)-20:len(bad.Value)-20], "alice@example.org"...)
				produce(t, log, job, 0, bad)
				for i := range 6 {
					produce(t, log, job, 0, exampleMessage(t, rings(40, 4, 3, uint64(i)).exampleRows()))
				}
				learn := func() *schemas.Report {
					if !test.chain {
						report, _ := train(t, log, job)
						return report
					}
					must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
					versions := must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
					newest := versions[len(versions)-1]
					return &schemas.Report{Labels: newest.Labels}
				}
				if before := learn(); !slices.Contains(before.Labels, alice.label) {
					t.Fatalf("labels %q before", before.Labels)
				}
				before := endsOf(t, log, job)
				if err := log.Delete(t.Context(), job.Name+".quarantine"); err != nil { // so that the bad message would come there again
					t.Fatal(err)
				}
				before[job.Name+".quarantine"] = 0
				forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/0", "test.examples/0/1/39", "test.examples/0/2"),
					Now: test.now})
				after := learn()
				if want := []string{"ring0", "ring1", "ring2"}; !slices.Equal(after.Labels, want) {
					t.Errorf("labels %q, expected %q", after.Labels, want)
				}
				publishedAfter(t, log, job, before, alice)
				again := !test.chain || test.now // else the increments of the window leave the bad message out
				if there := readTopic(t, log, job.Name+".quarantine"); again && (len(there) != 1 ||
					!strings.Contains(header(there[0], "reason"), "forgotten")) {
					t.Errorf("%d messages in quarantine", len(there))
				}
			})
		}
	}
}

// What removed versions were made of is on no disk of the embedded broker any more when forget returns.
func TestForgetNowErasesVersionsFromDisk(t *testing.T) {
	dir := t.TempDir()
	log, job := openAt(t, dir), forgetfulJob(t)
	produceRings(t, log, job, 0, 10)
	must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
	var values [][]byte
	for _, topic := range []string{"test.versions", "test.state"} {
		for _, m := range readTopic(t, log, topic) {
			if kind := header(m, "kind"); kind == string(schemas.KindWeights) || kind == string(statistics.KindTerms) {
				values = append(values, m.Value)
			}
		}
	}
	onDisk := func() (n int) {
		for _, topic := range []string{"test.versions", "test.state"} {
			files, err := filepath.Glob(filepath.Join(dir, "log", "partitions", topic+"-0", "*"))
			if err != nil || len(files) == 0 {
				t.Fatalf("%v, %v", files, err)
			}
			for _, file := range files {
				content := must(os.ReadFile(file))(t)
				for _, value := range values {
					if bytes.Contains(content, value) {
						n++
					}
				}
			}
		}
		return n
	}
	if len(values) == 0 || onDisk() == 0 {
		t.Fatalf("%d values, none is on the disk", len(values))
	}
	forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/0/3"), Now: true})
	if n := onDisk(); n > 0 {
		t.Errorf("%d of %d values are on the disk", n, len(values))
	}
}
