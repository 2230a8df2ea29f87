package pipeline

import (
	"context"
	"errors"
	"fmt"
	"iter"
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

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/twmb/franz-go/pkg/kgo"
	"gonum.org/v1/gonum/stat"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
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
	versions := assert.Must(topics.Open(log, name, nil).Versions(t.Context()))(t)
	for _, v := range versions {
		kind := schemas.RunFull
		if v.Plan.Update() != nil {
			kind = schemas.RunUpdate
		}
		list = append(list, fmt.Sprint(v.Plan.Chain.Number, kind, v.Plan.Spans, v.WeightsDigest.Short()))
	}
	return list
}

// newestWindow reads the window after the newest version of a chain.
func newestWindow(t *testing.T, log *kafkalog.Log, job topics.Job) *schemas.Window {
	t.Helper()
	p := topics.Open(log, job.Name, nil)
	manifest := assert.Must(p.Version(t.Context(), protocol.Latest))(t)
	return assert.Must(protocol.ReadWindow(t.Context(), p.Client, *manifest.Window))(t)
}

// What a process keeps in memory does not grow with the number of updates, once its cache of records is full. A run that kept the solver of
// the run before it in memory would take 1 MB an update here.
func TestChainMemoryIsBounded(t *testing.T) {
	long(t)
	job := newJob(t, rings(7200, 4, 3, 1), table{}, rffStage("softmax", 256, 6))
	job.Examples.BatchRows, job.Keep = 40, 5
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Window.Increments, job.Retrain.Full = 40, 1, 4, topics.FullOptions{}
	heap := map[int]uint64{}
	assert.Must(Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, func(e event.Event) {
		if r, ok := e.(event.Retrained); ok && r.Version%60 == 0 {
			var now runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&now)
			heap[r.Version] = now.HeapAlloc
		}
	}))(t)
	assert.True(t, heap[120] != 0 && heap[180] != 0 && heap[180] <= heap[120]+10<<20, "the heap by version is %v", heap)
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
	job := newJob(t, early, table{}, rffStage("softmax", 24, 6))
	job.Examples.BatchRows, job.Examples.Partitions, job.Retrain = 64, 2, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Keep = 128, topics.FullOptions{}, 1000
	for _, test := range []struct {
		do      string
		classes int
		full    int
	}{{topics.NewClassFull, 3, 2}, {topics.NewClassQuarantine, 2, 1}} {
		log := openEmbedded(t)
		job.Retrain.OnNewClass, job.Retrain.NewClassRows = test.do, 100
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		full := 0
		for _, u := range report.Updates {
			if u.Kind == schemas.RunFull {
				full++
			}
		}
		versions := assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
		assert.Equal(t, len(versions[len(versions)-1].Labels), test.classes, "%s: classes", test.do)
		assert.Equal(t, full, test.full, "%s: full runs", test.do)
		assert.True(t, len(readTopic(t, log, job.Name+".quarantine")) != 0, "%s: nothing is in quarantine", test.do)
	}
	job.Retrain.OnNewClass = topics.NewClassStop
	_, err := Retrain(t.Context(), openEmbedded(t), openBLAS(t), job, true, nil)
	assert.True(t, errors.Is(err, errNewClass), "%v", err)
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
		job := newStreamJob(t, 100, rffStage(link.Softmax, 20, 3))
		if test.grown {
			trees.Size = test.size
			job.Stages[0].Features, job.Stages[0].RidgeRows = trees, 0.4
		}
		job.Retrain.Passes, job.Retrain.Refresh = passes, 1
		job.Retrain.Window.Increments, job.Retrain.Gate = 3, topics.GateOptions{Split: examples.Test.String(), Margin: margin}
		log := openEmbedded(t)
		p := topics.Open(log, job.Name, nil)
		assert.NoError(t, topics.Create(t.Context(), p, &job))
		for i := range 24 {
			data := rings(rows, 4, 3, uint64(i))
			batch := data.exampleRows()
			batch.Splits = append(slices.Repeat([]examples.Split{examples.Test}, tested), make([]examples.Split, rows-tested)...)
			if i%5 == 4 { // these are wrong
				slices.Reverse(batch.Words[tested:])
			}
			produce(t, log, job, 0, exampleMessage(t, batch))
		}
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		models := map[int]*model.Model{}
		versions := assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
		for _, v := range versions {
			models[v.Version] = assert.Must(p.Model(t.Context(), v.Run))(t)
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
				judged++
				assert.True(t, (!u.Offered || worse-3.5*deviation <= margin) && (u.Offered || worse-1.5*deviation >= margin),
					"%d passes: version %d is worse than %d by %v, standard error %v; offered %v", passes, u.Version, offered, worse, deviation, u.Offered)
				g := u.Gate
				assert.True(t, g != nil && g.Weight == tested+revisited && g.Revisited == revisited &&
					math.Abs(g.Loss-g.OfferedLoss-worse) <= 1e-5 && math.Abs(*g.StandardError/deviation-1) <= 0.3,
					"%d passes: version %d: the report says %+v, expected %v with an error of %v", passes, u.Version, g, worse, deviation)
				if !u.Offered {
					withheld++
				}
			}
			if u.Offered {
				offered = u.Version
			}
		}
		// With trees no full run comes between the versions.
		assert.True(t, withheld != 0 && withheld != judged && again != 0 && (again != judged || test.grown),
			"%d passes, trees %v: %d of %d updates are withheld, %d are compared by rows that are visited again", passes, test.grown, withheld,
			judged, again)
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
		assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		count := map[string]int{}
		for _, topic := range []string{"statistics", "weights", "state"} {
			count[topic] = len(live(t, log, job.Name+"."+topic))
		}
		return count
	}
	few, many := left(3200), left(6400)
	for topic, n := range few {
		assert.True(t, many[topic] <= n+n/10 && (n != 0 || topic == "statistics"), // of which none has to stay
			"%s: %d messages after 32 increments, %d after 64", topic, n, many[topic])
	}
}

