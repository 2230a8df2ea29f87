package pipeline

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/stagewise/stagewise/ingest/archive"
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
)

// forgetfulLogs returns two logs with the same examples of another producer, 40 rows a message with the keys user0 to user4. In the second
// the rows have weight 0 that zero names.
func forgetfulLogs(t *testing.T, job topics.Job, zero func(partition int, offset int64, row int) bool) (log, weightless *kafkalog.Log) {
	t.Helper()
	log, weightless = openEmbedded(t), openEmbedded(t)
	offsets := make([]int64, job.Examples.Partitions)
	for i := range 30 {
		data, n := rings(40, 4, 3, uint64(i)), i%len(offsets)
		rows := data.exampleRows()
		rows.Weights = slices.Repeat([]float32{1, 0.5}, 20)
		message := exampleMessage(t, rows)
		for row := range rows.Weights {
			if zero(n, offsets[n], row) {
				rows.Weights[row] = 0
			}
		}
		other := exampleMessage(t, rows)
		message.Key = fmt.Append(nil, "user", i%5)
		other.Key = message.Key
		produce(t, log, job, n, message)
		produce(t, weightless, job, n, other)
		offsets[n]++
	}
	return log, weightless
}

func forget(t *testing.T, log *kafkalog.Log, job topics.Job, what source.ToForget) *source.Forgot {
	t.Helper()
	return assert.Must(source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, what))(t)
}

// rowsNamed parses the names of rows.
func rowsNamed(t *testing.T, job topics.Job, names ...string) (rows coverage.Forgotten) {
	t.Helper()
	var what source.ToForget
	for _, name := range names {
		assert.NoError(t, what.AddRows(job.Name+".examples", "", name))
	}
	return what.Rows
}

// A run that is planned after rows were forgotten has the digest of a log with the same messages, in which these rows weigh 0.
func TestForgottenRowsWeighNothing(t *testing.T) {
	long(t)
	for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
		t.Run(string(l), func(t *testing.T) {
			job := newForeignJob(t, rffStage(l, 24, 4), rffStage(l, 24, 4))
			job.Examples.Partitions, job.Examples.Holdout, job.Prepare.PCA = 2, 0.1, 3
			log, weightless := forgetfulLogs(t, job, func(partition int, offset int64, row int) bool {
				return partition == 0 && (offset == 0 && row == 0 || offset == 3 && row >= 7 && row <= 11 || offset >= 5 && offset <= 6) ||
					(int64(partition)+2*offset)%5 == 3
			})
			before, _ := train(t, log, job)
			done := forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/3/7-11", "test.examples/0/4/2",
				"test.examples/0/5-6", "test.examples/0/0/0"), Keys: []string{"user3"}})
			assert.True(t, done.Rows == 1+5+80+6*40 && done.Messages == 10 && slices.Equal(done.Learnt, []int{1}), "%+v, expected 326 rows", done)
			after, _ := train(t, log, job)
			assert.Equal(t, after.PassedOver[coverage.ForgottenRow], done.Rows, "rows passed over as forgotten")
			want, _ := train(t, weightless, job)
			assert.True(t, after.WeightsDigest == want.WeightsDigest && after.WeightsDigest != before.WeightsDigest, "%+v, not %+v", after, want)
		})
	}
}

// After rows were forgotten, the next version of a chain is full, with the digest of a log in which they weigh 0; then the versions go that
// had learnt from them, whichever process does it, and no others.
func TestChainForgets(t *testing.T) {
	long(t)
	job := newStreamJob(t, 200, rffStage(link.Softmax, 20, 3), rffStage(link.Softmax, 20, 3))
	job.Examples.Partitions, job.Retrain.Window.Increments = 2, 4
	log, weightless := forgetfulLogs(t, job, func(partition int, offset int64, row int) bool {
		return partition == 1 && offset == 10 && row < 9
	})
	retrain := func(log *kafkalog.Log) (*Retraining, []string) {
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		return report, digests(t, log, job.Name)
	}
	_, before := retrain(log)
	assert.Need(t, len(before) == 6, "%d versions, expected 6: %v", len(before), before)
	rows := rowsNamed(t, job, "test.examples/1/10/0-8")
	done := forget(t, log, job, source.ToForget{Rows: rows})
	assert.Need(t, slices.Equal(done.Learnt, []int{5, 6}) && len(done.Removed) == 0, "%+v, expected that versions 5 and 6 have learnt", done)
	report, after := retrain(log)
	assert.Need(t, len(report.Updates) == 1 && report.Updates[0].Kind == schemas.RunFull && report.Updates[0].Forgotten == 9 &&
		report.Updates[0].Offered,
		"%+v, expected one full run", report)
	countsLearnt(t, log, job, report, []int64{9})
	assert.True(t, len(after) == 5 && slices.Equal(after[:4], before[:4]), "%v are left of %v", after, before)
	retrain(weightless)
	forget(t, weightless, job, source.ToForget{Rows: rows})
	_, want := retrain(weightless)
	assert.True(t, after[4] == want[4] && !slices.Contains(before, after[4]), "version %s, expected %s", after[4], want[4])
	report, again := retrain(log)
	assert.True(t, len(report.Updates) == 0 && slices.Equal(again, after), "%v became %v", after, again)
	// The chain goes on from the full run, and the new rows of an update may be forgotten before it learns them.
	produce(t, log, job, 0, exampleMessage(t, rings(400, 4, 3, 99).exampleRows()))
	done = forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/15/0-99")})
	assert.Equal(t, done.Rows, 100, "rows that are forgotten")
	assert.Equal(t, len(done.Learnt), 0, "versions that have learnt")
	report, again = retrain(log)
	assert.True(t, len(report.Updates) == 1 && report.Updates[0].Kind == schemas.RunUpdate && report.Updates[0].Forgotten == 100 &&
		len(again) == 6, "%+v, %v; expected an update", report, again)
	countsLearnt(t, log, job, report, []int64{9, 100})
	same := assert.Must(replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, "latest",
		nil))(t)
	assert.Equal(t, len(same), 2, "versions that are the same")
}

