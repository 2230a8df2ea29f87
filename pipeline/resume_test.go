package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// A run that is interrupted again and again, at any event, resumes where it was and ends with the same bits.
func TestInterruptedRunGoesOn(t *testing.T) {
	testInterruptedRunGoesOn(t, newMultiStageJob)
}

// So does a run of several members, whose report is of their mean.
func TestInterruptedMembersGoOn(t *testing.T) {
	long(t)
	testInterruptedRunGoesOn(t, func(t *testing.T) topics.Job {
		job := newJob(t, rings(400, 3, 3, 1), rings(50, 3, 3, 2), rffStage(link.Softmax, 20, 1), rffStage(link.Calibrated, 20, 1))
		job.Average = 2
		return job
	})
}

func testInterruptedRunGoesOn(t *testing.T, newJob func(*testing.T) topics.Job) {
	uninterrupted := &eventRecorder{}
	want, _ := trainRecorded(t, openEmbedded(t), newJob(t), uninterrupted)
	milestones := 0
	for _, e := range uninterrupted.events {
		if milestone(e) {
			milestones++
		}
	}
	for every, last := 1, 1; every <= milestones; every, last = every+last, every {
		t.Run(fmt.Sprint("every ", every), func(t *testing.T) {
			log, job := openEmbedded(t), newJob(t)
			var runs []string
			for attempt := 0; ; attempt++ {
				if attempt > 2*milestones+5 {
					t.Fatalf("the run has not ended after %d attempts", attempt)
				}
				ctx, cancel := context.WithCancel(t.Context())
				seen := 0
				recorder := &eventRecorder{on: func(e event.Event) {
					if began, ok := e.(event.Began); ok {
						runs = append(runs, began.Run)
					}
					if milestone(e) {
						// Each attempt gets further than the one before, so the last one gets to the end.
						if seen++; seen == every+attempt {
							cancel()
						}
					}
				}}
				report, _, err := Train(ctx, log, openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)}, recorder)
				interrupted := ctx.Err() != nil
				cancel()
				if err == nil {
					if report.WeightsDigest != want.WeightsDigest {
						t.Errorf("digest %s after %d interruptions, without them %s", report.WeightsDigest, attempt, want.WeightsDigest)
					}
					if !reflect.DeepEqual(report.Splits, want.Splits) || len(report.Stages) != len(want.Stages) {
						t.Errorf("report %+v after interruptions, without them %+v", report, want)
					}
					break
				}
				if !interrupted || !errors.Is(err, context.Canceled) {
					t.Fatalf("attempt %d: %v", attempt, err)
				}
			}
			for _, run := range runs[1:] {
				if run != runs[0] {
					t.Errorf("attempts began the runs %v, expected one run", runs)
				}
			}
		})
	}
}

// milestone reports whether the test counts an event as one that a run can be interrupted at.
func milestone(e event.Event) bool {
	switch e := e.(type) {
	case event.Ingested, event.Surveyed, event.Passed, event.StageEnded:
		return true
	case event.Progressed:
		return e.Rows == e.Of
	}
	return false
}

// newSparseJob returns a job of sparse rows with the stages of list.
func newSparseJob(t *testing.T, list ...schemas.Stage) topics.Job {
	t.Helper()
	random, path, lines := rand.New(rand.NewPCG(1, 2)), filepath.Join(t.TempDir(), "train.libsvm"), strings.Builder{}
	for range 500 {
		class := random.IntN(3)
		fmt.Fprint(&lines, class)
		for j := 1; j <= 80; j++ {
			if random.IntN(12) == 0 || j%3 == class && random.IntN(4) == 0 {
				fmt.Fprintf(&lines, " %d:%.3f", j, 1+random.Float64())
			}
		}
		lines.WriteByte('\n')
	}
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	job := newJob(t, rings(1, 3, 3, 1), table{}, list...)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 3
	return job
}

// newBlocksJob returns a job of sparse rows that is fitted in blocks, in two rounds.
func newBlocksJob(t *testing.T) topics.Job {
	t.Helper()
	stage := rffStage(link.Softmax, 7, 26)
	stage.Features.Kind, stage.Method = stages.Gradient, solve.MethodLBFGS
	return newSparseJob(t, stage)
}

// A stage that is fitted in blocks publishes what a visit changes. Whoever takes over in the middle has the same
// weights and scores, to the bit.
func TestInterruptedBlocksGoOn(t *testing.T) {
	long(t)
	want, _ := train(t, openEmbedded(t), newBlocksJob(t))
	for _, every := range []int{1, 3, 10} {
		log, job := openEmbedded(t), newBlocksJob(t)
		for pass := every; pass < 26; pass += every {
			trainUntil(t, log, job, func(e event.Event) bool { p, ok := e.(event.Passed); return ok && p.Pass == pass })
		}
		if report, _ := train(t, log, job); report.WeightsDigest != want.WeightsDigest {
			t.Errorf("interrupted after %d passes each: digest %s, without interruptions %s", every, report.WeightsDigest, want.WeightsDigest)
		}
	}
}

