package page

import (
	"context"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// openLog opens an embedded broker that listens, for one test.
func openLog(t *testing.T) *kafkalog.Log {
	t.Helper()
	return openOn(t, kafkalog.Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
}

func openOn(t *testing.T, o kafkalog.Options) *kafkalog.Log {
	t.Helper()
	log := assert.Must(kafkalog.Open(t.Context(), o))(t)
	t.Cleanup(func() { assert.Fails(t, log.Close(), nil) })
	return log
}

func openBLAS(t *testing.T) *kernel.BLAS {
	t.Helper()
	return assert.Must(kernel.Open(os.Getenv("STAGEWISE_BLAS")))(t)
}

// digits is a job on the digits that the repository carries: two stages of 64 random Fourier features.
func digits() topics.Job {
	examples, stage := ingest.Defaults(), solve.Defaults()
	examples.Train, examples.Test = []string{"../examples/digits/digits-train.csv.gz"}, []string{"../examples/digits/digits-test.csv.gz"}
	stage.Features, stage.Link = stages.Defaults(), link.Softmax
	stage.Features.Size, stage.Features.BandwidthScale = 64, 2
	return topics.Job{
		Name: "digits", Examples: examples, Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Stages: []schemas.Stage{stage, stage},
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16, Memory: 1 << 28,
	}
}

// reading reads a pipeline, by a connection of its own, until the test ends.
func reading(t *testing.T, log *kafkalog.Log, name string) *Board {
	t.Helper()
	return readingAt(t, log.Addr(), name)
}

func readingAt(t *testing.T, brokers []string, name string) *Board {
	t.Helper()
	return readingOptions(t, brokers, Options{Name: name})
}

func readingOptions(t *testing.T, brokers []string, o Options) *Board {
	t.Helper()
	o.Brokers, o.Every = "the brokers", 100*time.Millisecond
	board, ended := NewBoard(), make(chan struct{})
	other := openOn(t, kafkalog.Options{Brokers: brokers})
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		Read(ctx, other, o, board)
	}()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return board
}

// await waits until a board has a state that a function accepts, and returns it.
func await(t *testing.T, board *Board, what string, accepts func(*State) bool) *State {
	t.Helper()
	timeout := time.After(time.Minute)
	for {
		s, _, changed := board.newest()
		if accepts(s) {
			return s
		}
		select {
		case <-changed:
		case <-timeout:
			t.Fatalf("there is no state with %s: %+v", what, s)
		}
	}
}

func need(s *State, part string) bool {
	return slices.ContainsFunc(s.Summary.Needs, func(n Need) bool { return strings.Contains(n.Text, part) })
}

// A page that begins before the topics are there, or after all is done, shows what a run's report says, and while the
// run goes on, the same passes.
func TestRunIsShown(t *testing.T) {
	log := openLog(t)
	before := reading(t, log, "digits")
	await(t, before, "a notice that there are no topics", func(s *State) bool { return need(s, "has no topics yet") })
	report, _, err := pipeline.Train(t.Context(), log, openBLAS(t), digits(), dispatch.TrainOptions{}, nil)
	assert.NoError(t, err)
	for when, board := range map[string]*Board{"before": before, "after": reading(t, log, "digits")} {
		s := await(t, board, "a finished run, and an embedded broker", func(s *State) bool {
			return s.Run != nil && s.Run.State == schemas.Done && s.Quality != nil && len(s.Topics) > 0 && s.Topics[0].Lag != nil &&
				*s.Topics[0].Lag == 0 && s.Staff.Embedded
		})
		assert.Need(t, s.Run.ID == report.Run && len(s.Run.Stages) == len(report.Stages), "%s: run %+v, expected %s", when, s.Run, report.Run)
		for i, stage := range s.Run.Stages {
			assert.True(t, stage.Done != nil && slices.EqualFunc(stage.Done.ByPass, report.Stages[i].ByPass,
				func(a, b schemas.PassReport) bool { return a.TrainLoss == b.TrainLoss }),
				"%s: stage %d is %+v, expected %+v", when, i, stage.Done, report.Stages[i])
		}
		v := s.Versions[0]
		assert.True(t, len(s.Versions) == 1 && v.Version == 1 && v.Run == report.Run && v.Latest && v.Offered && v.Kind == kindTrain &&
			v.Rows == report.Rows && *v.TestError == *report.TestError && v.Digest == report.WeightsDigest.Short(), "%s: version %+v", when, v)
		test := report.Splits["test"]
		q := s.Quality
		assert.True(t, q.Split == "test" && !q.Before && q.Rows == test.Rows && q.Error == test.Error &&
			slices.EqualFunc(q.Confusion, test.Confusion, slices.Equal) && slices.Equal(q.Reliability, test.Reliability), "%s: quality %+v", when, q)
		assert.True(t, s.Summary.Verdict == "All is well." && s.Summary.Facts[0].Answer == "Up to date" &&
			s.Summary.Facts[1].Answer == percent(*report.TestError) && s.Summary.Facts[2].Answer == "Version 1" &&
			s.Summary.Facts[3].Answer == "No active run", "%s: summary %+v", when, s.Summary)
	}
}

// While a run goes on, it has the passes of its accepted weights, as the report has them later, and the partitions that have published
// their part of what is due.
func TestPassesAreShown(t *testing.T) {
	log, job := openLog(t), digits()
	job.Examples.BatchRows = 64 // so that each partition has some
	report, _, err := pipeline.Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, nil)
	assert.NoError(t, err)
	client := protocol.NewClient(log, "digits", nil)
	f := newFollowed(assert.Must(client.ReadLedger(t.Context()))(t).Plan(report.Run), client)
	for range 2 { // messages may come twice
		for _, s := range assert.Must(client.Log.Spans(t.Context(), client.Topics.Statistics))(t) {
			for m, err := range client.Remaining(t.Context(), client.Topics.Statistics, s.Partition, 0, math.MaxInt64) {
				assert.NoError(t, err)
				f.add(false, m)
			}
		}
	}
	sealed := place{stage: 0, visit: residuals}
	s := f.state()
	assert.True(t, s.State == stateRunning && s.Have == 4 && len(f.of) == 4 && maps.Equal(f.parts[sealed], f.of),
		"of the partitions %v, %d are surveyed, and %v sealed", f.of, s.Have, f.parts[sealed])
	for m, err := range client.Remaining(t.Context(), client.Topics.Weights, 0, 0, math.MaxInt64) {
		assert.NoError(t, err)
		f.add(true, m)
	}
	for i, stage := range f.state().Stages {
		assert.True(t, stage.Done != nil && len(stage.Passes) == 0, "stage %d: report %v, and the passes %+v", i, stage.Done, stage.Passes)
	}
	clear(f.reports)
	for i, stage := range f.state().Stages {
		passes := report.Stages[i].ByPass
		assert.True(t, len(passes) != 0 && reflect.DeepEqual(stage.Passes, passes),
			"stage %d has the passes %+v, expected %+v", i, stage.Passes, passes)
	}
	assert.True(t, len(f.parts) <= len(job.Stages), "parts of visits that are over: %v", f.parts)
}