// countsLearnt checks that the newest window of a chain has increments with so many forgotten rows, in order, and no others, and that the
// newest version's rows of the window are those that are left.
func countsLearnt(t *testing.T, log *kafkalog.Log, job topics.Job, report *Retraining, forgets []int64) {
	t.Helper()
	w := newestWindow(t, log, job)
	var got []int64
	left := w.Rows()
	for i := range w.Increments {
		if n := w.Increments[i].Increment.Forgotten; n > 0 {
			got, left = append(got, n), left-n
		}
	}
	assert.Equal(t, got, forgets, "forgotten rows of the increments")
	manifest := assert.Must(topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest))(t)
	n := report.Updates[len(report.Updates)-1].WindowRows
	assert.True(t, n == left && manifest.WindowRows == left, "windows of %d and %d rows, not %d of %d", n, manifest.WindowRows, left, w.Rows())
}

// What is not there is named, and nothing is forgotten then, nor on a topic that deletes after a time what is forgotten.
func TestNothingIsForgottenInPart(t *testing.T) {
	job, message := newForeignJob(t, rffStage(link.Softmax, 20, 3)), exampleMessage(t, rings(40, 2, 2, 1).exampleRows())
	log := openEmbedded(t)
	message.Key = []byte("a")
	produce(t, log, job, 0, message, message)
	good := rowsNamed(t, job, "test.examples/0/0")
	for want, what := range map[string]source.ToForget{
		"test.examples has nothing at [0]@5–7":        {Rows: append(good, rowsNamed(t, job, "test.examples/0/5-6")...)},
		"test.examples has nothing at [7]@0–1":        {Rows: append(good, rowsNamed(t, job, "test.examples/7/0/0")...)},
		"test.examples/0/1 has 40 rows, no row 40":    {Rows: append(good, rowsNamed(t, job, "test.examples/0/1/39-40")...)},
		`no message on test.examples has the key "b"`: {Rows: good, Keys: []string{"a", "b"}},
		`there is no source "x" on test.plans`:        {Rows: good, Sources: []string{"x"}},
	} {
		assert.MustFail(source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, what))(t, want)
	}
	check := func() {
		t.Helper()
		assert.Equal(t, len(readTopic(t, log, "test.forget")), 0, "messages on the forget topic")
	}
	check()
	assert.NoError(t, log.Delete(t.Context(), "test.forget"))
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "test.forget", Partitions: 1, Config: map[string]string{"cleanup.policy": "delete",
		"retention.ms": "604800000"}}))
	assert.MustFail(source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Rows: good}))(t,
		"deletes messages that must stay")
	check()
}

func TestWrongNamesOfRows(t *testing.T) {
	for _, name := range []string{
		"", "a.examples", "a.examples/0", "b.examples/0/1", "a.examples/x/1", "a.examples/-1/1", "a.examples/0/1/2/3", "a.examples/0/3-2",
		"a.examples/0/-3", "a.examples/0/1-2/3",
		"a.examples/0/1/5-4", "a.examples/0/1/x", "a.examples/0/9223372036854775807", "a.examples/0/1/9223372036854775806",
	} {
		var what source.ToForget
		assert.True(t, what.AddRows("a.examples", "", name) != nil, "%s became %+v", name, what)
	}
}

// keyedClicks writes rows to a topic that is followed, three of each key, in messages of one row and of two. Row i is of the user i mod 20.
func keyedClicks(t *testing.T, log *kafkalog.Log, rows int) (places map[int]string) {
	t.Helper()
	places = map[int]string{}
	for i := 0; i < rows; {
		value, partition, user := "", i%5, i%20
		n := 1 + i%7/6
		for range n {
			value += fmt.Sprintf("%c,%d,%d\n", 'a'+rune(i%2), i%2, i)
			i++
		}
		m := kafkalog.Message{Key: fmt.Append(nil, "u", user), Value: []byte(value)}
		at := assert.Must(log.Append(t.Context(), "clicks", partition, m))(t)
		for back := range n {
			places[i-1-back] = fmt.Sprintf("clicks/%d/%d", partition, at)
		}
	}
	return places
}

// sourceRows parses the places of rows.
func sourceRows(t *testing.T, texts ...string) (read []source.SourceRows) {
	t.Helper()
	for _, text := range texts {
		var what source.ToForget
		topic, _, _ := strings.Cut(text, "/")
		assert.NoError(t, what.AddRows("test.examples", topic, text))
		err := what.AddRows("test.examples", "other", text)
		assert.Need(t, err != nil && len(what.Rows) == 0, "%s names rows of another topic: %+v", text, what)
		read = append(read, what.Read...)
	}
	return read
}

// forgottenRows returns the second features of the rows of the examples that are forgotten, sorted.
func forgottenRows(t *testing.T, log *kafkalog.Log, job topics.Job) (rows []int) {
	t.Helper()
	f := assert.Must(source.ReadForgotten(t.Context(), topics.Open(log, job.Name, nil)))(t)
	mem := assert.Allocator(t)
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		examples := assert.Must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, examples.Rows*examples.Cols)
		examples.Features(features, examples.Cols)
		f.Rows.In(m.Partition, m.Offset, examples.Rows, func(first, end int) {
			for row := first; row < end; row++ {
				rows = append(rows, int(features[row*examples.Cols+1]))
			}
		})
	}
	slices.Sort(rows)
	return rows
}

