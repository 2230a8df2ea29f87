package pipeline

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/chain"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// standingRows is how many rows a message has in the tests of what a chain stands on. An update takes two messages.
const standingRows = 40

// standingJob returns a job that learns messages of other producers.
func standingJob(t *testing.T, partitions int) topics.Job {
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages = []schemas.Stage{rffStage(link.Softmax, 16, 3)}
	job.Examples.Partitions, job.Keep = partitions, 1000
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full = 2*standingRows, 1, topics.FullOptions{}
	return job
}

// fill writes messages with different rows, round the partitions.
func fill(t *testing.T, log *kafkalog.Log, job topics.Job, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		produce(t, log, job, i%job.Examples.Partitions, exampleMessage(t, rings(standingRows, 4, 3, uint64(i)).exampleRows()))
	}
}

// retrainToEnd learns all that the topic has.
func retrainToEnd(t *testing.T, log *kafkalog.Log, job topics.Job) (*Retraining, *eventRecorder) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	rec := &eventRecorder{}
	report := must(Retrain(ctx, log, openBLAS(t), job, true, rec))(t)
	if behind := eventsOf[event.Behind](rec); len(behind) > 0 && behind[len(behind)-1].Messages > 0 {
		t.Errorf("at the end %d messages are behind", behind[len(behind)-1].Messages)
	}
	return report, rec
}

// made describes the versions of a report.
func made(report *Retraining) (list []string) {
	for _, u := range report.Updates {
		text := fmt.Sprintf("%s %d of %d", u.Kind, u.Rows, u.WindowRows)
		if u.Lost > 0 {
			text += fmt.Sprintf(", %d lost", u.Lost)
		}
		if u.Gone > 0 {
			text += fmt.Sprintf(", %d gone", u.Gone)
		}
		if !u.Offered {
			text += ", withheld"
		}
		list = append(list, text)
	}
	return list
}

// expect compares versions of a report with what they should be.
func expect(t *testing.T, what string, report *Retraining, want ...string) {
	t.Helper()
	if got := made(report); !slices.Equal(got, want) {
		t.Errorf("%s: the versions are\n%s\nexpected\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// notices returns whether a notice has a text.
func noticed(rec *eventRecorder, text string) bool {
	return slices.ContainsFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool { return strings.Contains(n.Text, text) })
}

// What the log has deleted of the window leaves it by a full run over the rest, whether the chain knows the retention
// or not. A second start finds nothing to do.
func TestDeletedExamplesLeaveTheWindow(t *testing.T) {
	for name, retention := range map[string]time.Duration{"retention known": 7 * 24 * time.Hour, "retention unknown": 0} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			job.Topics = topics.DefaultTopics()
			job.Topics.Retention.Examples = retention
			fill(t, log, job, 0, 10)
			retrainToEnd(t, log, job)
			deleteRecords(t, log, job.Name+".examples", 0, 3)
			fill(t, log, job, 10, 14)
			report, _ := retrainToEnd(t, log, job)
			expect(t, "after the deletion", report, "full 0 of 280, 120 gone, withheld", "update 80 of 360, withheld",
				"update 80 of 440")
			report, _ = retrainToEnd(t, log, job)
			expect(t, "at the next start", report)
		})
	}
}

// After an outage that was longer than the retention, subscribers keep their version until the chain has learnt as many rows
// as before, or the gate finds a version good, or the configuration or a pin accepts the loss.
func TestRetentionDuringAnOutage(t *testing.T) {
	withheld := []string{"full 80 of 80, 400 gone, withheld", "update 80 of 160, withheld", "update 80 of 240, withheld"}
	for name, test := range map[string]struct {
		change func(*topics.Job)
		want   []string
		then   []string // of ten more messages
	}{
		"by default": {func(*topics.Job) {}, withheld, []string{"update 80 of 320, withheld", "update 80 of 400", "update 80 of 480",
			"update 80 of 560", "update 80 of 640"}},
		"accepted": {func(job *topics.Job) { job.Retrain.AcceptLoss = true },
			[]string{"full 80 of 80, 400 gone", "update 80 of 160", "update 80 of 240"},
			[]string{"update 80 of 320", "update 80 of 400", "update 80 of 480", "update 80 of 560", "update 80 of 640"}},
		// What leaves the window afterwards leaves it as intended, so the chain does not wait for rows that it can't have again.
		"a window of fewer rows": {func(job *topics.Job) { job.Retrain.Window.Increments = 3 }, withheld,
			[]string{"update 80 of 240, withheld", "update 80 of 240", "update 80 of 240", "update 80 of 240", "update 80 of 240"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			fill(t, log, job, 0, 10)
			retrainToEnd(t, log, job)
			test.change(&job)
			deleteRecords(t, log, job.Name+".examples", 0, 10)
			fill(t, log, job, 10, 16)
			report, rec := retrainToEnd(t, log, job)
			expect(t, "after the outage", report, test.want...)
			if !noticed(rec, "test.examples deleted messages of version 5 while they were in the window") {
				t.Errorf("noticed are %v", eventsOf[event.Noticed](rec))
			}
			fill(t, log, job, 16, 26)
			report, _ = retrainToEnd(t, log, job) // another process
			expect(t, "later", report, test.then...)
		})
	}
}

