package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"

	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/stages"
)

// chainJob returns a job whose chain adds, refreshes and drops increments.
func chainJob(t *testing.T, link schemas.Link) topics.Job {
	stage := rffStage(link, 24, 6)
	stage.Ridge = 1e-3
	job := newJob(t, rings(1500, 4, 3, 1), table{}, stage, stage)
	job.Examples.BatchRows, job.Examples.Partitions, job.Keep = 63, 3, 1000
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Decay = 100, 2, 0.9
	job.Retrain.Window.Increments, job.Retrain.Full = 4, topics.FullOptions{Every: 4}
	return job
}

// digests returns the digest of each version of a pipeline, and what made it.
func digests(t *testing.T, log *kafkalog.Log, name string) (list []string) {
	t.Helper()
	versions := must(topics.Open(log, name, nil).Versions(t.Context()))(t)
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

// retrainInterrupted learns all that the topic has, in processes that are interrupted after some events: the first after so many, the next
// after more, up to 60.
func retrainInterrupted(t *testing.T, log *kafkalog.Log, job topics.Job, first, more int) {
	t.Helper()
	for events, done := first, false; !done; events += more {
		ctx, cancel := context.WithCancel(t.Context())
		_, err := Retrain(ctx, log, openBLAS(t), job, true, &interrupter{events % 61, cancel})
		if done = err == nil; err != nil && !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		cancel()
	}
}

// recorderFunc is a recorder that is a function.
type recorderFunc func(event.Event)

func (f recorderFunc) Record(e event.Event) { f(e) }

// newestWindow reads the window after the newest version of a chain.
func newestWindow(t *testing.T, log *kafkalog.Log, job topics.Job) *schemas.Window {
	t.Helper()
	p := topics.Open(log, job.Name, nil)
	manifest := must(p.Version(t.Context(), protocol.Latest))(t)
	last := must(protocol.ReadStateWindow(t.Context(), p.Client, *manifest.Window, nil))(t)
	return last.Window
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

// What a process keeps in memory does not grow with the number of updates, once its cache of records is full. A run that kept the solver of
// the run before it in memory would take 1 MB an update here.
func TestChainMemoryIsBounded(t *testing.T) {
	long(t)
	stage := rffStage("softmax", 256, 6)
	job := newJob(t, rings(7200, 4, 3, 1), table{}, stage)
	job.Examples.BatchRows, job.Keep = 40, 5
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Window.Increments, job.Retrain.Full = 40, 1, 4, topics.FullOptions{}
	heap := &heapAt{versions: []int{120, 180}}
	must(Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, heap))(t)
	if len(heap.bytes) != 2 {
		t.Fatalf("%d of 2 measurements", len(heap.bytes))
	}
	if grown := heap.bytes[1] - heap.bytes[0]; grown > 10<<20 {
		t.Errorf("the heap has %d bytes after 120 versions, %d after 180", heap.bytes[0], heap.bytes[1])
	}
}

// chainAlone returns the versions of a chain that one process makes with an embedded broker.
func chainAlone(t *testing.T, job topics.Job) []string {
	t.Helper()
	log := openEmbedded(t)
	must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
	return digests(t, log, job.Name)
}

// checkChainOfWorkers checks that a chain has the wanted versions, with that many workers and a solver beside the
// process that retrains, each with its own connection.
func checkChainOfWorkers(t *testing.T, log *kafkalog.Log, job topics.Job, workers int, want []string) {
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
	must(Retrain(t.Context(), connect(t, log), openBLAS(t), job, true, event.Ignore{}))(t)
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
	job.Examples.BatchRows, job.Examples.Partitions, job.Retrain = 64, 2, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Keep = 128, topics.FullOptions{}, 1000
	for _, test := range []struct {
		do      string
		classes int
		full    int
	}{{topics.NewClassFull, 3, 2}, {topics.NewClassQuarantine, 2, 1}} {
		log := openEmbedded(t)
		job.Retrain.OnNewClass, job.Retrain.NewClassRows = test.do, 100
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		full := 0
		for _, u := range report.Updates {
			if u.Kind == schemas.RunFull {
				full++
			}
		}
		versions := must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
		if last := versions[len(versions)-1]; len(last.Labels) != test.classes || full != test.full {
			t.Errorf("%s: classes %q after %d full runs, expected %d after %d", test.do, last.Labels, full, test.classes, test.full)
		}
		if quarantined := readTopic(t, log, job.Name+".quarantine"); len(quarantined) == 0 {
			t.Errorf("%s: nothing is in quarantine", test.do)
		}
	}
	job.Retrain.OnNewClass = topics.NewClassStop
	if _, err := Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, event.Ignore{}); !errors.As(err, new(*newClassError)) {
		t.Errorf("stop: %v", err)
	}
}

