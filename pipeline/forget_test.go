package pipeline

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
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
	return must(source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, what))(t)
}

// rowsNamed parses the names of rows.
func rowsNamed(t *testing.T, job topics.Job, names ...string) (rows coverage.Forgotten) {
	t.Helper()
	var what source.ToForget
	for _, name := range names {
		noError(t, what.AddRows(job.Name+".examples", "", name))
	}
	return what.Rows
}

// A run that is planned after rows were forgotten has the digest of a log with the same messages, in which these rows weigh 0.
func TestForgottenRowsWeighNothing(t *testing.T) {
	long(t)
	for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
		t.Run(string(l), func(t *testing.T) {
			job, _ := newForeignJob(t, rings(10, 4, 3, 1))
			job.Stages, job.Examples.Partitions, job.Examples.Holdout = []schemas.Stage{rffStage(l, 24, 4), rffStage(l, 24, 4)}, 2, 0.1
			job.Prepare.PCA = 3
			log, weightless := forgetfulLogs(t, job, func(partition int, offset int64, row int) bool {
				return partition == 0 && (offset == 0 && row == 0 || offset == 3 && row >= 7 && row <= 11 || offset >= 5 && offset <= 6) ||
					(int64(partition)+2*offset)%5 == 3
			})
			before, _ := train(t, log, job)
			done := forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/3/7-11", "test.examples/0/4/2",
				"test.examples/0/5-6", "test.examples/0/0/0"), Keys: []string{"user3"}})
			if want := int64(1 + 5 + 80 + 6*40); done.Rows != want || done.Messages != 10 || !slices.Equal(done.Learnt, []int{1}) {
				t.Errorf("%+v, expected %d rows, and version 1", done, want)
			}
			after, _ := train(t, log, job)
			if n := after.PassedOver[coverage.ForgottenRow]; n != done.Rows {
				t.Errorf("%d rows passed over as forgotten, expected %d", n, done.Rows)
			}
			if want, _ := train(t, weightless, job); after.WeightsDigest != want.WeightsDigest || after.WeightsDigest == before.WeightsDigest {
				t.Errorf("digest %s, expected %s; %s before", after.WeightsDigest, want.WeightsDigest, before.WeightsDigest)
			}
		})
	}
}

// After rows were forgotten, the next version of a chain is full, with the digest of a log in which they weigh 0; then the versions go that
// had learnt from them, whichever process does it, and no others.
func TestChainForgets(t *testing.T) {
	long(t)
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Examples.Partitions, job.Keep, job.Retrain = 2, 1000, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window.Increments = 200, topics.FullOptions{}, 4
	log, weightless := forgetfulLogs(t, job, func(partition int, offset int64, row int) bool {
		return partition == 1 && offset == 10 &&
			row < 9
	})
	retrain := func(log *kafkalog.Log) (*Retraining, []string) {
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		return report, digests(t, log, job.Name)
	}
	_, before := retrain(log)
	if len(before) != 6 {
		t.Fatalf("%d versions, expected 6: %v", len(before), before)
	}
	rows := rowsNamed(t, job, "test.examples/1/10/0-8")
	if done := forget(t, log, job, source.ToForget{Rows: rows}); !slices.Equal(done.Learnt, []int{5, 6}) || len(done.Removed) > 0 {
		t.Fatalf("%+v, expected that versions 5 and 6 have learnt", done)
	}
	report, after := retrain(log)
	if len(report.Updates) != 1 || report.Updates[0].Kind != schemas.RunFull || report.Updates[0].Forgotten != 9 ||
		!report.Updates[0].Offered {
		t.Fatalf("%+v, expected one full run", report)
	}
	countsLearnt(t, log, job, report, []int64{9})
	if len(after) != 5 || !slices.Equal(after[:4], before[:4]) {
		t.Errorf("%v are left of %v", after, before)
	}
	retrain(weightless)
	forget(t, weightless, job, source.ToForget{Rows: rows})
	if _, want := retrain(weightless); after[4] != want[4] || slices.Contains(before, after[4]) {
		t.Errorf("version %s, expected %s", after[4], want[4])
	}
	if report, again := retrain(log); len(report.Updates) > 0 || !slices.Equal(again, after) {
		t.Errorf("%v became %v", after, again)
	}
	// The chain goes on from the full run, and the new rows of an update may be forgotten before it learns them.
	more := rings(400, 4, 3, 99)
	produce(t, log, job, 0, exampleMessage(t, more.exampleRows()))
	if done := forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/15/0-99")}); done.Rows != 100 ||
		len(done.Learnt) > 0 {
		t.Errorf("%+v, expected that none has learnt", done)
	}
	report, again := retrain(log)
	if len(report.Updates) != 1 || report.Updates[0].Kind != schemas.RunUpdate || report.Updates[0].Forgotten != 100 || len(again) != 6 {
		t.Errorf("%+v, %v; expected an update", report, again)
	}
	countsLearnt(t, log, job, report, []int64{9, 100})
	if same, err := replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, "latest", event.Ignore{}); err != nil || len(same) != 2 {
		t.Errorf("%v, %v", same, err)
	}
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
	if !slices.Equal(got, forgets) {
		t.Errorf("increments have %v forgotten rows, expected %v", got, forgets)
	}
	manifest := must(topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest))(t)
	if n := report.Updates[len(report.Updates)-1].WindowRows; n != left || manifest.WindowRows != left {
		t.Errorf("the report has a window of %d rows and the version of %d, expected %d of %d", n, manifest.WindowRows, left, w.Rows())
	}
}

