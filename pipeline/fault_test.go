package pipeline

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// foreign is a job over what other producers have written to one partition.
func foreign(t *testing.T, data table) (Job, kafkalog.Message) {
	t.Helper()
	rows := schemas.ExampleRows{Rows: len(data.rows), Cols: len(data.rows[0]), Words: data.labels}
	for _, row := range data.rows {
		rows.Floats = append(rows.Floats, row...)
	}
	job := jobOn(t, data, table{}, stage(link.Softmax, 20, 3), stage(link.Softmax, 20, 3))
	job.Examples.Train, job.Examples.Partitions = nil, 1
	return job, encoded(t, rows)
}

// until interrupts a run at the first event that it is told of.
func until(t *testing.T, log *kafkalog.Log, job Job, at func(event.Event) bool) {
	t.Helper()
	ctx, cancel := cancelled(t)
	defer cancel()
	_, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
		if at(e) {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}

// Segments without a usable message have no residuals; those after them have.
func TestRunGoesOnBehindAnEmptySegment(t *testing.T) {
	job, good := foreign(t, rings(300, 2, 3, 1))
	log := openEmbedded(t)
	for range 2 {
		accept(t, log, job, 0, kafkalog.Message{Value: []byte("hello")})
	}
	accept(t, log, job, 0, good, encoded(t, schemas.ExampleRows{Rows: 0, Cols: 2, Floats: []float32{}, Words: []string{}}), good)
	until(t, log, job, func(e event.Event) bool { _, ok := e.(event.StageEnded); return ok })
	if report, _ := train(t, log, job); report.Rows != 600 {
		t.Errorf("%d rows", report.Rows)
	}
	job.Memory = 1
	if report, _ := train(t, log, job); report.Rows != 600 {
		t.Errorf("%d rows", report.Rows)
	}
}

// A message without rows is a message, also the first.
func TestMessageWithoutRows(t *testing.T) {
	job, good := foreign(t, rings(300, 2, 3, 1))
	log := openEmbedded(t)
	accept(t, log, job, 0, encoded(t, schemas.ExampleRows{Rows: 0, Cols: 2, Floats: []float32{}, Words: []string{}}), good)
	if report, _ := train(t, log, job); report.Rows != 300 || report.Quarantined != 0 {
		t.Errorf("%d rows, %d in quarantine", report.Rows, report.Quarantined)
	}
}

// An examples topic keeps its partitions, whatever the configuration says
// later, and residuals have as many.
func TestTopicKeepsItsPartitions(t *testing.T) {
	log, job := openEmbedded(t), resumable(t)
	job.Examples.Partitions = 6
	first, _ := train(t, log, job)
	job.Examples.Partitions = 2
	second, _ := train(t, log, job)
	if first.WeightsDigest != second.WeightsDigest || second.Rows != 400 {
		t.Errorf("digests %s and %s, %d rows", first.WeightsDigest, second.WeightsDigest, second.Rows)
	}
}

// The report of very many classes is larger than a message.
func TestReportOfManyClasses(t *testing.T) {
	data := table{}
	for i := range 600 {
		data.rows, data.labels = append(data.rows, []float32{float32(i), float32(i * i % 7)}), append(data.labels, fmt.Sprint("ü", i))
	}
	job := jobOn(t, data, data, stage(link.Identity, 10, 1))
	job.Examples.Partitions = 1
	report, _ := train(t, openEmbedded(t), job)
	if got := report.Splits["test"].Confusion; len(got) != 600 || len(got[599]) != 600 {
		t.Errorf("%d classes confused", len(got))
	}
}

// A message goes into quarantine however large its key is.
func TestLargeKeyInQuarantine(t *testing.T) {
	job, good := foreign(t, rings(300, 2, 3, 1))
	log := openEmbedded(t)
	accept(t, log, job, 0, good)
	accept(t, log, job, 0, kafkalog.Message{Key: []byte(strings.Repeat("k", 200_000)), Value: []byte(strings.Repeat("x", 830_000))})
	if report, _ := train(t, log, job); report.Quarantined != 1 {
		t.Errorf("%d in quarantine", report.Quarantined)
	}
}

// A run whose statistics were deleted under it goes on if it needs none of
// them, and ends otherwise; it does not wait for them.
func TestStatisticsAreGone(t *testing.T) {
	for name, at := range map[string]func(event.Event) bool{
		"within a stage":  func(e event.Event) bool { p, ok := e.(event.Passed); return ok && p.Stage == 1 },
		"after a visit":   func(e event.Event) bool { p, ok := e.(event.Passed); return ok && p.Stage == 0 && p.Visit == 1 },
		"between stages":  func(e event.Event) bool { s, ok := e.(event.StageEnded); return ok && s.Stage == 1 },
		"in the survey":   func(e event.Event) bool { p, ok := e.(event.Progressed); return ok && p.Stage == schemas.Survey },
		"after the first": func(e event.Event) bool { s, ok := e.(event.Surveyed); return ok && s.Classes > 0 },
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), resumable(t)
			until(t, log, job, at)
			if err := open(log, job.Name, checked(t)).clear(t.Context(), job); err != nil {
				t.Fatal(err)
			}
			report, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{})
			if err != nil && !errors.As(err, new(*RunError)) {
				t.Error(err)
			}
			if err == nil && len(report.Stages) != 4 {
				t.Errorf("%+v", report)
			}
		})
	}
}