// The report of a chain says of each run which messages it added, and when they were written. Its curve and its
// confusion matrix have the rows and the errors of all updates.
func TestReportOfAChain(t *testing.T) {
	log, job := openEmbedded(t), chainJob(t, "softmax")
	r, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
	assert.NoError(t, err)
	var spans coverage.Spans
	rows, wrong := int64(0), 0.0
	for _, u := range r.Updates {
		spans, err = spans.Union(u.Spans)
		assert.Need(t, err == nil, "version %d has %v again: %v", u.Version, u.Spans, err)
		assert.True(t, (u.Rows <= 0 || u.From > 0 && u.Until >= u.From && len(u.Spans) > 0) && (u.Rows != 0 || u.From == 0),
			"version %d: %d rows of %v, written from %d to %d", u.Version, u.Rows, u.Spans, u.From, u.Until)
		if u.PrequentialError == nil {
			continue
		}
		rows += u.Rows
		wrong += float64(u.Rows) * *u.PrequentialError / 100
		assert.True(t, *u.PrequentialLogLoss > 0 && *u.PrequentialBrier > 0 && *u.PrequentialECE > 0 && u.Curve == nil, "%+v", *u)
	}
	p := topics.OpenFor(log, job, nil)
	assert.Equal(t, spans.Hulls(), coverage.Spans(assert.Must(p.Log.Spans(t.Context(), p.Topics.Examples))(t)), "what runs added")
	check := func(what string, gotRows int64, gotWrong float64) {
		t.Helper()
		assert.True(t, gotRows == rows && math.Abs(gotWrong-wrong) <= 1e-6,
			"%s: %d rows, %g of them wrong, expected %d and %g", what, gotRows, gotWrong, rows, wrong)
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
	want := [][]int64{{1, 0, 0, 5}, {0, 2, 0, 2}, {0, 0, 1, 0}, {0, 3, 0, 5}}
	assert.True(t, reflect.DeepEqual(r.Confusion, want) && len(r.Labels) == 4, "%v of %q, expected %v", r.Confusion, r.Labels, want)
}

// The updates of a chain say how often what was served was wrong, by the versions that answered, as a naive count does, however little
// memory there is. The full run, for whose rows nobody had answered, says nothing.
func TestServedErrors(t *testing.T) {
	for _, memory := range []int64{1 << 30, 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
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
			_, err := Retrain(t.Context(), log, openBLAS(t), job, true, func(e event.Event) {
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
				assert.Equal(t, r.Served, reports, "what version %d says of its answers", r.Version)
			})
			assert.Need(t, err == nil && versions == len(want), "%d versions, %v", versions, err)
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
		words := slices.Sorted(maps.Keys(counts))
		fmt.Fprint(&text, class)
		for _, word := range words {
			fmt.Fprintf(&text, " %d:%d", word, counts[word])
		}
		fmt.Fprintln(&text)
	}
	path := filepath.Join(t.TempDir(), "words.svm")
	assert.NoError(t, os.WriteFile(path, []byte(text.String()), 0o600))
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
	log := assert.Must(kafkalog.Open(t.Context(), kafkalog.Options{Brokers: brokers}))(t)
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
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder.Record)
		ended <- err
	}()
	t.Cleanup(func() {
		stop()
		assert.Fails(t, <-ended, context.Canceled)
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
		assert.True(t, e.Rows >= 1400 && e.Rows <= 1600 && e.Of == 10000 && e.After == time.Hour && time.Until(e.Until) >= 50*time.Minute &&
			!e.Again, "%+v", e)
	case <-timeout:
		t.Fatal("it does not say what it waits for")
	}
	_, standing := retraining(t, log.Addr())
	select {
	case e := <-standing:
		assert.Equal(t, e.Role, protocol.RoleRun, "the role")
		assert.Equal(t, e.Why, "another process retrains this pipeline: this one stands by", "why it stands by")
	case <-timeout:
		t.Fatal("it does not say that it stands by")
	}
}

