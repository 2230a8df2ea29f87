//go:build unix

package main

import (
	"context"
	"fmt"
	"sync"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// watch follows a run on the topics, without the proxies, so that the injector knows when a moment has come.
type watch struct {
	plans *protocol.Plans
	known map[string]bool // runs before the watch

	mutex   sync.Mutex
	chain   bool         // follow every run of a chain, until ctx ends
	records int          // weights records since the last version of the chain
	run     string       // the run's id; "" until its plan is published. Of a chain that of the first
	due     moment       // how far the run is
	end     *schemas.End // nil: it goes on
	changed chan struct{}
}

// newWatch watches the next run of a pipeline. The caller calls follow.
func newWatch(ctx context.Context, log *kafkalog.Log, name string) (*watch, error) {
	client := protocol.NewClient(log, name, nil)
	_, end, err := log.Bounds(ctx, client.Topics.Weights, 0)
	if err != nil {
		return nil, err
	}
	plans, err := client.FollowPlans(ctx, nil, nil, protocol.Position{Topic: client.Topics.Weights, Offset: end, Compacted: true})
	if err != nil {
		return nil, err
	}
	w := &watch{plans: plans, known: map[string]bool{}, due: moment{wire.Survey - 1, 0}, changed: make(chan struct{})}
	for run := range plans.Runs() {
		w.known[run] = true
	}
	return w, nil
}

// follow returns nil when the run has ended, or an error when ctx has ended.
func (w *watch) follow(ctx context.Context) error {
	defer w.plans.Close()
	for w.state() == nil {
		d, _, err := w.plans.Await(ctx, protocol.MinPatience)
		if err == nil && d != nil {
			err = w.see(d.Message.Message)
		}
		if err != nil {
			return fmt.Errorf("follow the run: %w", err)
		}
	}
	return nil
}

// see takes a message of either topic into account. A record that is published again is no progress of a run; of a chain it may be.
func (w *watch) see(m wire.Message) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	for run := range w.plans.Runs() {
		if w.run == "" && !w.known[run] {
			w.run = run
			w.move(moment{wire.Survey, 0})
		}
	}
	isRecord := m.Kind() == statistics.KindPrepare || m.Kind() == schemas.KindWeights
	made := w.plans.NextVersion() - 1
	switch {
	case w.run == "":
	case w.chain && made > w.due.stage && made > 0:
		w.records = 0
		w.move(moment{made, 0})
	case w.chain && isRecord:
		w.records++
		w.move(moment{made, w.records - 1})
	case isRecord && m.Run() == w.run:
		id, err := wire.IdentityOf(m)
		if err != nil {
			return err
		}
		if schemas.EndsStage(m) {
			w.move(moment{id.Stage + 1, 0})
		} else {
			w.move(moment{max(id.Stage, 0), id.Visit})
		}
	case !w.chain && w.plans.End(w.run) != nil:
		w.end = w.plans.End(w.run)
		w.change()
	}
	return nil
}

// move records how far the run is.
func (w *watch) move(due moment) {
	if w.due.before(due) {
		w.due = due
		w.change()
	}
}

func (w *watch) change() {
	close(w.changed)
	w.changed = make(chan struct{})
}

// await waits for a moment. It returns false if the run or ctx ends before.
func (w *watch) await(ctx context.Context, at moment) bool {
	for {
		w.mutex.Lock()
		come, ended, changed := !w.due.before(at), w.end != nil, w.changed
		w.mutex.Unlock()
		if ended || come {
			return !ended
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// state returns how the run ended, or nil while it is running.
func (w *watch) state() *schemas.End {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.end
}

// id returns the run's id, or "" before its plan is published.
func (w *watch) id() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.run
}

func (w *watch) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return fmt.Sprintf("run %q at %s", w.run, w.due)
}