// A warm start over examples that do not fit the earlier version says so.
func TestWarmStartThatDoesNotFit(t *testing.T) {
	log := openEmbedded(t)
	job := jobOn(t, rings(300, 2, 3, 1), table{}, stage(link.Softmax, 20, 3))
	train(t, log, job)
	job.Warm = run.Latest
	wide := jobOn(t, rings(300, 3, 3, 1), table{}, job.Stages...)
	wide.Warm = run.Latest
	if err := failing(t, log, wide); !strings.Contains(err.Error(), "3 features, the version that this run starts from has 2") {
		t.Errorf("%v", err)
	}
	job.Examples.Classes = []string{"ring2", "ring1", "ring0"}
	if err := failing(t, log, job); !strings.Contains(err.Error(), "examples.classes are not those") {
		t.Errorf("%v", err)
	}
}

// A solver that does not know that its run was cancelled makes no version.
func TestCancelledRunMakesNoVersion(t *testing.T) {
	log, job, recorder := openEmbedded(t), resumable(t), event.Serialised(&events{})
	d, plan := submitted(t, log, job, recorder)
	ctx, cancel := cancelled(t)
	worked := make(chan error)
	go func() {
		worked <- worker.New(d.Client, openBLAS(t), plan, 0, run.NewAlone(4), worker.Options{Bytes: 1 << 30}, recorder).Work(ctx)
	}()
	end := &schemas.End{Run: plan.Run(), Content: plan.Content(), State: schemas.Cancelled}
	if _, err := d.Log.Append(t.Context(), d.Topics.Plans, 0, end.Message()); err != nil {
		t.Fatal(err)
	}
	if err := solver.New(d.Client, openBLAS(t), plan, 0, run.NewAlone(1), recorder).Solve(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	<-worked
	if versions, err := Versions(t.Context(), log, job.Name); err != nil || len(versions) != 0 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// submitted is a job's plan on its topic.
func submitted(t *testing.T, log *kafkalog.Log, job Job, recorder event.Recorder) (*pipeline, *schemas.Plan) {
	t.Helper()
	d := open(log, job.Name, checked(t))
	if err := d.create(t.Context(), &job); err != nil {
		t.Fatal(err)
	}
	sources, err := d.ingest(t.Context(), job, recorder)
	if err != nil {
		t.Fatal(err)
	}
	l, err := d.ReadLedger(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	plan, err := d.plan(t.Context(), job, openBLAS(t), sources, l, &events{})
	if err != nil {
		t.Fatal(err)
	}
	if plan, _, err = d.submit(t.Context(), plan, l, false, recorder); err != nil {
		t.Fatal(err)
	}
	return d, plan
}

// Topics that forget sooner than a run may take are refused before it begins.
func TestTopicsThatForget(t *testing.T) {
	for name, forgetful := range map[string]kafkalog.Topic{
		"examples": {Partitions: 4, Config: map[string]string{"retention.ms": "60000"}},
		"weights":  {Partitions: 1, Compact: true, Config: map[string]string{"min.compaction.lag.ms": "60000"}},
		"plans":    {Partitions: 1, Config: map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "60000"}},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), resumable(t)
			forgetful.Name = job.Name + "." + name
			if err := log.Create(t.Context(), forgetful); err != nil {
				t.Fatal(err)
			}
			err := failing(t, log, job)
			if !errors.As(err, new(*RetentionError)) && !errors.As(err, new(*CompactionError)) || !strings.Contains(err.Error(), forgetful.Name) {
				t.Errorf("%v", err)
			}
		})
	}
}
