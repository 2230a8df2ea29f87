//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
)

// watch follows a run on the topics, past the proxies, so that faults come where the schedule says.
type watch struct {
	plans, weights *kafkalog.Follower

	mutex   sync.Mutex
	run     string            // "" until there is a plan
	due     map[string]moment // how far runs are: a zombie may still publish records of the one before
	end     *schemas.End
	changed chan struct{} // closed at the next change

	open    []injury
	slowest injury
}

// injury is a fault that the run has not made progress since, and how long that took.
type injury struct {
	kind kind
	at   time.Time
	took time.Duration
}

// newWatch sees the next run of a pipeline.
func newWatch(ctx context.Context, log *kafkalog.Log, name string) (*watch, error) {
	w := &watch{due: map[string]moment{}, changed: make(chan struct{})}
	for topic, to := range map[string]**kafkalog.Follower{name + ".plans": &w.plans, name + ".weights": &w.weights} {
		_, end, err := log.Bounds(ctx, topic, 0)
		if err != nil {
			return nil, err
		}
		*to = log.Follow(topic, 0, end)
	}
	return w, nil
}

// follow returns when the run has ended, or ctx has.
func (w *watch) follow(ctx context.Context) error {
	defer w.plans.Close()
	defer w.weights.Close()
	followers, ctx := errgroup.WithContext(ctx)
	for _, follower := range []*kafkalog.Follower{w.plans, w.weights} {
		followers.Go(func() error {
			for {
				r, err := follower.Next(ctx)
				if err != nil {
					return err
				}
				m := schemas.Message{Key: string(r.Key), Value: r.Value}
				for _, h := range r.Headers {
					m.Headers = append(m.Headers, schemas.Header{Key: h.Key, Value: string(h.Value)})
				}
				if err := w.see(m, time.Now()); err != nil {
					return err
				}
			}
		})
	}
	err := followers.Wait()
	if errors.Is(err, errEnded) {
		return nil
	}
	return fmt.Errorf("follow the run: %w", err)
}

// errEnded ends the followers.
var errEnded = errors.New("the run has ended")

// see takes a message of either topic.
func (w *watch) see(m schemas.Message, now time.Time) error {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	run := m.Get("run")
	switch m.Kind() {
	case schemas.KindPlan:
		if w.run == "" {
			w.run = run
			w.move(run, moment{schemas.Survey, 0}, now)
		}
	case schemas.KindPrepare:
		w.move(run, moment{0, 0}, now)
	case schemas.KindWeights:
		id, err := schemas.IdentityOf(m)
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

// move notes how far a run is. A record that was published again is no progress.
func (w *watch) move(run string, due moment, now time.Time) {
	if before, known := w.due[run]; !known || before.before(due) {
		w.due[run] = due
		if run == w.run {
			w.progress(now)
		}
	}
}

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

// hurt notes that something was done to the run.
func (w *watch) hurt(k kind, now time.Time) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.open = append(w.open, injury{kind: k, at: now})
}

// await returns when a moment has come, or false when the run or ctx has ended before.
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

// state is how the run ended; nil while it goes on.
func (w *watch) state() *schemas.End {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.end
}

func (w *watch) id() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.run
}

// recovery is the fault that held the run up longest.
func (w *watch) recovery() injury {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.slowest
}

func (w *watch) String() string {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return fmt.Sprintf("run %q at %s", w.run, w.due[w.run])
}