// Rows of a topic are as old as their messages, whenever they are ingested, also for another pipeline that reads the examples: a window
// of time has those of the newest messages alone, and none that are 12 days old.
func TestWindowOfTimeOfATopic(t *testing.T) {
	long(t)
	const days, aDay = 12, 40
	for name, later := range map[string]bool{"out of order": false, "later labels": true} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := viewJob(t, log, "", 2, 2)
			if !later {
				job.Examples.Outcome, job.Examples.Label = ingest.Defaults().Outcome, "kind"
			}
			job.Retrain = topics.DefaultRetrain()
			job.Retrain.Rows, job.Retrain.Window.Time, job.Examples.BatchRows = aDay, 24*time.Hour, 4096
			begin := time.Now().Add(-days * 24 * time.Hour)
			var records []*kgo.Record
			for i := range days * aDay {
				at, kind := begin.Add(time.Duration(i)*24*time.Hour/aDay), []string{"book", "film"}[i%2]
				if !later && i%10 == 1 { // one message of ten is five days late
					at = at.Add(-5 * 24 * time.Hour)
				}
				key := fmt.Appendf(nil, "view-%d", i)
				records = append(records,
					&kgo.Record{Topic: views, Partition: int32(i % 2), Key: key, Value: fmt.Appendf(nil, `{"x": %d, "n": %d, "kind": %q}`, i%2, i, kind), Timestamp: at},
					&kgo.Record{Topic: buys, Partition: int32(i % 2), Key: key, Value: fmt.Appendf(nil, `{"kind": %q}`, kind), Timestamp: at.Add(time.Second)})
			}
			assert.NoError(t, clientOf(t, log).ProduceSync(t.Context(), records...).FirstErr())
			jobs := []topics.Job{job}
			if !later { // its examples are those of another pipeline too
				reader := job
				reader.Name, reader.Examples = "reader", ingest.Defaults()
				reader.Examples.Topic, reader.Examples.Holdout = job.Name+".examples", job.Examples.Holdout
				jobs = append(jobs, reader)
			}
			for _, job := range jobs {
				report, _ := retrainToEnd(t, log, job)
				last := report.Updates[len(report.Updates)-1]
				assert.True(t, report.Rows == days*aDay && last.WindowRows <= 3*aDay && last.Until >= time.Now().Add(-24*time.Hour).UnixMilli(),
					"%s: %d of %d rows are learnt, and the last window has %d of %d a day until %v", job.Name, report.Rows, days*aDay, last.WindowRows,
					aDay, time.UnixMilli(last.Until))
			}
		})
	}
}

// windowOf returns a window of increments with numbers from 1 and so many rows each, a message of partition 0 each, a second apart.
func windowOf(rows ...int64) *schemas.Window {
	w := &schemas.Window{Chain: &schemas.Chain{Number: len(rows)}, Full: 1, FullRows: 1}
	for i, n := range rows {
		span := coverage.Span{From: int64(i), To: int64(i + 1)}
		w.Increments = append(w.Increments, schemas.WindowIncrement{
			Increment: coverage.Increment{Number: i + 1, Weight: 1, Until: int64(i+1) * 1000,
				Covered: []coverage.Coverage{{Spans: coverage.Spans{span}, Rows: n}}}, Fitted: float64(n),
		})
	}
	return w
}

func numbers(increments []coverage.Increment) (all []int) {
	for i := range increments {
		all = append(all, increments[i].Number)
	}
	return all
}

// What leaves is what the window does not admit, the oldest first; retention takes any.
func TestLeave(t *testing.T) {
	for _, test := range []struct {
		name    string
		window  topics.WindowOptions
		staying []coverage.Span
		rows    []int64
		found   int64
		want    string
	}{
		{"no limit", topics.WindowOptions{}, nil, []int64{10, 10, 10}, 10, "[]"},
		{"rows: as many stay as are asked for", topics.WindowOptions{Rows: 30}, nil, []int64{10, 10, 10}, 10, "[1]"},
		{"rows: fewer would stay", topics.WindowOptions{Rows: 31}, nil, []int64{10, 10, 10}, 10, "[]"},
		{"rows: one increment fills it", topics.WindowOptions{Rows: 30}, nil, []int64{10, 10, 10}, 30, "[1 2 3]"},
		{"increments", topics.WindowOptions{Increments: 2}, nil, []int64{10, 10, 10}, 1, "[1 2]"},
		{"an increment without rows pushes none out", topics.WindowOptions{Increments: 2}, nil, []int64{10, 0, 10}, 1, "[1 2]"},
		{"time", topics.WindowOptions{Time: 2 * time.Second}, nil, []int64{10, 10, 10}, 1, "[1]"},
		{"retention takes the first message", topics.WindowOptions{}, []coverage.Span{{From: 1, To: 9}}, []int64{10, 10, 10}, 1, "[1]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := windowOf(test.rows...)
			plan := &schemas.Chain{Number: 4, Until: 4000, Update: &schemas.Update{Decay: 0.5}}
			stays := leaveRule{retrain: topics.RetrainOptions{Window: test.window, Decay: 1}, bytes: schemas.WindowBytes, staying: test.staying}.
				leave(plan, w, test.found)
			assert.Equal(t, fmt.Sprint(numbers(plan.Update.Leave)), test.want, "the increments that leave")
			assert.Equal(t, len(stays)+len(plan.Update.Leave), len(w.Increments), "increments that stay or leave")
			for _, c := range plan.Update.Leave {
				assert.Equal(t, c.Weight, 0.5, "the weight with which increment %d leaves, its own after one more update", c.Number)
			}
		})
	}
}

// A full run is due after so many updates, when the window has grown or its list is long, after a failure, and when the
// window is not what was learnt; never without rows.
func TestFullIsDue(t *testing.T) {
	job := &topics.Job{Retrain: topics.RetrainOptions{Decay: 1, Full: topics.FullOptions{Every: 3, Growth: 2}, OnNewClass: topics.NewClassFull, NewClassRows: 5}}
	head := &schemas.Manifest{Window: &schemas.StatePlace{}}
	for _, test := range []struct {
		name   string
		change func(*chainState)
		want   bool
	}{
		{"just made", func(*chainState) {}, false},
		{"grown", func(s *chainState) { s.window.FullRows = 15 }, true},
		{"grown, but full already", func(s *chainState) { s.window.FullRows, s.window.Full = 15, 3 }, false},
		{"enough updates", func(s *chainState) { s.window.Chain.Number = 4 }, true},
		{"a failed attempt", func(s *chainState) { s.attempt = 1 }, true},
		{"no state", func(s *chainState) { s.head = &schemas.Manifest{} }, true},
		{"a class with few rows", func(s *chainState) { s.window.Unknown = []examples.LabelRows{{Label: "a", Rows: 4}} }, false},
		{"another class", func(s *chainState) { s.window.Unknown = []examples.LabelRows{{Label: "a", Rows: 5}} }, true},
		{"other rows than were learnt", func(s *chainState) { s.renews = true }, true},
		{"a long list", func(s *chainState) {
			s.window = windowOf(slices.Repeat([]int64{1}, 21)...)
			s.window.Full, s.window.FullRows = 20, 21
		}, true},
		{"no rows", func(s *chainState) { s.window, s.attempt = windowOf(0, 0, 0), 1 }, false},
	} {
		s := chainState{head: head, window: windowOf(10, 10, 10)}
		s.window.FullRows = 30
		test.change(&s)
		assert.Equal(t, s.fullIsDue(job, windowOf(slices.Repeat([]int64{1}, 20)...).Bytes()), test.want, "%s: full is due", test.name)
	}
}

