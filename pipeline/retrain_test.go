package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// chainJob returns a job whose chain adds, refreshes and drops increments.
func chainJob(t *testing.T, link schemas.Link) Job {
	stage := rffStage(link, 24, 6)
	stage.Ridge = 1e-3
	job := newJob(t, rings(1500, 4, 3, 1), table{}, stage, stage)
	job.Examples.BatchRows, job.Examples.Partitions, job.Keep = 63, 3, 1000
	job.Retrain = DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Decay = 100, 2, 0.9
	job.Retrain.Window.Increments, job.Retrain.Full = 4, FullOptions{Every: 4}
	return job
}

// digests returns the digest of each version of a pipeline, and what made it.
func digests(t *testing.T, log *kafkalog.Log, name string) (list []string) {
	t.Helper()
	versions, err := Versions(t.Context(), log, name)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range versions {
		kind := schemas.RunFull
		if v.Plan.Update() != nil {
			kind = schemas.RunUpdate
		}
		list = append(list, fmt.Sprint(v.Plan.Chain.Number, kind, v.Plan.Spans, v.WeightsDigest.Short()))
	}
	return list
}

// interrupter cancels a context after a number of events.
type interrupter struct {
	left   int
	cancel context.CancelFunc
}

func (i *interrupter) Record(event.Event) {
	if i.left--; i.left == 0 {
		i.cancel()
	}
}

// On a topic that does not grow, a chain makes the same versions however often its process ends, and however little memory it has.
func TestChainDependsOnTheLogAlone(t *testing.T) {
	for name, test := range map[string]struct {
		link    schemas.Link
		holdout float64 // with some, an update visits the last stage once more, for the gate
		rows    int64
	}{
		"softmax": {link.Softmax, 0, 1500}, "identity": {link.Identity, 0, 1500}, "holdout": {link.Softmax, 0.2, 1177},
	} {
		t.Run(name, func(t *testing.T) {
			job := chainJob(t, test.link)
			job.Examples.Holdout = test.holdout
			undisturbed := openEmbedded(t)
			report, err := Retrain(t.Context(), undisturbed, openBLAS(t), job, true, event.Ignore{})
			if err != nil {
				t.Fatal(err)
			}
			want := digests(t, undisturbed, job.Name)
			if len(want) < 12 || report.Rows != test.rows || report.PrequentialError == nil {
				t.Fatalf("%d versions of %d rows, %+v", len(want), report.Rows, report)
			}
			compare := func(what string, got []string) {
				for i := range max(len(got), len(want)) {
					if i >= len(got) || i >= len(want) || got[i] != want[i] {
						t.Fatalf("%s: version %d differs:\n%v\nexpected\n%v", what, i+1, got, want)
					}
				}
			}
			forgetful := openEmbedded(t)
			small := job
			small.Memory = 1
			if _, err := Retrain(t.Context(), forgetful, openBLAS(t), small, true, event.Ignore{}); err != nil {
				t.Fatal(err)
			}
			compare("little memory", digests(t, forgetful, job.Name))

			log := openEmbedded(t)
			for events, done := 20, false; !done; events += 17 {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := Retrain(ctx, log, openBLAS(t), job, true, &interrupter{events % 61, cancel})
				if done = err == nil; err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				cancel()
			}
			compare("interrupted", digests(t, log, job.Name))
		})
	}
}

