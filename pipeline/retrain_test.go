package pipeline

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
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
			models[v.Version] = must(p.Model(t.Context(), v.Run))(t)
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

// The report of a chain says of each run which messages it added, and when they were written. Its curve and its
// confusion matrix have the rows and the errors of all updates.
func TestReportOfAChain(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	r, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	noError(t, err)
	var spans coverage.Spans
	rows, wrong := int64(0), 0.0
	for _, u := range r.Updates {
		if spans, err = spans.Union(u.Spans); err != nil {
			t.Fatalf("version %d has %v again: %v", u.Version, u.Spans, err)
		}
		if u.Rows > 0 && (u.From <= 0 || u.Until < u.From || len(u.Spans) == 0) || u.Rows == 0 && u.From != 0 {
			t.Errorf("version %d: %d rows of %v, written from %d to %d", u.Version, u.Rows, u.Spans, u.From, u.Until)
		}
		if u.PrequentialError == nil {
			continue
		}
		rows += u.Rows
		wrong += float64(u.Rows) * *u.PrequentialError / 100
		if *u.PrequentialLogLoss <= 0 || *u.PrequentialBrier <= 0 || *u.PrequentialECE <= 0 || u.Curve != nil {
			t.Errorf("%+v", *u)
		}
	}
	p := topics.OpenFor(log, job, nil)
	all := must(p.Log.Spans(t.Context(), p.Topics.Examples))(t)
	if hulls := spans.Hulls(); !reflect.DeepEqual(hulls, coverage.Spans(all)) {
		t.Errorf("runs added %v of %v", hulls, all)
	}
	check := func(what string, gotRows int64, gotWrong float64) {
		t.Helper()
		if gotRows != rows || math.Abs(gotWrong-wrong) > 1e-6 {
			t.Errorf("%s: %d rows, %g of them wrong, expected %d and %g", what, gotRows, gotWrong, rows, wrong)
		}
	}
	inCurve, wrongInCurve := int64(0), 0.0
	for _, b := range r.Curve {
		inCurve += b.Rows
		wrongInCurve += b.Weight * b.Error / 100
	}
	check("curve", inCurve, wrongInCurve)
	inMatrix, wrongInMatrix := int64(0), 0.0
	for i, line := range r.Confusion {
		for j, n := range line {
			if inMatrix += n; i != j {
				wrongInMatrix += float64(n)
			}
		}
	}
	check("confusion", inMatrix, wrongInMatrix)
}

// The confusion matrix of a chain has room for classes that come later.
func TestConfusionOfMoreClasses(t *testing.T) {
	r := &Retraining{}
	r.addConfusion([]string{"b", "d"}, [][]int64{{1, 2}, {3, 4}})
	r.addConfusion([]string{"b", "d"}, nil) // too many classes for a matrix
	r.addConfusion([]string{"a", "b", "c", "d"}, [][]int64{{1, 0, 0, 5}, {0, 1, 0, 0}, {0, 0, 1, 0}, {0, 0, 0, 1}})
	if want := [][]int64{{1, 0, 0, 5}, {0, 2, 0, 2}, {0, 0, 1, 0}, {0, 3, 0, 5}}; !reflect.DeepEqual(r.Confusion, want) || len(r.Labels) != 4 {
		t.Errorf("%v of %q, expected %v", r.Confusion, r.Labels, want)
	}
}

// A full run reads rows of labels that are no class again. Reports count them once.
func TestReportsCountRowsOfNoClassOnce(t *testing.T) {
	data := rings(800, 4, 3, 1)
	slices.Sort(data.labels)
	unknown := int64(0)
	for i := range data.labels { // it comes last, when the classes are known
		if data.labels[i] == "ring2" {
			unknown++
		}
	}
	job := newJob(t, data, table{}, rffStage("softmax", 24, 1))
	job.Examples.BatchRows, job.Examples.Partitions, job.Retrain = 64, 2, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.OnNewClass, job.Retrain.Full = 128, topics.NewClassQuarantine, topics.FullOptions{Every: 1}
	report := must(Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, event.Ignore{}))(t)
	got, full := int64(0), 0
	for _, u := range report.Updates {
		if got += u.UnknownRows; u.Kind == schemas.RunFull {
			full++
		}
	}
	if got != unknown || unknown == 0 || full < 3 {
		t.Errorf("%d versions, %d of them full, say that %d rows have a label that is no class, expected %d", len(report.Updates), full,
			got, unknown)
	}
}