// A source that was forgotten is not learnt and not ingested again, by no name.
func TestForgottenSource(t *testing.T) {
	long(t)
	data := rings(300, 3, 2, 1)
	job := newJob(t, data, table{}, rffStage(link.Identity, 10, 1))
	log := openEmbedded(t)
	train(t, log, job)
	other := job
	other.Examples.Train = []string{rings(250, 3, 2, 2).writeCSV(t, t.TempDir(), "other.csv")}
	want, _ := train(t, log, other)
	sources := sourcesOf(t, log, job.Name)
	if done := forget(t, log, job, source.ToForget{Sources: []string{sources[0].ID[:12]}}); done.Rows != 300 || done.Messages != 5 ||
		!slices.Equal(done.Learnt, []int{1}) {
		t.Errorf("%+v, expected 300 rows, and version 1", done)
	}
	for _, name := range []string{"train.csv", "renamed.csv"} {
		job.Examples.Train = []string{data.writeCSV(t, t.TempDir(), name)}
		err := trainError(t, log, job)
		if forgotten := "source " + sources[0].ID[:12] + " is forgotten"; !strings.Contains(fmt.Sprint(err), forgotten) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("error %v", err)
		}
		if err := source.Ingest(t.Context(), log, job, event.Ignore{}); !strings.Contains(fmt.Sprint(err), "is forgotten") {
			t.Errorf("error %v", err)
		}
	}
	if got, _ := train(t, log, other); got.WeightsDigest != want.WeightsDigest || len(got.PassedOver) > 0 {
		t.Errorf("%+v, expected digest %s", got, want.WeightsDigest)
	}
	all := other
	all.Examples.Train = nil
	if got, _ := train(t, log, all); got.PassedOver[coverage.ForgottenRow] != 300 {
		t.Errorf("passed over %v", got.PassedOver)
	}
}

// A run does not start from a version that has learnt from forgotten rows, and when another has been trained, train removes that version.
func TestTrainForgets(t *testing.T) {
	job, message := newForeignJob(t, rings(300, 2, 2, 1))
	log := openEmbedded(t)
	produce(t, log, job, 0, message, message)
	train(t, log, job)
	forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/1")})
	warm := job
	warm.Warm = "latest"
	if err := trainError(t, log, warm); !strings.Contains(fmt.Sprint(err), "trained on forgotten rows") {
		t.Errorf("error %v", err)
	}
	train(t, log, job)
	train(t, log, warm)
	var left []int
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	for _, v := range versions {
		left = append(left, v.Version)
	}
	if !slices.Equal(left, []int{2, 3}) {
		t.Errorf("the versions %d are left, %v, expected 2 and 3", left, err)
	}
}