// What the log has deleted before a version has learnt it is counted as lost, once.
func TestDeletedBacklogIsLost(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 6)
	retrainToEnd(t, log, job)
	fill(t, log, job, 6, 13)
	deleteRecords(t, log, job.Name+".examples", 0, 9)
	report, rec := retrainToEnd(t, log, job)
	expect(t, "after the deletion", report, "full 80 of 80, 3 lost, 240 gone, withheld", "update 80 of 160, withheld")
	if !noticed(rec, "offsets 6 to 8") {
		t.Errorf("no notice says what is lost: %v", eventsOf[event.Noticed](rec))
	}
	report, _ = retrainToEnd(t, log, job)
	expect(t, "at the next start", report)
}

// A chain whose state is lost covers the window that it had: it never offers a version that has learnt less.
func TestLostStateIsMadeAgain(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 2)
	job.Retrain.Window.Increments = 5
	fill(t, log, job, 0, 20)
	before, _ := retrainToEnd(t, log, job)
	if last := before.Updates[len(before.Updates)-1]; last.WindowRows != 400 {
		t.Fatalf("the window has %d rows, expected 400", last.WindowRows)
	}
	noError(t, log.Delete(t.Context(), job.Name+".state"))
	fill(t, log, job, 20, 23)
	report, rec := retrainToEnd(t, log, job)
	expect(t, "after the loss", report, "full 0 of 400", "update 80 of 400", "update 40 of 360")
	if !noticed(rec, ".state has lost the state") {
		t.Errorf("no notice says what is lost: %v", eventsOf[event.Noticed](rec))
	}
	// The plans since the last full run are gone too: the window is all that the chain has looked at.
	manifest := must(topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest))(t)
	window := must(chain.WindowOfPlans(manifest, nil, false))(t)
	if got := fmt.Sprint(window.Increments[0].Increment.Covered, window.Ends); got != "[{[[0]@0–12] 0 0 0} {[[1]@0–11] 0 0 0}] [12 11]" {
		t.Errorf("all that the chain has looked at is %s", got)
	}
}

// cutOff makes a topic what an unclean election leaves that has lost its last messages.
func cutOff(t *testing.T, log *kafkalog.Log, job topics.Job, name string, lost int) {
	t.Helper()
	all := readTopic(t, log, name)
	noError(t, log.Delete(t.Context(), name))
	for _, topic := range topics.Topics(job) {
		if topic.Name == name {
			noError(t, log.Create(t.Context(), topic))
		}
	}
	must(log.Append(t.Context(), name, 0, all[:len(all)-lost]...))(t)
}

// If the newest version has lost a part, the newest that is whole counts for the chain and for subscribers.
func TestIncompleteVersionIsPassedOver(t *testing.T) {
	for name, lost := range map[string]int{"its manifest": 1, "all of it": 3} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			fill(t, log, job, 0, 10)
			retrainToEnd(t, log, job)
			cutOff(t, log, job, job.Name+".versions", lost)
			if m, err := topics.Open(log, job.Name, nil).Model(t.Context(), protocol.Latest); err != nil || m.Manifest.Version != 4 {
				t.Errorf("the latest version is %v: %v, expected version 4", m, err)
			}
			fill(t, log, job, 10, 12)
			report, rec := retrainToEnd(t, log, job)
			expect(t, "after the loss", report, "full 0 of 320", "update 80 of 400", "update 80 of 480")
			if passed := eventsOf[event.Incomplete](rec); len(passed) != 1 || passed[0].Version != 5 {
				t.Errorf("passed over are %v, expected version 5, once", passed)
			}
			if m, err := topics.Open(log, job.Name, nil).Model(t.Context(), protocol.Latest); err != nil || m.Manifest.Version != 8 {
				t.Errorf("the latest version is %v: %v, expected version 8", m, err)
			}
		})
	}
}