// The gate compares the version itself, with the weights that it has, and the one that subscribers have, on the same
// rows: of the new messages, and of those that the update visits again, if no full run is between both versions; also
// if an update makes one pass, so that no other visit has weights that have seen the new rows.
func TestGateJudgesTheVersion(t *testing.T) {
	long(t)
	const rows, tested, margin = 160, 60, 0.01
	trees := stages.DefaultsOf(stages.Trees)
	trees.Leaves, trees.Sample = 8, 100
	for _, test := range []struct {
		passes int
		grown  bool
		size   int // leaves of all trees
	}{{1, false, 0}, {2, false, 0}, {1, true, 32}, {1, true, 64}} {
		passes := test.passes
		job, _ := newForeignJob(t, rings(10, 4, 3, 1))
		job.Stages, job.Keep, job.Retrain = job.Stages[:1], 1000, topics.DefaultRetrain()
		if test.grown {
			trees.Size = test.size
			job.Stages[0].Features, job.Stages[0].RidgeRows = trees, 0.4
		}
		job.Retrain.Rows, job.Retrain.Passes, job.Retrain.Refresh, job.Retrain.Full = 100, passes, 1, topics.FullOptions{}
		job.Retrain.Window.Increments, job.Retrain.Gate = 3, topics.GateOptions{Split: examples.Test.String(), Margin: margin}
		log := openEmbedded(t)
		p := topics.Open(log, job.Name, nil)
		noError(t, topics.Create(t.Context(), p, &job))
		for i := range 24 {
			data := rings(rows, 4, 3, uint64(i))
			batch := data.exampleRows()
			batch.Splits = append(slices.Repeat([]examples.Split{examples.Test}, tested), make([]examples.Split, rows-tested)...)
			if i%5 == 4 { // these are wrong
				slices.Reverse(batch.Words[tested:])
			}
			produce(t, log, job, 0, exampleMessage(t, batch))
		}
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		models := map[int]*model.Model{}
		versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
		noError(t, err)
		for _, v := range versions {
			if models[v.Version], err = p.Model(t.Context(), v.Run); err != nil {
				t.Fatal(err)
			}
		}
		// losses returns the log losses of a version on the test rows of a message.
		losses := func(version int, offset int64) (list []float64) {
			data, predictor := rings(rows, 4, 3, uint64(offset)), models[version].Predictor(openBLAS(t))
			for i, row := range data.rows[:tested] {
				_, probabilities := predictor.Predict(row)
				at := slices.Index(models[version].Labels(), data.labels[i])
				list = append(list, -math.Log(float64(probabilities[at])))
			}
			return list
		}
		offered, withheld, judged, full, again := 0, 0, 0, 0, 0
		for _, u := range report.Updates {
			if u.Kind == schemas.RunFull {
				full = u.Version
			}
			if u.Kind == schemas.RunUpdate && offered > 0 {
				newest := u.Spans[0].To - 1
				now, before, revisited := losses(u.Version, newest), losses(offered, newest), 0.0
				if refresh := models[u.Version].Manifest.Plan.Chain.Update.Refresh; offered >= full && len(refresh) > 0 {
					at := refresh[0].Covered[0].Spans[0].From
					now, before = append(now, losses(u.Version, at)...), append(before, losses(offered, at)...)
					revisited = tested
					again++
				}
				worse, deviation := pairedDifference(before, now)
				if judged++; u.Offered && worse-3.5*deviation > margin || !u.Offered && worse-1.5*deviation < margin {
					t.Errorf("%d passes: version %d is worse than version %d by %v, with a standard error of %v; offered: %v", passes, u.Version,
						offered, worse, deviation, u.Offered)
				}
				if g := u.Gate; g == nil || g.Weight != tested+revisited || g.Revisited != revisited ||
					math.Abs(g.Loss-g.OfferedLoss-worse) > 1e-5 || math.Abs(*g.StandardError/deviation-1) > 0.3 {
					t.Errorf("%d passes: version %d: the report says %+v, expected a difference of %v and a standard error of %v", passes,
						u.Version, g, worse, deviation)
				}
				if !u.Offered {
					withheld++
				}
			}
			if u.Offered {
				offered = u.Version
			}
		}
		// With trees no full run comes between the versions.
		if withheld == 0 || withheld == judged || again == 0 || again == judged && !test.grown {
			t.Errorf("%d passes, trees %v: %d of %d updates are withheld, %d are compared by rows that are visited again", passes, test.grown,
				withheld, judged, again)
		}
	}
}

// pairedDifference returns by how much the mean of b is above that of a, and the standard error of that.
func pairedDifference(a, b []float64) (mean, deviation float64) {
	differences := make([]float64, len(a))
	for i := range a {
		differences[i] = b[i] - a[i]
	}
	mean, deviation = stat.MeanStdDev(differences, nil)
	return mean, stat.StdErr(deviation, float64(len(a)))
}

// What a chain has on its topics, beside the examples and the versions that are kept, does not grow with the number of its versions.
func TestChainRemovesWhatItNoLongerNeeds(t *testing.T) {
	long(t)
	left := func(rows int) map[string]int {
		log, job := openEmbedded(t), chainJob(t, "softmax")
		job.Examples.Train = []string{rings(rows, 4, 3, 1).writeCSV(t, t.TempDir(), "train.csv")}
		job.Retrain.Full, job.Keep = topics.FullOptions{}, 3
		must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
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
	few, many := left(3200), left(6400)
	for topic, n := range few {
		if n == 0 || many[topic] > n+n/10 {
			t.Errorf("%s: %d messages after 32 increments, %d after 64", topic, n, many[topic])
		}
	}
}

// A chain whose window has only rows of sources that were removed begins again with the rows that are left, where it would be fitted anew.
func TestChainWhoseSourceIsRemovedBeginsAgain(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	job.Retrain.Window, job.Retrain.Full, job.Retrain.Decay, job.Retrain.Rows = topics.WindowOptions{}, topics.FullOptions{}, 1, 500
	must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
	sources := must(source.Sources(t.Context(), topics.Open(log, job.Name, nil)))(t)
	must(source.RemoveSources(t.Context(), topics.Open(log, job.Name, nil), []string{sources[0].ID}))(t)
	must(topics.RemoveVersions(t.Context(), topics.Open(log, job.Name, nil), []string{"2", "3"}, true))(t)
	job.Examples.Train = []string{rings(200, 4, 3, 2).writeCSV(t, t.TempDir(), "more.csv")}
	report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
	if last := report.Updates[len(report.Updates)-1]; last.WindowRows != 200 || !last.Offered {
		t.Errorf("the last version is %+v, expected one of the 200 rows that are left", last)
	}
}