// retrainWithin learns all that the topic has, with windows of so many bytes.
func retrainWithin(t *testing.T, log *kafkalog.Log, job topics.Job, bytes int64, rec event.Recorder) {
	t.Helper()
	p, blas := topics.OpenFor(log, job, nil), openBLAS(t)
	assert.NoError(t, topics.Create(t.Context(), p, &job))
	cache := visit.NewCache(assert.Must(visit.CacheBytes(job.Memory))(t))
	join := func(ctx context.Context) (execution, func(), error) {
		members, err := dispatch.Join(ctx, p, job, cache, blas, rec)
		if err != nil {
			return nil, nil, err
		}
		return members.Execute, members.Leave, nil
	}
	r := newRunner(p, job, protocol.NewSoleOwner(1), dispatch.Arithmetic(blas), join, rec)
	r.windowBytes = bytes
	assert.NoError(t, r.run(t.Context(), true))
}

// bytesOf returns the length of the list of so many increments of one span.
func bytesOf(increments int64) int64 {
	c := schemas.WindowIncrement{Increment: coverage.Increment{Covered: []coverage.Coverage{{Spans: make(coverage.Spans, 1)}}}}
	return increments * (&schemas.Window{Increments: []schemas.WindowIncrement{c}}).Bytes()
}

// With decay, increments have different weights and can't be merged: the oldest leave where the list, or the state topic, has no room for
// one more, and where they weigh nothing beside a row that comes. The versions go on, and are those of a window that ends there.
func TestDecayedWindowsEnd(t *testing.T) {
	long(t)
	const rows, updates, most = 8, 20, 8
	for name, test := range map[string]struct {
		decay  float64
		bytes  int64
		window topics.WindowOptions
		link   schemas.Link
		want   int
	}{
		"room for some":      {0.9, bytesOf(most), topics.WindowOptions{}, link.Softmax, most + 1},
		"weighs nothing":     {1e-4, schemas.WindowBytes, topics.WindowOptions{}, link.Softmax, 4}, // 1e-16 is less than 2^-53
		"the window is less": {0.9, bytesOf(most), topics.WindowOptions{Increments: most / 2}, link.Softmax, most / 2},
		"all are full":       {0.9, schemas.WindowBytes, topics.WindowOptions{Rows: rows * most}, link.Calibrated, most},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full, job.Memory = rows, 1, topics.FullOptions{}, 1
			job.Retrain.Decay, job.Retrain.Window, job.Stages[0].Link = test.decay, test.window, test.link
			for n := range updates {
				produce(t, log, job, 0, exampleMessage(t, rings(rows, 4, 3, uint64(n)).exampleRows()))
			}
			retrainWithin(t, log, job, test.bytes, func(event.Event) {})
			w := newestWindow(t, log, job)
			assert.Equal(t, len(w.Increments), test.want, "increments of the window after %d updates", updates)
			assert.Equal(t, w.Rows(), int64(test.want)*rows, "rows of the window after %d updates", updates)
			assert.Near(t, w.Increments[0].Increment.Weight, math.Pow(test.decay, float64(test.want-1)), 1e-12, "weight of the oldest")
		})
	}
}

// If the next messages have no row to fit to, and all others would leave the window, nothing leaves it. An update with
// nothing to fit to would fail, be followed by a full run, and be made again, for ever.
func TestWindowKeepsRowsUntilOthersCome(t *testing.T) {
	job := newStreamJob(t, 100, rffStage(link.Softmax, 20, 3))
	job.Retrain.Window = topics.WindowOptions{Time: time.Millisecond}
	log := openEmbedded(t)
	retrain := func() []*schemas.RetrainReport {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		made := 0
		report := assert.Must(Retrain(ctx, log, openBLAS(t), job, true, func(e event.Event) {
			if _, ok := e.(event.Retrained); ok {
				if made++; made > 1 {
					cancel()
				}
			}
		}))(t)
		return report.Updates
	}
	for i, weights := range [][]float32{nil, make([]float32, 100), nil} {
		rows := rings(100, 4, 3, uint64(i)).exampleRows()
		rows.Weights = weights
		produce(t, log, job, 0, exampleMessage(t, rows))
		made := retrain()
		want := []int64{100, 200, 100}[i]
		assert.True(t, len(made) == 1 && made[0].WindowRows == want, "%+v, expected one version whose window has %d rows", made, want)
	}
}

// fakeTopic has the offsets of the messages of each partition, in order. Its messages have no rows that can be decoded.
type fakeTopic struct {
	protocol.Log
	offsets [][]int64
	read    int // messages
	asked   coverage.Spans
}