// If the plans are lost, the versions that are whole count again, and the chain goes on from the newest. Removed ones stay removed.
func TestLostPlansAreMadeAgain(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 8)
	retrainToEnd(t, log, job)
	must(admin.RemoveVersions(t.Context(), topics.Open(log, job.Name, nil), []string{"2"}, false))(t)
	noError(t, log.Delete(t.Context(), job.Name+".plans"))
	fill(t, log, job, 8, 10)
	report, rec := retrainToEnd(t, log, job)
	expect(t, "after the loss", report, "update 80 of 400")
	if !noticed(rec, "1, 3 and 4 are complete on") {
		t.Errorf("noticed are %v", eventsOf[event.Noticed](rec))
	}
	if m, err := topics.Open(log, job.Name, nil).Model(t.Context(), protocol.Latest); err != nil || m.Manifest.Version != 5 {
		t.Errorf("the latest version is %v: %v, expected version 5", m, err)
	}
}

// Of examples that were truncated the chain keeps what it can prove, and learns what was written afterwards.
func TestExamplesTruncated(t *testing.T) {
	for name, written := range map[string]int{"nothing written since": 0, "fewer written than lost": 2, "more": 9} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			fill(t, log, job, 0, 10)
			produce(t, log, job, 0, kafkalog.Message{Value: []byte("of no use")})
			retrainToEnd(t, log, job)
			truncate(t, log, job, 7)
			fill(t, log, job, 100, 100+written)
			report, rec := retrainToEnd(t, log, job)
			if replaced := eventsOf[event.Replaced](rec); len(replaced) != 1 || replaced[0].Looked != 11 || replaced[0].Proven != 6 ||
				replaced[0].Rows != 160 {
				t.Errorf("noticed is %+v", replaced)
			}
			if report.Rows != int64((1+written)*standingRows) { // the seventh is of an increment that is gone
				t.Errorf("%d rows are learnt, expected %d", report.Rows, (1+written)*standingRows)
			}
			if first := report.Updates[0]; first.Kind != schemas.RunFull || first.WindowRows != 240 || first.Gone != 160 || first.Offered {
				t.Errorf("the first version is %+v", first)
			}
			last := report.Updates[len(report.Updates)-1]
			if want := int64((7 + written) * standingRows); last.WindowRows != want || last.Offered != (want >= 400) {
				t.Errorf("the last version has %d rows, offered: %v; expected %d", last.WindowRows, last.Offered, want)
			}
		})
	}
}

// truncate leaves only the first messages of the examples topic, which has one partition.
func truncate(t *testing.T, log *kafkalog.Log, job topics.Job, messages int) {
	t.Helper()
	all := readTopic(t, log, job.Name+".examples")
	noError(t, log.Delete(t.Context(), job.Name+".examples"))
	for _, topic := range topics.Topics(job) {
		if topic.Name == job.Name+".examples" {
			noError(t, log.Create(t.Context(), topic))
		}
	}
	client := clientOf(t, log)
	for _, m := range all[:messages] {
		r := &kgo.Record{Topic: job.Name + ".examples", Key: m.Key, Value: m.Value, Timestamp: m.Time}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		noError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
}

func clientOf(t *testing.T, log *kafkalog.Log, o ...kgo.Opt) *kgo.Client {
	t.Helper()
	client := must(kgo.NewClient(append(o, kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))...))(t)
	t.Cleanup(client.Close)
	return client
}