// The versions of a chain have the errors before learning that its report has, their parents, and what the gate decided.
func TestChainIsShown(t *testing.T) {
	log, job := openLog(t), digits()
	job.Examples.Test, job.Examples.BatchRows, job.Retrain = nil, 64, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full.Growth, job.Keep = 256, 2, 0, 20
	board := reading(t, log, "digits")
	result := assert.Must(pipeline.Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
	n := len(result.Updates)
	s := await(t, board, "all versions", func(s *State) bool {
		return len(s.Versions) == n && s.Quality != nil && s.Quality.Version == n && *s.Topics[0].Lag == 0 && s.Run != nil && s.Run.Version == n
	})
	for i, v := range s.Versions {
		u := result.Updates[i]
		same := (v.PrequentialError == nil) == (u.PrequentialError == nil) && (v.PrequentialError == nil ||
			*v.PrequentialError == *u.PrequentialError)
		assert.True(t, v.Version == u.Version && v.Kind == u.Kind && v.Rows == u.Rows && v.Offered == u.Offered && same,
			"version %+v, expected %+v", v, u)
		parent := fmt.Sprint(i)
		assert.True(t, i == 0 || v.Parent == parent, "version %d goes on from %q, expected %s", v.Version, v.Parent, parent)
	}
	assert.True(t, s.Run.Version == n, "the last run %+v, expected that of version %d", s.Run, n)
	q := s.Quality
	assert.True(t, q.Before && q.Split == "train" && len(q.Curve) != 0 && q.Rows == result.Updates[n-1].Rows, "quality %+v", s.Quality)
	assert.Must(topics.Pin(t.Context(), topics.Open(log, "digits", nil), "2"))(t)
	s = await(t, board, "a pin", func(s *State) bool { return need(s, "Version 2 is pinned") && s.Quality.Version == 2 })
	v := s.Versions[1]
	assert.True(t, v.Pinned && v.Latest && !s.Versions[n-1].Latest && s.Summary.Level == Notice,
		"versions %+v, %+v, summary %+v", v, s.Versions[n-1], s.Summary)
}

// Messages that can't be used are shown with their reasons, and a run that nobody works on with what it waits for.
func TestNeedsAreShown(t *testing.T) {
	log, job := openLog(t), digits()
	board := reading(t, log, "digits")
	other := openOn(t, kafkalog.Options{Brokers: log.Addr()})
	submitted := assert.Must(pipeline.Submit(t.Context(), other, openBLAS(t), job, dispatch.TrainOptions{}, nil))(t)
	bad := schemas.Quarantined{Topic: "digits.examples", Partition: 2, Offset: 7, Reason: "no label", Bytes: 12}
	assert.Must(protocol.NewClient(other, "digits", nil).Log.Append(t.Context(), "digits.quarantine", 0, bad.Message()))(t)
	s := await(t, board, "a run that waits, and a bad message", func(s *State) bool {
		return s.Run != nil && s.Run.ID == submitted && s.Quarantine.Held == 1 && len(s.Quarantine.Recent) == 1
	})
	r := s.Run
	assert.True(t, r.State == stateWaiting && r.Stage == wire.Survey && r.Have == 0 && r.Of == 2 &&
		r.Waits == "for workers to survey 2 partitions of 2", "run %+v", r)
	q := s.Quarantine
	assert.True(t, q.Recent[0].Offset == 7 && q.Recent[0].Partition == 2 && q.Reasons[0].Reason == "no label" && need(s, "no label"),
		"quarantine %+v, needs %+v", q, s.Summary.Needs)
	lag := s.Topics[0].Lag
	assert.True(t, lag != nil && *lag != 0, "nothing is behind, before any version is made")
	var more []wire.Message
	for bad.Offset = range 2*maxBad + 9 {
		more = append(more, bad.Message())
	}
	assert.Must(protocol.NewClient(other, "digits", nil).Log.Append(t.Context(), "digits.quarantine", 0, more...))(t)
	const all = 2*maxBad + 10
	for _, board := range []*Board{board, reading(t, log, "digits")} { // one has seen them come
		s = await(t, board, "all bad messages", func(s *State) bool {
			return s.Quarantine.Held == all && len(s.Quarantine.Recent) == maxBad && need(s, fmt.Sprint(all, " messages could not be used in the last hour"))
		})
		assert.Equal(t, s.Quarantine.Read, int64(s.Quarantine.Reasons[0].Messages), "quarantine")
	}
}

// A state of many versions is read within bounds: of reports, that of the version that subscribers get is kept.
func TestManyVersionsAreRead(t *testing.T) {
	log := openLog(t)
	client := protocol.NewClient(log, "many", nil)
	topics := []kafkalog.Topic{}
	for _, name := range []string{client.Topics.Plans, client.Topics.Versions, client.Topics.Weights, client.Topics.Statistics,
		client.Topics.Examples} {
		topics = append(topics, kafkalog.Topic{Name: name, Partitions: 1})
	}
	assert.NoError(t, log.Create(t.Context(), topics...))
	const versions = 200
	job := digits()
	var ends []wire.Message
	for n := 1; n <= versions; n++ {
		plan := &schemas.Plan{
			Name: "many", Spans: coverage.Spans{{From: int64(n - 1), To: int64(n)}}, Foreign: true, Missing: "error", Prepare: job.Prepare,
			Stages: job.Stages, Segment: 16, Submission: fmt.Sprint(n),
		}
		rate := 100 / float64(n)
		report := &schemas.Report{
			Name: "many", Version: n, Run: plan.Run(), Splits: map[string]schemas.SplitReport{"train": {Rows: 3, Confusion: [][]int64{{1, 2},
				{0, 0}}}}, Labels: []string{"no", "yes"},
			Retrain: &schemas.RetrainReport{Version: n, Kind: schemas.RunUpdate, PrequentialError: &rate, Offered: true,
				Served: []schemas.ServedReport{{Version: n - 1, Rows: 4, Error: 50}, {Version: n - 2, Rows: 12, Error: 10}}},
		}
		manifest := &schemas.Manifest{Name: "many", Version: n, Run: plan.Run(), Plan: plan, Metrics: map[string]float64{"train_error": rate}}
		place := assert.Must(client.PublishVersion(t.Context(), manifest, nil, func() *schemas.Report { return report }))(t)
		ends = append(ends, (&schemas.End{Run: plan.Run(), State: schemas.Done, Version: place, Attempt: "x"}).Message())
	}
	assert.Must(client.Log.Append(t.Context(), client.Topics.Plans, 0, ends...))(t)
	r := newReader(log, Options{Name: "many"})
	assert.NoError(t, r.apply(t.Context(), assert.Must(client.ReadLedger(t.Context()))(t)))
	began := time.Now()
	assert.NoError(t, r.describeVersions(t.Context()))
	t.Logf("%d versions are read in %v", versions, time.Since(began))
	list, quality := r.versions()
	assert.True(t, len(list) == versions && quality != nil && quality.Version == versions && *list[9].PrequentialError == 10,
		"%d versions, quality %+v", len(list), quality)
	v := list[9]
	assert.True(t, v.ServedRows == 16 && v.ServedError != nil && *v.ServedError == 20,
		"version 10, for which the two after it say what it served: %+v", v)
	r.topics = []polled{{Topic: Topic{Role: roleExamples, Partitions: 1}, partitions: []coverage.Span{{To: versions + 7}}}}
	assert.Equal(t, *r.lags(nil)[0].Lag, 7, "messages after those that the versions have learnt")
}

// A reader keeps what the browser may ask for, and no more.
func TestQuarantineIsBounded(t *testing.T) {
	var q quarantine
	for i := range 10 * maxBad {
		q.add(&schemas.Quarantined{Offset: int64(i), Reason: fmt.Sprintf("column %d: no value", i%(2*maxReasons))}, time.UnixMilli(int64(i)))
	}
	s := q.state(int64(10 * maxBad))
	assert.True(t, len(s.Recent) == maxBad && s.Recent[0].Offset == 10*maxBad-1 && len(s.Reasons) == maxReasons,
		"%d messages, the newest at %d, %d reasons", len(s.Recent), s.Recent[0].Offset, len(s.Reasons))
}

// Messages that differ only in their values have one reason, that of the newest. Columns differ.
func TestReasonsAreOfAKind(t *testing.T) {
	var q quarantine
	for i, reason := range []string{
		`column "length": "about 428" is not a number`, `column "length": "about \"9\"" is not a number`, `column "width": "about 9" is not a number`,
		"column 3: 7 is no class", "column 4: 7 is no class", "48 columns: expected 50",
	} {
		q.add(&schemas.Quarantined{Offset: int64(i), Reason: reason}, time.UnixMilli(int64(i)))
	}
	var got []string
	for _, r := range q.state(7).Reasons {
		got = append(got, fmt.Sprint(r.Messages, " ", r.Reason))
	}
	want := []string{`2 column "length": "about \"9\"" is not a number`, "1 48 columns: expected 50", "1 column 4: 7 is no class",
		"1 column 3: 7 is no class", `1 column "width": "about 9" is not a number`}
	assert.Equal(t, got, want, "reasons")
}

// Brokers that do not answer are told, and are not taken for a quiet pipeline.
func TestSilenceIsShown(t *testing.T) {
	now := time.Now()
	r := &reader{client: &protocol.Client{}, clock: func() time.Time { return now }, heard: now}
	assert.Equal(t, r.state().Summary.Level, Good, "summary")
	now = now.Add(3 * time.Minute)
	s := r.state()
	assert.True(t, s.Summary.Level == Trouble && need(s, "have not answered for 3 minutes"), "summary %+v", s.Summary)
	r.heard, r.errors[partStaff] = now, context.DeadlineExceeded
	s = r.state()
	assert.True(t, s.Summary.Verdict == "One problem needs action." && need(s, "may be old: context deadline exceeded"),
		"summary %+v", s.Summary)
}

// TestMain fails if a goroutine is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A page beside a worker and a solver in other processes shows them, what they own, and what was missing before they came.
func TestProcessesAreShown(t *testing.T) {
	cluster := assert.Must(kfake.NewCluster(kfake.NumBrokers(1)))(t)
	t.Cleanup(cluster.Close)
	processesAreShown(t, cluster.ListenAddrs(), "digits")
}

func processesAreShown(t *testing.T, brokers []string, name string) {
	job, blas := digits(), openBLAS(t)
	job.Name = name
	board := readingAt(t, brokers, name)
	id, err := pipeline.Submit(t.Context(), openOn(t, kafkalog.Options{Brokers: brokers}), blas, job, dispatch.TrainOptions{}, nil)
	assert.NoError(t, err)
	s := await(t, board, "a run that nobody works on", func(s *State) bool {
		return need(s, "no process runs stagewise work") && need(s, "no process runs stagewise solve")
	})
	assert.True(t, s.Summary.Level == Trouble && s.Run.ID == id && s.Run.Waits == "for a worker: no process runs stagewise work",
		"run %+v, summary %+v", s.Run, s.Summary)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 2)
	for _, role := range []func(context.Context, *kafkalog.Log, *kernel.BLAS, topics.Job, event.Recorder) error{dispatch.Work,
		dispatch.Solve} {
		log := openOn(t, kafkalog.Options{Brokers: brokers})
		go func() { ended <- role(ctx, log, blas, job, nil) }()
	}
	t.Cleanup(func() {
		stop()
		for range 2 {
			assert.Fails(t, <-ended, context.Canceled)
		}
	})
	s = await(t, board, "a version, and who has made it", func(s *State) bool {
		return len(s.Versions) == 1 && s.Run.State == schemas.Done && len(s.Staff.Members["solve"]) == 1 &&
			len(s.Staff.Members["work"]) == 1 && len(s.Staff.Members["work"][0].Partitions) == 4
	})
	w, v := s.Staff.Members["work"][0], s.Staff.Members["solve"][0]
	assert.True(t, slices.Equal(w.Partitions, []int{0, 1, 2, 3}) && w.Waits == "waits for a run" && w.Host != "" && w.ID != "" &&
		slices.Equal(v.Partitions, []int{0}) && !s.Staff.Embedded, "staff %+v", s.Staff)
}

