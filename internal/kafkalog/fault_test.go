package kafkalog

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// openTopic opens an embedded broker with topic t, of one partition.
func openTopic(t *testing.T) *Log {
	l := openEmbedded(t)
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	return l
}

func TestPassingTroubleIsWaitedOut(t *testing.T) {
	for _, trouble := range []*kerr.Error{
		kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition, kerr.NotEnoughReplicas,
		kerr.KafkaStorageError, kerr.BrokerNotAvailable, kerr.ReplicaNotAvailable,
	} {
		t.Run(trouble.Message, func(t *testing.T) {
			t.Parallel()
			l := openTopic(t)
			ctx := testContext(t)
			fault := func(key kmsg.Key) *kfake.FaultHandle {
				return l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "t", Err: trouble, Count: 3})
			}
			hit := fault(kmsg.Produce)
			must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
			if hit.Hits() != 3 {
				t.Errorf("produce met %d faults", hit.Hits())
			}
			hit = fault(kmsg.ListOffsets)
			if _, end, err := l.Bounds(ctx, "t", 0); end != 1 || err != nil {
				t.Errorf("bounds end at %d, %v", end, err)
			}
			hit = fault(kmsg.Fetch)
			if got, err := read(t, l, "t", 0, 1); err != io.EOF || !slices.Equal(texts(got), numbers(0, 1)) || hit.Hits() != 3 {
				t.Errorf("%v, %v after %d faults", texts(got), err, hit.Hits())
			}
		})
	}
}

// A write that was applied and answered with an error is there twice, and what was sent after it comes after it.
func TestAppliedWriteIsRepeatedInOrder(t *testing.T) {
	for _, trouble := range []*kerr.Error{kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend} {
		l := openTopic(t)
		ctx := testContext(t)
		l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: trouble})
		base := must(l.Append(ctx, "t", 0, numbered(0, 900<<10), numbered(1, 900<<10), numbered(2, 10)))(t)
		if base != 1 {
			t.Errorf("base offset %d, want that of the acknowledged write", base)
		}
		got, err := read(t, l, "t", 0, 4)
		if want := []string{"0", "0", "1", "2"}; err != io.EOF || !slices.Equal(texts(got), want) {
			t.Errorf("%v, %v, want %v", texts(got), err, want)
		}
	}
}

func TestLastingTroubleIsAnError(t *testing.T) {
	l := openTopic(t)
	ctx := testContext(t)
	must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
	for key, call := range map[kmsg.Key]func() error{
		kmsg.Produce:     func() error { _, err := l.Append(ctx, "t", 0, numbered(1, 10)); return err },
		kmsg.Fetch:       func() error { _, err := read(t, l, "t", 0, 1); return err },
		kmsg.ListOffsets: func() error { _, _, err := l.Bounds(ctx, "t", 0); return err },
	} {
		hit := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: -1})
		err := call()
		if !errors.Is(err, kafka.TopicAuthorizationFailed) || !strings.Contains(err.Error(), "t[0]") || hit.Hits() > 2 { // Bounds asks twice
			t.Errorf("%s: %v after %d requests", key.Name(), err, hit.Hits())
		}
		hit.Remove()
	}
}

// A caller's context ends the waiting, and the error says what was waited out.
func TestContextEndsWaiting(t *testing.T) {
	l := openTopic(t)
	ctx, cancel := context.WithCancel(testContext(t))
	hit := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotLeaderForPartition, Count: -1})
	go func() {
		defer cancel()
		_ = hit.Wait(ctx, 3)
	}()
	_, err := l.Append(ctx, "t", 0, numbered(0, 10))
	if !errors.Is(err, context.Canceled) || !errors.Is(err, kafka.NotLeaderForPartition) {
		t.Error(err)
	}
}

func TestCloseEndsWaiting(t *testing.T) {
	l := openTopic(t)
	ctx := testContext(t)
	hit := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: "t", Err: kerr.NotLeaderForPartition, Count: -1})
	polls := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Count: -1, Observe: true})
	ended := make(chan error, 2)
	go func() {
		_, err := l.Append(ctx, "t", 0, numbered(0, 10))
		ended <- err
	}()
	go func() {
		_, err := l.Follow("t", 0, 0).Next(ctx) // never closed: the log's Close is enough
		ended <- err
	}()
	noError(t, hit.Wait(ctx, 1))
	noError(t, polls.Wait(ctx, 1))
	noError(t, l.Close())
	for range 2 {
		if err := <-ended; !errors.Is(err, ErrClosed) {
			t.Errorf("ended with %v", err)
		}
	}
	if _, _, err := l.Bounds(ctx, "t", 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	r := l.Range("t", 0, 0, 1)
	if _, err := r.Next(ctx); !errors.Is(err, ErrClosed) {
		t.Errorf("range after Close: %v", err)
	}
	noError(t, r.Close())
}