// The report is a function of the log: whoever takes over after the last weights of a stage reports the same of its fit
// as the solver that has made it.
func TestReportOfWhoTakesOver(t *testing.T) {
	blocks, counts := rffStage(link.Softmax, 20, 4), rffStage(link.Identity, 0, 1)
	blocks.Features.Kind, counts.Features = stages.Gradient, stages.DefaultsOf(stages.ClassCounts)
	given := counts
	given.Features.Weight = 0.25
	ridge := rffStage(link.Softmax, 20, 3)
	ridge.Ridge = schemas.RidgeAuto
	for name, newJob := range map[string]func() topics.Job{
		"links":  func() topics.Job { return newMultiStageJob(t) },
		"ridges": func() topics.Job { return newJob(t, rings(300, 3, 3, 1), table{}, ridge, ridge) },
		"counts": func() topics.Job {
			job := newSparseJob(t, blocks, counts, given)
			job.Examples.Holdout = 0.3
			return job
		},
	} {
		recorder := &eventRecorder{}
		want, _ := trainRecorded(t, openEmbedded(t), newJob(), recorder)
		last := map[int]event.Solved{} // of each stage
		for _, e := range eventsOf[event.Solved](recorder) {
			last[e.Stage] = e
		}
		for stage := range want.Stages {
			want.Stages[stage].Seconds = 0
			if len(want.Stages[stage].ByPass) == 0 || (want.Stages[stage].Weight != nil) != (name == "counts" && stage > 0) {
				t.Errorf("%s: the report says %+v of stage %d", name, want.Stages[stage], stage)
			}
		}
		for stage, of := range last {
			log, job := openEmbedded(t), newJob()
			trainUntil(t, log, job, func(e event.Event) bool {
				solved, ok := e.(event.Solved)
				return ok && solved.Stage == of.Stage && solved.Visit == of.Visit
			})
			got, _ := train(t, log, job)
			for i := range got.Stages {
				got.Stages[i].Seconds = 0
			}
			if !reflect.DeepEqual(got.Stages, want.Stages) {
				t.Errorf("%s, interrupted after the last weights of stage %d: the report says %+v, uninterrupted %+v", name, stage, got.Stages,
					want.Stages)
			}
		}
	}
}

// Another process on the same directory resumes the run where it was, and does not repeat earlier stages.
func TestRunGoesOnInAnotherProcess(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	dir, job := t.TempDir(), newMultiStageJob(t)
	ctx, cancel := context.WithCancel(t.Context())
	log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: dir})
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = Train(ctx, log, openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
		&eventRecorder{on: func(e event.Event) {
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
	recorder := &eventRecorder{}
	report, _, err := Train(t.Context(), openAt(t, dir), openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)}, recorder)
	if err != nil {
		t.Fatal(err)
	}
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, expected %s", report.WeightsDigest, want.WeightsDigest)
	}
	if began := eventsOf[event.Began](recorder); len(began) != 1 || !began[0].Resumed {
		t.Errorf("got events %+v, expected one run that is resumed", began)
	}
	for _, p := range eventsOf[event.Progressed](recorder) {
		if p.Stage < 1 {
			t.Errorf("visit %d of stage %d is repeated, expected none before stage 1", p.Visit, p.Stage)
		}
	}
}

// Several workers and solvers that each believe they own everything make every record several times. Each record counts once.
func TestTwinsDoNoHarm(t *testing.T) {
	job := newMultiStageJob(t)
	// With many segments in one partition, the residuals of different workers interleave.
	job.Examples.BatchRows, job.Segment, job.Examples.Partitions = 8, 1, 1
	want, _ := train(t, openEmbedded(t), job)
	log, recorder := openEmbedded(t), event.Serialised(&eventRecorder{})
	p, plan := submitJob(t, log, job, recorder)
	type result struct {
		report *schemas.Report
		err    error
	}
	results, twins, ledger := make(chan result), 4, readLedger(t, p)
	for range twins {
		go func() {
			report, err := newSoleMembers(t, p, job, recorder).Execute(t.Context(), plan, ledger)
			results <- result{report, err}
		}()
	}
	for range twins {
		r := <-results
		if r.err != nil {
			t.Error(r.err)
		} else if r.report.WeightsDigest != want.WeightsDigest {
			t.Errorf("digest %s, of one worker and solver %s", r.report.WeightsDigest, want.WeightsDigest)
		}
	}
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	if err != nil || len(versions) != 1 {
		t.Errorf("%d versions, error %v; expected 1 version", len(versions), err)
	}
}

// Residuals that are missing, or that differ from their seal, are computed and published again.
func TestResidualsAreMadeAgain(t *testing.T) {
	want, _ := train(t, openEmbedded(t), newMultiStageJob(t))
	log, job := openEmbedded(t), newMultiStageJob(t)
	trainUntil(t, log, job, func(e event.Event) bool { p, ok := e.(event.Passed); return ok && p.Stage == 2 })
	// Write newer seals of stages 0 and 1, with the right parents, that name other scores, and offsets without residuals.
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	for _, m := range readTopic(t, log, p.Topics.Statistics) {
		if header(m, "kind") != string(statistics.KindSeal) {
			continue
		}
		partitions, err := log.Partitions(t.Context(), p.Topics.Statistics)
		if err != nil {
			t.Fatal(err)
		}
		seal := decodeSeal(t, protocol.FromKafka(m))
		seal.Scores = "1"
		if seal.Partition%2 == 0 {
			seal.To = 1
		}
		if _, err := protocol.WriteRecord(t.Context(), p.Client, p.Topics.Statistics, protocol.StatisticsPartition(seal.Partition,
			partitions), seal.Record()); err != nil {
			t.Fatal(err)
		}
	}
	report, _ := train(t, log, job)
	if report.WeightsDigest != want.WeightsDigest {
		t.Errorf("digest %s, expected %s", report.WeightsDigest, want.WeightsDigest)
	}
}

// decodeSeal decodes a seal, which is one message.
func decodeSeal(t *testing.T, m wire.Message) *statistics.Seal {
	t.Helper()
	var c wire.Collector[float64]
	r, err := c.Add(m, arrowtest.Allocator(t))
	if err != nil || r == nil {
		t.Fatalf("decode a seal: record %v, error %v", r, err)
	}
	seal, err := statistics.SealOf(r)
	if err != nil {
		t.Fatal(err)
	}
	return seal
}
