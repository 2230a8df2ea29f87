package kafkalog

import (
	"net"
	"sync/atomic"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

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
func everyday(t *testing.T, l *Log, f *Follower, m *Member) {
	t.Helper()
	ctx := testContext(t)
	offset := must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
	if got := must(f.Next(ctx))(t); got.Offset != offset {
		t.Fatalf("offset %d, want %d", got.Offset, offset)
	}
	must(l.Append(ctx, "t", 1, numbered(0, 10)))(t)
	if got, err := read(t, l, "t", offset, offset+1); len(got) != 1 {
		t.Fatal(err)
	}
	must(l.AllBounds(ctx, "t"))(t)
	must(l.Partitions(ctx, "t"))(t)
	must(l.Exists(ctx, "t"))(t)
	must(l.Exists(ctx, "absent"))(t)
	must(l.Topics(ctx, ""))(t)
	must(l.Configs(ctx, "t"))(t)
	must(l.Owners(ctx, "g"))(t)
	must(l.IsEmbedded(ctx))(t)
	committed := make(chan error, 1)
	m.Commit(map[int]int64{0: offset}, func(err error) { committed <- err })
	noError(t, <-committed)
}

// Repeated calls in normal operation open no connections.
func TestSteadyStateOpensNoConnections(t *testing.T) {
	cluster, addresses, accepted := startCounting(t)
	l := connect(t, addresses[:1])
	l.unknownTimeout = 0 // for the topic that does not exist
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 3}))
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
			if rounds == 1000 {
				t.Fatalf("%d connections in 1000 rounds, and no end of it", before)
			}
		}
	}
	steady()
	for p := range 3 {
		noError(t, cluster.MoveTopicPartition("t", int32(p), int32(p+1)%3))
	}
	steady()
}

// A closed follower leaves a long poll behind. Once that has ended, its connection is reused.
func TestAbandonedPollKeepsItsConnection(t *testing.T) {
	_, addresses, accepted := startCounting(t)
	l := connect(t, addresses[:1])
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
	for round := range 100 {
		f := l.Follow("t", 0, int64(round))
		must(f.Next(ctx))(t)
		noError(t, f.Close())
		must(l.Append(ctx, "t", 0, numbered(0, 10)))(t) // ends the poll
	}
	if n := accepted.Load(); n > 20 {
		t.Errorf("100 followers, one after the other, opened %d connections", n)
	}
}