// The updates of a chain say how often what was served was wrong, by the versions that answered, as a naive count does, however little
// memory there is. The full run, for whose rows nobody had answered, says nothing.
func TestServedErrors(t *testing.T) {
	for _, memory := range []int64{1 << 30, 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			log, job := openEmbedded(t), forgetfulJob(t)
			job.Memory = memory
			random := rand.New(rand.NewPCG(3, 1))
			type sum struct{ rows, weight, wrong float64 }
			var want []map[int]sum // of each version, which has the rows of two messages
			for i := range 12 {
				rows := rings(40, 4, 3, uint64(i)).exampleRows()
				rows.Weights, rows.Served = make([]float32, rows.Rows), make([]examples.Served, rows.Rows)
				if i%2 == 0 {
					want = append(want, map[int]sum{})
				}
				counts := want[len(want)-1]
				for row := range rows.Rows {
					w := 1 + random.IntN(3)
					if rows.Weights[row] = float32(w); random.IntN(4) == 0 {
						continue // it was not served
					}
					served := examples.Served{Label: fmt.Sprint("ring", random.IntN(3)), Version: 1 + random.IntN(3)}
					rows.Served[row] = served
					s := counts[served.Version]
					if s.rows, s.weight = s.rows+1, s.weight+float64(w); served.Label != rows.Words[row] {
						s.wrong += float64(w)
					}
					counts[served.Version] = s
				}
				produce(t, log, job, 0, exampleMessage(t, rows))
			}
			versions := 0
			_, err := Retrain(t.Context(), log, openBLAS(t), job, true, recorderFunc(func(e event.Event) {
				r, ok := e.(event.Retrained)
				if !ok {
					return
				}
				var reports []schemas.ServedReport
				for _, version := range slices.Sorted(maps.Keys(want[versions])) {
					s := want[versions][version]
					reports = append(reports, schemas.ServedReport{Version: version, Rows: int64(s.rows), Error: 100 * (s.wrong / s.weight)})
				}
				if versions++; r.Kind == schemas.RunFull {
					reports = nil
				}
				if !slices.Equal(r.Served, reports) {
					t.Errorf("version %d says %v, expected %v", r.Version, r.Served, reports)
				}
			}))
			if err != nil || versions != len(want) {
				t.Fatalf("%d versions, %v", versions, err)
			}
		})
	}
}

// wordCounts writes rows of word counts as a LIBSVM file. Each class has words of its own; later rows have words that earlier ones lack.
func wordCounts(t *testing.T, rows int) string {
	t.Helper()
	r := rand.New(rand.NewPCG(7, 8))
	var text strings.Builder
	for i := range rows {
		class := r.IntN(3)
		counts := map[int]int{}
		for range 6 {
			counts[1+r.IntN(40)]++
			counts[100+50*class+r.IntN(10+i/20)]++
		}
		var words []int
		for word := range counts {
			words = append(words, word)
		}
		slices.Sort(words)
		fmt.Fprint(&text, class)
		for _, word := range words {
			fmt.Fprintf(&text, " %d:%d", word, counts[word])
		}
		fmt.Fprintln(&text)
	}
	path := filepath.Join(t.TempDir(), "words.svm")
	noError(t, os.WriteFile(path, []byte(text.String()), 0o600))
	return path
}

// sparseChainJob returns a job whose chain adds and drops increments of sparse rows, counted before they are fitted.
func sparseChainJob(t *testing.T, l schemas.Link) topics.Job {
	columns, counts := kindStage(stages.Columns, l), kindStage(stages.ClassCounts, l)
	columns.Passes, columns.Ridge, counts.Features.Weight = 6, schemas.RidgeAuto, 1
	job := newJob(t, rings(1, 4, 3, 1), table{}, columns, counts)
	job.Examples.Train, job.Examples.Format = []string{wordCounts(t, 1500)}, "libsvm"
	job.Prepare = schemas.Prepare{Scale: "unit", Values: "log1p", IDF: 1}
	job.Examples.BatchRows, job.Examples.Partitions, job.Keep = 63, 3, 1000
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Window.Increments, job.Retrain.Full = 100, 4, topics.FullOptions{Every: 4}
	return job
}