// A follower holds a connection while it waits, so others do not wait with it.
func TestLongPollDelaysNobody(t *testing.T) {
	l := openEmbedded(t)
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "quiet", Partitions: 8}, Topic{Name: "t", Partitions: 1}))
	polls := l.broker.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "quiet", Count: -1, Observe: true})
	for p := range 8 {
		f := l.Follow("quiet", p, 0)
		defer f.Close()
		soon, cancel := context.WithTimeout(ctx, time.Millisecond)
		_, _ = f.Next(soon)
		cancel()
	}
	noError(t, polls.Wait(ctx, 8))
	start := time.Now()
	for i := range 10 {
		must(l.Append(ctx, "t", 0, numbered(i, 10)))(t)
	}
	if took := time.Since(start); took > pollTime {
		t.Errorf("ten appends took %v", took)
	}
}

// A broker that cuts every connection is waited out like one that answers with errors.
func TestBrokenConnections(t *testing.T) {
	l := openTopic(t)
	ctx := testContext(t)
	const n = 20
	var fetches atomic.Int64
	l.broker.cluster.ControlKey(int16(kmsg.Fetch), func(kmsg.Request) (kmsg.Response, error, bool) {
		l.broker.cluster.KeepControl()
		if fetches.Add(1)%3 == 1 {
			return nil, errors.New("cut"), true
		}
		return nil, nil, false
	})
	f := l.Follow("t", 0, 0)
	defer f.Close()
	for i := range n {
		must(l.Append(ctx, "t", 0, numbered(i, 10)))(t)
		if m := must(f.Next(ctx))(t); m.Offset != int64(i) {
			t.Fatalf("message %d is @%d", i, m.Offset)
		}
	}
}

func TestUnreachableBrokersAreNamed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	address := listener.Addr().String()
	noError(t, listener.Close())
	if _, err := Open(testContext(t), Options{Brokers: []string{address}}); err == nil || !strings.Contains(err.Error(), address) {
		t.Errorf("nobody there: %v", err)
	}

	silent, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
	defer silent.Close()
	ctx, cancel := context.WithTimeout(testContext(t), 50*time.Millisecond)
	defer cancel()
	if _, err := Open(ctx, Options{Brokers: []string{silent.Addr().String()}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("nobody answers: %v", err)
	}
}

// Another process may have made the topic a moment ago, and the layout that we know be older.
func TestTopicMadeElsewhere(t *testing.T) {
	l := openTopic(t)
	ctx := testContext(t)
	other, err := Open(ctx, Options{Brokers: l.Addr()})
	noError(t, err)
	defer other.Close()
	if other.Embedded() {
		t.Error("a connection is no broker")
	}
	must(other.Append(ctx, "t", 0, numbered(0, 10)))(t)
	noError(t, l.Create(ctx, Topic{Name: "u", Partitions: 2}))
	must(other.Append(ctx, "u", 1, numbered(0, 10)))(t)
	if n, err := other.Partitions(ctx, "u"); n != 2 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
}

func TestFitFillsRequests(t *testing.T) {
	for name, c := range map[string]struct {
		sizes []int
		limit int
		want  int
	}{
		"one that fits":            {[]int{10}, 1000, 1},
		"one that does not":        {[]int{2000}, 1000, 1},
		"the next one would not":   {[]int{400, 400, 400}, 1000, 2},
		"a large one comes second": {[]int{10, 2000}, 1000, 1},
		"just at the limit":        {[]int{1000 - 61 - 36}, 1000, 1},
	} {
		var messages []Message
		for _, size := range c.sizes {
			messages = append(messages, Message{Value: make([]byte, size)})
		}
		if n, size := fit(messages, c.limit); n != c.want || (n > 1 && size > c.limit) {
			t.Errorf("%s: %d messages of %d bytes, want %d", name, n, size, c.want)
		}
	}
}
