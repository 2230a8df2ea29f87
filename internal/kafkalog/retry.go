package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

var (
	// ErrUnknownTopic means that the topic or the partition does not exist.
	ErrUnknownTopic = errors.New("unknown topic or partition")
	// ErrClosed means that the log or the reader was closed.
	ErrClosed = errors.New("log is closed")
)

// DeletedError means that the partition no longer has an offset that a reader needs: retention deleted it, or the topic
// was recreated.
type DeletedError struct {
	// Topic and Partition are the partition that was read.
	Topic     string
	Partition int
	// Wanted is the needed offset.
	Wanted int64
	// First and End are the remaining offsets, [First, End).
	First, End int64
}

func (e *DeletedError) Error() string {
	return fmt.Sprintf("%s[%d] no longer holds offset %d; it holds [%d, %d)", e.Topic, e.Partition, e.Wanted, e.First, e.End)
}

// WriteError means that the embedded broker could not write to its files, for example because the disk is full.
type WriteError struct {
	// Path is the file or directory.
	Path string
	// Err is the error of the file system.
	Err error
}

func (e *WriteError) Error() string {
	return fmt.Sprintf("the embedded broker could not write to %s: %v; make room or allow it there, or set data_dir to a "+
		"folder on another disk", e.Path, e.Err)
}

// Unwrap returns Err.
func (e *WriteError) Unwrap() error { return e.Err }

// LockedError means that another process uses the data directory.
type LockedError struct {
	// Dir is the data directory.
	Dir string
	// PID is the id of the process that uses it, or 0 if it is unknown.
	PID int
	// Listen is the address at which its broker listens for other programs; empty: no listener.
	Listen string
}

func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("data directory %s is in use by another process", e.Dir)
	}
	return fmt.Sprintf("data directory %s is in use by process %d", e.Dir, e.PID)
}

const (
	minBackoff = 5 * time.Millisecond
	maxBackoff = time.Second
)

// errPending means that the brokers have accepted a request but not completed it.
var errPending = errors.New("not done yet")

// retry calls do until it succeeds, fails permanently, or ctx ends. what describes the operation, for its error and for
// Options.Waiting. Before each retry it forgets the leaders of the topic, which may have changed. An empty topic means none.
func (l *Log) retry(ctx context.Context, topic, what string, do func(context.Context) error) error {
	if err := l.attempt(ctx, topic, what, do); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// attempt is retry for a caller whose own error says what was attempted.
func (l *Log) attempt(ctx context.Context, topic, what string, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(context.Cause(l.ctx)) })()
	// Close ends l.ctx, and its connections may fail do before the AfterFunc has run.
	over := func() bool {
		if l.ctx.Err() != nil {
			cancel(context.Cause(l.ctx))
		}
		return ctx.Err() != nil
	}

	wait := reporter{report: l.waiting, what: what}
	defer func() { wait.over(err) }()
	var failure error
	var unknownSince time.Time
	// A topic that was found before may be unknown for much longer: a broker that has just restarted knows no topics for a while.
	unknownTimeout := l.unknownTimeout
	if _, found := l.found.Load(topic); found {
		unknownTimeout *= 15
	}
	for backoff := minBackoff; ; backoff = min(2*backoff, maxBackoff) {
		if over() {
			return ended(ctx, failure)
		}
		began := time.Now()
		err := do(ctx)
		if err == nil {
			if topic != "" {
				l.found.Store(topic, true)
			}
			return nil
		}
		if over() {
			return ended(ctx, failure)
		}
		failure = err
		switch {
		case !unknown(err):
			unknownSince = time.Time{}
			if !retriable(err) {
				return l.identity.Explain(err)
			}
		case unknownSince.IsZero():
			unknownSince = time.Now()
		case time.Since(unknownSince) > unknownTimeout:
			return ErrUnknownTopic
		}
		wait.failed(began, failure)
		l.leaders.forget(topic)
		pause(ctx, backoff)
	}
}

// ended returns the error of a retry whose ctx has ended, with the last transient error.
func ended(ctx context.Context, failure error) error {
	if failure == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w, while retrying after: %w", context.Cause(ctx), failure)
}

// pause waits between d/2 and d, or until ctx ends. The jitter spreads the retries of readers that failed together.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// unknown reports whether a topic or partition is unknown. The error is transient if the topic was just created, and
// permanent if it does not exist.
func unknown(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.UnknownTopicID)
}

// retriable reports whether a retry may succeed: after the errors that
// https://kafka.apache.org/protocol#protocol_error_codes lists as retriable, with the exceptions below, after connection
// errors, and after errPending.
func retriable(err error) bool {
	// This check is first because a kafka.Error is also a net.Error.
	if code, ok := errors.AsType[kafka.Error](err); ok {
		switch code {
		case kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable: // a broker that the Transport does not know yet
			return true
		case kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress, kafka.MemberIDRequired: // the member rejoins
			return true
		case kafka.InvalidMessage: // TCP has a checksum, so the message is corrupt on the broker
			return false
		}
		return code.Temporary()
	}
	if errors.As(err, new(*WriteError)) { // a file system error is also a net.Error
		return false
	}
	if errors.As(err, new(*AccessError)) || secure.IsAlert(err) { // may be wrapped in a net.Error, like an alert
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok { // includes context.DeadlineExceeded of a single request
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.ErrClosedPipe) || errors.Is(err, errPending)
}

// Wait reports an operation that is being retried because of broker errors.
type Wait struct {
	// What is the operation, such as "append to x[0]".
	What string
	// Since is the duration so far.
	Since time.Duration
	// Err is the latest error. With Over it is the result of the operation, nil if it succeeded.
	Err error
	// Over means that the operation has ended.
	Over bool
}

const (
	// minWaitInterval is the delay of the first report. A change of leader takes less.
	minWaitInterval = time.Second
	// maxWaitInterval is the maximum interval between two reports of one operation.
	maxWaitInterval = time.Minute
)

// reporter reports the waits of one operation.
type reporter struct {
	report func(Wait) // nil: nothing is reported
	what   string

	since    time.Time     // the start of the first failed attempt; zero before that
	next     time.Time     // of the next report
	interval time.Duration // between reports; zero before the first
}

// failed records a failed attempt that started at the given time, and reports the wait if it is due.
func (w *reporter) failed(began time.Time, failure error) {
	if w.report == nil {
		return
	}
	if w.since.IsZero() {
		w.since, w.next = began, began.Add(minWaitInterval)
	}
	now := time.Now()
	if now.Before(w.next) {
		return
	}
	w.interval = min(max(2*w.interval, minWaitInterval), maxWaitInterval)
	w.next = now.Add(w.interval)
	w.report(Wait{What: w.what, Since: now.Sub(w.since), Err: failure})
}

// over reports the end of the operation, if its wait was reported.
func (w *reporter) over(err error) {
	if w.interval > 0 {
		w.report(Wait{What: w.what, Since: time.Since(w.since), Err: err, Over: true})
	}
	*w = reporter{report: w.report, what: w.what}
}