// What ingest has read of a topic is forgotten by the keys of its messages, and by their places there: these rows, and no others of the
// messages that have them now.
func TestForgetWhatWasReadOfATopic(t *testing.T) {
	log := openEmbedded(t)
	job := clicks(t, log, 0)
	places := keyedClicks(t, log, 100)
	followToEnd(t, log, job)
	users := map[int]string{} // by row
	for _, m := range readTopic(t, log, "clicks") {
		for line := range strings.Lines(string(m.Value)) {
			var i int
			_, _ = fmt.Sscan(line[strings.LastIndex(line, ",")+1:], &i)
			users[i] = string(m.Key)
		}
	}
	var want []int
	for i := range 100 {
		if users[i] == "u7" || users[i] == "u12" || places[i] == places[41] || places[i] == places[55] {
			want = append(want, i)
		}
	}
	done := forget(t, log, job, source.ToForget{Keys: []string{"u7", `"u12"`}, Read: sourceRows(t, places[41], places[55])})
	got := forgottenRows(t, log, job)
	assert.True(t, slices.Equal(got, want) && done.Rows == int64(len(want)), "%+v: the rows %v are forgotten, expected %v", done, got, want)
	report, _ := train(t, log, job)
	assert.Equal(t, report.PassedOver[coverage.ForgottenRow], int64(len(want)), "rows passed over as forgotten")
	for _, text := range []string{"clicks/4/0-1000", "clicks/0/3-5"} { // a range of offsets
		read := sourceRows(t, text)
		for i := range 100 {
			var partition int
			var offset int64
			_, _ = fmt.Sscanf(places[i], "clicks/%d/%d", &partition, &offset)
			if partition == read[0].Partition && offset >= read[0].From && offset < read[0].To && !slices.Contains(want, i) {
				want = append(want, i)
			}
		}
		forget(t, log, job, source.ToForget{Read: read})
		slices.Sort(want)
		assert.Equal(t, forgottenRows(t, log, job), want, "%s: the rows that are forgotten", text)
	}
	_, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Keys: []string{"u7", "u77"},
		Read: sourceRows(t, "clicks/0/1000", "visits/0/0")})
	wrong, ok := errors.AsType[*topics.RefusedError](err)
	assert.True(t, ok && len(wrong.Reasons) == 3 && strings.Contains(wrong.Reasons[0], `has the key "u77"`),
		"got error %v, expected one about what is not there", err)
}

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
			if names := s.in(m); m.Offset >= before[fmt.Sprintf("%s[%d]", topic.Name, m.Partition)] && len(names) > 0 {
				t.Errorf("%s@%d, of kind %s, has %q of a forgotten row", topic.Name, m.Offset, header(m, "kind"), names)
			}
		}
	}
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
				job := newForeignJob(t, rffStage(l, 16, 3), rffStage(l, 16, 3))
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
					assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
					versions := assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
					newest := versions[len(versions)-1]
					return &schemas.Report{Labels: newest.Labels}
				}
				labels := learn().Labels
				assert.Need(t, slices.Contains(labels, alice.label), "labels %q before", labels)
				before := ends(t, log)
				assert.NoError(t, log.Delete(t.Context(), job.Name+".quarantine")) // so that the bad message would come there again
				before[job.Name+".quarantine[0]"] = 0
				forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/0", "test.examples/0/1/39", "test.examples/0/2"),
					Now: test.now})
				assert.Equal(t, learn().Labels, []string{"ring0", "ring1", "ring2"}, "labels")
				publishedAfter(t, log, job, before, alice)
				again := !test.chain || test.now // else the increments of the window leave the bad message out
				there := readTopic(t, log, job.Name+".quarantine")
				assert.True(t, !again || len(there) == 1 && strings.Contains(header(there[0], "reason"), "forgotten"),
					"%d messages in quarantine", len(there))
			})
		}
	}
}

// What removed versions were made of is on no disk of the embedded broker any more when forget returns.
func TestForgetNowErasesVersionsFromDisk(t *testing.T) {
	dir := t.TempDir()
	log, job := openAt(t, dir), standingJob(t, 1)
	fill(t, log, job, 0, 10)
	assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
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
			assert.Need(t, err == nil && len(files) != 0, "%v, %v", files, err)
			for _, file := range files {
				content := assert.Must(os.ReadFile(file))(t)
				for _, value := range values {
					if bytes.Contains(content, value) {
						n++
					}
				}
			}
		}
		return n
	}
	assert.Need(t, len(values) != 0 && onDisk() != 0, "%d values, none is on the disk", len(values))
	forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/0/3"), Now: true})
	assert.Equal(t, onDisk(), 0, "values on the disk of %d", len(values))
}

// What is forgotten is rows of one message, as its checksum says: another message at its offset, of a topic of examples that was made anew,
// is learnt. What earlier releases have written has no checksum, and is of whatever message is there.
func TestForgetMeansOneMessage(t *testing.T) {
	long(t)
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 6)
	train(t, log, job)
	forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/1-3", "test.examples/0/5/7")})
	report, _ := train(t, log, job)
	assert.Need(t, report.PassedOver[coverage.ForgottenRow] == 3*40+1, "passed over: %v", report.PassedOver)
	assert.NoError(t, log.Delete(t.Context(), "test.examples"))
	fill(t, log, job, 100, 102)
	fill(t, log, job, 2, 3) // the message that was at the offset
	report, _ = train(t, log, job)
	n := report.PassedOver[coverage.ForgottenRow]
	assert.True(t, n == 40 && report.Rows == 80, "%d rows forgotten, %d learnt, expected 40 and 80", n, report.Rows)
	fill(t, log, job, 103, 107)
	rec := &eventRecorder{}
	report, _ = trainRecorded(t, log, job, rec.Record)
	assert.Equal(t, report.PassedOver[coverage.ForgottenRow], 40, "rows passed over as forgotten")
	assert.True(t, said(rec, "[0]@1–2") && said(rec, "[0]@3–4") && !said(rec, "[0]@2"),
		"notices %q, expected the offsets 1, 3 and 5", eventsOf[event.Noticed](rec))
	old := schemas.Forget{Rows: rowsNamed(t, job, "test.examples/0/4/0-4")}
	assert.Must(topics.Open(log, job.Name, nil).Log.Append(t.Context(), "test.forget", 0, old.Message()))(t)
	report, _ = train(t, log, job)
	assert.Equal(t, report.PassedOver[coverage.ForgottenRow], 45, "rows passed over as forgotten")
	var left []int
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	for _, v := range versions {
		left = append(left, v.Version)
	}
	assert.True(t, slices.Equal(left, []int{3, 5}) && err == nil,
		"the versions %v are left, %v; expected that those are removed that have learnt forgotten rows, and no others", left, err)
}