// A page that begins when the runner is gone knows by the versions that one is missing. One that has seen it knows that also where the
// brokers are those of another process, which may do its work.
func TestRunnerIsMissed(t *testing.T) {
	now := time.Now()
	seen := map[string]time.Time{protocol.RoleRun: now.Add(-5 * time.Minute)}
	for _, c := range []struct {
		kind     string
		embedded bool
		last     map[string]time.Time
		want     string
	}{
		{schemas.RunUpdate, false, nil, "No process runs stagewise run, and 9 messages wait on examples."},
		{kindTrain, false, nil, ""},
		{schemas.RunUpdate, true, nil, ""},
		{schemas.RunUpdate, true, seen, "No process runs stagewise run, and 9 messages wait on examples."},
		{kindTrain, false, seen, "No process runs stagewise run: the last one was seen 5 minutes ago."},
	} {
		r := &reader{clock: func() time.Time { return now }, polled: true, last: c.last}
		var m Summary
		m.needsOfProcesses(&State{Versions: []Version{{RetrainReport: schemas.RetrainReport{Kind: c.kind}}}, Staff: Staff{Embedded: c.embedded},
			Topics: []Topic{{Role: roleExamples, Name: "examples", Lag: new(int64(9))}}}, r)
		got := ""
		for _, n := range m.Needs {
			got += n.Text
		}
		assert.Equal(t, got, c.want, "%+v", c)
	}
}