// retraining retrains until a test ends, and records what it reports. expected and standing have a value once it has.
func retraining(t *testing.T, brokers []string) (expected <-chan event.Expecting, standing <-chan event.StoodBy) {
	t.Helper()
	log := must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
	closeAfter(t, log)
	job := chainJob(t, "softmax")
	job.Retrain.Rows, job.Retrain.After = 10000, time.Hour
	expects, stands := make(chan event.Expecting, 100), make(chan event.StoodBy, 100)
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e := e.(type) {
		case event.Expecting:
			expects <- e
		case event.StoodBy:
			stands <- e
		}
	}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	return expects, stands
}

// A process that retrains says what it waits for, and one that stands by says so, at once: not when patience ends.
func TestRetrainingSaysWhatItWaitsFor(t *testing.T) {
	long(t)
	log := openEmbedded(t)
	timeout := time.After(protocol.MaxPatience / 10)
	expected, _ := retraining(t, log.Addr())
	select {
	case e := <-expected:
		if e.Rows < 1400 || e.Rows > 1600 || e.Of != 10000 || e.After != time.Hour || time.Until(e.Until) < 50*time.Minute || e.Again {
			t.Errorf("%+v", e)
		}
	case <-timeout:
		t.Fatal("it does not say what it waits for")
	}
	_, standing := retraining(t, log.Addr())
	select {
	case e := <-standing:
		if e.Role != protocol.RoleRun || e.Why != "another process retrains this pipeline: this one stands by" {
			t.Errorf("%+v", e)
		}
	case <-timeout:
		t.Fatal("it does not say that it stands by")
	}
}

// Rows of a topic are as old as their messages, whenever they are ingested, also for another pipeline that reads the examples: a window
// of time has those of the newest messages alone, and none that are 40 days old.
func TestWindowOfTimeOfATopic(t *testing.T) {
	long(t)
	const days, aDay = 40, 40
	for name, test := range map[string]struct {
		late  int // one message of so many is five days late; 0: none
		later bool
	}{"in order": {}, "out of order": {late: 10}, "later labels": {later: true}} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := viewJob(t, log, 2, 2)
			if !test.later {
				job.Examples.Outcome, job.Examples.Label = ingest.Defaults().Outcome, "kind"
			}
			job.Retrain = topics.DefaultRetrain()
			job.Retrain.Rows, job.Retrain.Window.Time, job.Examples.BatchRows = aDay, 24*time.Hour, 4096
			begin := time.Now().Add(-days * 24 * time.Hour)
			var records []*kgo.Record
			for i := range days * aDay {
				at, kind := begin.Add(time.Duration(i)*24*time.Hour/aDay), []string{"book", "film"}[i%2]
				if test.late > 0 && i%test.late == 1 {
					at = at.Add(-5 * 24 * time.Hour)
				}
				key := fmt.Appendf(nil, "view-%d", i)
				records = append(records,
					&kgo.Record{Topic: views, Partition: int32(i % 2), Key: key, Value: fmt.Appendf(nil, `{"x": %d, "n": %d, "kind": %q}`, i%2, i, kind), Timestamp: at},
					&kgo.Record{Topic: buys, Partition: int32(i % 2), Key: key, Value: fmt.Appendf(nil, `{"kind": %q}`, kind), Timestamp: at.Add(time.Second)})
			}
			noError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
			jobs := []topics.Job{job}
			if !test.later { // its examples are those of another pipeline too
				reader := job
				reader.Name, reader.Examples = "reader", ingest.Defaults()
				reader.Examples.Topic, reader.Examples.Holdout = job.Name+".examples", job.Examples.Holdout
				jobs = append(jobs, reader)
			}
			for _, job := range jobs {
				report, _ := retrainToEnd(t, log, job)
				last := report.Updates[len(report.Updates)-1]
				if report.Rows != days*aDay || last.WindowRows > 3*aDay || last.Until < time.Now().Add(-24*time.Hour).UnixMilli() {
					t.Errorf("%s: %d of %d rows are learnt, and the last window has %d of %d a day until %v", job.Name, report.Rows, days*aDay,
						last.WindowRows, aDay, time.UnixMilli(last.Until))
				}
			}
		})
	}
}
