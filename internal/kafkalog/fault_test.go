package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
)

// meanwhile calls a function in a goroutine, and returns the channel that gets its error.
func meanwhile(call func() error) <-chan error {
	ended := make(chan error, 1)
	go func() { ended <- call() }()
	return ended
}

// openTopic opens an embedded broker with topic t, of one partition.
func openTopic(t *testing.T) *Log {
	l := openEmbedded(t)
	assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	return l
}

func TestTransientErrorsAreRetried(t *testing.T) {
	for _, failure := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas,
		kerr.KafkaStorageError, kerr.BrokerNotAvailable, kerr.ReplicaNotAvailable, kerr.NetworkException, kerr.FencedLeaderEpoch,
	} {
		t.Run(failure.Message, func(t *testing.T) {
			t.Parallel()
			l := openTopic(t)
			ctx := testContext(t)
			fault := func(key kmsg.Key) *kfake.FaultHandle {
				return l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "t", Err: failure, Count: 3})
			}
			hit := fault(kmsg.Produce)
			assert.Must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
			assert.Equal(t, hit.Hits(), 3, "faults in produce requests")
			hit = fault(kmsg.ListOffsets)
			assert.Equal(t, bounds(t, l, "t", 0), Bounds{0, 1}, "bounds")
			assert.Equal(t, hit.Hits(), 3, "faults in requests for bounds")
			hit = fault(kmsg.Fetch)
			mustHold(t, l, "t", 0, 1, numbers(0, 1))
			assert.Equal(t, hit.Hits(), 3, "faults in fetches")
		})
	}
}

// An empty fetch response below the end of the log is retried. The messages are not reported as deleted.
func TestRangeWaitsForABrokerThatIsBehind(t *testing.T) {
	l := openTopic(t)
	l.stall = 0
	assert.Must(l.Append(testContext(t), "t", 0, numberedUpTo(3, 10)...))(t)
	behind := 4
	l.broker.cluster.ControlKey(int16(kmsg.Fetch), func(r kmsg.Request) (kmsg.Response, error, bool) {
		l.broker.cluster.KeepControl()
		if behind == 0 {
			return nil, nil, false
		}
		behind--
		answer := r.ResponseKind().(*kmsg.FetchResponse)
		topic := kmsg.NewFetchResponseTopic()
		topic.Topic = "t"
		topic.Partitions = append(topic.Partitions, kmsg.NewFetchResponseTopicPartition())
		answer.Topics = append(answer.Topics, topic)
		return answer, nil, true
	})
	mustHold(t, l, "t", 0, 3, numbers(0, 3))
	assert.Equal(t, behind, 0, "empty answers that were not asked for")
}

// Open retries if a broker accepts a connection and closes it.
func TestOpenOutlivesAConnection(t *testing.T) {
	cluster, addresses := startCluster(t, kfake.NumBrokers(1))
	cuts := 2
	cluster.ControlKey(int16(kmsg.Metadata), func(kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		cuts--
		return nil, errors.New("cut"), cuts >= 0
	})
	connect(t, addresses)
	assert.True(t, cuts < 0, "%d connections are left to be cut", cuts+1)
}

// A write that the broker applied but answered with an error is duplicated, and later messages come after both.
func TestAppliedWriteIsRepeatedInOrder(t *testing.T) {
	for _, failure := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend} {
		l := openTopic(t)
		ctx := testContext(t)
		var repeated []string
		l.repeated = func(topic string) { repeated = append(repeated, topic) }
		l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: failure})
		base := assert.Must(l.Append(ctx, "t", 0, numbered(0, 900<<10), numbered(1, 900<<10), numbered(2, 10)))(t)
		assert.Equal(t, base, 1, "the base offset, which is that of the acknowledged write")
		mustHold(t, l, "t", 0, 4, []string{"0", "0", "1", "2"})
		assert.Equal(t, repeated, []string{"t"}, "repeated writes")
	}
}