// orders is a job whose examples come from a topic of three partitions, and expire. write writes rows from to to (excluded), one to three
// in a message: with words, times, weights and missing values, some with a key, and after some rows a message that can't be used.
func orders(t *testing.T, log *kafkalog.Log) (job topics.Job, write func(from, to int)) {
	t.Helper()
	job = newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 10, 2))
	o := &job.Examples
	o.Train, o.FromTopic, o.Format, o.Partitions, o.BatchRows = nil, "orders", "json", 2, 8
	o.Label, o.Columns.Use, o.Categorical, o.Weight = "kind", []string{"length", "width", "colour", "at"}, []string{"colour"}, "weight"
	o.Times, o.Missing.Mode, o.Holdout = layout.Times{"at": {Parts: []string{"hour"}}}, layout.MissingMean, 0.2
	job.Topics = topics.DefaultTopics()
	job.Topics.Retention.Examples = time.Hour
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Refresh = 60, topics.FullOptions{Every: 3}, 2
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: o.FromTopic, Partitions: 3}))
	random := rand.New(rand.NewPCG(7, 7))
	return job, func(from, to int) {
		for i := from; i < to; {
			var m kafkalog.Message
			var rows []string
			for range min(1+random.IntN(3), to-i) {
				width := map[bool]string{false: fmt.Sprintf(`"width": %d, `, i%5)}[i%11 == 0]
				rows = append(rows, fmt.Sprintf(`{"kind": "%c", "length": %d, %s"colour": "%c", "at": "2026-01-%02dT%02d:00:00Z", "weight": %g}`,
					'a'+rune(i%2), 10*(i%2)+i%7, width, 'r'+rune(i%3), 1+i%28, i%24, 0.5+float64(i%3)))
				i++
			}
			m.Value = []byte("[" + strings.Join(rows, ",") + "]")
			if i%4 == 0 {
				m.Key = fmt.Appendf(nil, "customer%d", i%9)
			}
			messages := []kafkalog.Message{m}
			if random.IntN(8) == 0 {
				messages = append(messages, kafkalog.Message{Value: []byte(`{"kind": "a", "length": "long"}`)})
			}
			assert.Must(log.Append(t.Context(), o.FromTopic, random.IntN(3), messages...))(t)
		}
	}
}

// expire deletes part of the examples.
func expire(t *testing.T, log *kafkalog.Log, job topics.Job, random *rand.Rand) {
	t.Helper()
	topic := protocol.TopicsOf(job.Name).Examples
	for n := range job.Examples.Partitions {
		first, end, err := log.Bounds(t.Context(), topic, n)
		assert.NoError(t, err)
		deleteRecords(t, log, topic, int32(n), first+1+random.Int64N(end-first))
	}
}

// examplesOf returns the examples, as runs of the job read them.
func examplesOf(t *testing.T, log *kafkalog.Log, job topics.Job) (all []protocol.Message) {
	t.Helper()
	p := topics.OpenFor(log, job, nil)
	spans := assert.Must(p.Log.Spans(t.Context(), p.Topics.Examples))(t)
	for _, s := range spans {
		for m, err := range p.Between(t.Context(), p.Topics.Examples, s.Partition, s.From, s.To) {
			assert.NoError(t, err)
			all = append(all, m)
		}
	}
	return all
}

// same reports whether two messages are one.
func same(a, b protocol.Message) bool {
	return protocol.MarkOf(0, a) == protocol.MarkOf(0, b) && a.Key == b.Key && (a.Value == nil) == (b.Value == nil) &&
		bytes.Equal(a.Value, b.Value) && slices.Equal(a.Headers, b.Headers)
}

// Expired examples are made again from the topic that they came from: the same messages, at the same offsets.
func TestExpiredExamplesAreMadeAgain(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	random := rand.New(rand.NewPCG(1, 2))
	var before []protocol.Message
	for rows := 0; rows < 500; {
		more := 1 + random.IntN(100)
		write(rows, rows+more)
		rows += more
		followToEnd(t, log, job)
		after := examplesOf(t, log, job)
		if len(before) > 0 {
			expire(t, log, job, random)
		}
		got := examplesOf(t, log, job)
		assert.Need(t, slices.EqualFunc(got, after, same), "%d messages, expected the same %d as before they expired", len(got), len(after))
		before = after
	}
	from, _, err := log.Bounds(t.Context(), protocol.TopicsOf(job.Name).Examples, 0)
	assert.True(t, err == nil && from != 0, "the examples begin at offset %d, error %v: expected that some have expired", from, err)
	other := job
	other.Examples.Weight = ""
	p := topics.OpenFor(log, other, nil)
	first := func() (err error) {
		for _, err = range p.Between(t.Context(), p.Topics.Examples, 0, 0, 1) {
		}
		return err
	}
	assert.Fails(t, first(), "@0 has expired, and is not the same")
	deleteRecords(t, log, job.Examples.FromTopic, 0, 5)
	p = topics.OpenFor(log, job, nil)
	assert.Fails(t, first(), new(*kafkalog.DeletedError))
	for n := range 3 {
		deleteRecords(t, log, job.Examples.FromTopic, int32(n), 60)
	}
	want := examplesOf(t, log, job)
	write(500, 501)
	followToEnd(t, log, job)
	origins := protocol.TopicsOf(job.Name).Origins
	from, end, err := log.Bounds(t.Context(), origins, 0)
	assert.True(t, err == nil && from != 0 && from != end, "%s has the offsets %d to %d, error %v: expected some", origins, from, end, err)
	got := examplesOf(t, log, job)
	for i := range want {
		assert.True(t, slices.ContainsFunc(got, func(m protocol.Message) bool { return same(m, want[i]) }),
			"the message at offset %d is gone", want[i].Offset)
	}
}

