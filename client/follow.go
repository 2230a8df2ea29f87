package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// firstRetry and lastRetry bound the wait after an error, which doubles. A version that is damaged costs a reading of the whole topic each
// time, as compaction may have kept copies of its messages anywhere.
const firstRetry, lastRetry = 250 * time.Millisecond, time.Minute

// manyChecks is the number of checks that must have failed for a follower to read the whole plans topic again.
const manyChecks = 10

// untilTopics is the longest wait for the topics of a pipeline that has none yet.
const untilTopics = 5 * time.Second

// run follows until ctx ends.
func (f *Follower) run(ctx context.Context) {
	for wait := f.retry; ; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := f.followPlans(ctx)
		f.confirm(time.Time{}, err)
		if time.Since(began) > lastRetry {
			wait = f.retry
		}
		if errors.As(err, new(*protocol.NoPipelineError)) { // its first version should not wait for this process
			wait = min(wait, untilTopics)
		}
		if protocol.Pause(ctx, wait) != nil {
			return
		}
	}
}

// followPlans reads what the plans topic says and goes on with what is written there, until an error. At intervals it asks
// the brokers, so it finds out that they still answer. After an absence it reads the topic again: tombstones do not stay for ever, and a
// version that is not listed is dropped.
func (f *Follower) followPlans(ctx context.Context) error {
	asked := f.now() // zero unless the brokers were just asked
	if err := protocol.RequirePipeline(ctx, f.log, f.options.Name); err != nil {
		return err
	}
	plans, err := f.client.FollowPlans(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer plans.Close()
	failed, retry := map[string]error{}, f.retry // by run, why a version can't be read; until the brokers are asked again
	last := asked
	for due := time.Now(); ; {
		failing := f.choose(ctx, asked, plans.Ledger, failed)
		if !failing {
			retry = f.retry
		}
		if !asked.IsZero() {
			wait := f.options.checkEvery()
			if failing {
				wait, retry = retry, min(2*retry, lastRetry)
			}
			due = time.Now().Add(wait)
		}
		asked = time.Time{}
		_, late, err := plans.Deliver(ctx, time.Until(due))
		if err == nil && late {
			read := f.client.ReadLedger
			if asked = f.now(); asked.Sub(last) > manyChecks*f.options.checkEvery() {
				read = f.client.RereadLedger // tombstones may have come and gone
			}
			last = asked
			err = plans.Renew(ctx, read)
			clear(failed)
		}
		if err != nil {
			return err
		}
	}
}

// choose makes the first complete version of those that the options name the model. failing reports whether a version can't be read that
// is not passed over. asked is as of confirm.
func (f *Follower) choose(ctx context.Context, asked time.Time, l *protocol.Ledger, failed map[string]error) (failing bool) {
	var incomplete error // why the first version is passed over
	for place := range l.Wanted(f.options.version()) {
		err, known := failed[place.Run]
		if !known {
			err = f.read(ctx, asked, place)
		}
		switch {
		case err == nil:
			f.confirm(asked, incomplete)
			return false
		case protocol.IsIncomplete(err) && f.options.version() == protocol.Latest:
			failed[place.Run], incomplete = err, cmp.Or(incomplete, err)
		default:
			failed[place.Run] = err
			f.confirm(time.Time{}, err)
			return true
		}
	}
	_, missing := l.Find(f.options.version())
	f.confirm(asked, cmp.Or(incomplete, missing)) // before the change, so that whoever is told of it finds the reason
	if f.model.Load() != nil {
		f.offer(nil, time.Time{}, asked)
	}
	return false
}

// read makes the version at a place the model, unless it is that already. asked is as of confirm.
func (f *Follower) read(ctx context.Context, asked time.Time, place schemas.Place) error {
	before := f.model.Load()
	if before != nil && before.Manifest.Run == place.Run {
		return nil
	}
	m, written, err := f.client.ModelAt(ctx, place, before)
	if err != nil {
		return err
	}
	m.Predict(make([]float32, m.Width()), nil) // makes the random draws, for which the first prediction would wait
	f.offer(m, written, asked)
	return nil
}

// offer makes m the model. asked is as of confirm: whoever sees the model sees that too.
func (f *Follower) offer(m *model.Model, written, asked time.Time) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.model.Store(m)
	f.written = written
	if !asked.IsZero() {
		f.confirmed = asked
	}
	close(f.changed)
	f.changed = make(chan struct{})
	if m != nil {
		f.readable.Do(func() { close(f.ready) })
	}
}

// confirm records the last error, and when the brokers were asked that confirm the version. A nil error means success, a zero time that
// they were not asked.
func (f *Follower) confirm(asked time.Time, err error) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.err = err
	if !asked.IsZero() {
		f.confirmed = asked
	}
}

// wait notes that an operation waits for brokers, or no longer does.
func (f *Follower) wait(w kafkalog.Wait) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if delete(f.waiting, w.What); !w.Over {
		f.waiting[w.What] = w.Err
	}
}
