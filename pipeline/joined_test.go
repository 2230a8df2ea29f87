package pipeline

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/planning"
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
	store := partition.NewStore(memory)
	join := func(ctx context.Context) (execution, func(), error) {
		members, err := dispatch.Join(ctx, p, job, store, blas, rec)
		if err != nil {
			return nil, nil, err
		}
		return members.Execute, members.Leave, nil
	}
	r := newRunner(p, job, protocol.NewSoleOwner(1), planning.Arithmetic(blas), join, rec)
	r.windowBytes = bytes
	noError(t, r.run(t.Context(), true))
}

// However many updates there are, over 100 partitions: what their plans merge and join can be executed, and the window has room.
func TestWindowsOfAnyNumberOfUpdatesHaveRoom(t *testing.T) {
	long(t)
	const updates, partitions, bytes = 4000, 100, 1 << 20
	o, w := topics.DefaultRetrain(), &schemas.Window{}
	for number := 1; number <= updates; number++ {
		added, next := coverage.Increment{Number: number, Weight: 1}, int64(number)
		for p := range partitions {
			added.Covered = append(added.Covered, coverage.Coverage{Spans: coverage.Spans{{Partition: p, From: next, To: next + 1}},
				Messages: 1, Rows: 1, Checksum: uint64(number)})
		}
		chain := &schemas.Chain{Number: number, Update: &schemas.Update{Decay: 1}}
		for _, c := range w.Longest(o.Refresh, partitions) {
			chain.Update.Refresh = append(chain.Update.Refresh, c.Increment)
		}
		if err := o.Shorten(chain, w, 0, bytes); err != nil {
			t.Fatalf("update %d: %v", number, err)
		}
		at := func(i int) schemas.StatePlace { return schemas.StatePlace{Run: fmt.Sprint(number), Index: i} }
		w.Increments = append(w.Increments, schemas.WindowIncrement{Increment: added})
		visited := 0
		for i := range w.Increments {
			c := &w.Increments[i]
			if c.Increment.Number == number || slices.ContainsFunc(chain.Update.Refresh,
				func(r coverage.Increment) bool { return r.Number == c.Increment.Number }) {
				c.Visited, c.Terms = number, at(visited)
				visited++
			}
		}
		if err := w.Merge(chain.Merged(), func(group int) schemas.StatePlace { return at(visited + group) }); err != nil {
			t.Fatalf("update %d: %v", number, err)
		}
		if err := w.Join(chain.Join); err != nil {
			t.Fatalf("update %d: %v", number, err)
		}
		if w.Bytes() > bytes+bytes/8 {
			t.Fatalf("after update %d %d increments have %d bytes, expected at most %d", number, len(w.Increments), w.Bytes(), bytes)
		}
	}
	if want := int64(updates) * partitions; w.Rows() != want {
		t.Errorf("%d rows, expected %d", w.Rows(), want)
	}
}

// With decay, increments have different weights and can't be merged: the oldest leave where the list, or the state
// topic, has no room for one more, and where they weigh nothing beside a row that comes. The versions go on, and are
// those of a window that ends there.
func TestDecayedWindowsEnd(t *testing.T) {
	long(t)
	const rows, updates, most = 8, 20, 8
	bytesOf := func(increments int64) int64 {
		c := schemas.WindowIncrement{Increment: coverage.Increment{Covered: []coverage.Coverage{{Spans: make(coverage.Spans, 1)}}}}
		return increments * (&schemas.Window{Increments: []schemas.WindowIncrement{c}}).Bytes()
	}
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