// What is not there is named, and nothing is forgotten then, nor on a topic that deletes after a time what is forgotten.
func TestNothingIsForgottenInPart(t *testing.T) {
	job, message := newForeignJob(t, rings(40, 2, 2, 1))
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
		if _, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, what); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
	check := func() {
		t.Helper()
		if left := readTopic(t, log, "test.forget"); len(left) > 0 {
			t.Errorf("%d messages on the forget topic", len(left))
		}
	}
	check()
	noError(t, log.Delete(t.Context(), "test.forget"))
	noError(t, log.Create(t.Context(), kafkalog.Topic{Name: "test.forget", Partitions: 1, Config: map[string]string{"cleanup.policy": "delete",
		"retention.ms": "604800000"}}))
	if _, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Rows: good}); !strings.Contains(fmt.Sprint(err),
		"deletes messages that must stay") {
		t.Errorf("got error %v, expected that the topic deletes messages", err)
	}
	check()
}

func TestWrongNamesOfRows(t *testing.T) {
	for _, name := range []string{
		"", "a.examples", "a.examples/0", "b.examples/0/1", "a.examples/x/1", "a.examples/-1/1", "a.examples/0/1/2/3", "a.examples/0/3-2",
		"a.examples/0/-3", "a.examples/0/1-2/3",
		"a.examples/0/1/5-4", "a.examples/0/1/x", "a.examples/0/9223372036854775807", "a.examples/0/1/9223372036854775806",
	} {
		var what source.ToForget
		if err := what.AddRows("a.examples", "", name); err == nil {
			t.Errorf("%s became %+v", name, what)
		}
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
		at, err := log.Append(t.Context(), "clicks", partition, kafkalog.Message{Key: fmt.Append(nil, "u", user), Value: []byte(value)})
		noError(t, err)
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
		noError(t, what.AddRows("test.examples", topic, text))
		if err := what.AddRows("test.examples", "other", text); err == nil || len(what.Rows) > 0 {
			t.Fatalf("%s names rows of another topic: %+v", text, what)
		}
		read = append(read, what.Read...)
	}
	return read
}

// forgottenRows returns the second features of the rows of the examples that are forgotten, sorted.
func forgottenRows(t *testing.T, log *kafkalog.Log, job topics.Job) (rows []int) {
	t.Helper()
	p := topics.Open(log, job.Name, nil)
	f, err := source.ReadForgotten(t.Context(), p)
	if err == nil {
		err = source.CompareForgotten(t.Context(), p, f)
	}
	noError(t, err)
	mem := arrowtest.Allocator(t)
	for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Examples) {
		examples := must(examples.Decode(m.Value, mem))(t)
		features := make([]float32, examples.Rows*examples.Width)
		examples.Features(features, examples.Width)
		f.Rows.In(m.Partition, m.Offset, examples.Rows, func(first, end int) {
			for row := first; row < end; row++ {
				rows = append(rows, int(features[row*examples.Width+1]))
			}
		})
		examples.Release()
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
	done := forget(t, log, job, source.ToForget{Keys: []string{"u7", "u12"}, Read: sourceRows(t, places[41], places[55])})
	if got := forgottenRows(t, log, job); !slices.Equal(got, want) || done.Rows != int64(len(want)) {
		t.Errorf("%+v: the rows %v are forgotten, expected %v", done, got, want)
	}
	if report, _ := train(t, log, job); report.PassedOver[coverage.ForgottenRow] != int64(len(want)) {
		t.Errorf("passed over %v, expected %d forgotten rows", report.PassedOver, len(want))
	}
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
		if got := forgottenRows(t, log, job); !slices.Equal(got, want) {
			t.Errorf("%s: the rows %v are forgotten, expected %v", text, got, want)
		}
	}
	_, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Keys: []string{"u7", "u77"},
		Read: sourceRows(t, "clicks/0/1000", "visits/0/0")})
	if wrong, ok := errors.AsType[*topics.RefusedError](err); !ok || len(wrong.Reasons) != 3 ||
		!strings.Contains(wrong.Reasons[0], `has the key "u77"`) {
		t.Errorf("got error %v, expected one about what is not there", err)
	}
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
