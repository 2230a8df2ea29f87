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

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
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

// said reports whether an event says a text: a notice, or another in its fields.
func said(rec *eventRecorder, text string) bool {
	return slices.ContainsFunc(eventsOf[event.Event](rec), func(e event.Event) bool { return strings.Contains(fmt.Sprintf("%T%+v", e, e), text) })
}

// Whatever a chain stands on is lost, it goes on with what is left, and says what is gone. No version is offered that has learnt less than
// the one before it, unless the configuration accepts that.
func TestChainOutlivesLosses(t *testing.T) {
	outage := func(t *testing.T, log *kafkalog.Log, job topics.Job) {
		deleteRecords(t, log, job.Name+".examples", 0, 10)
		fill(t, log, job, 10, 16)
	}
	withheld := []string{"full 80 of 80, 400 gone, withheld", "update 80 of 160, withheld", "update 80 of 240, withheld"}
	expired := func(retention time.Duration) func(*topics.Job) {
		return func(job *topics.Job) {
			job.Topics = topics.DefaultTopics()
			job.Topics.Retention.Examples = retention
		}
	}
	deleted := func(t *testing.T, log *kafkalog.Log, job topics.Job) {
		deleteRecords(t, log, job.Name+".examples", 0, 3)
		fill(t, log, job, 10, 14)
	}
	afterDeletion := []string{"full 0 of 280, 120 gone, withheld", "update 80 of 360, withheld", "update 80 of 440"}
	truncated := func(written int) func(*testing.T, *kafkalog.Log, topics.Job) {
		return func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			truncate(t, log, job, 7)
			fill(t, log, job, 100, 100+written)
		}
	}
	lostVersions := func(lost int) func(*testing.T, *kafkalog.Log, topics.Job) {
		return func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			cutOff(t, log, job, job.Name+".versions", lost)
			if m, err := topics.Open(log, job.Name, nil).Model(t.Context(), protocol.Latest); err != nil || m.Manifest.Version != 4 {
				t.Errorf("the latest version is %v: %v, expected version 4", m, err)
			}
			fill(t, log, job, 10, 12)
		}
	}
	for name, test := range map[string]struct {
		partitions, before int               // messages that are learnt before the loss
		change             func(*topics.Job) // if not nil, of the configuration
		later              bool              // it is changed after the loss
		lose               func(*testing.T, *kafkalog.Log, topics.Job)
		want               []string
		says               string
		latest             int      // the version that subscribers get then
		then               []string // of ten more messages, if not nil; else another process finds nothing to do
		check              func(*testing.T, *schemas.Manifest)
	}{
		"examples, the retention is known": {1, 10, expired(7 * 24 * time.Hour), false, deleted, afterDeletion, "", 8, nil, nil},
		"examples":                         {1, 10, expired(0), false, deleted, afterDeletion, "", 8, nil, nil},
		"all examples": {1, 10, nil, false, outage, withheld, "test.examples deleted messages of version 5 while they were in the window", 5,
			[]string{"update 80 of 320, withheld", "update 80 of 400", "update 80 of 480", "update 80 of 560", "update 80 of 640"}, nil},
		"all examples, accepted": {1, 10, func(job *topics.Job) { job.Retrain.AcceptLoss = true }, true, outage,
			[]string{"full 80 of 80, 400 gone", "update 80 of 160", "update 80 of 240"}, "test.examples deleted messages", 8,
			[]string{"update 80 of 320", "update 80 of 400", "update 80 of 480", "update 80 of 560", "update 80 of 640"}, nil},
		// What leaves the window afterwards leaves it as intended, so the chain does not wait for rows that it can't have again.
		"all examples, then a shorter window": {1, 10, func(job *topics.Job) { job.Retrain.Window.Increments = 3 }, true, outage, withheld, "", 5,
			[]string{"update 80 of 240, withheld", "update 80 of 240", "update 80 of 240", "update 80 of 240", "update 80 of 240"}, nil},
		"examples that were not learnt": {1, 6, nil, false, func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			fill(t, log, job, 6, 13)
			deleteRecords(t, log, job.Name+".examples", 0, 9)
		}, []string{"full 80 of 80, 3 lost, 240 gone, withheld", "update 80 of 160, withheld"}, "offsets 6 to 8", 3, nil, nil},
		"the last examples": {1, 10, nil, false, truncated(0), []string{"full 0 of 240, 160 gone, withheld", "update 40 of 280, withheld"},
			"Looked:10 Proven:6 Rows:160", 5, nil, nil},
		"the last examples, and fewer are written": {1, 10, nil, false, truncated(2), []string{"full 0 of 240, 160 gone, withheld",
			"update 80 of 320, withheld", "update 40 of 360, withheld"}, "Looked:10 Proven:6 Rows:160", 5, nil, nil},
		"the last examples, and more are written": {1, 10, nil, false, truncated(9), []string{"full 0 of 240, 160 gone, withheld",
			"update 80 of 320, withheld", "update 80 of 400", "update 80 of 480", "update 80 of 560", "update 80 of 640"},
			"Looked:10 Proven:6 Rows:160", 11, nil, nil},
		"the state": {2, 20, func(job *topics.Job) { job.Retrain.Window.Increments = 5 }, false, func(t *testing.T, log *kafkalog.Log,
			job topics.Job) {
			noError(t, log.Delete(t.Context(), job.Name+".state"))
			fill(t, log, job, 20, 23)
		}, []string{"full 0 of 400", "update 80 of 400", "update 40 of 360"}, ".state has lost the state", 13, nil, func(t *testing.T, m *schemas.Manifest) {
			// The plans since the last full run are gone too: the window is all that the chain has looked at.
			window := windowOfPlans(m, nil, false)
			if got := fmt.Sprint(window.Increments[0].Increment.Covered, window.Ends); got != "[{[[0]@0–12] 0 0 0} {[[1]@0–11] 0 0 0}] [12 11]" {
				t.Errorf("all that the chain has looked at is %s", got)
			}
		}},
		"the manifest of the newest version": {1, 10, nil, false, lostVersions(1), []string{"full 0 of 320", "update 80 of 400",
			"update 80 of 480"}, "Version:5", 8, nil, nil},
		"the newest version": {1, 10, nil, false, lostVersions(3), []string{"full 0 of 320", "update 80 of 400", "update 80 of 480"},
			"Version:5", 8, nil, nil},
		"the plans": {1, 8, nil, false, func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			must(topics.RemoveVersions(t.Context(), topics.Open(log, job.Name, nil), []string{"2"}, false))(t)
			noError(t, log.Delete(t.Context(), job.Name+".plans"))
			fill(t, log, job, 8, 10)
		}, []string{"update 80 of 400"}, "1, 3 and 4 are complete on", 5, nil, nil},
		"all versions, as all rows are forgotten": {1, 8, nil, false, func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/0-7"), Now: true})
			fill(t, log, job, 8, 9)
		}, []string{"full 40 of 40"}, "", 5, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, test.partitions)
			if test.change != nil && !test.later {
				test.change(&job)
			}
			fill(t, log, job, 0, test.before)
			retrainToEnd(t, log, job)
			if test.change != nil {
				test.change(&job)
			}
			test.lose(t, log, job)
			report, rec := retrainToEnd(t, log, job)
			expect(t, "after the loss", report, test.want...)
			if !said(rec, test.says) {
				t.Errorf("nothing says %q: %+v", test.says, rec.events)
			}
			offered := report.Updates[len(report.Updates)-1]
			m := must(topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest))(t)
			if m.Version != test.latest || offered.Offered && m.WindowRows != offered.WindowRows {
				t.Errorf("the latest version is %d, of %d rows, expected version %d", m.Version, m.WindowRows, test.latest)
			}
			if test.check != nil {
				test.check(t, m)
			}
			if test.then != nil {
				fill(t, log, job, 16, 26)
			}
			report, _ = retrainToEnd(t, log, job) // another process
			expect(t, "later", report, test.then...)
		})
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