func (t *fakeTopic) Range(_ context.Context, _ string, partition int, from, to int64) iter.Seq2[protocol.Message, error] {
	t.asked = append(t.asked, coverage.Span{Partition: partition, From: from, To: to})
	return func(yield func(protocol.Message, error) bool) {
		for _, offset := range t.offsets[partition] {
			if offset < from || offset >= to {
				continue
			}
			t.read++
			if !yield(protocol.Message{Offset: offset, Time: time.UnixMilli(offset)}, nil) {
				return
			}
		}
	}
}

func (t *fakeTopic) backlog() *backlog {
	return newBacklog(&topics.Pipeline{Client: &protocol.Client{Log: t, Memory: memory.DefaultAllocator}}, source.NewForgotten(), nil)
}

func (t *fakeTopic) bounds() (bounds []coverage.Span) {
	for n, offsets := range t.offsets {
		span := coverage.Span{Partition: n}
		if len(offsets) > 0 {
			span.From, span.To = offsets[0], offsets[len(offsets)-1]+1
		}
		bounds = append(bounds, span)
	}
	return bounds
}

// backlogOf returns the backlog of a topic from its beginning.
func backlogOf(topic *fakeTopic) *backlog {
	b := topic.backlog()
	var begins []int64
	for _, span := range topic.bounds() {
		begins = append(begins, span.From)
	}
	b.begin(begins, slices.Clone(begins), nil)
	b.refresh(topic.bounds())
	return b
}

// cutAll cuts all that a backlog has. A cut wants more rows than there are, as no message can be decoded.
func cutAll(t *testing.T, b *backlog) coverage.Spans {
	t.Helper()
	increment, err := b.cut(t.Context(), 1, false, nil)
	assert.Need(t, err == nil && increment.rows == 0 && !increment.whole, "cut %+v, %v", increment, err)
	return increment.spans
}

// A cut has every message, whatever gaps are between them, and reads each once.
func TestCutPassesOverGaps(t *testing.T) {
	for _, gap := range []int64{1, readAhead - 1, readAhead, readAhead + 1, maxReadAhead + 1} {
		t.Run(fmt.Sprint(gap), func(t *testing.T) {
			topic := &fakeTopic{offsets: [][]int64{{0, gap, gap + 1, 3 * gap}, {5, 5 + 2*gap}}}
			b := backlogOf(topic)
			assert.Equal(t, fmt.Sprint(cutAll(t, b).Hulls()), fmt.Sprint(topic.bounds()), "the cut, and the topic")
			assert.Equal(t, topic.read, 6, "messages that were read")
			assert.Equal(t, b.behind().Messages, 6, "messages that are behind before a run takes them")
		})
	}
}

// If the runs so far have nothing of a partition, which began behind offset 0, and a source comes to count, the messages that are there are
// cut, and none before them is asked for.
func TestSourceBesideAPartitionWithoutARun(t *testing.T) {
	topic := &fakeTopic{offsets: [][]int64{{6, 7}, {0, 1}}}
	b := topic.backlog()
	b.begin([]int64{6, 0}, []int64{0, 2}, nil)
	b.refresh(topic.bounds())
	b.follow([]schemas.SourceSeal{{ID: "s", Attempt: "a", Partitions: 2, Spans: coverage.Spans{{Partition: 0, From: 7, To: 8}}}}, nil, topic.bounds())
	topic.asked = coverage.Spans{}
	assert.Equal(t, fmt.Sprint(cutAll(t, b)), "[[0]@6–8]", "the cut")
	assert.Equal(t, topic.asked[0].From, 6, "the first offset that is asked for")
}

// standingRows is how many rows a message has in the tests of what a chain stands on. An update takes two messages.
const standingRows = 40

// standingJob returns a job that learns messages of other producers.
func standingJob(t *testing.T, partitions int) topics.Job {
	job := newStreamJob(t, 2*standingRows, rffStage(link.Softmax, 16, 3))
	job.Examples.Partitions, job.Retrain.Refresh = partitions, 1
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
	report := assert.Must(Retrain(ctx, log, openBLAS(t), job, true, rec.Record))(t)
	behind := eventsOf[event.Behind](rec)
	assert.True(t, len(behind) == 0 || behind[len(behind)-1].Messages == 0, "messages are behind at the end: %+v", behind)
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
	assert.Equal(t, made(report), want, "%s: the versions", what)
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
			cutOff(t, log, job, job.Name+".examples", 3)
			fill(t, log, job, 100, 100+written)
		}
	}
	lostVersions := func(lost int) func(*testing.T, *kafkalog.Log, topics.Job) {
		return func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			cutOff(t, log, job, job.Name+".versions", lost)
			latest := assert.Must(topics.Open(log, job.Name, nil).Model(t.Context(), protocol.Latest))(t)
			assert.Equal(t, latest.Manifest.Version, 4, "the latest version")
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
			assert.NoError(t, log.Delete(t.Context(), job.Name+".state"))
			fill(t, log, job, 20, 23)
		}, []string{"full 0 of 400", "update 80 of 400", "update 40 of 360"}, ".state has lost the state", 13, nil, func(t *testing.T, m *schemas.Manifest) {
			// The plans since the last full run are gone too: the window is all that the chain has looked at.
			window := windowOfPlans(m, nil, false)
			assert.Equal(t, fmt.Sprint(window.Increments[0].Increment.Covered, window.Ends), "[{[[0]@0–12] 0 0 0} {[[1]@0–11] 0 0 0}] [12 11]",
				"all that the chain has looked at")
		}},
		"the manifest of the newest version": {1, 10, nil, false, lostVersions(1), []string{"full 0 of 320", "update 80 of 400",
			"update 80 of 480"}, "Version:5", 8, nil, nil},
		"the newest version": {1, 10, nil, false, lostVersions(3), []string{"full 0 of 320", "update 80 of 400", "update 80 of 480"},
			"Version:5", 8, nil, nil},
		"the plans": {1, 8, nil, false, func(t *testing.T, log *kafkalog.Log, job topics.Job) {
			assert.Must(topics.RemoveVersions(t.Context(), topics.Open(log, job.Name, nil), []string{"2"}, false))(t)
			assert.NoError(t, log.Delete(t.Context(), job.Name+".plans"))
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
			assert.True(t, said(rec, test.says), "nothing says %q: %+v", test.says, rec.events)
			offered := report.Updates[len(report.Updates)-1]
			m := assert.Must(topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest))(t)
			assert.True(t, m.Version == test.latest && (!offered.Offered || m.WindowRows == offered.WindowRows),
				"the latest version is %d, of %d rows, expected version %d", m.Version, m.WindowRows, test.latest)
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

// cutOff makes a topic of one partition what an unclean election leaves that has lost its last messages.
func cutOff(t *testing.T, log *kafkalog.Log, job topics.Job, name string, lost int) {
	t.Helper()
	all := readTopic(t, log, name)
	assert.NoError(t, log.Delete(t.Context(), name))
	for _, topic := range topics.Topics(job) {
		if topic.Name == name {
			assert.NoError(t, log.Create(t.Context(), topic))
		}
	}
	client := clientOf(t, log)
	for _, m := range all[:len(all)-lost] {
		r := &kgo.Record{Topic: name, Key: m.Key, Value: m.Value, Timestamp: m.Time}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kgo.RecordHeader{Key: h.Key, Value: h.Value})
		}
		assert.NoError(t, client.ProduceSync(t.Context(), r).FirstErr())
	}
}

