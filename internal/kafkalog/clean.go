package kafkalog

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	// cleanInterval is the interval at which a log with an embedded broker cleans itself. The broker pauses in proportion to
	// the data written since: a second with 1,000 rows/s and updates of 4 × 1024, where an interval of ten minutes took five.
	cleanInterval = time.Minute
	// maxCleanInterval is the maximum retry interval after errors.
	maxCleanInterval = 24 * time.Hour
)

// Clean deletes messages from the embedded broker's log according to the topics' settings: cleanup.policy, retention.ms,
// retention.bytes, segment.bytes, segment.ms, min.compaction.lag.ms and delete.retention.ms. Without a retention setting,
// messages are kept. On other brokers, which clean their logs themselves, Clean does nothing.
//
// Open, and every minute a goroutine of the Log, do the same. A call is only needed to free space at once.
//
// Expired segments are deleted while the broker runs. Compaction, and retention within the active segment, require a
// restart of the broker, which takes about a second and a half for each GB of the log, and blocks readers and writers. To
// make this rare, the broker restarts when that frees a sixteenth of the log, or when a message is older than retention.ms
// and segment.ms together. If the broker does not start again, the error is returned by this and all later calls of the
// Log.
func (l *Log) Clean(ctx context.Context) error {
	return l.clean("clean the log", func() error { return l.broker.clean(ctx, l.now()) })
}

// Compact removes superseded and tombstoned messages of compacted topics from the embedded broker's files, including the
// active segment. It blocks readers and writers like [Log.Clean]. On other brokers, which compact their logs themselves,
// it does nothing.
func (l *Log) Compact(ctx context.Context, topics ...string) error {
	return l.clean("compact "+strings.Join(topics, ", "), func() error { return l.broker.restart(ctx, l.now(), topics...) })
}

// clean calls do if there is an embedded broker. what describes it, for its error.
func (l *Log) clean(what string, do func() error) error {
	if l.broker == nil {
		return nil
	}
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	if err := do(); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// keepClean cleans the log periodically until the log is closed. After an error, the first of which may be passed in, it
// reports a wait, and backs off.
func (l *Log) keepClean(every time.Duration, err error) {
	report := func(w Wait) {
		if w.What = "clean the log"; l.waiting != nil {
			l.waiting(w)
		}
	}
	var failing time.Time // start of the current failures; zero if the last attempt succeeded
	for interval := every; ; {
		switch {
		case err != nil:
			if failing.IsZero() {
				failing = time.Now()
			}
			interval = min(2*interval, max(every, maxCleanInterval))
			report(Wait{Since: time.Since(failing), Err: err})
		case !failing.IsZero():
			report(Wait{Since: time.Since(failing), Over: true})
			failing, interval = time.Time{}, every
		}
		select {
		case <-time.After(interval):
		case <-l.ctx.Done():
			if !failing.IsZero() {
				report(Wait{Since: time.Since(failing), Err: context.Cause(l.ctx), Over: true})
			}
			return
		}
		err = l.Clean(l.ctx)
	}
}