// Where the state topic has no room for the terms of all increments, neighbours are merged, and visited and dropped together. So their number
// is bounded, and the versions depend on the log alone.
func TestChainMergesIncrements(t *testing.T) {
	for _, link := range []schemas.Link{"identity", "softmax"} {
		t.Run(string(link), func(t *testing.T) {
			job := chainJob(t, link)
			job.Retrain.Decay, job.Retrain.Refresh, job.Retrain.Full = 1, 1, FullOptions{Every: 9}
			job.Retrain.Window = WindowOptions{Rows: 900}
			apart := openEmbedded(t)
			if _, err := Retrain(t.Context(), apart, openBLAS(t), job, true, event.Ignore{}); err != nil {
				t.Fatal(err)
			}
			const most = 5
			w := newestWindow(t, apart, job)
			job.Topics = DefaultTopics()
			job.Topics.State = Bytes(w.GramsSize + most*w.TermsSize)
			log := openEmbedded(t)
			merged := 0
			rec := recorderFunc(func(e event.Event) {
				if _, ok := e.(event.Retrained); !ok {
					return
				}
				now := newestWindow(t, log, job)
				if groups := len(now.Groups()); groups > most {
					t.Errorf("version %d has terms of %d groups of increments, expected at most %d", now.Chain.Number, groups, most)
				} else if groups < len(now.Increments) {
					merged++
				}
			})
			if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, rec); err != nil {
				t.Fatal(err)
			}
			if merged < 6 {
				t.Errorf("%d windows with merged increments, expected more", merged)
			}
			// however often it ends
			again := openEmbedded(t)
			for events, done := 25, false; !done; events += 19 {
				ctx, cancel := context.WithCancel(t.Context())
				_, err := Retrain(ctx, again, openBLAS(t), job, true, &interrupter{events % 61, cancel})
				if done = err == nil; err != nil && !errors.Is(err, context.Canceled) {
					t.Fatal(err)
				}
				cancel()
			}
			if got, want := digests(t, again, job.Name), digests(t, log, job.Name); !slices.Equal(got, want) {
				t.Errorf("interrupted:\n%v\nexpected\n%v", got, want)
			}
		})
	}
}

// recorderFunc is a recorder that is a function.
type recorderFunc func(event.Event)

func (f recorderFunc) Record(e event.Event) { f(e) }

// newestWindow reads the window after the newest version of a chain.
func newestWindow(t *testing.T, log *kafkalog.Log, job Job) *schemas.Window {
	t.Helper()
	p := open(log, job.Name, nil)
	manifest, err := p.Version(t.Context(), run.Latest)
	if err != nil {
		t.Fatal(err)
	}
	stored, err := run.ReadWindow(t.Context(), p.Client, *manifest.Window, nil)
	if err != nil {
		t.Fatal(err)
	}
	return stored.Window
}

// heapAt measures the heap after some versions of a chain.
type heapAt struct {
	versions []int
	bytes    []int64
}

func (h *heapAt) Record(e event.Event) {
	if r, ok := e.(event.Retrained); ok && slices.Contains(h.versions, r.Version) {
		var now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&now)
		h.bytes = append(h.bytes, int64(now.HeapAlloc))
	}
}

// What a process keeps in memory does not grow with the number of updates. A run that kept the solver of the run before it in memory would
// take 1 MB an update here.
func TestChainMemoryIsBounded(t *testing.T) {
	stage := rffStage("softmax", 256, 6)
	job := newJob(t, rings(4800, 4, 3, 1), table{}, stage)
	job.Examples.BatchRows, job.Keep = 40, 5
	job.Retrain = DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Window.Increments, job.Retrain.Full = 40, 1, 4, FullOptions{}
	heap := &heapAt{versions: []int{60, 120}}
	if _, err := Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, heap); err != nil {
		t.Fatal(err)
	}
	if len(heap.bytes) != 2 {
		t.Fatalf("%d of 2 measurements", len(heap.bytes))
	}
	if grown := heap.bytes[1] - heap.bytes[0]; grown > 10<<20 {
		t.Errorf("the heap has %d bytes after 60 versions, %d after 120", heap.bytes[0], heap.bytes[1])
	}
}

// A chain has the same versions with any number of workers, in processes of their own.
func TestChainOfAnyNumberOfWorkers(t *testing.T) {
	job := chainJob(t, "softmax")
	job.Examples.Partitions = 4
	want := chainAlone(t, job)
	for _, workers := range []int{1, 4} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) { checkChainOfWorkers(t, openEmbedded(t), job, workers, want) })
	}
}

