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
	if err := topics.Create(t.Context(), p, &job); err != nil {
		t.Fatal(err)
	}
	memory, err := partition.Bytes(job.Memory)
	if err != nil {
		t.Fatal(err)
	}
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
	if err := r.run(t.Context(), true); err != nil {
		t.Fatal(err)
	}
}

// However many updates there are, over 100 partitions: what their plans merge and join can be executed, and the window has room.
func TestWindowsOfAnyNumberOfUpdatesHaveRoom(t *testing.T) {
	long(t)
	const partitions, bytes = 100, 1 << 20
	o, w := topics.DefaultRetrain(), &schemas.Window{}
	for number := 1; number <= 10**updates; number++ {
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
	if want := int64(10**updates) * partitions; w.Rows() != want {
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

// A window stays as short as it may be, however many updates there were: neighbours become one. It has all rows, at
// each start, after full runs, and where the state topic is lost; and an update visits no more rows for that.
func TestLongWindowsAreJoined(t *testing.T) {
	long(t)
	const rows, starts, each, most = 8, 4, 20, 12
	for name, full := range map[string]topics.FullOptions{"updates": {}, "full runs": {Every: 25}} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			job.Retrain.Rows, job.Retrain.Refresh, job.Retrain.Full, job.Memory = rows, 1, full, 1
			c := schemas.WindowIncrement{Increment: coverage.Increment{Covered: []coverage.Coverage{{Spans: make(coverage.Spans, 1)}}}}
			bytes := most * (&schemas.Window{Increments: []schemas.WindowIncrement{c}}).Bytes()
			visited, largest, versions := int64(0), int64(0), 0
			rec := recorderFunc(func(e event.Event) {
				switch e := e.(type) {
				case event.Visited:
					if e.Stage == 0 && e.Visit == 0 {
						visited += e.Rows
					}
				case event.Retrained:
					if versions++; e.Kind == schemas.RunUpdate {
						largest = max(largest, visited)
					}
					visited = 0
				}
			})
			messages := int64(0)
			for start := range starts {
				for range each {
					produce(t, log, job, 0, exampleMessage(t, rings(rows, 4, 3, uint64(messages)).exampleRows()))
					messages++
				}
				if start == starts-1 {
					if err := log.Delete(t.Context(), job.Name+".state"); err != nil {
						t.Fatal(err)
					}
				}
				retrainWithin(t, log, job, bytes, rec)
				w := newestWindow(t, log, job)
				size := 0
				for i := range w.Increments {
					size += w.Increments[i].Increment.Size()
				}
				if len(w.Increments) > most+1 || w.Rows() != messages*rows || len(w.Increments) == size {
					t.Errorf("after %d updates the window has %d increments, made of %d, with %d rows; expected at most %d, with %d rows",
						messages, len(w.Increments), size, w.Rows(), most+1, messages*rows)
				}
			}
			if versions < starts*each || largest > rows*int64(1+job.Retrain.Refresh) {
				t.Errorf("%d versions, an update visits up to %d rows; expected at least %d, and at most %d rows", versions, largest,
					starts*each, rows*(1+job.Retrain.Refresh))
			}
		})
	}
}