// A write whose context ends is awaited for a while, because the broker may still apply it.
func TestWriteIsNotAbandoned(t *testing.T) {
	l := openTopic(t)
	for answered, want := range map[bool]error{true: nil, false: context.Canceled} {
		ctx, cancel := context.WithCancel(testContext(t))
		l.broker.cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) {
			cancel()
			return nil, nil, !answered
		})
		began := time.Now()
		_, err := l.Append(ctx, "t", 0, numbered(0, 10))
		took := time.Since(began)
		assert.True(t, errors.Is(err, want) && (answered || took >= writeTime && took <= 3*writeTime), "%v: %v after %v", answered, err, took)
	}
}

// A write is reported as repeated after a broken connection, but not after an error with which no broker has appended it.
func TestRepeatedWrites(t *testing.T) {
	l := openTopic(t)
	repeated := 0
	l.repeated = func(string) { repeated++ }
	cluster := l.broker.cluster
	for _, failure := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.FencedLeaderEpoch} {
		cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: failure, Count: 2})
		assert.Must(l.Append(testContext(t), "t", 0, numbered(0, 10)))(t)
	}
	assert.Equal(t, repeated, 0, "repeated writes of those that brokers refused")
	cluster.ControlKey(int16(kmsg.Produce), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, errors.New("cut"), true })
	assert.Must(l.Append(testContext(t), "t", 0, numbered(0, 10)))(t)
	assert.Equal(t, repeated, 1, "repeated writes after a connection that broke")
}

// A permanent error of any request is returned after one, and includes the partition.
func TestPermanentErrorsAreReturned(t *testing.T) {
	l := openTopic(t)
	ctx := testContext(t)
	assert.Must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
	for key, call := range map[kmsg.Key]func() error{
		kmsg.Produce:     func() error { _, err := l.Append(ctx, "t", 0, numbered(1, 10)); return err },
		kmsg.Fetch:       func() error { _, err := read(t, l, "t", 0, 1); return err },
		kmsg.ListOffsets: func() error { _, _, err := l.Bounds(ctx, "t", 0); return err },
	} {
		failures := []*kerr.Error{kerr.TopicAuthorizationFailed}
		if key == kmsg.Produce {
			failures = append(failures, kerr.MessageTooLarge, kerr.RecordListTooLarge, kerr.UnsupportedVersion, kerr.InvalidRequiredAcks,
				kerr.PolicyViolation, kerr.ClusterAuthorizationFailed, kerr.InvalidTopicException,
				kerr.UnsupportedForMessageFormat, kerr.UnknownServerError)
		}
		for _, failure := range failures {
			hit := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "t", Err: failure, Count: -1})
			err := call()
			assert.True(t, errors.Is(err, kafka.Error(failure.Code)) && strings.Contains(err.Error(), "t[0]") && hit.Hits() == 1,
				"%s: %v after %d requests, expected %s", key.Name(), err, hit.Hits(), failure.Message)
			hit.Remove()
		}
	}
}

// Each operation during an outage reports that it waits and that it succeeded.
func TestOutageIsReported(t *testing.T) {
	t.Parallel()
	cluster, addresses := startCluster(t, kfake.NumBrokers(1))
	ctx := testContext(t)
	reported := make(chan Wait, 100)
	l := assert.Must(Open(ctx, Options{Brokers: addresses, Waiting: func(w Wait) { reported <- w }}))(t)
	defer l.Close()
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	outage := cluster.Fault(
		kfake.Fault{Keys: []kmsg.Key{kmsg.Produce, kmsg.Fetch}, Topic: "t", Err: kerr.NotLeaderForPartition, Count: -1},
		kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Group: "g", Err: kerr.CoordinatorNotAvailable, Count: -1})
	appended := meanwhile(func() error { _, err := l.Append(ctx, "t", 0, numbered(0, 10)); return err })
	f := l.Follow("t", 0, 0)
	defer f.Close()
	read := meanwhile(func() error { _, err := f.Next(ctx); return err })
	member := join(t, l, "g", "t")

	failures := map[string]error{"append to t[0]": kafka.NotLeaderForPartition, "read t[0]": kafka.NotLeaderForPartition,
		"join group g": kafka.GroupCoordinatorNotAvailable}
	waiting, over := map[string]bool{}, map[string]bool{}
	for len(over) < len(failures) {
		w := <-reported
		switch failure, known := failures[w.What]; {
		case !known || w.Since < time.Second:
			t.Errorf("reported %+v", w)
		case w.Over && w.Err == nil:
			over[w.What] = true
		case !w.Over && errors.Is(w.Err, failure):
			waiting[w.What] = true
		default:
			t.Errorf("reported %+v", w)
		}
		if len(waiting) == len(failures) {
			outage.Remove()
		}
	}
	assert.NoError(t, <-appended)
	assert.NoError(t, <-read)
	until(t, "the member owns all", ownsAll(member, 1), member)
}