// chainAlone returns the versions of a chain that one process makes with an embedded broker.
func chainAlone(t *testing.T, job Job) []string {
	t.Helper()
	log := openEmbedded(t)
	if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	return digests(t, log, job.Name)
}

// checkChainOfWorkers checks that a chain has the wanted versions, with that many workers and a solver beside the process that retrains, each
// with its own connection.
func checkChainOfWorkers(t *testing.T, log *kafkalog.Log, job Job, workers int, want []string) {
	t.Helper()
	var services []*service
	var balanced []<-chan struct{}
	for range workers {
		s := startWorker(t, connect(t, log), job)
		services, balanced = append(services, s), append(balanced, s.balanced(workers))
	}
	startSolver(t, connect(t, log), job)
	for _, b := range balanced {
		<-b
	}
	if _, err := Retrain(t.Context(), connect(t, log), openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	if got := digests(t, log, job.Name); !slices.Equal(got, want) {
		t.Errorf("%d workers made\n%v\nexpected\n%v", workers, got, want)
	}
	visits := 0
	for _, s := range services {
		visits += len(eventsOf[event.Visited](s.eventRecorder))
	}
	if visits == 0 {
		t.Error("no worker has made a visit")
	}
}

// A message that a client wrote twice counts once, also where the copy comes after the run that counted it.
func TestChainCountsRepeatedMessagesOnce(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	before := digests(t, log, job.Name)
	for _, m := range readTopic(t, log, job.Name+".examples") {
		if m.Offset%3 == 0 {
			produce(t, log, job, m.Partition, m)
		}
	}
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	after := digests(t, log, job.Name)
	if report.Rows != 0 || len(after) <= len(before) {
		t.Errorf("%d rows in %d versions after %d, expected none in one or more", report.Rows, len(after), len(before))
	}
}

// Rows of a label that is no class are left out until they are enough; then a full run learns them.
func TestChainLearnsNewClasses(t *testing.T) {
	data, late := rings(1500, 4, 3, 1), table{}
	early := table{}
	for i, label := range data.labels {
		to := &early
		if label == "ring2" || i >= 900 {
			to = &late
		}
		to.rows, to.labels = append(to.rows, data.rows[i]), append(to.labels, label)
	}
	early.rows, early.labels = append(early.rows, late.rows...), append(early.labels, late.labels...)
	stage := rffStage("softmax", 24, 6)
	job := newJob(t, early, table{}, stage)
	job.Examples.BatchRows, job.Examples.Partitions, job.Retrain = 64, 2, DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Keep = 128, FullOptions{}, 1000
	for _, test := range []struct {
		do      string
		classes int
		full    int
	}{{NewClassFull, 3, 2}, {NewClassQuarantine, 2, 1}} {
		log := openEmbedded(t)
		job.Retrain.OnNewClass, job.Retrain.NewClassRows = test.do, 100
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		if err != nil {
			t.Fatal(err)
		}
		full := 0
		for _, u := range report.Updates {
			if u.Kind == schemas.RunFull {
				full++
			}
		}
		versions, err := Versions(t.Context(), log, job.Name)
		if err != nil {
			t.Fatal(err)
		}
		if last := versions[len(versions)-1]; len(last.Labels) != test.classes || full != test.full {
			t.Errorf("%s: classes %q after %d full runs, expected %d after %d", test.do, last.Labels, full, test.classes, test.full)
		}
		if quarantined := readTopic(t, log, job.Name+".quarantine"); len(quarantined) == 0 {
			t.Errorf("%s: nothing is in quarantine", test.do)
		}
	}
	job.Retrain.OnNewClass = NewClassStop
	if _, err := Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, event.Ignore{}); !errors.As(err, new(*NewClassError)) {
		t.Errorf("stop: %v", err)
	}
}

