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
	"github.com/segmentio/kafka-go/protocol"
)

// Of every answer that a broker can give: whether a further attempt may get another.
func TestWhatIsWaitedOut(t *testing.T) {
	passing := []kafka.Error{
		// A topic that was made just now; see unknown for how long.
		kafka.UnknownTopicOrPartition, kafka.UnknownTopicID, kafka.InconsistentTopicID,
		// Leaders and controllers that move, and clients or brokers that have not heard of it.
		kafka.LeaderNotAvailable, kafka.NotLeaderForPartition, kafka.NotController, kafka.FencedLeaderEpoch,
		kafka.UnknownLeaderEpoch, kafka.ListenerNotFound, kafka.OffsetNotAvailable, kafka.PreferredLeaderNotAvailable,
		kafka.EligibleLeadersNotAvailable,
		// Brokers that are down, slow, short of disk, of each other, or of patience with us.
		kafka.BrokerNotAvailable, kafka.ReplicaNotAvailable, kafka.NetworkException, kafka.RequestTimedOut,
		kafka.KafkaStorageError, kafka.NotEnoughReplicas, kafka.NotEnoughReplicasAfterAppend, kafka.ThrottlingQuotaExceeded,
		// Coordinators that are not there yet, and groups that go on.
		kafka.GroupCoordinatorNotAvailable, kafka.GroupLoadInProgress, kafka.NotCoordinatorForGroup,
		kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress, kafka.UnstableOffsetCommit,
		// Answers to what is never asked here.
		kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError, kafka.ElectionNotNeeded,
		kafka.NoReassignmentInProgress, kafka.GroupSubscribedToTopic,
	}
	for code := kafka.Error(-1); code < 200; code++ {
		err := fmt.Errorf("wrapped: %w", code)
		if got, want := retriable(err), slices.Contains(passing, code); got != want {
			t.Errorf("%d %s is waited out: %v", int(code), code.Title(), got)
		}
	}
	// Not everything that is not passing need be named, but these must not hang a run.
	for _, code := range []kafka.Error{
		kafka.TopicAuthorizationFailed, kafka.GroupAuthorizationFailed, kafka.ClusterAuthorizationFailed,
		kafka.SASLAuthenticationFailed, kafka.UnsupportedSASLMechanism, kafka.IllegalSASLState, kafka.MessageSizeTooLarge,
		kafka.RecordListTooLarge, kafka.UnsupportedVersion, kafka.InvalidRequiredAcks, kafka.InvalidRequest,
		kafka.PolicyViolation, kafka.OffsetOutOfRange, kafka.InvalidMessage, kafka.InvalidTopic, kafka.InvalidReplicationFactor,
		kafka.InconsistentGroupProtocol, kafka.InvalidSessionTimeout, kafka.InvalidGroupId, kafka.GroupMaxSizeReached,
		kafka.Unknown,
	} {
		if slices.Contains(passing, code) {
			t.Errorf("%s ends at once", code.Title())
		}
	}

	for want, list := range map[bool][]error{
		true: {
			&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, &net.OpError{Op: "read", Err: syscall.ECONNRESET}, io.EOF,
			io.ErrUnexpectedEOF, net.ErrClosed, context.DeadlineExceeded, &net.DNSError{IsNotFound: true}, protocol.ErrNoLeader,
			errPending,
		},
		false: {
			ErrUnknownTopic, ErrClosed, &DeletedError{}, context.Canceled, errors.New("anything else"),
		},
	} {
		for _, err := range list {
			if retriable(fmt.Errorf("wrapped: %w", err)) != want {
				t.Errorf("%v is waited out: %v", err, !want)
			}
		}
	}
}

// retried runs retry on a log without brokers whose trouble lasts, and returns what was told.
func retried(t *testing.T, trouble error, lasts time.Duration, then error) []Wait {
	var told []Wait
	synctest.Test(t, func(t *testing.T) {
		l := &Log{ctx: t.Context(), transport: &kafka.Transport{}, waiting: func(w Wait) { told = append(told, w) }}
		began := time.Now()
		err := l.retry(t.Context(), "append to x[0]", func(context.Context) error {
			if time.Since(began) < lasts {
				return trouble
			}
			return then
		})
		if !errors.Is(err, then) {
			t.Errorf("%v, want %v", err, then)
		}
	})
	return told
}

func TestLongWaitsAreTold(t *testing.T) {
	const lasts = 10 * time.Minute
	told := retried(t, kafka.NotEnoughReplicas, lasts, nil)
	seconds := []float64{1, 2, 4, 8, 16, 32, 64, 124, 184, 244, 304, 364, 424, 484, 544} // doubling up to a minute apart
	if len(told) < 10 || len(told) > len(seconds)+1 {
		t.Fatalf("told %d times", len(told))
	}
	last := len(told) - 1
	for i, w := range told[:last] {
		if w.What != "append to x[0]" || !errors.Is(w.Err, kafka.NotEnoughReplicas) || w.Over {
			t.Errorf("told %+v", w)
		}
		// Told by the attempt that comes next, a second later at most.
		if late := w.Since.Seconds() - seconds[i]; late < 0 || late > float64(i+1)*lastBackoff.Seconds() {
			t.Errorf("told after %v, want %v s", w.Since, seconds[i])
		}
	}
	if w := told[last]; !w.Over || w.Err != nil || w.Since < lasts {
		t.Errorf("told of the end %+v", w)
	}
}

func TestShortWaitsAreNotTold(t *testing.T) {
	if told := retried(t, kafka.NotLeaderForPartition, 400*time.Millisecond, nil); len(told) > 0 {
		t.Errorf("told %+v", told)
	}
	if told := retried(t, nil, 0, kafka.TopicAuthorizationFailed); len(told) > 0 {
		t.Errorf("told %+v", told)
	}
}

func TestWaitThatEndsBadly(t *testing.T) {
	told := retried(t, io.ErrUnexpectedEOF, 2*time.Second, kafka.TopicAuthorizationFailed)
	if w := told[len(told)-1]; len(told) < 2 || !w.Over || !errors.Is(w.Err, kafka.TopicAuthorizationFailed) {
		t.Errorf("told %+v", told)
	}
}

// A topic that nobody has met is believed to be missing after a moment; one that was there, much later.
func TestUnknownTopicIsBelieved(t *testing.T) {
	for _, met := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &Log{ctx: t.Context(), transport: &kafka.Transport{}, settle: settleTime}
			if met {
				if err := l.retryOn(t.Context(), "x", "append to x[0]", func(context.Context) error { return nil }); err != nil {
					t.Fatal(err)
				}
			}
			began := time.Now()
			err := l.retryOn(t.Context(), "x", "append to x[0]", func(context.Context) error { return kafka.UnknownTopicOrPartition })
			least, most := settleTime, 2*settleTime
			if met {
				least, most = 15*settleTime, 16*settleTime
			}
			if took := time.Since(began); !errors.Is(err, ErrUnknownTopic) || took < least || took > most {
				t.Errorf("met before: %v: %v after %v", met, err, took)
			}
		})
	}
}