// A caller's context ends the retries, and the error includes the last transient one.
func TestContextEndsRetries(t *testing.T) {
	l := openTopic(t)
	ctx, cancel := context.WithCancel(testContext(t))
	hit := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotLeaderForPartition, Count: -1})
	go func() {
		defer cancel()
		_ = hit.Wait(ctx, 3)
	}()
	assert.MustFail(l.Append(ctx, "t", 0, numbered(0, 10)))(t, context.Canceled, kafka.NotLeaderForPartition)
}

func TestCloseEndsRetries(t *testing.T) {
	l := openTopic(t)
	ctx := testContext(t)
	hit := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotLeaderForPartition, Count: -1})
	polls := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Count: -1, Observe: true})
	appended := meanwhile(func() error { _, err := l.Append(ctx, "t", 0, numbered(0, 10)); return err })
	followed := meanwhile(func() error { _, err := l.Follow("t", 0, 0).Next(ctx); return err }) // never closed: closing the log ends it
	assert.NoError(t, hit.Wait(ctx, 1))
	assert.NoError(t, polls.Wait(ctx, 1))
	assert.NoError(t, l.Close())
	assert.Fails(t, <-appended, ErrClosed)
	assert.Fails(t, <-followed, ErrClosed)
	_, _, err := l.Bounds(ctx, "t", 0)
	assert.True(t, errors.Is(err, ErrClosed), "after Close: %v", err)
	assert.MustFail(read(t, l, "t", 0, 1))(t, ErrClosed)
}

// A follower's long poll has its own connection, so it delays no other call.
func TestLongPollDelaysNobody(t *testing.T) {
	l := openEmbedded(t)
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: "quiet", Partitions: 8}, Topic{Name: "t", Partitions: 1}))
	polls := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "quiet", Count: -1, Observe: true})
	for p := range 8 {
		f := l.Follow("quiet", p, 0)
		defer f.Close()
		soon, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, _ = f.Next(soon)
		cancel()
	}
	assert.NoError(t, polls.Wait(ctx, 8))
	start := time.Now()
	for i := range 10 {
		assert.Must(l.Append(ctx, "t", 0, numbered(i, 10)))(t)
	}
	took := time.Since(start)
	assert.True(t, took <= pollTime, "ten appends took %v", took)
}

func TestUnreachableBrokersAreNamed(t *testing.T) {
	listener := assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := listener.Addr().String()
	assert.NoError(t, listener.Close())
	_, err := Open(testContext(t), Options{Brokers: []string{address}})
	want := "reach Kafka at " + address + ": dial tcp " + address + ": "
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "no listener: %v, want %s…", err, want)

	silent := assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	assert.MustFail(Open(ctx, Options{Brokers: []string{silent.Addr().String()}}))(t, context.DeadlineExceeded)
}

// Brokers learn of a new topic one by one. A request for its settings is retried at a broker that does not know it yet.
func TestSettingsOfATopicThatABrokerDoesNotKnowYet(t *testing.T) {
	l := openListening(t)
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	asked := 0
	l.broker.cluster.ControlKey(int16(kmsg.DescribeConfigs), func(r kmsg.Request) (kmsg.Response, error, bool) {
		l.broker.cluster.KeepControl()
		if asked++; asked > 3 {
			return nil, nil, false
		}
		answer, resource := r.ResponseKind().(*kmsg.DescribeConfigsResponse), kmsg.NewDescribeConfigsResponseResource()
		resource.ResourceType, resource.ResourceName, resource.ErrorCode = kmsg.ConfigResourceTypeTopic, "t", kerr.UnknownTopicOrPartition.Code
		answer.Resources = append(answer.Resources, resource)
		return answer, nil, true
	})
	configs := assert.Must(l.Configs(ctx, "t"))(t)
	assert.True(t, asked == 4 && configs["t"]["cleanup.policy"] != "", "settings %v after %d requests, expected 4", configs["t"], asked)
}

