package pipeline

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/worker"
)

// A worker that starts in the middle of a run reads no statistics before its first visit: the seals stand behind their residuals.
func TestRestartedWorkersReadNoStatistics(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(1000, 5, 3, 1), table{}, rffStage(link.Softmax, 33, 3), rffStage(link.Softmax, 33, 4))
	job.Examples.Partitions, job.Examples.BatchRows = 9, 10
	p, plan := submitJob(t, log, job, event.Ignore{})
	solved := make(chan error, 1)
	go func() {
		solved <- solver.New(p.Client, openBLAS(t), plan, 0, protocol.NewSoleOwner(1), solver.Options{}, event.Ignore{}).Solve(t.Context())
	}()
	first, stop := context.WithCancel(t.Context())
	defer stop()
	visits := func(on func(event.Visited)) *eventRecorder {
		return &eventRecorder{on: func(e event.Event) {
			if v, ok := e.(event.Visited); ok {
				on(v)
			}
		}}
	}
	all := protocol.NewSoleOwner(job.Examples.Partitions)
	err := worker.New(p.Client, openBLAS(t), plan, 0, all, worker.Options{Bytes: 1 << 30}, visits(func(v event.Visited) {
		if v.Stage == 1 && v.Visit == 1 {
			stop()
		}
	})).Work(first)
	if err == nil {
		t.Fatal("the run has ended before its worker was stopped")
	}
	var read, before atomic.Int64
	client, begun := *p.Client, false
	client.Log = readCounter{client.Log, p.Topics.Statistics, &read, func(m protocol.Message) int { return len(m.Value) }}
	err = worker.New(&client, openBLAS(t), plan, 0, all, worker.Options{Bytes: 1 << 30}, visits(func(v event.Visited) {
		if !begun {
			begun = true
			before.Store(read.Load())
		}
	})).Work(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := <-solved; err != nil {
		t.Fatal(err)
	}
	if n := before.Load(); !begun || n > 0 {
		t.Errorf("%d bytes of statistics were read before the first visit", n)
	}
}
