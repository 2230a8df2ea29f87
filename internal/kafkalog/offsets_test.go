package kafkalog

import (
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// AllBounds matches the bounds of the individual partitions: of an empty one, of one whose first messages are deleted, and
// of one with an open transaction.
func testAllBounds(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	l.unknownTimeout = 0
	if all, err := l.AllBounds(ctx, topic); !errors.Is(err, ErrUnknownTopic) {
		t.Fatalf("bounds of an unknown topic: %v, %v", all, err)
	}
	l.unknownTimeout = unknownTimeout
	want := []Bounds{{4, 10}, {0, 1}, {0, 0}, {0, 3}, {0, 4}, {0, 5}, {0, 6}}
	noError(t, l.Create(ctx, Topic{Name: topic, Partitions: len(want)}))
	for p, b := range want {
		if b.End > 0 {
			must(l.Append(ctx, topic, p, numberedUpTo(int(b.End), 10)...))(t)
		}
	}
	noError(t, l.DeleteBefore(ctx, topic, 0, 4))
	open := foreign(t, l, kgo.TransactionalID(topic))
	noError(t, open.BeginTransaction())
	noError(t, open.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 5, Value: []byte("uncommitted")}).FirstErr())
	got, err := l.AllBounds(ctx, topic)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v, want %v", got, err, want)
	}
	for p, b := range want {
		if first, end, err := l.Bounds(ctx, topic, p); first != b.First || end != b.End || err != nil {
			t.Errorf("partition %d: [%d, %d), %v, want %v", p, first, end, err, b)
		}
	}
	noError(t, open.EndTransaction(ctx, kgo.TryAbort))
}

// The offset at a time is that of the first message with that timestamp or a later one, or the end.
func testOffsetsAt(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: topic, Partitions: 3}))
	writer := foreign(t, l)
	start := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for p, seconds := range [][]float64{{0, 1, 1, 2, 10}, {}, {5, 3, 7}} { // timestamps of the messages of each partition
		for i, s := range seconds {
			r := record(topic, i)
			r.Partition, r.Timestamp = int32(p), at(s)
			noError(t, writer.ProduceSync(ctx, r).FirstErr())
		}
	}
	for _, c := range []struct {
		at   time.Time
		want []int64
	}{
		{time.Time{}, []int64{0, 0, 0}},
		{at(-1), []int64{0, 0, 0}},
		{at(0), []int64{0, 0, 0}},
		{at(0).Add(time.Microsecond), []int64{1, 0, 0}},
		{at(1), []int64{1, 0, 0}},
		{at(1.5), []int64{3, 0, 0}},
		{at(4), []int64{4, 0, 0}},
		{at(6), []int64{4, 0, 2}},
		{at(7), []int64{4, 0, 2}},
		{at(8), []int64{4, 0, 3}},
		{at(10), []int64{4, 0, 3}},
		{at(10.001), []int64{5, 0, 3}},
		{time.Now().Add(time.Hour), []int64{5, 0, 3}},
	} {
		if got, err := l.OffsetsAt(ctx, topic, c.at); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%v after the first message: %v, %v, want %v", c.at.Sub(start), got, err, c.want)
		}
	}
}

// The number of requests for offsets grows with the number of leaders, not of partitions.
func TestOffsetsOfManyPartitions(t *testing.T) {
	const partitions = 100
	cluster, addresses := startCluster(t, kfake.NumBrokers(3))
	l, ctx := connect(t, addresses), testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: partitions}))
	for p := range partitions { // each broker leads some
		noError(t, cluster.MoveTopicPartition("t", int32(p), int32(p%3)))
	}
	for _, p := range []int{0, 98, 99} {
		must(l.Append(ctx, "t", p, numberedUpTo(p+1, 10)...))(t)
	}
	var asked atomic.Int32
	cluster.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		asked.Add(1)
		return nil, nil, false
	})
	all := must(l.AllBounds(ctx, "t"))(t)
	for p, b := range all {
		want := Bounds{}
		if p == 0 || p >= 98 {
			want.End = int64(p + 1)
		}
		if b != want {
			t.Errorf("partition %d: %v, want %v", p, b, want)
		}
	}
	if n := asked.Load(); n != 6 || len(all) != partitions {
		t.Errorf("%d requests for %d bounds, want 6 for %d", n, len(all), partitions)
	}
	asked.Store(0)
	offsets, err := l.OffsetsAt(ctx, "t", time.Now().Add(time.Hour))
	if err != nil || len(offsets) != partitions || offsets[98] != 99 || asked.Load() != 6 {
		t.Errorf("%d requests for %v, %v", asked.Load(), offsets, err)
	}
}

// An error of a single partition is an error of all: transient errors are retried, others are returned.
func TestOffsetsOfAFailingPartition(t *testing.T) {
	cluster, addresses := startCluster(t, kfake.NumBrokers(2))
	l, ctx := connect(t, addresses), testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 5}))
	must(l.Append(ctx, "t", 3, numbered(0, 10)))(t)
	want := []Bounds{{}, {}, {}, {0, 1}, {}}
	three := []int32{3}
	for _, failure := range []*kerr.Error{kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.UnknownTopicOrPartition} {
		hit := cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "t", Partitions: three, Err: failure, Count: 3})
		if got, err := l.AllBounds(ctx, "t"); err != nil || !slices.Equal(got, want) || hit.Hits() != 3 {
			t.Errorf("%s: %v, %v after %d faults", failure.Message, got, err, hit.Hits())
		}
	}
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "t", Partitions: three, Err: kerr.TopicAuthorizationFailed,
		Count: -1})
	if got, err := l.AllBounds(ctx, "t"); !errors.As(err, new(*AccessError)) {
		t.Errorf("denied: %v, %v", got, err)
	}
	// Without permission to describe a topic, its leaders are unknown.
	cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "t", Err: kerr.TopicAuthorizationFailed, Count: -1})
	if first, end, err := connect(t, addresses).Bounds(ctx, "t", 3); !errors.As(err, new(*AccessError)) {
		t.Errorf("not in the layout: [%d, %d), %v", first, end, err)
	}
}
