package pipeline

import (
	"context"
	"errors"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
)

// A chain that goes on without an end learns what comes to the topic, and says how many messages of it wait. Processes
// that ingest beside it double nothing.
func TestChainGoesOnWithTheTopicOfItsExamples(t *testing.T) {
	long(t)
	log := openEmbedded(t)
	job := clicks(t, log, 200)
	waiting := readTopic(t, log, "clicks")
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.After = 50, 5000000000
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var learnt int64
	versions, lags := make(chan int64, 1000), make(chan int64, 1000)
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e := e.(type) {
		case event.Retrained:
			versions <- e.Rows
		case event.SourceLag:
			lags <- e.Messages
		}
	}}
	var processes errgroup.Group
	processes.Go(func() error {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder)
		return err
	})
	if first := <-lags; first > int64(len(waiting)) { // some may have been written by then
		t.Errorf("%d messages waited at first, expected at most %d", first, len(waiting))
	}
	for range 2 {
		beside := connect(t, log)
		processes.Go(func() error { return source.Follow(ctx, beside, job, false, event.Ignore{}) })
	}
	for ; learnt < 200; learnt += <-versions {
	}
	click(t, log, 200, 260)
	for ; learnt < 260; learnt += <-versions {
	}
	for last := int64(-1); last != 0; last = <-lags {
	}
	stop()
	if err := processes.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("the processes ended with %v", err)
	}
	if learnt != 260 {
		t.Errorf("%d rows were learnt, expected 260", learnt)
	}
	checkCounted(t, log, job, 260)
}
