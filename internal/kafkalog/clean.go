package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
)

const (
	// cleanInterval is how often a log with an embedded broker cleans itself. The broker stops for as long as what has come since takes: a
	// second with 1,000 rows/s and updates of 4 × 1024, where ten minutes took five.
	cleanInterval = time.Minute
	// maxCleanInterval is the longest time until the next attempt, if cleaning fails.
	maxCleanInterval = 24 * time.Hour
)

// Clean deletes from the embedded broker's log what the topics' own settings allow, by Kafka's names: cleanup.policy,
// retention.ms, retention.bytes, segment.bytes, segment.ms, min.compaction.lag.ms and delete.retention.ms. Without a setting for
// retention, messages stay. On other brokers, which clean their logs themselves, Clean does nothing.
//
// Open and a goroutine of the Log, every minute, do the same. A call is only needed to free space at once.
//
// Segments that have expired are deleted while the broker runs. Compaction, and retention within the segment that is written to,
// need the broker to restart, which takes about a second and a half for each GB of the log. Readers and writers wait meanwhile. So that
// this is rare, the broker restarts when that frees a sixteenth of the log, or when a message is older than retention.ms and
// segment.ms together. If it does not start again, the error is that of this and all later calls of the Log.
func (l *Log) Clean(ctx context.Context) error {
	if l.broker == nil {
		return nil
	}
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	if err := l.clean(ctx); err != nil {
		return fmt.Errorf("clean the log: %w", err)
	}
	return nil
}

// Compact removes from the files of the embedded broker what later messages of compacted topics have replaced, and what
// tombstones have removed, also from the file that is written to. Readers and writers wait, as with [Log.Clean]. On
// other brokers, which compact by themselves, it does nothing.
func (l *Log) Compact(ctx context.Context, topics ...string) error {
	if l.broker == nil {
		return nil
	}
	if err := context.Cause(l.ctx); err != nil {
		return err
	}
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	dead, err := l.broker.Restart(ctx, l.now(), topics...)
	if dead {
		l.end(err)
	}
	if err != nil {
		return fmt.Errorf("compact %s: %w", strings.Join(topics, ", "), err)
	}
	return nil
}

func (l *Log) clean(ctx context.Context) error {
	l.cleaning.Lock()
	defer l.cleaning.Unlock()
	found, failure := l.broker.Survey(l.now())
	for _, e := range found.Expired {
		err := l.broker.Cut(e.Topic, e.Partition, e.Before)
		// Others may delete topics and messages too.
		if err != nil && !errors.Is(err, kerr.UnknownTopicOrPartition) && !errors.Is(err, kerr.OffsetOutOfRange) {
			failure = errors.Join(failure, fmt.Errorf("delete the messages of %s[%d] before %d: %w", e.Topic, e.Partition, e.Before, err))
		}
	}
	if failure != nil || !found.Pays() { // with files that can't be read the broker might not start again
		return failure
	}
	dead, err := l.broker.Restart(ctx, l.now())
	if dead {
		l.end(err)
	}
	return err
}

// keepClean cleans the log again and again until the log is closed. After an error, the first of which may have happened before the
// call, it reports a wait, and waits longer.
func (l *Log) keepClean(every time.Duration, err error) {
	report := func(w Wait) {
		if w.What = "clean the log"; l.waiting != nil {
			l.waiting(w)
		}
	}
	var failing time.Time // when the first of the latest attempts failed; zero if the latest has not
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