// A failed write returns the file error, not a Kafka error code. When the cause is gone, writes succeed again, and nothing is missing.
func TestRefusedWrite(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l := assert.Must(Open(ctx, Options{DataDir: dir}))(t)
	defer func() { assert.NoError(t, l.Close()) }()
	assert.NoError(t, l.Create(ctx, Topic{Name: "x", Partitions: 1}))
	// A file in place of the partition's directory.
	folder := filepath.Join(dir, "log", "partitions", "x-0")
	assert.NoError(t, os.RemoveAll(folder))
	assert.NoError(t, os.MkdirAll(filepath.Dir(folder), 0o755))
	assert.NoError(t, os.WriteFile(folder, nil, 0o644))
	_, err := l.Append(ctx, "x", 0, numbered(0, 10))
	assert.True(t, errors.Is(err, syscall.ENOTDIR) &&
		strings.HasPrefix(err.Error(), "append to x[0]: the embedded broker could not write to "+folder+": not a directory; "),
		"error %v", err)
	assert.NoError(t, os.Remove(folder))
	assert.Equal(t, assert.Must(l.Append(ctx, "x", 0, numbered(0, 10)))(t), 0, "the offset of the next message")
}

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
		kafka.UnknownMemberId, kafka.IllegalGeneration, kafka.RebalanceInProgress, kafka.MemberIDRequired, kafka.UnstableOffsetCommit,
		// Responses to requests that this package does not send.
		kafka.FetchSessionIDNotFound, kafka.InvalidFetchSessionEpoch, kafka.FetchSessionTopicIDError, kafka.ElectionNotNeeded,
		kafka.NoReassignmentInProgress, kafka.GroupSubscribedToTopic,
	}
	for code := kafka.Error(-1); code < 200; code++ {
		err := fmt.Errorf("wrapped: %w", code)
		assert.Equal(t, retriable(err), slices.Contains(transient, code), "%s is retried", code.Title())
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
			assert.Equal(t, retriable(fmt.Errorf("wrapped: %w", err)), want, "%v is retried", err)
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
		assert.Fails(t, err, then)
	})
	return reports
}

func TestLongWaitsAreReported(t *testing.T) {
	const lasts = 10 * time.Minute
	reports := retried(t, kafka.NotEnoughReplicas, lasts, nil)
	seconds := []float64{1, 2, 4, 8, 16, 32, 64, 124, 184, 244, 304, 364, 424, 484, 544} // doubling up to a minute
	assert.Need(t, len(reports) >= 10 && len(reports) <= len(seconds)+1, "%d reports", len(reports))
	last := len(reports) - 1
	for i, w := range reports[:last] {
		assert.True(t, w.What == "append to x[0]" && errors.Is(w.Err, kafka.NotEnoughReplicas) && !w.Over, "reported %+v", w)
		// The next attempt reports, at most a second later.
		late := w.Since.Seconds() - seconds[i]
		assert.True(t, late >= 0 && late <= float64(i+1)*maxBackoff.Seconds(), "reported after %v, want %v s", w.Since, seconds[i])
	}
	w := reports[last]
	assert.True(t, w.Over && w.Err == nil && w.Since >= lasts, "the last report is %+v", w)
}

// Short waits are not reported; one that ends with an error is, with the error.
func TestShortWaitsAreNotReported(t *testing.T) {
	assert.Equal(t, retried(t, kafka.NotLeaderForPartition, 400*time.Millisecond, nil), nil, "reports of a short wait")
	assert.Equal(t, retried(t, nil, 0, kafka.TopicAuthorizationFailed), nil, "reports of an error at once")
	reports := retried(t, io.ErrUnexpectedEOF, 2*time.Second, kafka.TopicAuthorizationFailed)
	w := reports[len(reports)-1]
	assert.True(t, len(reports) >= 2 && w.Over && errors.Is(w.Err, kafka.TopicAuthorizationFailed), "reported %+v", reports)
}