// When labels change their meaning, the chain drops what came before, and learns the new meaning.
func TestChainFollowsAChangeOfTheStream(t *testing.T) {
	data := rings(3000, 4, 3, 1)
	other := map[string]string{"ring0": "ring1", "ring1": "ring2", "ring2": "ring0"}
	for i := 1500; i < len(data.labels); i++ {
		data.labels[i] = other[data.labels[i]]
	}
	stage := rffStage("softmax", 24, 6)
	job := newJob(t, data, table{}, stage, stage)
	job.Examples.BatchRows, job.Examples.Partitions, job.Retrain = 64, 3, DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 128, FullOptions{Drift: true}
	report, err := Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	alarms, seen := []int64{}, int64(0)
	var after *schemas.RetrainReport
	for i, u := range report.Updates {
		if seen += u.Rows; u.Drift {
			alarms, after = append(alarms, seen), report.Updates[i+1]
		}
	}
	if len(alarms) != 1 || alarms[0] < 1500 || alarms[0] > 1500+2*128 {
		t.Fatalf("alarms after %v rows, expected one soon after 1500", alarms)
	}
	if after.WindowRows > 4*128 {
		t.Errorf("the window has %d rows after the alarm", after.WindowRows)
	}
	if last := report.Updates[len(report.Updates)-1]; *last.PrequentialError > 5 {
		t.Errorf("the last rows were predicted with an error of %.1f %%", *last.PrequentialError)
	}
}

// A version that is worse than the one that subscribers have, on the same holdout rows, is kept, but it is not the latest.
func TestGateWithholdsVersions(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	job.Examples.Holdout, job.Retrain.Gate.Margin, job.Keep = 0.3, 0, 1
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	offered, withheld := 0, 0
	for _, u := range report.Updates {
		if u.Offered {
			offered = u.Version
		} else {
			withheld++
		}
	}
	if withheld == 0 || withheld == len(report.Updates) {
		t.Fatalf("%d of %d versions are withheld", withheld, len(report.Updates))
	}
	m, err := LoadModel(t.Context(), log, job.Name, "latest")
	if err != nil {
		t.Fatal(err)
	}
	if m.Manifest.Version != offered {
		t.Errorf("latest is version %d, the last that was offered is %d", m.Manifest.Version, offered)
	}

	job.Retrain.Gate.Margin = 100
	if report, err = Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	for _, u := range report.Updates {
		if !u.Offered {
			t.Errorf("version %d is withheld, although it may be worse by 100", u.Version)
		}
	}
}