// clientOf returns another client of the log, which produces to the partitions that records say.
func clientOf(t *testing.T, log *kafkalog.Log) *kgo.Client {
	t.Helper()
	client := assert.Must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner())))(t)
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
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, nil, nil)
	r.work = func(_ context.Context, plan *schemas.Plan, _ *protocol.Ledger) (*schemas.Report, error) {
		if fails = !fails; fails {
			return nil, &dispatch.RunError{Run: plan.Run(), State: schemas.Failed, Reason: "a test"}
		}
		return &schemas.Report{Retrain: &schemas.RetrainReport{Kind: schemas.RunFull}}, nil
	}
	r.pause = func(context.Context, time.Duration) error { return nil }
	for range 4 * maxFailures {
		err := r.execute(t.Context(), &schemas.Plan{Chain: &schemas.Chain{}}, nil)
		assert.Need(t, err == nil, "after %d failures since the last version: %v", r.failures, err)
	}
}

// A process that retrains with another configuration than that of the newest version says so once, with the keys.
func TestRunNamesSettingsThatDiffer(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	retrainToEnd(t, log, job)
	other := job
	other.Retrain.Rows, other.Examples.Holdout, other.Retrain.Full.Every, other.Seed = 7, 0.5, 3, job.Seed+1
	other.Memory, other.Retrain.AcceptLoss, other.Examples.Weight = 1<<28, true, "w"
	for i, test := range []struct {
		job  topics.Job
		want string
	}{
		{job, ""},
		{other, ": examples.holdout, examples.weight, retrain.accept_loss, retrain.full.every, retrain.rows, seed. "},
		{other, ""},
		{job, ": examples.holdout, examples.weight, retrain.accept_loss, retrain.full.every, retrain.rows, seed. "},
	} {
		fill(t, log, test.job, 4+2*i, 6+2*i)
		_, rec := retrainToEnd(t, log, test.job)
		said := slices.DeleteFunc(eventsOf[event.Noticed](rec), func(n event.Noticed) bool { return !strings.Contains(n.Text, "this configuration") })
		assert.True(t, len(said) == 2*min(1, len(test.want)) && (len(said) == 0 || strings.Contains(said[0].Text, test.want) &&
			strings.Contains(said[1].Text, "weights that they were ingested with")), "run %d: said %q, expected %q", i, said, test.want)
	}
}

// A chain over more segments than a plan may have gets longer segments, says so, and its run is made. A plan that
// nobody would work on is an error, and is not written.
func TestPlansOfAChainAreCheckedFirst(t *testing.T) {
	log, job := openEmbedded(t), standingJob(t, 1)
	fill(t, log, job, 0, 4)
	p, rec := topics.Open(log, job.Name, nil), &eventRecorder{}
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, nil, rec.Record)
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
	err := r.submit(t.Context(), plan(25*schemas.MaxSegments))
	assert.Need(t, errors.Is(err, context.Canceled) && worked != nil, "%v: the run is not made", err)
	assert.True(t, worked.Segment == 48 && worked.Run() == r.made && said(rec, "segments of 48 messages"),
		"segments of %d messages, notices %v; expected 48", worked.Segment, eventsOf[event.Noticed](rec))
	assert.NoError(t, dispatch.End(t.Context(), p, &schemas.End{Run: worked.Run(), State: schemas.Failed, Reason: "a test"}))
	worked = nil
	few := plan(3 * schemas.MaxSegments)
	few.Chain.Attempt = 1
	err = r.submit(t.Context(), few)
	assert.True(t, errors.Is(err, context.Canceled) && worked != nil && worked.Segment == 3, "all segments there may be: %v, %+v", err, worked)
	for what, spoil := range map[string]func(*schemas.Plan){
		"a class twice":       func(p *schemas.Plan) { p.Classes = []string{"a", "a"} },
		"an unknown link":     func(p *schemas.Plan) { p.Stages = []schemas.Stage{{Link: "none"}} },
		"segments of nothing": func(p *schemas.Plan) { p.Segment = 0 },
	} {
		before, wrong := len(readTopic(t, log, p.Topics.Plans)), plan(4)
		spoil(wrong)
		assert.True(t, r.submit(t.Context(), wrong) != nil, "a plan with %s is no error", what)
		assert.Equal(t, len(readTopic(t, log, p.Topics.Plans)), before, "messages on the topic, without the plan with %s", what)
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
	r := newRunner(p, job, protocol.NewSoleOwner(1), schemas.Arithmetic{}, join, rec.Record)
	r.pause = func(context.Context, time.Duration) error {
		if pauses++; pauses == 3 {
			return context.Canceled
		}
		return nil
	}
	assert.Fails(t, r.run(t.Context(), true), context.Canceled)
	assert.True(t, pauses == 3 && said(rec, "planning the run again"), "%d pauses, expected 3", pauses)
}