// failing is a log on which reads of the messages of a topic fail for which fail returns an error.
type failing struct {
	protocol.Log
	topic string
	fail  func(partition int, m protocol.Message) error
}

func (f *failing) Range(ctx context.Context, topic string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	return func(yield func(protocol.Message, error) bool) {
		for m, err := range f.Log.Range(ctx, topic, partition, from, to) {
			if err == nil && topic == f.topic {
				err = f.fail(partition, m)
			}
			if !yield(m, err) || err != nil {
				return
			}
		}
	}
}

// A passing error of the source does not say that the rows have changed. Rows that the source has lost, as in a hole of an archive, are no
// longer among those that can be made again, so that their readers do not try again for ever.
func TestSourceThatFails(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	write(0, 300)
	followToEnd(t, log, job)
	expire(t, log, job, rand.New(rand.NewPCG(1, 2)))
	var failure error
	client, topic := protocol.NewClient(log, job.Name, nil), job.Examples.FromTopic
	client.Log = &failing{topics.Open(log, job.Name, nil).Log, topic, func(int, protocol.Message) error { return failure }}
	again := topics.NewRemade(client, job.Examples, memory.DefaultAllocator)
	examples := client.Topics.Examples
	read := func() (err error) {
		for _, err = range again.Range(t.Context(), examples, 0, 0, 1) {
		}
		return err
	}
	assert.NoError(t, read())
	failure = errors.New("the bucket does not answer")
	err := read()
	assert.True(t, errors.Is(err, failure) && !strings.Contains(err.Error(), "is not the same"), "got error %v, not that of the source", err)
	failure = &kafkalog.DeletedError{Topic: topic, Wanted: 2, First: 5, End: 9}
	deleted, ok := errors.AsType[*kafkalog.DeletedError](read())
	first, _, err := again.Bounds(t.Context(), examples, 0)
	assert.True(t, ok && deleted.Topic == examples && first == deleted.First && first != 0, "from %d, %v; reading: %v", first, err, deleted)

	// A hole that no example was made from does not keep the examples after it from being made again.
	client.Log = &failing{topics.Open(log, job.Name, nil).Log, topic, func(partition int, m protocol.Message) (err error) {
		if strings.Contains(string(m.Value), "long") { // as in a hole of an archive
			err = &kafkalog.DeletedError{Topic: topic, Partition: partition, Wanted: m.Offset, First: m.Offset + 1, End: m.Offset + 1}
		}
		return err
	}}
	again = topics.NewRemade(client, job.Examples, memory.DefaultAllocator)
	for partition := range 2 {
		first, end, err := again.Bounds(t.Context(), examples, partition)
		assert.NoError(t, err)
		n := 0
		for _, err := range again.Range(t.Context(), examples, partition, first, end) {
			assert.NoError(t, err)
			n++
		}
		assert.True(t, first == 0 && n >= 10, "partition %d from offset %d: %d messages", partition, first, n)
	}
}

// Rows on the forget topic may be deleted from the topic that they came from: versions made since are verified without them. Other rows
// must be there.
func TestForgottenRowsMayBeDeleted(t *testing.T) {
	log := openEmbedded(t)
	job, write := orders(t, log)
	write(0, 300)
	train(t, log, job)
	without := func(message func(partition int, offset int64) bool, keys bool) {
		t.Helper()
		messages := readTopic(t, log, job.Examples.FromTopic)
		assert.NoError(t, log.Delete(t.Context(), job.Examples.FromTopic))
		assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: job.Examples.FromTopic, Partitions: 3}))
		for _, m := range messages {
			if message(m.Partition, m.Offset) {
				m.Value = nil
			}
			if !keys { // as in an archive
				m.Key = nil
			}
			assert.Must(log.Append(t.Context(), job.Examples.FromTopic, m.Partition, m))(t)
		}
	}
	verify := func(version string) error {
		_, err := replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, version, nil)
		return err
	}
	forgotten := source.SourceRows{Topic: job.Examples.FromTopic, Span: coverage.Span{Partition: 0, From: 3, To: 30}}
	assert.Must(source.Forget(t.Context(), topics.OpenFor(log, job, nil), job, source.ToForget{Read: []source.SourceRows{forgotten}}))(t)
	report, _ := train(t, log, job)
	for n := range job.Examples.Partitions {
		_, end, err := log.Bounds(t.Context(), protocol.TopicsOf(job.Name).Examples, n)
		assert.NoError(t, err)
		deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, int32(n), end)
	}
	in := func(partition int, offset int64) bool {
		return partition == forgotten.Partition && offset >= forgotten.From && offset < forgotten.To
	}
	for _, keys := range []bool{true, false} {
		for _, gone := range []func(partition int, offset int64) bool{func(int, int64) bool { return false }, in} {
			without(gone, keys)
			assert.NoError(t, verify("2"))
		}
	}
	rec := &eventRecorder{}
	assert.NoError(t, log.Configure(t.Context(), job.Examples.FromTopic, map[string]string{"cleanup.policy": "compact"}))
	again, _ := trainRecorded(t, log, job, rec.Record)
	assert.True(t, again.WeightsDigest == report.WeightsDigest && again.Rows == report.Rows && said(rec, "orders is compacted: examples that "+
		"expire can't be made again"), "trained again: %+v, expected %+v: %+v", again, report, rec.events)
	without(func(partition int, offset int64) bool { return partition == 1 && offset < 9 }, false)
	assert.Fails(t, verify("2"), "has expired, and is not the same")
}

// walkIn is a row of the topic of the tests of archives. Rows from the middle on have a further field.
type walkIn struct {
	Label string     `json:"label" parquet:"label"`
	Place walkInSpot `json:"place" parquet:"place"`
	Tags  []string   `json:"tags" parquet:"tags,list"`
	Count int64      `json:"count" parquet:"count"`
	Later *float64   `json:"later,omitempty" parquet:"later,optional"`
}