// What each process waits for follows from which parts of the visit are published.
func TestWhatProcessesWaitFor(t *testing.T) {
	log := openLog(t)
	report, _, err := pipeline.Train(t.Context(), log, openBLAS(t), digits(), dispatch.TrainOptions{}, nil)
	assert.NoError(t, err)
	r := newReader(log, Options{Name: "digits"})
	f := newFollowed(assert.Must(r.client.ReadLedger(t.Context()))(t).Plan(report.Run), r.client)
	r.now = f
	r.staff = Staff{Members: map[string][]Worker{"work": {{Host: "a", Partitions: []int{0, 2}}, {Host: "b", Partitions: []int{1, 3}},
		{Host: "c"}}, "solve": {{Host: "d", Partitions: []int{0}}, {Host: "e"}}}}
	for _, c := range []struct {
		surveyed []int
		waits    string
	}{
		{nil, "[works on the survey: 0 of 1 partitions are published works on the survey: 0 of 1 partitions are published stands by: others own all partitions waits for a and b stands by] for workers to survey 2 partitions of 2"},
		{[]int{1}, "[works on the survey: 0 of 1 partitions are published waits for other workers stands by: others own all partitions waits for a stands by] for workers to survey 1 partition of 2"},
		{[]int{0, 1}, "[waits for the solver waits for the solver stands by: others own all partitions solves stands by] for the solver"},
	} {
		f.publish(place{wire.Survey, 0, f.chain.Root}, c.surveyed)
		s := r.state()
		var waits []string
		for _, w := range append(s.Staff.Members["work"], s.Staff.Members["solve"]...) {
			waits = append(waits, w.Waits)
		}
		assert.Equal(t, fmt.Sprint(waits, " ", s.Run.Waits), c.waits, "with %v", c.surveyed)
	}
}