// sorted returns messages of 40 rows each, of which the first n have rows of one label. Row 7 of the first has another
// label, but overflows.
func sorted(t *testing.T, n, all int) (messages []kafkalog.Message) {
	for i := range all {
		rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
		if i < n {
			for row := range rows.Words {
				rows.Words[row] = "ring0"
			}
		}
		if i == 0 {
			setTo(3e38, "ring1")(&rows)
		}
		messages = append(messages, exampleMessage(t, rows))
	}
	return messages
}

// secondClass checks that a chain of one class makes no run up to the end of its topic, which is an error, and that it waits otherwise, and
// says so once. It returns the version that the chain makes when more messages come.
func secondClass(t *testing.T, log *kafkalog.Log, job topics.Job, says string, more ...kafkalog.Message) event.Retrained {
	t.Helper()
	p := topics.Open(log, job.Name, nil)
	before := readLedger(t, p).Chained()
	for range 2 { // whenever it is started
		_, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
		assert.Fails(t, err, new(*solve.LabelsError), `all examples have the label "ring0"`)
	}
	waits, ended, retrained := make(chan struct{}), make(chan error, 1), make(chan event.Retrained, 10)
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e := e.(type) {
		case event.Noticed:
			if strings.Contains(e.Text, "waits for rows of a second class: "+says) {
				close(waits) // panics if it is said twice
			}
		case event.Retrained:
			retrained <- e
		}
	}}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder.Record)
		ended <- err
	}()
	select {
	case <-waits:
	case err := <-ended:
		t.Fatalf("the chain has ended: %v", err)
	}
	assert.Equal(t, readLedger(t, p).Chained(), before, "the newest run")
	produce(t, log, job, 0, more...)
	select {
	case made := <-retrained:
		cancel()
		<-ended
		return made
	case err := <-ended:
		t.Fatalf("the chain has ended: %v", err)
		return event.Retrained{}
	}
}

// A chain that finds one class waits for another. So it does if one class is left in its window without what is forgotten: then it fits the
// window and what is new anew.
func TestChainWaitsForASecondClass(t *testing.T) {
	job := newStreamJob(t, 80, kindStage(stages.RFF, link.Softmax))
	job.Retrain.After = 1
	t.Run("at first", func(t *testing.T) {
		log := openEmbedded(t)
		writeAll(t, log, job, sorted(t, 3, 3))
		secondClass(t, log, job, "of 120 rows so far", sorted(t, 0, 4)[3:]...)
	})
	t.Run("after rows are forgotten", func(t *testing.T) {
		log := openEmbedded(t)
		produce(t, log, job, 0, sorted(t, 4, 7)[1:]...) // without the row that overflows
		assert.Equal(t, len(assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t).Updates), 2, "versions")
		forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/3", "test.examples/0/4", "test.examples/0/5")})
		// The first of two messages is of the same class.
		made := secondClass(t, log, job, "without forgotten rows, all examples", sorted(t, 2, 2)[1], sorted(t, 0, 9)[8])
		assert.Equal(t, made.Kind, schemas.RunFull, "the kind of the version, of what is left and the new rows")
		assert.Equal(t, made.WindowRows, (8-3)*40, "the rows of its window")
		last := assert.Must(topics.Open(log, job.Name, nil).Version(t.Context(), protocol.Latest))(t)
		assert.True(t, len(last.Labels) >= 2 && len(last.Plan.Forgotten) != 0,
			"the last version has the labels %v, and heeds %v", last.Labels, last.Plan.Forgotten)
	})
}

// A chain goes on with the classes that it has found as its classes in the configuration, and back: updates revisit the messages that
// counted when they were added, whose rows may have labels that are not classes. With other classes the next version is full.
func TestChainGoesOnWithItsClassesConfigured(t *testing.T) {
	for _, name := range []string{"one label", "several labels"} {
		t.Run(name, func(t *testing.T) {
			job := newStreamJob(t, 80, kindStage(stages.RFF, link.Logistic))
			job.Retrain.NewClassRows = 1000
			if name == "several labels" {
				job.Examples.Labels = layout.LabelsSeveral
			}
			log, made := openEmbedded(t), 0
			for i, classes := range [][]string{nil, {"ring0", "ring1", "ring2"}, nil, {"ring2", "ring1", "ring0"}} {
				fullFirst := i == 0 || i == 3
				for range 4 {
					rows := rings(40, 4, 3, uint64(made+1)).exampleRows()
					if classes == nil && made > 1 {
						rows.Words[7], rows.Words[9] = "other", "another"
					}
					if name == "several labels" {
						for _, word := range rows.Words {
							rows.LabelLists = append(rows.LabelLists, []string{word})
						}
						rows.Words = nil
					}
					produce(t, log, job, 0, exampleMessage(t, rows))
					made++
				}
				job.Examples.Classes = classes
				recorder := &eventRecorder{}
				report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, recorder.Record))(t)
				for i, u := range report.Updates {
					full := fullFirst && i == 0
					assert.True(t, full == (u.Kind == schemas.RunFull), "with classes %q version %d is by %s", classes, u.Version, u.Kind)
				}
				for _, e := range eventsOf[event.Ended](recorder) {
					assert.Equal(t, e.State, schemas.Done, "with classes %q: the state", classes)
				}
			}
		})
	}
}

