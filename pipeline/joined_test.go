package pipeline

import (
	"context"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// retrainWithin learns all that the topic has, with windows of so many bytes.
func retrainWithin(t *testing.T, log *kafkalog.Log, job topics.Job, bytes int64, rec event.Recorder) {
	t.Helper()
	p, blas := topics.OpenForRuns(log, job, nil), openBLAS(t)
	noError(t, topics.Create(t.Context(), p, &job))
	memory := must(partition.Bytes(job.Memory))(t)
	cache := partition.NewCache(memory)
	join := func(ctx context.Context) (execution, func(), error) {
		members, err := dispatch.Join(ctx, p, job, cache, blas, rec)
		if err != nil {
			return nil, nil, err
		}
		return members.Execute, members.Leave, nil
	}
	r := newRunner(p, job, protocol.NewSoleOwner(1), dispatch.Arithmetic(blas), join, rec)
	r.windowBytes = bytes
	noError(t, r.run(t.Context(), true))
}

// bytesOf returns the length of the list of so many increments of one span.
func bytesOf(increments int64) int64 {
	c := schemas.WindowIncrement{Increment: coverage.Increment{Covered: []coverage.Coverage{{Spans: make(coverage.Spans, 1)}}}}
	return increments * (&schemas.Window{Increments: []schemas.WindowIncrement{c}}).Bytes()
}

// A chain whose state topic has room for few terms, or whose list of increments is long, makes a full run, which joins neighbouring
// increments. It loses no rows.
func TestLongWindowsAreJoined(t *testing.T) {
	long(t)
	const rows, updates, most = 8, 20, 8
	for name, test := range map[string]struct {
		state option.Bytes
		bytes int64
	}{"terms": {1, schemas.WindowBytes}, "list": {4 << 30, bytesOf(most)}} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full, job.Memory = rows, 1, topics.FullOptions{}, 1
			job.Topics = topics.DefaultTopics()
			job.Topics.State = test.state
			for n := range updates {
				produce(t, log, job, 0, exampleMessage(t, rings(rows, 4, 3, uint64(n)).exampleRows()))
			}
			full := 0
			retrainWithin(t, log, job, test.bytes, recorderFunc(func(e event.Event) {
				if r, ok := e.(event.Retrained); ok && r.Kind == schemas.RunFull {
					full++
				}
			}))
			if w := newestWindow(t, log, job); full < 2 || full > updates/2 || len(w.Increments) > most || w.Rows() != updates*rows {
				t.Errorf("%d full runs, %d increments with %d rows, expected %d", full, len(w.Increments), w.Rows(), updates*rows)
			}
		})
	}
}

// With decay, increments have different weights and can't be merged: the oldest leave where the list, or the state
// topic, has no room for one more, and where they weigh nothing beside a row that comes. The versions go on, and are
// those of a window that ends there.
func TestDecayedWindowsEnd(t *testing.T) {
	long(t)
	const rows, updates, most = 8, 20, 8
	for name, test := range map[string]struct {
		decay  float64
		bytes  int64
		window topics.WindowOptions
		want   int
	}{
		"room for some":      {0.9, bytesOf(most), topics.WindowOptions{}, most + 1},
		"weighs nothing":     {1e-4, schemas.WindowBytes, topics.WindowOptions{}, 4}, // 1e-16 is less than 2^-53
		"the window is less": {0.9, bytesOf(most), topics.WindowOptions{Increments: most / 2}, most / 2},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full, job.Memory = rows, 1, topics.FullOptions{}, 1
			job.Retrain.Decay, job.Retrain.Window = test.decay, test.window
			for n := range updates {
				produce(t, log, job, 0, exampleMessage(t, rings(rows, 4, 3, uint64(n)).exampleRows()))
			}
			retrainWithin(t, log, job, test.bytes, recorderFunc(func(event.Event) {}))
			if w := newestWindow(t, log, job); len(w.Increments) != test.want || w.Rows() != int64(test.want)*rows {
				t.Errorf("after %d updates the window has %d increments with %d rows, expected %d with %d", updates, len(w.Increments),
					w.Rows(), test.want, test.want*rows)
			}
		})
	}
}
