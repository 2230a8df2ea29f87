//go:build unix

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// watch follows a run on the topics, without the proxies, so that the injector knows when a moment has come.
type watch struct {
	log   *kafkalog.Log
	from  map[string]int64 // the offset after which each topic is followed
	loses bool             // the brokers may lose messages

	mutex   sync.Mutex
	chain   bool              // follow every run of a chain, until ctx ends
	made    int               // versions of the chain
	records int               // of weights, since the last of them
	run     string            // the run's id; "" until its plan is published. Of a chain that of the first
	due     map[string]moment // how far each run is: a process may still publish records of the run before
	end     *schemas.End
	changed chan struct{} // closed at the next change

	open    []recovery // the faults since the last progress
	slowest recovery
}

// recovery is the time from a fault to the next progress of the run.
type recovery struct {
	kind kind
	at   time.Time
	took time.Duration
}

// newWatch watches the next run of a pipeline.
func newWatch(ctx context.Context, log *kafkalog.Log, name string) (*watch, error) {
	w := &watch{log: log, from: map[string]int64{}, due: map[string]moment{}, changed: make(chan struct{})}
	for _, topic := range []string{name + ".plans", name + ".weights"} {
		_, end, err := log.Bounds(ctx, topic, 0)
		if err != nil {
			return nil, err
		}
		w.from[topic] = end
	}
	return w, nil
}

// follow returns nil when the run has ended, or an error when ctx has ended.
func (w *watch) follow(ctx context.Context) error {
	followers, ctx := errgroup.WithContext(ctx)
	for topic, from := range w.from {
		followers.Go(func() error {
			for {
				err := w.followTopic(ctx, topic, from)
				deleted, ok := errors.AsType[*kafkalog.DeletedError](err)
				if !ok || !w.loses {
					return err
				}
				from = deleted.End
			}
		})
	}
	err := followers.Wait()
	if errors.Is(err, errEnded) {
		return nil
	}
	return fmt.Errorf("follow the run: %w", err)
}

func (w *watch) followTopic(ctx context.Context, topic string, from int64) (err error) {
	w.log.FollowAll(ctx, []kafkalog.Start{{Topic: topic, Offset: from}}, func(_ int, m *kafkalog.Message, failure error) bool {
		if err = failure; err == nil {
			err = w.see(protocol.FromKafka(*m), time.Now())
		}
		return err == nil
	})
	return cmp.Or(err, ctx.Err())
}

// errEnded stops the followers.
var errEnded = errors.New("the run has ended")

// see takes a message of either topic into account. It returns errEnded for the end of the run.
func (w *watch) see(m wire.Message, now time.Time) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	run := m.Run()
	if w.chain {
		return w.seeChain(m, now)
	}
	switch m.Kind() {
	case schemas.KindPlan:
		if w.run == "" {
			w.run = run
			w.move(run, moment{wire.Survey, 0}, now)
		}
	case statistics.KindPrepare:
		w.move(run, moment{0, 0}, now)
	case schemas.KindWeights:
		id, err := wire.IdentityOf(m)
		if err != nil {
			return err
		}
		due := moment{id.Stage, id.Visit}
		if schemas.EndsStage(m) {
			due = moment{id.Stage + 1, 0}
		}
		w.move(run, due, now)
	case schemas.KindEnd:
		if run != w.run {
			break
		}
		end, err := schemas.DecodeJSON[schemas.End](m)
		if err != nil {
			return err
		}
		w.end = end
		w.progress(now)
		return errEnded
	}
	return nil
}

// seeChain takes a message into account that may be of any run of a chain.
func (w *watch) seeChain(m wire.Message, now time.Time) error {
	switch m.Kind() {
	case schemas.KindPlan:
		if w.run == "" {
			w.run = m.Run()
			w.move(w.run, moment{wire.Survey, 0}, now)
		}
	case statistics.KindPrepare, schemas.KindWeights:
		w.records++
		w.move(w.run, moment{w.made, w.records - 1}, now)
	case schemas.KindEnd:
		end, err := schemas.DecodeJSON[schemas.End](m)
		if err != nil {
			return err
		}
		if end.Version != nil && end.Version.Version > w.made { // not a second copy
			w.made, w.records = end.Version.Version, 0
			w.move(w.run, moment{w.made, 0}, now)
		}
	}
	return nil
}

// move records how far a run is. A record that is published again is no progress.
func (w *watch) move(run string, due moment, now time.Time) {
	if before, known := w.due[run]; !known || before.before(due) {
		w.due[run] = due
		if run == w.run {
			w.progress(now)
		}
	}
}

// progress ends the recovery from all faults so far.
func (w *watch) progress(now time.Time) {
	for _, i := range w.open {
		if i.took = now.Sub(i.at); i.took > w.slowest.took {
			w.slowest = i
		}
	}
	w.open = nil
	close(w.changed)
	w.changed = make(chan struct{})
}

// faulted records a fault.
func (w *watch) faulted(k kind, now time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.open = append(w.open, recovery{kind: k, at: now})
}

// await waits for a moment. It returns false if the run or ctx ends before.
func (w *watch) await(ctx context.Context, at moment) bool {
	for {
		w.mutex.Lock()
		due, planned := w.due[w.run]
		come, ended, changed := planned && !due.before(at), w.end != nil, w.changed
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

// slowestRecovery returns the longest recovery of the run.
func (w *watch) slowestRecovery() recovery {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.slowest
}

func (w *watch) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return fmt.Sprintf("run %q at %s", w.run, w.due[w.run])
}