// An unknown topic is an error after unknownTimeout, or much later if the topic was found before.
func TestUnknownTopicIsAnError(t *testing.T) {
	for _, found := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			l := &Log{ctx: t.Context(), unknownTimeout: unknownTimeout}
			if found {
				assert.NoError(t, l.retry(t.Context(), "x", "append to x[0]", func(context.Context) error { return nil }))
			}
			began := time.Now()
			err := l.retry(t.Context(), "x", "append to x[0]", func(context.Context) error { return kafka.UnknownTopicOrPartition })
			shortest, longest := unknownTimeout, 2*unknownTimeout
			if found {
				shortest, longest = 15*unknownTimeout, 16*unknownTimeout
			}
			took := time.Since(began)
			assert.True(t, errors.Is(err, ErrUnknownTopic) && took >= shortest && took <= longest, "found before: %v: %v after %v", found, err, took)
		})
	}
}

// counting counts the connections accepted by brokers.
type counting struct {
	net.Listener
	accepted *atomic.Int64
}

func (c counting) Accept() (net.Conn, error) {
	conn, err := c.Listener.Accept()
	if err == nil {
		c.accepted.Add(1)
	}
	return conn, err
}

// startCounting starts three brokers and returns the number of accepted connections.
func startCounting(t *testing.T) (*kfake.Cluster, []string, *atomic.Int64) {
	t.Helper()
	accepted := new(atomic.Int64)
	cluster, addresses := startCluster(t, kfake.NumBrokers(3), kfake.ListenFn(func(network, address string) (net.Listener, error) {
		l, err := net.Listen(network, address)
		return counting{l, accepted}, err
	}))
	return cluster, addresses, accepted
}

// everyday makes the calls that processes make repeatedly in normal operation.
func everyday(t *testing.T, l *Log, f *follower, m *Member) {
	t.Helper()
	ctx := testContext(t)
	offset := assert.Must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
	got := assert.Must(f.Next(ctx))(t)
	assert.Need(t, got.Offset == offset, "offset %d, want %d", got.Offset, offset)
	assert.Must(l.Append(ctx, "t", 1, numbered(0, 10)))(t)
	messages, err := read(t, l, "t", offset, offset+1)
	assert.Need(t, len(messages) == 1, "%v", err)
	assert.Must(l.AllBounds(ctx, "t"))(t)
	assert.Must(l.Partitions(ctx, "t"))(t)
	assert.Must(l.Exists(ctx, "t"))(t)
	assert.Must(l.Exists(ctx, "absent"))(t)
	assert.Must(l.Topics(ctx, ""))(t)
	assert.Must(l.Configs(ctx, "t"))(t)
	assert.Must(l.Owners(ctx, "g"))(t)
	assert.Must(l.IsEmbedded(ctx))(t)
	assert.NoError(t, <-commit(m, map[int]int64{0: offset}))
}

// Repeated calls in normal operation open no connections.
func TestSteadyStateOpensNoConnections(t *testing.T) {
	cluster, addresses, accepted := startCounting(t)
	l := connect(t, addresses[:1])
	l.unknownTimeout = 0 // for the topic that does not exist
	assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 3}))
	f := l.Follow("t", 0, 0)
	defer f.Close()
	m := l.Join("g", "t")
	defer m.Leave()
	for len(m.Owned()) < 3 {
		<-m.Changed()
	}
	steady := func() {
		t.Helper()
		// A connection is opened when more requests are in flight than ever before, which becomes rare.
		before, quiet := accepted.Load(), 0
		for rounds := 0; quiet < 50; rounds++ {
			everyday(t, l, f, m)
			if now := accepted.Load(); now == before {
				quiet++
			} else {
				before, quiet = now, 0
			}
			assert.Need(t, rounds != 1000, "%d connections in 1000 rounds, and no end of it", before)
		}
	}
	steady()
	for p := range 3 {
		assert.NoError(t, cluster.MoveTopicPartition("t", int32(p), int32(p+1)%3))
	}
	steady()
}