// Runs that fail count since the last version, full or not.
func TestFailuresCountSinceTheLastVersion(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	job.Retrain.Full.Every = 1
	fill(t, log, job, 0, 4)
	retrainToEnd(t, log, job)
	p := topics.Open(log, job.Name, nil)
	fails := true
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, nil, event.Ignore{})
	r.work = func(_ context.Context, plan *schemas.Plan, _ *protocol.Ledger) (*schemas.Report, error) {
		if fails = !fails; fails {
			return nil, &dispatch.RunError{Run: plan.Run(), State: schemas.Failed, Reason: "a test"}
		}
		return &schemas.Report{Retrain: &schemas.RetrainReport{Kind: schemas.RunFull}}, nil
	}
	r.pause = func(context.Context, time.Duration) error { return nil }
	for range 4 * maxFailures {
		if err := r.execute(t.Context(), &schemas.Plan{Chain: &schemas.Chain{}}, nil); err != nil {
			t.Fatalf("after %d failures since the last version: %v", r.failures, err)
		}
	}
}

// After all rows were forgotten at once, the report of the next version has its new rows alone, as its manifest has.
func TestReportAfterAllRowsWereForgotten(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 8)
	retrainToEnd(t, log, job)
	forget(t, log, job, admin.ToForget{Rows: rowsNamed(t, job, "test.examples/0/0-7"), Now: true})
	fill(t, log, job, 8, 9)
	report, _ := retrainToEnd(t, log, job)
	expect(t, "of the new rows", report, "full 40 of 40")
	if m, err := topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest); err != nil || m.WindowRows != 40 {
		t.Errorf("the manifest is %+v: %v", m, err)
	}
}

// A process that retrains with another configuration than that of the newest version says so once, with the keys.
func TestRunNamesSettingsThatDiffer(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	retrainToEnd(t, log, job)
	other := job
	other.Retrain.Rows, other.Examples.Holdout, other.Retrain.Full.Every, other.Seed = 7, 0.5, 3, job.Seed+1
	other.Memory, other.Retrain.AcceptLoss = 1<<28, true
	for i, test := range []struct {
		job  topics.Job
		want string
	}{
		{job, ""},
		{other, ": examples.holdout, retrain.accept_loss, retrain.full.every, retrain.rows, seed. "},
		{other, ""},
		{job, ": examples.holdout, retrain.accept_loss, retrain.full.every, retrain.rows, seed. "},
	} {
		fill(t, log, test.job, 4+2*i, 6+2*i)
		_, rec := retrainToEnd(t, log, test.job)
		var said []string
		for _, e := range eventsOf[event.Noticed](rec) {
			if strings.Contains(e.Text, "configuration differs") {
				said = append(said, e.Text)
			}
		}
		if (test.want == "") != (len(said) == 0) || test.want != "" && (len(said) != 1 || !strings.Contains(said[0], test.want)) {
			t.Errorf("run %d: said %q, expected %q", i, said, test.want)
		}
	}
}

// A process that stands by says once how its configuration differs from that of the active process.
func TestStandbyNamesSettingsThatDiffer(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	other := job
	other.Examples.Holdout, other.Seed = 0.5, job.Seed+1
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	start := func(job topics.Job, rec event.Recorder) {
		own, blas := connect(t, log), openBLAS(t)
		running.Go(func() {
			if _, err := Retrain(ctx, own, blas, job, false, rec); !errors.Is(err, context.Canceled) {
				t.Errorf("it ended: %v", err)
			}
		})
	}
	made, stands := make(chan struct{}, 10), make(chan struct{}, 10)
	active, standby := &eventRecorder{}, &eventRecorder{}
	active.on = func(e event.Event) {
		if _, ok := e.(event.Retrained); ok {
			made <- struct{}{}
		}
	}
	standby.on = func(e event.Event) {
		if n, ok := e.(event.Noticed); ok && strings.Contains(n.Text, "configuration differs") {
			stands <- struct{}{}
		}
	}
	fill(t, log, job, 0, 4)
	start(job, active)
	<-made
	start(other, standby)
	<-stands
	fill(t, log, job, 4, 6)
	<-made
	var said []string
	for _, e := range eventsOf[event.Noticed](standby) {
		said = append(said, e.Text)
	}
	if len(said) != 1 || !strings.Contains(said[0], ": examples.holdout, seed. ") || len(eventsOf[event.Retrained](standby)) > 0 ||
		noticed(active, "configuration differs") {
		t.Errorf("the standby says %q, the active process %+v", said, eventsOf[event.Noticed](active))
	}
}