// A chain over more segments than a plan may have gets longer segments, says so, and its run is made. A plan that
// nobody would work on is an error, and is not written.
func TestPlansOfAChainAreCheckedFirst(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	p, rec := topics.Open(log, job.Name, nil), &eventRecorder{}
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, nil, rec)
	var worked *schemas.Plan
	r.work = func(_ context.Context, plan *schemas.Plan, _ *protocol.Ledger) (*schemas.Report, error) {
		worked = plan
		return nil, context.Canceled
	}
	plan := func(to int64) *schemas.Plan {
		return &schemas.Plan{
			Name: job.Name, Missing: layout.MissingError, OnBadMessage: job.OnBadMessage, Prepare: job.Prepare, Stages: job.Stages, Segment: 3,
			Spans: coverage.Spans{{Partition: 0, From: 0, To: to}}, Chain: &schemas.Chain{Number: 1},
		}
	}
	if err := r.submit(t.Context(), plan(25*schemas.MaxSegments)); !errors.Is(err, context.Canceled) || worked == nil {
		t.Fatalf("%v: the run is not made", err)
	}
	if worked.Segment != 48 || worked.Run() != r.made || !noticed(rec, "segments of 48 messages") {
		t.Errorf("segments of %d messages, notices %v; expected 48", worked.Segment, eventsOf[event.Noticed](rec))
	}
	end := &schemas.End{Run: worked.Run(), State: schemas.Failed, Reason: "a test"}
	noError(t, dispatch.End(t.Context(), p, end))
	worked = nil
	few := plan(3 * schemas.MaxSegments)
	few.Chain.Attempt = 1
	if err := r.submit(t.Context(), few); !errors.Is(err, context.Canceled) || worked == nil || worked.Segment != 3 {
		t.Errorf("as many segments as a plan may have: %v, plan %+v", err, worked)
	}
	for what, spoil := range map[string]func(*schemas.Plan){
		"a class twice":       func(p *schemas.Plan) { p.Classes = []string{"a", "a"} },
		"an unknown link":     func(p *schemas.Plan) { p.Stages = []schemas.Stage{{Link: "none"}} },
		"segments of nothing": func(p *schemas.Plan) { p.Segment = 0 },
	} {
		before, wrong := len(readTopic(t, log, p.Topics.Plans)), plan(4)
		if spoil(wrong); r.submit(t.Context(), wrong) == nil {
			t.Errorf("a plan with %s is no error", what)
		}
		if after := len(readTopic(t, log, p.Topics.Plans)); after != before {
			t.Errorf("a plan with %s is on the topic", what)
		}
	}
}

