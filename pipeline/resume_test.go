package pipeline

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// resumable is a job of several stages of all links in four partitions.
func resumable(t *testing.T) Job {
	return jobOn(t, rings(400, 3, 3, 1), rings(50, 3, 3, 2),
		stage(link.Softmax, 20, 3), stage(link.Calibrated, 20, 2), stage(link.Identity, 20, 1), stage(link.Softmax, 8, 2))
}

// A run that is interrupted at any event, again and again, goes on where it was
// and ends with the same bits; what it had not begun anew is not done twice.
func TestInterruptedRunGoesOn(t *testing.T) {
	undisturbed := &events{}
	want, _, err := Train(t.Context(), openEmbedded(t), openBLAS(t), resumable(t), TrainOptions{Allocator: checked(t)}, undisturbed)
	if err != nil {
		t.Fatal(err)
	}
	steps := 0
	for _, e := range undisturbed.all {
		if milestone(e) {
			steps++
		}
	}
	for every, last := 1, 1; every <= steps; every, last = every+last, every {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			log, job := openEmbedded(t), resumable(t)
			var runs []string
			for attempt := 0; ; attempt++ {
				if attempt > 2*steps+5 {
					t.Fatal("the run never ends")
				}
				ctx, cancel := cancelled(t)
				seen := 0
				recorder := &events{on: func(e event.Event) {
					if began, ok := e.(event.Began); ok {
						runs = append(runs, began.Run)
					}
					if milestone(e) {
						// later attempts get further, so that the last one gets to the end
						if seen++; seen == every+attempt {
							cancel()
						}
					}
				}}
				report, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
				interrupted := ctx.Err() != nil
				cancel()
				if err == nil {
					if report.WeightsDigest != want.WeightsDigest {
						t.Errorf("digest %s after %d attempts, undisturbed %s", report.WeightsDigest, attempt, want.WeightsDigest)
					}
					if !reflect.DeepEqual(report.Splits, want.Splits) || len(report.Stages) != len(want.Stages) {
						t.Errorf("report %+v, undisturbed %+v", report, want)
					}
					break
				}
				if !interrupted || !errors.Is(err, context.Canceled) {
					t.Fatalf("attempt %d: %v", attempt, err)
				}
			}
			for _, run := range runs[1:] {
				if run != runs[0] {
					t.Errorf("runs %v: expected one", runs)
				}
			}
		})
	}
}

func milestone(e event.Event) bool {
	switch e := e.(type) {
	case event.Ingested, event.Surveyed, event.Passed, event.StageEnded:
		return true
	case event.Progressed:
		return e.Rows == e.Of
	}
	return false
}

// A process that is closed and opened again on the same directory finds the run
// where it was.
func TestRunGoesOnInAnotherProcess(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	dir, job := t.TempDir(), resumable(t)
	ctx, cancel := cancelled(t)
	log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
		if ended, ok := e.(event.StageEnded); ok && ended.Stage == 1 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	recorder := &events{}
	report, _, err := Train(t.Context(), openAt(t, dir), openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, undisturbed %s", report.WeightsDigest, want.WeightsDigest)
	}
	if began := of[event.Began](recorder); len(began) != 1 || !began[0].Resumed {
		t.Errorf("%+v", began)
	}
	for _, p := range of[event.Progressed](recorder) {
		if p.Stage < 1 {
			t.Errorf("visit %d of stage %d is made again", p.Visit, p.Stage)
		}
	}
}

// Workers and solvers at once on one run, each unaware of the others, do no
// harm: every record is made several times, each counts once.
func TestTwinsDoNoHarm(t *testing.T) {
	job := resumable(t)
	// many segments a partition, so that the twins' residuals interleave
	job.Examples.BatchRows, job.Segment, job.Examples.Partitions = 8, 1, 1
	want, _ := train(t, openEmbedded(t), job)
	log, recorder := openEmbedded(t), event.Serialised(&events{})
	d, plan := submitted(t, log, job, recorder)
	type result struct {
		report *schemas.Report
		err    error
	}
	results, twins := make(chan result), 4
	for range twins {
		go func() {
			report, err := aloneOn(t, d, job, recorder).execute(t.Context(), plan, 0)
			results <- result{report, err}
		}()
	}
	for range twins {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		} else if r.report.WeightsDigest != want.WeightsDigest {
			t.Errorf("digest %s, alone %s", r.report.WeightsDigest, want.WeightsDigest)
		}
	}
	versions, err := Versions(t.Context(), log, job.Name)
	if err != nil || len(versions) != 1 {
		t.Errorf("%d versions, %v", len(versions), err)
	}
}

// event.Sealed residuals that are not what their seal says, or are not there at all,
// are computed and published again from what is.
func TestResidualsAreMadeAgain(t *testing.T) {
	want, _ := train(t, openEmbedded(t), resumable(t))
	log, job := openEmbedded(t), resumable(t)
	ctx, cancel := cancelled(t)
	defer cancel()
	_, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
		if p, ok := e.(event.Passed); ok && p.Stage == 2 {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	// newer seals of stages 0 and 1, with the right parents, for what is not there
	d := open(log, job.Name, checked(t))
	for _, m := range read(t, log, d.Topics.Statistics) {
		if header(m, "kind") != string(schemas.KindSeal) {
			continue
		}
		partitions, err := log.Partitions(t.Context(), d.Topics.Statistics)
		if err != nil {
			t.Fatal(err)
		}
		r := decodeSeal(t, run.FromKafka(m))
		r.Scores = "1"
		if r.Partition%2 == 0 {
			r.To = 1
		}
		if err := run.WriteRecord(t.Context(), d.Client, d.Topics.Statistics, run.StatisticsPartition(r.Partition, partitions), r.Record()); err != nil {
			t.Fatal(err)
		}
	}
	report, _ := train(t, log, job)
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, undisturbed %s", report.WeightsDigest, want.WeightsDigest)
	}
}

func decodeSeal(t *testing.T, m schemas.Message) *schemas.Seal {
	t.Helper()
	var c schemas.Collector[float64]
	r, err := c.Add(m, checked(t))
	if err != nil || r == nil {
		t.Fatalf("%v, %v", r, err)
	}
	seal, err := schemas.SealOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}

// A run that was left for another configuration is cancelled on the embedded
// broker, where nobody else can be at work on it, and does not come back.
func TestAnotherConfigurationSupersedes(t *testing.T) {
	log, job := openEmbedded(t), resumable(t)
	ctx, cancel := cancelled(t)
	defer cancel()
	_, _, err := Train(ctx, log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, &events{on: func(e event.Event) {
		if _, ok := e.(event.StageEnded); ok {
			cancel()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	other := job
	other.Seed = 7
	recorder := &events{}
	if _, _, err := Train(t.Context(), log, openBLAS(t), other, TrainOptions{Allocator: checked(t)}, recorder); err != nil {
		t.Fatal(err)
	}
	if noticed := of[event.Noticed](recorder); len(noticed) != 1 || !strings.Contains(noticed[0].Text, "cancelled") {
		t.Errorf("%+v", noticed)
	}
	recorder = &events{}
	if _, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder); err != nil {
		t.Fatal(err)
	}
	if began := of[event.Began](recorder); len(began) != 1 || began[0].Resumed {
		t.Errorf("%+v", began)
	}
}