type walkInSpot struct {
	X float64 `json:"x" parquet:"x"`
}

// archivedRow is a click as an archive may have it.
type archivedRow struct {
	Partition int32  `json:"partition" parquet:"$$partition"`
	Offset    int64  `json:"offset" parquet:"$$offset"`
	Timestamp int64  `json:"timestamp" parquet:"$$timestamp"`
	Key       string `json:"key" parquet:"$$key"`
	walkIn
}

const visitPartitions = 3

// visits returns the rows of each partition.
func visits(n int) (rows [visitPartitions][]walkIn) {
	random := rand.New(rand.NewPCG(1, 2))
	for i := range n {
		label := random.IntN(3)
		v := walkIn{Label: string(rune('a' + label)), Place: walkInSpot{float64(label) + random.NormFloat64()}, Tags: []string{"new", "old"}[:i%3%2],
			Count: random.Int64N(1000)}
		if i > n/2 && i%5 > 0 {
			later := random.NormFloat64()
			v.Later = &later
		}
		rows[i%visitPartitions] = append(rows[i%visitPartitions], v)
	}
	return rows
}

// visitJob is a job whose rows are visits.
func visitJob(t *testing.T) topics.Job {
	t.Helper()
	job := newJob(t, rings(10, 2, 2, 1), table{}, rffStage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.FromTopic, job.Examples.Format = nil, "visits", "json"
	job.Examples.Columns.Use, job.Examples.Missing.Mode = []string{"place.x", "count", "later"}, "mean"
	job.Examples.Partitions, job.Examples.BatchRows, job.Examples.Holdout = 2, 16, 0.2
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows = 100
	return job
}

// writeVisits creates the topic, and deletes the messages before an offset of each partition.
func writeVisits(t *testing.T, log *kafkalog.Log, rows [visitPartitions][]walkIn, before [visitPartitions]int64) {
	t.Helper()
	assert.NoError(t, log.Create(t.Context(), kafkalog.Topic{Name: "visits", Partitions: visitPartitions}))
	for p, of := range rows {
		var messages []kafkalog.Message
		for _, row := range of {
			messages = append(messages, kafkalog.Message{Key: []byte(`"visitor"`), Value: assert.Must(json.Marshal(row))(t)})
		}
		assert.Must(log.Append(t.Context(), "visits", p, messages...))(t)
		if before[p] > 0 {
			deleteRecords(t, log, "visits", int32(p), before[p])
		}
	}
}

const visitSchema = `{"type":"record","name":"click","fields":[{"name":"label","type":"string"},{"name":"place","type":{"type":"record",
	"name":"spot","fields":[{"name":"x","type":"double"}]}},{"name":"tags","type":{"type":"array","items":"string"}},{"name":"count","type":"long"}%s]}`

// schemaOf returns the schema of rows with or without the later field, alone or in an envelope.
func schemaOf(later, enveloped bool) string {
	field := ""
	if later {
		field = `,{"name":"later","type":["null","double"]}`
	}
	schema := fmt.Sprintf(visitSchema, field)
	if enveloped {
		schema = `{"type":"record","name":"e","fields":[{"name":"key","type":["null","string"]},{"name":"value","type":["null",` + schema + `]},
			{"name":"offset","type":"long"},{"name":"timestamp","type":"long"}]}`
	}
	return schema
}

func (v walkIn) fields(later bool) map[string]any {
	tags := []any{}
	for _, tag := range v.Tags {
		tags = append(tags, tag)
	}
	fields := map[string]any{"label": v.Label, "place": map[string]any{"x": v.Place.X}, "tags": tags, "count": v.Count}
	if later {
		fields["later"] = nil
		if v.Later != nil {
			fields["later"] = *v.Later
		}
	}
	return fields
}

// writeFile writes rows of a partition as an archive has them, and returns the content. The file is in the n-th form of those of a layout.
func writeFile(t *testing.T, enveloped bool, form int, from int64, rows []walkIn) (content []byte, ending string) {
	t.Helper()
	var b bytes.Buffer
	later := false
	for _, row := range rows {
		later = later || row.Later != nil
	}
	switch form % 7 {
	case 0, 1: // JSON Lines
		for i, row := range rows {
			text := assert.Must(json.Marshal(row))(t)
			if enveloped && form%7 == 1 { // as of a sink whose converter hands over bytes
				text = assert.Must(json.Marshal(text))(t)
			}
			if enveloped {
				text = fmt.Appendf(nil, `{"offset":%d,"value":%s,"key":"visitor"}`, from+int64(i), text)
			} else if form%7 == 1 {
				text = fmt.Appendf(nil, `{"schema":{"type":"struct"},"payload":%s}`, text)
			}
			b.Write(append(text, '\n'))
		}
		if form%7 == 0 {
			return b.Bytes(), ".json"
		}
		var packed bytes.Buffer
		w := gzip.NewWriter(&packed)
		assert.Must(w.Write(b.Bytes()))(t)
		assert.NoError(t, w.Close())
		return packed.Bytes(), ".json.gz"
	case 6:
		if !enveloped {
			w := parquet.NewGenericWriter[walkIn](&b, parquet.Compression(&parquet.Snappy))
			assert.Must(w.Write(rows))(t)
			assert.NoError(t, w.Close())
			return b.Bytes(), ".parquet"
		}
		fallthrough
	default:
		zstd := assert.Must(ocf.ZstdCodec(nil, nil))(t)
		options := []ocf.WriterOpt{ocf.WithBlockCount(3), ocf.WithSchema(schemaOf(later, enveloped))}
		if codec := map[int]ocf.Codec{3: ocf.DeflateCodec(6), 4: ocf.SnappyCodec(), 5: zstd}[form%7]; codec != nil {
			options = append(options, ocf.WithCodec(codec))
		}
		w := assert.Must(ocf.NewWriter(&b, avro.MustParse(schemaOf(later, enveloped)), options...))(t)
		for i, row := range rows {
			v := row.fields(later)
			if enveloped {
				v = map[string]any{"key": "visitor", "value": v, "offset": from + int64(i), "timestamp": int64(0)}
			}
			assert.NoError(t, w.Encode(v))
		}
		assert.NoError(t, w.Close())
		return b.Bytes(), ".avro"
	}
}

// writeArchive writes the rows before an offset of each partition to files of random sizes, as a layout has them.
func writeArchive(t *testing.T, layout string, random *rand.Rand, rows [visitPartitions][]walkIn, to [visitPartitions]int64) (folder string) {
	t.Helper()
	folder = t.TempDir()
	write := func(name string, content []byte) {
		path := filepath.Join(folder, name)
		assert.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		assert.NoError(t, os.WriteFile(path, content, 0o600))
	}
	var all []archivedRow
	for p, of := range rows {
		for at := int64(0); at < to[p]; {
			n := min(1+random.Int64N(20), to[p]-at)
			part := of[at : at+n]
			for i, row := range part {
				all = append(all, archivedRow{Partition: int32(p), Offset: at + int64(i), Key: "visitor", walkIn: row})
			}
			content, ending := writeFile(t, layout == "aiven", random.IntN(7), at, part)
			switch layout {
			case "confluent":
				write(fmt.Sprintf("visits/day=%d/partition=%d/visits+%d+%010d%s", random.IntN(3), p, p, at, ending), content)
			case "aiven":
				write(fmt.Sprintf("visits-%d-%020d%s", p, at, strings.TrimPrefix(ending, ".json")), content)
			}
			at += n
		}
	}
	if layout == "delta" {
		write("superseded.parquet", []byte("PAR1"))
	}
	var log strings.Builder
	log.WriteString(`{"protocol":{"minReaderVersion":1,"minWriterVersion":2}}
{"metaData":{"id":"v","format":{"provider":"parquet"},"schemaString":"{\"type\":\"struct\",\"fields\":[]}","partitionColumns":["part"]}}
`)
	defer func() {
		if layout == "delta" {
			write("_delta_log/00000000000000000000.json", []byte(log.String()))
		}
	}()
	for at := 0; (layout == "columns" || layout == "delta") && len(all) > 0; at++ {
		n := min(1+random.IntN(60), len(all))
		var b bytes.Buffer
		part := all[:n]
		random.Shuffle(n, func(i, j int) { part[i], part[j] = part[j], part[i] })
		w := parquet.NewGenericWriter[archivedRow](&b, parquet.Compression(&parquet.Zstd), parquet.MaxRowsPerRowGroup(7))
		assert.Must(w.Write(part))(t)
		assert.NoError(t, w.Close())
		name := fmt.Sprintf("part-%d.parquet", random.IntN(1_000_000))
		write(name, b.Bytes())
		fmt.Fprintf(&log, `{"add":{"path":%q,"partitionValues":{"part":"7"},"size":%d,"dataChange":true}}`+"\n", name, b.Len())
		all = all[n:]
	}
	return folder
}

// results are the digests of everything that a topic is used for.
func results(t *testing.T, log *kafkalog.Log, job topics.Job) (digests []wire.Digest) {
	t.Helper()
	report, _ := train(t, log, job)
	digests = append(digests, report.WeightsDigest)
	job.Name = "chain"
	chain := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
	digests = append(digests, chain.WeightsDigest)
	assert.True(t, len(chain.Updates) >= 2, "%d versions: expected several", len(chain.Updates))
	versions := assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
	checkVerified(t, log, job, fmt.Sprint(versions[len(versions)-1].Version), upTo(3, len(chain.Updates)+1)...)
	job.Name = "search"
	assert.NoError(t, Search(t.Context(), log, openBLAS(t), []topics.Job{job, job}, 0, ignore,
		func(_ int, c *replay.Candidate) error {
			if c.Err == nil {
				digests = append(digests, c.Report.WeightsDigest)
			}
			return c.Err
		}))
	return digests
}

// A topic with all of its messages, and one that begins later with an archive of what went before, give the same weights, whatever files
// and formats the archive has and however far it overlaps. So does the archive alone.
func TestArchivesHaveTheWeightsOfTheTopic(t *testing.T) {
	rows := visits(400)
	whole := openEmbedded(t)
	writeVisits(t, whole, rows, [visitPartitions]int64{})
	want := results(t, whole, visitJob(t))
	for i, layout := range []string{"confluent", "confluent", "aiven", "columns", "delta", "alone"} {
		t.Run(fmt.Sprint(layout, i), func(t *testing.T) {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			var cut, to [visitPartitions]int64
			for p, of := range rows {
				cut[p] = random.Int64N(int64(len(of)) + 1)
				to[p] = min(cut[p]+random.Int64N(30), int64(len(of)))
			}
			job, log := visitJob(t), openEmbedded(t)
			if layout == "alone" {
				for p, of := range rows {
					to[p] = int64(len(of))
				}
				job.Examples.FromTopic, job.Examples.Format = "", ""
				job.Examples.Archive.Files = writeArchive(t, "confluent", random, rows, to)
				var err error
				job.Examples, err = job.Examples.WithArchiveTopic(t.Context())
				assert.Need(t, err == nil && job.Examples.FromTopic == "visits", "%v", err)
			} else {
				writeVisits(t, log, rows, cut)
				job.Examples.Archive.Files, job.Examples.Archive.Layout = writeArchive(t, layout, random, rows, to), layout
			}
			assert.Equal(t, fmt.Sprint(results(t, log, job)), fmt.Sprint(want), "digests with the archive, and with the topic")
		})
	}
}

// Messages that neither the topic nor its archive has end ingest, or count as lost, and a copy that differs ends it.
func TestArchivesWithGaps(t *testing.T) {
	rows := visits(90)
	for _, of := range rows {
		for i := range of {
			of[i].Count %= 4
		}
	}
	log, job := openEmbedded(t), visitJob(t)
	writeVisits(t, log, rows, [visitPartitions]int64{0, 20, 0})
	follow := func(to int64, name string, archives ...[]walkIn) (*eventRecorder, error) {
		folder := t.TempDir()
		for i, archived := range archives {
			content, ending := writeFile(t, false, 2*i, 0, archived[:to])
			assert.NoError(t, os.WriteFile(filepath.Join(folder, "visits+1+0"+ending), content, 0o600))
		}
		job.Name, job.Examples.Archive.Files = name, folder
		rec := &eventRecorder{}
		return rec, source.Follow(t.Context(), log, job, true, rec.Record)
	}
	gap := &archive.GapError{}
	_, err := follow(15, "stopped", rows[1])
	assert.True(t, errors.As(err, &gap) && *gap == (archive.GapError{Topic: "visits", Partition: 1, From: 15, To: 20}), "%v", err)
	other := slices.Clone(rows[1])
	other[22].Count++
	assert.MustFail(follow(25, "different", other))(t, "visits[1]@22: ", `has another message than the topic: column "count"`)
	other[22].Count, other[12].Count = rows[1][22].Count, rows[1][12].Count+1
	assert.MustFail(follow(25, "different files", rows[1], other))(t, "visits[1]@12: ", ".json has another message than ", ".avro: column")
	job.Examples.Archive.OnGap, job.Examples.Categorical = archive.GapContinue, []string{"count"} // with words, which are read before
	rec, err := follow(15, "continued", rows[1])
	assert.Fails(t, err, nil)
	assert.Equal(t, eventsOf[event.Lost](rec), []event.Lost{{Topic: "visits", Partition: 1, From: 15, To: 20}}, "what is lost")
	assert.Equal(t, len(countedRows(t, log, job)), 85, "rows")
	job.Name = "trained"
	report, _, err := Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, nil)
	assert.True(t, err == nil && report.LostMessages == 5, "%v: the report is %+v, expected 5 lost messages", err, report)
}