// forgetfulLog acknowledges messages of a topic and loses them.
type forgetfulLog struct {
	protocol.Log
	topic string
}

func (l forgetfulLog) Append(ctx context.Context, topic string, partition int, messages ...wire.Message) (int64, error) {
	if topic == l.topic {
		return 0, nil
	}
	return l.Log.Append(ctx, topic, partition, messages...)
}

// A chain whose plan is not on the topic, though it was written, waits before it plans the run again.
func TestPlansThatAreLostAreNotWrittenAgainAtOnce(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	p := topics.OpenFor(log, job, nil)
	client := *p.Client
	client.Log = forgetfulLog{client.Log, p.Topics.Plans}
	p.Client = &client
	work := func(context.Context, *schemas.Plan, *protocol.Ledger) (*schemas.Report, error) {
		panic("nobody has the plan")
	}
	join := func(context.Context) (execution, func(), error) { return work, func() {}, nil }
	rec, pauses := &eventRecorder{}, 0
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, join, rec)
	r.pause = func(context.Context, time.Duration) error {
		if pauses++; pauses == 3 {
			return context.Canceled
		}
		return nil
	}
	if err := r.run(t.Context(), true); !errors.Is(err, context.Canceled) || pauses != 3 || !noticed(rec, "planning the run again") {
		t.Errorf("%v after %d pauses, expected 3", err, pauses)
	}
}