// noisyRings returns the test rows and the training rows of a message, in that order. Of the labels of test rows a
// tenth is drawn at random, of those of training rows the share wrong.
func noisyRings(tested, trained int, wrong float64, seed uint64) examples.Rows {
	data, random := rings(tested+trained, 4, 3, seed), rand.New(rand.NewPCG(seed, 5))
	for i := range data.labels {
		share := 0.1
		if i >= tested {
			share = wrong
		}
		if random.Float64() < share {
			data.labels[i] = fmt.Sprint("ring", random.IntN(3))
		}
	}
	batch := data.exampleRows()
	batch.Splits = append(slices.Repeat([]examples.Split{examples.Test}, tested), make([]examples.Split, trained)...)
	return batch
}

// With another share of rows held out, some of them have been learnt. So the next version is full, and the gate
// compares no version by such rows.
func TestAnotherHoldoutMakesAFullVersion(t *testing.T) {
	log := openEmbedded(t)
	job := newStreamJob(t, 100, rffStage(link.Softmax, 20, 3))
	job.Examples.Holdout = 0.1
	assert.NoError(t, topics.Create(t.Context(), topics.Open(log, job.Name, nil), &job))
	kinds := func(messages int) (kinds []string) {
		for i := range messages {
			produce(t, log, job, 0, exampleMessage(t, noisyRings(0, 100, 0, uint64(i))))
		}
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		for _, u := range report.Updates {
			kinds = append(kinds, u.Kind)
			assert.True(t, u.Kind != schemas.RunFull || u.Gate == nil || u.Gate.Revisited <= 0, "version %d revisits: %+v", u.Version, u.Gate)
		}
		return kinds
	}
	assert.Equal(t, kinds(2), []string{schemas.RunFull, schemas.RunUpdate}, "versions")
	job.Examples.Holdout = 0.2
	assert.Equal(t, kinds(2), []string{schemas.RunFull, schemas.RunUpdate}, "versions with another holdout")
}

// A version that has learnt a class that appears later is offered, whatever classes weigh: of the rows of that class, the version before
// loses what a prediction of the smallest probability loses.
func TestGateOffersClassesThatAppearLater(t *testing.T) {
	long(t)
	const messages, rows, appears = 14, 400, 8
	for name, test := range map[string]struct {
		weight schemas.ClassWeight
		link   schemas.Link
		share  float64 // of the rows that are of the class
	}{
		"no weights":             {schemas.ClassWeight{}, link.Softmax, 0.1},
		"balanced":               {schemas.ClassWeight{Balanced: true}, link.Softmax, 0.1},
		"balanced, rare":         {schemas.ClassWeight{Balanced: true}, link.Softmax, 0.02},
		"a number":               {schemas.ClassWeight{By: map[string]float64{"late": 20}}, link.Softmax, 0.1},
		"numbers of all":         {schemas.ClassWeight{By: map[string]float64{"late": 3, "ring0": 0.5, "ring1": 2}}, link.Softmax, 0.1},
		"balanced, logistic":     {schemas.ClassWeight{Balanced: true}, link.Logistic, 0.1},
		"balanced, squared loss": {schemas.ClassWeight{Balanced: true}, link.Identity, 0.1},
		"stages chosen":          {schemas.ClassWeight{By: map[string]float64{"late": 20}}, link.Softmax, 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job := newForeignJob(t, rffStage(test.link, 20, 3))
			if name == "stages chosen" {
				job.Stages[0].Stop = &schemas.Stop{Split: "holdout", Patience: 1, Stages: true}
			}
			job.Examples.Holdout, job.Examples.ClassWeight, job.Retrain = 0.2, test.weight, topics.DefaultRetrain()
			job.Retrain.Rows, job.Retrain.NewClassRows = rows, 5
			for i := range messages {
				data, random := rings(rows, 4, 2, uint64(i)), rand.New(rand.NewPCG(uint64(i), 3))
				for j := range data.labels {
					if i >= appears && random.Float64() < test.share {
						data.labels[j], data.rows[j] = "late", []float32{6, 6, 0, 0}
					}
				}
				produce(t, log, job, 0, exampleMessage(t, data.exampleRows()))
			}
			report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
			m := assert.Must(topics.Open(log, job.Name, nil).Model(t.Context(), "latest"))(t)
			assert.True(t, slices.Contains(m.Labels(), "late"),
				"subscribers get version %d of %d, which knows %q", m.Manifest.Version, len(report.Updates), m.Labels())
			withheld := 0
			for _, u := range report.Updates {
				if len(u.Spans) > 0 && u.Spans[0].From > appears && !u.Offered {
					withheld++
				}
			}
			assert.True(t, withheld <= 1, "%d versions are withheld after the class was learnt", withheld)
		})
	}
}
