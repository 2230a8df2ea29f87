package pipeline

import (
	"context"
	"errors"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// growingJob returns a job of two stages over one partition, whose chain makes full runs too.
func growingJob(t *testing.T) topics.Job {
	t.Helper()
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages = []schemas.Stage{rffStage(link.Softmax, 16, 2), rffStage(link.Softmax, 16, 2)}
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full = 80, 1, topics.FullOptions{Every: 3}
	return job
}

// fillPartitions writes messages of 40 rows to the first partitions of the examples, in turns.
func fillPartitions(t *testing.T, log *kafkalog.Log, job topics.Job, partitions, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		produce(t, log, job, i%partitions, exampleMessage(t, rings(40, 4, 3, uint64(i)).exampleRows()))
	}
}

// A chain, a run and a chain that goes on learn from partitions that were added to the examples, whichever comes first.
func TestAddedPartitionsAreLearnt(t *testing.T) {
	log, job := openEmbedded(t), growingJob(t)
	retrain := func(rows int64) {
		t.Helper()
		rec := &eventRecorder{}
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, rec)
		if err != nil {
			t.Fatal(err)
		}
		if report.Rows != rows {
			t.Errorf("%d rows were learnt, expected %d", report.Rows, rows)
		}
		for _, e := range eventsOf[event.Ended](rec) {
			if e.State != schemas.Done {
				t.Errorf("run %s ended as %s: %s", e.Run, e.State, e.Reason)
			}
		}
	}
	fillPartitions(t, log, job, 1, 0, 4)
	retrain(160)
	addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 3)
	fillPartitions(t, log, job, 3, 4, 20)
	retrain(640)
	addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 4)
	fillPartitions(t, log, job, 4, 20, 24)
	if report, _ := train(t, log, job); report.Rows != 24*40 {
		t.Errorf("a run learnt %d rows, expected %d", report.Rows, 24*40)
	}
	retrain(160)
}

// Partitions are added while a chain is a service.
func TestAddedPartitionsAreLearntByAService(t *testing.T) {
	log, job := openEmbedded(t), growingJob(t)
	fillPartitions(t, log, job, 1, 0, 4)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	learnt, failed := make(chan int64, 100), make(chan event.Ended, 100)
	ended := make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, &eventRecorder{on: func(e event.Event) {
			switch e := e.(type) {
			case event.Retrained:
				learnt <- e.Rows
			case event.Ended:
				if e.State != schemas.Done {
					failed <- e
				}
			}
		}})
		ended <- err
	}()
	for _, rows := range []int64{160, 800} {
		for left := rows; left > 0; {
			select {
			case n := <-learnt:
				left -= n
			case e := <-failed:
				t.Fatalf("run %s ended as %s: %s", e.Run, e.State, e.Reason)
			case err := <-ended:
				t.Fatalf("the service has ended: %v", err)
			}
		}
		if rows == 160 {
			addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 3)
			fillPartitions(t, log, job, 3, 4, 24)
		}
	}
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the service ended with %v", err)
	}
}

func addPartitions(t *testing.T, log *kafkalog.Log, topic string, partitions int) {
	t.Helper()
	if err := log.AddPartitions(t.Context(), topic, partitions); err != nil {
		t.Fatal(err)
	}
}

// Partitions that are added while a file is ingested, or between two ingests of it, change nothing: each of its rows
// counts once, also if two processes that see different numbers of partitions have ingested it.
func TestFilesWhilePartitionsAreAdded(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(1000, 3, 3, 1), table{}, rffStage(link.Softmax, 16, 2), rffStage(link.Softmax, 16, 2))
	job.Examples.BatchRows, job.Examples.Partitions = 20, 2
	ctx, stop := context.WithCancel(t.Context())
	err := source.Ingest(ctx, log, job, &eventRecorder{on: func(e event.Event) {
		if i, ok := e.(event.Ingested); ok && i.Rows >= 400 {
			stop()
		}
	}})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("got error %v, expected an interruption", err)
	}
	addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 5)
	before := topics.Open(log, job.Name, nil)
	before.Log = &fewerPartitions{before.Log, protocol.TopicsOf(job.Name).Examples, 2} // began before that
	if _, err := source.IngestFiles(t.Context(), before, job, event.Ignore{}); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if report, _ := train(t, log, job); report.Rows != 1000 {
			t.Errorf("%d rows were learnt, expected 1000", report.Rows)
		}
		addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, 7)
	}
	job.Examples.Train = nil
	if report, _ := train(t, log, job); report.Rows != 1000 {
		t.Errorf("%d rows of the topic were learnt, expected 1000", report.Rows)
	}
}

// Partitions that are added while one source is ingested are there for the next.
func TestSourcesWhilePartitionsAreAdded(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(100, 3, 3, 1), rings(60, 3, 3, 2), rffStage(link.Softmax, 16, 2))
	job.Examples.BatchRows, job.Examples.Partitions = 20, 2
	partitions := 2
	err := source.Ingest(t.Context(), log, job, &eventRecorder{on: func(e event.Event) {
		if i, ok := e.(event.Ingested); ok && i.Rows == 20 {
			partitions++
			addPartitions(t, log, protocol.TopicsOf(job.Name).Examples, partitions)
		}
	}})
	if err != nil {
		t.Fatal(err)
	}
	report, _ := train(t, log, job)
	if train, test := report.Splits["train"].Rows, report.Splits["test"].Rows; train != 100 || test != 60 {
		t.Errorf("%d rows were learnt and %d tested, expected 100 and 60", train, test)
	}
}

// fewerPartitions is a log in which a topic has the partitions that it had earlier.
type fewerPartitions struct {
	protocol.Log
	topic      string
	partitions int
}

func (f *fewerPartitions) Spans(ctx context.Context, topic string) ([]coverage.Span, error) {
	spans, err := f.Log.Spans(ctx, topic)
	if topic == f.topic && err == nil {
		spans = spans[:f.partitions]
	}
	return spans, err
}
