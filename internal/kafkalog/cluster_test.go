package kafkalog

import (
	"net"
	"strconv"
	"testing"

	"github.com/twmb/franz-go/pkg/kfake"
)

// startCluster starts brokers that are not embedded.
func startCluster(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, []string) {
	t.Helper()
	cluster := must(kfake.NewCluster(options...))(t)
	t.Cleanup(cluster.Close)
	return cluster, cluster.ListenAddrs()
}

func connect(t *testing.T, addresses []string) *Log {
	t.Helper()
	l := must(Open(testContext(t), Options{Brokers: addresses}))(t)
	t.Cleanup(func() { noError(t, l.Close()) })
	return l
}

// appendAndFollow appends the messages from … to−1 one by one and reads each with the follower.
func appendAndFollow(t *testing.T, l *Log, f *Follower, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		must(l.Append(testContext(t), "t", 0, numbered(i, 10)))(t)
		if m := must(f.Next(testContext(t)))(t); m.Offset != int64(i) || number(m) != strconv.Itoa(i) {
			t.Fatalf("message %d is %s@%d", i, number(m), m.Offset)
		}
	}
}

func TestThreeBrokers(t *testing.T) {
	cluster, addresses := startCluster(t, kfake.NumBrokers(3))
	l := connect(t, addresses[:1])
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	if config, err := l.Configs(ctx, "t"); err != nil || config["t"]["min.insync.replicas"] != "2" {
		t.Errorf("min.insync.replicas %q, %v", config["min.insync.replicas"], err)
	}
	m := must(l.metadata(ctx, []string{"t"}))(t)
	if n := len(m.Topics[0].Partitions[0].Replicas); n != 3 {
		t.Errorf("%d replicas", n)
	}

	// The leader moves. A client learns of it from an error.
	f := l.Follow("t", 0, 0)
	defer f.Close()
	for i := range 6 {
		noError(t, cluster.MoveTopicPartition("t", 0, int32(i%3)))
		appendAndFollow(t, l, f, 5*i, 5*i+5)
	}
	// The leader leaves the cluster. A client learns of it from a broken connection.
	noError(t, cluster.MoveTopicPartition("t", 0, 2))
	appendAndFollow(t, l, f, 30, 31)
	noError(t, cluster.RemoveNode(2))
	appendAndFollow(t, l, f, 31, 40)
}

// While no broker is reachable, a topic is not reported as unknown.
func TestBrokersComeBack(t *testing.T) {
	dir := t.TempDir()
	cluster, addresses := startCluster(t, kfake.NumBrokers(1), kfake.DataDir(dir))
	l := connect(t, addresses)
	l.unknownTimeout = 0
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	f := l.Follow("t", 0, 0)
	defer f.Close()
	appendAndFollow(t, l, f, 0, 3)
	cluster.Close()

	refused := make(chan struct{})
	go func() {
		defer close(refused)
		listener, err := net.Listen("tcp", addresses[0])
		if err != nil {
			t.Error(err)
			return
		}
		defer listener.Close()
		for range 16 {
			if conn, err := listener.Accept(); err == nil {
				conn.Close()
			}
		}
	}()
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		if offset, err := l.Append(testContext(t), "t", 0, numbered(3, 10)); offset != 3 || err != nil {
			t.Errorf("append during the outage: %d, %v", offset, err)
		}
	}()
	<-refused
	_, port, err := net.SplitHostPort(addresses[0])
	noError(t, err)
	number := must(strconv.Atoi(port))(t)
	startCluster(t, kfake.Ports(number), kfake.DataDir(dir))
	<-appended
	if m := must(f.Next(testContext(t)))(t); m.Offset != 3 {
		t.Errorf("the follower continues at %d", m.Offset)
	}
	appendAndFollow(t, l, f, 4, 6)
}
