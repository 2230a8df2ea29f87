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
	"github.com/segmentio/kafka-go/protocol"

	"github.com/stagewise/stagewise/internal/kafkalog/secure"
)

const (
	firstBackoff = 5 * time.Millisecond
	lastBackoff  = time.Second
)

// errPending is what was asked for but is not done yet.
var errPending = errors.New("not done yet")

// retry calls do until it succeeds, fails for good, or ctx ends. What it does is what somebody is told when that takes long.
// Before each further attempt the cluster's layout is forgotten: kafka-go would go on asking a former leader until its next
// refresh, some seconds later.
func (l *Log) retry(ctx context.Context, what string, do func(context.Context) error) error {
	return l.retryOn(ctx, "", what, do)
}

// retryOn is retry of what is done to one topic.
func (l *Log) retryOn(ctx context.Context, topic, what string, do func(context.Context) error) (err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(l.ctx, func() { cancel(ErrClosed) })()
	// The transport hears of Close when that function does, so what it says then may be heard first.
	over := func() bool {
		if l.ctx.Err() != nil {
			cancel(ErrClosed)
		}
		return ctx.Err() != nil
	}

	wait := waiting{tell: l.waiting, what: what}
	defer func() { wait.over(err) }()
	var trouble error
	var unknownSince time.Time
	for backoff := firstBackoff; ; backoff = min(2*backoff, lastBackoff) {
		if over() {
			return ended(ctx, trouble)
		}
		began := time.Now()
		err := do(ctx)
		if err == nil {
			if topic != "" {
				l.met.Store(topic, true)
			}
			return nil
		}
		if unheard(err) {
			if _, silence := l.metadata(ctx, []string{}); silence != nil {
				err = silence
			}
		}
		if over() {
			return ended(ctx, trouble)
		}
		trouble = err
		switch {
		case !unknown(err):
			unknownSince = time.Time{}
			if !retriable(err) {
				return l.identity.Explain(err)
			}
		case unknownSince.IsZero():
			unknownSince = time.Now()
		case time.Since(unknownSince) > l.settleOf(topic):
			return l.unknownTopic()
		}
		wait.failed(began, trouble)
		l.transport.CloseIdleConnections()
		pause(ctx, backoff)
	}
}

// settleOf is how long a topic may be unknown before that is believed: much longer where it was there, as a broker that has just
// come back knows none for a while.
func (l *Log) settleOf(topic string) time.Duration {
	if _, met := l.met.Load(topic); met {
		return 15 * l.settle
	}
	return l.settle
}

// ended says why ctx ended, and what it was waiting out.
func ended(ctx context.Context, trouble error) error {
	if trouble == nil {
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w, waiting out: %w", context.Cause(ctx), trouble)
}

// pause lets about d pass, less if ctx ends. The random half keeps readers that met the same trouble apart.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d/2 + rand.N(d/2))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// unknown errors are passing when the topic was made just now, and final when it was not made or is gone.
func unknown(err error) bool {
	return errors.Is(err, kafka.UnknownTopicOrPartition) || errors.Is(err, kafka.UnknownTopicID) || unheard(err)
}

// unheard errors are kafka-go's own: its copy of the cluster's layout has no such topic. When no broker could be asked for
// the layout that copy is empty, so they mean nothing then.
func unheard(err error) bool {
	return errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition)
}

// retriable errors may be gone at the next attempt: the "retriable" of https://kafka.apache.org/protocol#protocol_error_codes
// with the exceptions below, trouble with a connection, and what takes its time.
func retriable(err error) bool {
	// First, because a kafka.Error is a net.Error too.
	if code, ok := errors.AsType[kafka.Error](err); ok {
		switch code {
		case kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable: // kafka-go: the leader is a broker that is not there yet
			return true
		case kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress: // a member joins again
			return true
		case kafka.InvalidMessage: // a corrupt message; TCP has a checksum, so a second try finds it as corrupt
			return false
		}
		return code.Temporary()
	}
	if secure.IsAlert(err) { // a net.Error too
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok { // includes context.DeadlineExceeded, here of a single request
		return true
	}
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, protocol.ErrNoLeader) || errors.Is(err, errPending)
}
