package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
)

// Every error code of brokers is either transient or permanent.
func TestRetriable(t *testing.T) {
	transient := []kafka.Error{
		// A topic that was just created; see unknown for how long.
		kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.InconsistentTopicID,
		// Leaders and controllers that move, and outdated clients or brokers.
		kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.NotController, kafka.FencedLeaderEpoch,
		kafka.UnknownLeaderEpoch, kafka.ListenerNotFound, kafka.OffsetNotAvailable, kafka.PreferredLeaderNotAvailable,
		kafka.EligibleLeadersNotAvailable,
		// Brokers that are down, slow, short of disk, short of replicas, or throttling us.
		kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable, kafka.NetworkException, kafka.RequestTimedOut,
		kafka.KafkaStorageError, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.ThrottlingQuotaExceeded,
		// Coordinators that are not up yet, and groups that have rebalanced.
		kafka.GroupCoordinatorNotAvailable, kafka.GroupLoadInProgress, kafka.NotCoordinatorForGroup,
		kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress, kafka.UnstableOffsetCommit,
		// Responses to requests that this package does not send.
		kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError, kafka.ElectionNotNeeded,
		kafka.NoReassignmentInProgress, kafka.GroupSubscribedToTopic,
	}
	for code := kafka.Error(-1); code < 200; code++ {
		err := fmt.Errorf("wrapped: %w", code)
		if got, want := retriable(err), slices.Contains(transient, code); got != want {
			t.Errorf("%d %s is retried: %v", int(code), code.Title(), got)
		}
	}
	// Permanent errors that would block a run if they were retried.
	for _, code := range []kafka.Error{
		kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState, kafka.MessageSizeTooLarge,
		kafka.RecordListTooLarge, kafka.UnsupportedVersion, kafka.InvalidRequiredAcks, kafka.InvalidRequest,
		kafka.PolicyViolation, kafka.OffsetOutOfRange, kafka.InvalidMessage, kafka.InvalidTopic, kafka.InvalidReplicationFactor,
		kafka.InconsistentGroupProtocol, kafka.InvalidSessionTimeout, kafka.InvalidGroupId, kafka.GroupMaxSizeReached,
		kafka.Unknown,
	} {
		if slices.Contains(transient, code) {
			t.Errorf("%s is retried", code.Title())
		}
	}

	for want, list := range map[bool][]error{
		true: {
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, io.EOF,
			io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, &net.DNSError{IsNotFound: true},
			errPending,
		},
		false: {
			ErrUnknownTopic, ErrClosed, &DeletedError{}, context.Canceled, errors.New("anything else"),
		},
	} {
		for _, err := range list {
			if retriable(fmt.Errorf("wrapped: %w", err)) != want {
				t.Errorf("%v is retried: %v", err, !want)
			}
		}
	}
}

// retried runs retry on a log without brokers, with an operation that returns failure for some time and then another
// result, and returns the reports.
func retried(t *testing.T, failure error, lasts time.Duration, then error) []Wait {
	var reports []Wait
	synctest.Test(t, func(t *testing.T) {
		l := &Log{ctx: t.Context(), waiting: func(w Wait) { reports = append(reports, w) }}
		began := time.Now()
		err := l.retry(t.Context(), "", "append to x[0]", func(context.Context) error {
			if time.Since(began) < lasts {
				return failure
			}
			return then
		})
		if !errors.Is(err, then) {
			t.Errorf("%v, want %v", err, then)
		}
	})
	return reports
}

func TestLongWaitsAreReported(t *testing.T) {
	const lasts = 10 * time.Minute
	reports := retried(t, kafka.NotEnoughReplicas, lasts, nil)
	seconds := []float64{1, 2, 4, 8, 16, 32, 64, 124, 184, 244, 304, 364, 424, 484, 544} // doubling up to a minute
	if len(reports) < 10 || len(reports) > len(seconds)+1 {
		t.Fatalf("%d reports", len(reports))
	}
	last := len(reports) - 1
	for i, w := range reports[:last] {
		if w.What != "append to x[0]" || !errors.Is(w.Err, kafka.NotEnoughReplicas) || w.Over {
			t.Errorf("reported %+v", w)
		}
		// The next attempt reports, at most a second later.
		if late := w.Since.Seconds() - seconds[i]; late < 0 || late > float64(i+1)*maxBackoff.Seconds() {
			t.Errorf("reported after %v, want %v s", w.Since, seconds[i])
		}
	}
	if w := reports[last]; !w.Over || w.Err != nil || w.Since < lasts {
		t.Errorf("the last report is %+v", w)
	}
}

func TestShortWaitsAreNotReported(t *testing.T) {
	if reports := retried(t, kafka.NotLeaderForPartition, 400*time.Millisecond, nil); len(reports) > 0 {
		t.Errorf("reported %+v", reports)
	}
	if reports := retried(t, nil, 0, kafka.TopicAuthorizationFailed); len(reports) > 0 {
		t.Errorf("reported %+v", reports)
	}
}

func TestWaitThatEndsWithAnError(t *testing.T) {
	reports := retried(t, io.ErrUnexpectedEOF, 2*time.Second, kafka.TopicAuthorizationFailed)
	if w := reports[len(reports)-1]; len(reports) < 2 || !w.Over || !errors.Is(w.Err, kafka.TopicAuthorizationFailed) {
		t.Errorf("reported %+v", reports)
	}
}

// An unknown topic is an error after unknownTimeout, or much later if the topic was found before.
func TestUnknownTopicIsAnError(t *testing.T) {
	for _, found := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &Log{ctx: t.Context(), unknownTimeout: unknownTimeout}
			if found {
				noError(t, l.retry(t.Context(), "x", "append to x[0]", func(context.Context) error { return nil }))
			}
			began := time.Now()
			err := l.retry(t.Context(), "x", "append to x[0]", func(context.Context) error { return kafka.UnknownTopicOrPartition })
			shortest, longest := unknownTimeout, 2*unknownTimeout
			if found {
				shortest, longest = 15*unknownTimeout, 16*unknownTimeout
			}
			if took := time.Since(began); !errors.Is(err, ErrUnknownTopic) || took < shortest || took > longest {
				t.Errorf("found before: %v: %v after %v", found, err, took)
			}
		})
	}
}
