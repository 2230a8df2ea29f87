package client

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// firstRetry and lastRetry bound the exponential backoff after an error. Each attempt to read a damaged version reads the whole topic,
// because compaction may have kept copies of its messages at any offset.
const firstRetry, lastRetry = 250 * time.Millisecond, time.Minute

// manyChecks is the number of missed checks after which the follower reads the whole plans topic again.
const manyChecks = 10

// untilTopics is the longest wait for the topics of a pipeline that has none yet.
const untilTopics = 5 * time.Second

// run follows until ctx ends.
func (f *Follower) run(ctx context.Context) {
	for wait := f.retry; ; wait = min(2*wait, lastRetry) {
		began := time.Now()
		err := f.followPlans(ctx)
		f.set(f.model.Load(), f.written, time.Time{}, err)
		if time.Since(began) > lastRetry {
			wait = f.retry
		}
		if errors.As(err, new(*protocol.NoPipelineError)) { // retry soon, so that the first version is found soon
			wait = min(wait, untilTopics)
		}
		if protocol.Pause(ctx, wait) != nil {
			return
		}
	}
}

// followPlans follows the plans topic until an error. At intervals it requests the topic's end, which confirms that the brokers answer.
// After a long interruption it reads the whole topic again, because tombstones may have expired, and drops a version that is not listed.
func (f *Follower) followPlans(ctx context.Context) error {
	asked := f.now() // time of the request to the brokers in this round; zero if there was none
	if err := protocol.RequirePipeline(ctx, f.log, f.options.Name); err != nil {
		return err
	}
	plans, err := f.client.FollowPlans(ctx, nil, nil)
	if err != nil {
		return err
	}
	defer plans.Close()
	failed, retry := map[string]error{}, f.retry // by run, why a version can't be read; until the next request to the brokers
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

// choose sets the model to the first complete version that the options allow. failing reports whether that version
// can't be read. For asked see set.
func (f *Follower) choose(ctx context.Context, asked time.Time, l *protocol.Ledger, failed map[string]error) (failing bool) {
	before := f.model.Load()
	var incomplete error // why the first version was skipped
	for place := range l.Wanted(f.options.version()) {
		m, written, err := before, f.written, failed[place.Run]
		if err == nil && (before == nil || before.Manifest.Run != place.Run) {
			m, written, err = f.client.ModelAt(ctx, place)
			failed[place.Run] = err
		}
		switch {
		case err == nil:
			f.set(m, written, asked, incomplete)
			return false
		case protocol.IsIncomplete(err) && f.options.version() == protocol.Latest:
			incomplete = cmp.Or(incomplete, err)
		default:
			f.set(before, f.written, time.Time{}, err)
			return true
		}
	}
	_, missing := l.Find(f.options.version())
	f.set(nil, time.Time{}, asked, cmp.Or(incomplete, missing))
	return false
}

// set sets the model to m, which was written at the given time. It records the last error, nil after a success, and asked, the time of the
// request by which the brokers confirmed the version. A zero time means that there was no request.
func (f *Follower) set(m *model.Model, written, asked time.Time, err error) {
	before := f.model.Load()
	if m != nil && m != before {
		m.Predict(make([]float32, m.Width()), nil) // makes the random draws before the first prediction needs them
	}
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.err, f.confirmed = err, cmp.Or(asked, f.confirmed)
	if m == before {
		return
	}
	f.model.Store(m)
	f.written = written
	close(f.changed)
	f.changed = make(chan struct{})
	if m != nil {
		f.readable.Do(func() { close(f.ready) })
	}
}

// wait records that an operation waits for brokers, or has ended.
func (f *Follower) wait(w kafkalog.Wait) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if delete(f.waiting, w.What); !w.Over {
		f.waiting[w.What] = w.Err
	}
}