// A column of an archive that has numbers in the first file and text in a later one is an error at the first row whose text is no number,
// whatever process reads it. A row of a file in which the column may have both is quarantined, as on a topic.
func TestArchivesWhoseSchemaChanged(t *testing.T) {
	number := func(label string, x any) map[string]any { return map[string]any{"label": label, "x": x, "n": 1} }
	avroFile := func(of string, rows ...map[string]any) []byte {
		var b bytes.Buffer
		w := assert.Must(ocf.NewWriter(&b, avro.MustParse(`{"type":"record","name":"r","fields":[{"name":"label","type":"string"},{"name":"n","type":"int"},
			{"name":"x","type":`+of+`}]}`)))(t)
		for _, row := range rows {
			assert.NoError(t, w.Encode(row))
		}
		assert.NoError(t, w.Close())
		return b.Bytes()
	}
	type withText struct {
		Label string `parquet:"label"`
		X     string `parquet:"x"`
		N     int64  `parquet:"n"`
	}
	var b bytes.Buffer
	w := parquet.NewGenericWriter[withText](&b)
	assert.Must(w.Write([]withText{{"a", "3", 1}, {"b", "?", 1}}))(t)
	assert.NoError(t, w.Close())
	first := avroFile(`"double"`, number("a", 1.0), number("b", 2.0))
	for name, test := range map[string]struct {
		second []byte
		want   string // a part of the error; "": none
		rows   int
	}{
		"text":    {avroFile(`["null","string"]`, number("a", "3"), number("b", "?")), `has text in the column "x", in which `, 3},
		"parquet": {b.Bytes(), "is not a number", 3},
		"numbers": {avroFile(`"string"`, number("a", "3"), number("b", "4e1")), "", 4},
		"both":    {avroFile(`["double","string"]`, number("a", 3.0), number("b", "?")), "", 3},
	} {
		folder, log, job := t.TempDir(), openEmbedded(t), visitJob(t)
		assert.NoError(t, os.WriteFile(filepath.Join(folder, "visits+0+0.avro"), first, 0o600))
		assert.NoError(t, os.WriteFile(filepath.Join(folder, "visits+0+2.bin"), test.second, 0o600))
		job.Examples.FromTopic, job.Examples.Format, job.Examples.Archive.Files = "", "", folder
		job.Examples.Columns.Use = []string{"x", "n"}
		var err error
		job.Examples, err = job.Examples.WithArchiveTopic(t.Context())
		assert.NoError(t, err)
		for range 2 { // the second finds what the first has read
			err = source.Follow(t.Context(), log, job, true, nil)
			assert.Fails(t, err, test.want)
			assert.True(t, err == nil || strings.Contains(err.Error(), "visits+0+2.bin"), "%s: %v, expected %q", name, err, test.want)
		}
		assert.Equal(t, len(countedRows(t, log, job)), test.rows, "rows of %s", name)
	}
}

// Any number of candidates of a search read an archive as often as one.
func TestSearchReadsTheArchiveOnce(t *testing.T) {
	var content bytes.Buffer
	for _, row := range visits(90)[0] {
		assert.NoError(t, json.NewEncoder(&content).Encode(row))
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		http.ServeContent(w, r, "", time.Unix(1, 0), bytes.NewReader(content.Bytes()))
	}))
	defer server.Close()
	var read []int64
	for _, candidates := range []int{1, 40} {
		job, err := visitJob(t), error(nil)
		job.Examples.FromTopic, job.Examples.Archive.Files = "", server.URL+"/visits+0+0.json"
		job.Examples, err = job.Examples.WithArchiveTopic(t.Context())
		assert.NoError(t, err)
		before := requests.Load()
		err = Search(t.Context(), openEmbedded(t), openBLAS(t), slices.Repeat([]topics.Job{job}, candidates), 0, nil,
			func(_ int, c *replay.Candidate) error { return c.Err })
		assert.NoError(t, err)
		read = append(read, requests.Load()-before)
	}
	assert.True(t, read[0] != 0 && read[0] == read[1], "one candidate and 40 make %d requests to the archive", read)
}
