package pipeline

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

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
	for _, name := range names {
		r := must(source.ParseRows(job.Name+".examples", name))(t)
		rows = append(rows, r)
	}
	return rows
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
		if forgotten, ok := errors.AsType[*source.ForgottenError](err); !ok || forgotten.Source != sources[0].ID ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("error %v", err)
		}
		if err := source.Ingest(t.Context(), log, job, event.Ignore{}); !errors.As(err, new(*source.ForgottenError)) {
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
	if err := trainError(t, log, warm); !errors.As(err, new(*source.LearntError)) {
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

// What is not there is named, and nothing is forgotten then.
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
	if left := readTopic(t, log, "test.forget"); len(left) > 0 {
		t.Errorf("%d messages on the forget topic", len(left))
	}
}

func TestWrongNamesOfRows(t *testing.T) {
	for _, name := range []string{
		"", "a.examples", "a.examples/0", "b.examples/0/1", "a.examples/x/1", "a.examples/-1/1", "a.examples/0/1/2/3", "a.examples/0/3-2",
		"a.examples/0/-3", "a.examples/0/1-2/3",
		"a.examples/0/1/5-4", "a.examples/0/1/x", "a.examples/0/9223372036854775807", "a.examples/0/1/9223372036854775806",
	} {
		if r, err := source.ParseRows("a.examples", name); err == nil {
			t.Errorf("%s became %+v", name, r)
		}
	}
}

// What is forgotten must stay forgotten: forget refuses a topic that deletes it after a time.
func TestForgetNeedsATopicThatKeepsWhatItSays(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	deletes := kafkalog.Topic{Name: job.Name + ".forget", Partitions: 1, Config: map[string]string{"cleanup.policy": "delete",
		"retention.ms": "604800000"}}
	noError(t, log.Create(t.Context(), deletes))
	fill(t, log, job, 0, 4)
	_, err := source.Forget(t.Context(), topics.Open(log, job.Name, nil), job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/1")})
	if wrong, ok := errors.AsType[*topics.PolicyError](err); !ok || wrong.Topic != deletes.Name {
		t.Errorf("got error %v, expected a *PolicyError that names %s", err, deletes.Name)
	}
	if messages := readTopic(t, log, deletes.Name); len(messages) > 0 {
		t.Errorf("%d messages are on %s", len(messages), deletes.Name)
	}
}