// The gate compares the version itself, with the weights that it has, and the one that subscribers have, on the same rows; also if an update makes one
// pass, so that no other visit has weights that have seen the new rows.
func TestGateJudgesTheVersion(t *testing.T) {
	const rows, tested, margin = 160, 60, 0.01
	for _, passes := range []int{1, 2} {
		job, _ := newForeignJob(t, rings(10, 4, 3, 1))
		job.Stages, job.Keep, job.Retrain = job.Stages[:1], 1000, DefaultRetrain()
		job.Retrain.Rows, job.Retrain.Passes, job.Retrain.Refresh, job.Retrain.Full = 100, passes, 1, FullOptions{}
		job.Retrain.Window.Increments, job.Retrain.Gate = 3, GateOptions{Split: schemas.Test.String(), Margin: margin}
		log := openEmbedded(t)
		p := open(log, job.Name, nil)
		if err := p.create(t.Context(), &job); err != nil {
			t.Fatal(err)
		}
		for i := range 24 {
			data := rings(rows, 4, 3, uint64(i))
			examples := data.exampleRows()
			examples.Splits = append(slices.Repeat([]schemas.Split{schemas.Test}, tested), make([]schemas.Split, rows-tested)...)
			if i%5 == 4 { // these are wrong
				slices.Reverse(examples.Words[tested:])
			}
			produce(t, log, job, 0, exampleMessage(t, examples))
		}
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		if err != nil {
			t.Fatal(err)
		}
		models := map[int]*model.Model{}
		versions, err := Versions(t.Context(), log, job.Name)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range versions {
			if models[v.Version], err = p.Model(t.Context(), v.Run); err != nil {
				t.Fatal(err)
			}
		}
		// loss returns the mean log loss of a version on the test rows of a message.
		loss := func(version int, offset int64) (sum float64) {
			data, predictor := rings(rows, 4, 3, uint64(offset)), models[version].Predictor(openBLAS(t))
			for i, row := range data.rows[:tested] {
				_, probabilities := predictor.Predict(row)
				at := slices.Index(models[version].Labels(), data.labels[i])
				sum -= math.Log(float64(probabilities[at])) / tested
			}
			return sum
		}
		offered, withheld, judged := 0, 0, 0
		for _, u := range report.Updates {
			if u.Kind == schemas.RunUpdate && offered > 0 {
				newest := u.Spans[0].To - 1
				now, before := loss(u.Version, newest), loss(offered, newest)
				if judged++; u.Offered != (now <= before+margin) {
					t.Errorf("%d passes: version %d has the loss %v, version %d %v; offered: %v", passes, u.Version, now, offered, before, u.Offered)
				}
				if !u.Offered {
					withheld++
				}
			}
			if u.Offered {
				offered = u.Version
			}
		}
		if withheld == 0 || withheld == judged {
			t.Errorf("%d passes: %d of %d updates are withheld", passes, withheld, judged)
		}
	}
}

// If the configuration has changed so that no update can go on, the next version is full, and adds the new rows.
func TestChainGoesOnWithOtherFeatures(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	ctx, cancel := context.WithCancel(t.Context())
	_, err := Retrain(ctx, log, openBLAS(t), job, true, &eventRecorder{on: func(e event.Event) {
		if made, ok := e.(event.Retrained); ok && made.Number == 3 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	before := digests(t, log, job.Name)
	for i := range job.Stages {
		job.Stages[i].Features.Size++
	}
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	if first := report.Updates[0]; first.Kind != schemas.RunFull || first.Rows == 0 || len(before) < 3 {
		t.Errorf("after %d versions the next is %+v, expected a full one with new rows", len(before), first)
	}
}

// What a chain has on its topics, beside the examples and the versions that are kept, does not grow with the number of its versions.
func TestChainRemovesWhatItNoLongerNeeds(t *testing.T) {
	left := func(rows int) map[string]int {
		log, job := openEmbedded(t), chainJob(t, "softmax")
		job.Examples.Train = []string{rings(rows, 4, 3, 1).writeCSV(t, t.TempDir(), "train.csv")}
		job.Retrain.Full, job.Keep = FullOptions{}, 3
		if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil {
			t.Fatal(err)
		}
		count := map[string]int{}
		for _, topic := range []string{"statistics", "weights", "state"} {
			there := map[string]bool{}
			for _, m := range readTopic(t, log, job.Name+"."+topic) {
				there[string(m.Key)] = m.Value != nil
			}
			for _, is := range there {
				if is {
					count[topic]++
				}
			}
		}
		return count
	}
	few, many := left(3200), left(6400) // 16 updates lie between two snapshots
	for topic, n := range few {
		if n == 0 || many[topic] > n+n/10 {
			t.Errorf("%s: %d messages after 32 increments, %d after 64", topic, n, many[topic])
		}
	}
}

// A chain goes on from its newest version, however many versions of other runs have come since.
func TestChainGoesOnAfterOtherRuns(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	job.Keep = 2
	if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		train(t, log, job)
	}
	job.Examples.Train = []string{rings(100, 4, 3, 5).writeCSV(t, t.TempDir(), "more.csv")}
	if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	versions, err := Versions(t.Context(), log, job.Name)
	if err != nil || versions[len(versions)-1].Plan.Update() == nil {
		t.Errorf("error %v, the last version is no update", err)
	}
}
