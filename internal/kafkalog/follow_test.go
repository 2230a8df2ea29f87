package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Follow returns a reader of a partition as it grows.
func (l *Log) Follow(topic string, partition int, from int64) *Range {
	return l.Range(topic, partition, from, unbounded)
}

// received collects the deliveries of FollowAll.
type received struct {
	mutex    sync.Mutex
	messages map[int][]Message // by partition
	lost     int
	failures []error
	until    func(*received) bool
}

func (r *received) take(at int, m *Message, err error) bool {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	switch {
	case err != nil:
		r.failures = append(r.failures, err)
	case m == nil:
		r.lost++
	default:
		r.messages[at] = append(r.messages[at], *m)
	}
	return !r.until(r)
}

func (r *received) count() (n int) {
	for _, list := range r.messages {
		n += len(list)
	}
	return n
}

// FollowAll delivers each message of many partitions once, in order, existing and later ones, including large ones, and
// the remaining ones of a topic that has lost messages.
func TestFollowAll(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	const partitions, each = 40, 6
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: partitions}))
	write := func(p, from, to int) {
		for i := from; i < to; i++ {
			must(l.Append(ctx, "t", p, numbered(i, 10+p%3*200_000)))(t)
		}
	}
	var starts []Start
	for p := range partitions {
		write(p, 0, 3)
		starts = append(starts, Start{Topic: "t", Partition: p, Offset: int64(p % 2)})
	}
	noError(t, l.DeleteBefore(ctx, "t", 7, 2))
	starts[7].SkipDeleted = true
	noError(t, l.DeleteBefore(ctx, "t", 8, 2)) // an error without SkipDeleted
	starts[9].SkipDeleted, starts[9].Offset = true, 5
	r := &received{messages: map[int][]Message{}}
	r.until = func(r *received) bool {
		return r.count() == 19*each+18*(each-1)+4 && r.lost == 1 && len(r.failures) == 1
	}
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range partitions {
			if p != 9 {
				write(p, 3, each)
			}
		}
	})
	l.FollowAll(ctx, starts, r.take)
	writing.Wait()
	if !errors.As(r.failures[0], new(*DeletedError)) {
		t.Errorf("deleted messages: %v", r.failures)
	}
	for p, got := range r.messages {
		var want []int64
		for offset := starts[p].Offset; offset < each; offset++ {
			if p != 7 || offset >= 2 {
				want = append(want, offset)
			}
		}
		if p != 9 && !slices.Equal(offsets(got), want) {
			t.Errorf("partition %d: offsets %d, expected %d", p, offsets(got), want)
		}
	}
}

// An idle follower of a thousand partitions sends two requests a second, over one connection; one of a topic that does not
// exist ends.
func TestFollowAllIsIdle(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 300}))
	var starts []Start
	for p := range 300 {
		starts = append(starts, Start{Topic: "t", Partition: p})
	}
	following, stop := context.WithCancel(ctx)
	defer stop()
	r := &received{messages: map[int][]Message{}, until: func(r *received) bool { return r.count() == 1 }}
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.FollowAll(following, starts, r.take)
	}()
	must(l.Append(ctx, "t", 299, Message{Value: []byte("x")}))(t)
	<-done
	if fmt.Sprint(offsets(r.messages[299])) != "[0]" {
		t.Errorf("got %v", r.messages)
	}
	l.unknownTimeout = 0
	r = &received{messages: map[int][]Message{}, until: func(r *received) bool { return len(r.failures) > 0 }}
	l.FollowAll(ctx, []Start{{Topic: "none"}}, r.take)
	if len(r.failures) != 1 || !errors.Is(r.failures[0], ErrUnknownTopic) {
		t.Errorf("a topic that does not exist: %v", r.failures)
	}
}

func offsets(messages []Message) (list []int64) {
	for _, m := range messages {
		list = append(list, m.Offset)
	}
	return list
}

// A broker without a listener passes the common tests.
func TestEmbeddedWithoutPort(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *Log, string){
		"round trip": testRoundTrip, "large": testLarge, "larger": testLarger, "deleted": testDeleted, "deleted before": testDeleteBefore,
		"recreated": testRecreated, "follow": testFollow, "partitions": testPartitions,
	} {
		t.Run(name, func(t *testing.T) { test(t, openEmbedded(t), "t") })
	}
}

// down makes brokers report an additional broker that is down.
func down(cluster *kfake.Cluster, addresses []string) {
	cluster.ControlKey(int16(kmsg.DescribeCluster), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.DescribeClusterResponse)
		for id := range len(addresses) + 1 {
			if request.(*kmsg.DescribeClusterRequest).IncludeFencedBrokers || id < len(addresses) {
				b := kmsg.NewDescribeClusterResponseBroker()
				b.NodeID, b.Host, b.IsFenced = int32(id), "127.0.0.1", id == len(addresses)
				response.Brokers = append(response.Brokers, b)
			}
		}
		return response, nil, true
	})
}

// replicasOf returns the replication factor of a topic; 0 if it does not exist.
func replicasOf(t *testing.T, l *Log, topic string) int {
	t.Helper()
	for _, found := range must(l.Topics(testContext(t), topic))(t) {
		return found.Replication
	}
	return 0
}

// A topic never gets fewer replicas than specified: the configured replication factor, or the default for the number of
// brokers in the cluster, whether or not they are up.
func TestCreateNeverMakesFewerReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		up, replication int
		down            bool // whether an additional broker is registered
		want            int  // replication factor; 0: an error
		says            string
	}{
		"one broker":    {up: 1, want: 1},
		"two brokers":   {up: 2, want: 1},
		"three brokers": {up: 3, want: 3},
		"two of three": {up: 2, down: true, says: "t and 1 more would get 3 replicas, because the cluster has 3 " +
			"brokers and topics.replication is 0, but only 2 of 3 brokers can be reached: start the others, or set " +
			"topics.replication to 2 or fewer"},
		"two of three, two asked for": {up: 2, down: true, replication: 2, want: 2},
		"two of three, one asked for": {up: 2, down: true, replication: 1, want: 1},
		"one of two":                  {up: 1, down: true, want: 1},
		"three of four":               {up: 3, down: true, want: 3},
		"three asked for, but two exist": {up: 2, replication: 3,
			says: "t and 1 more would get 3 replicas, as topics.replication says, but only 2 of 2 brokers"},
		"two asked for, but one is there": {up: 1, replication: 2, says: "set topics.replication to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, addresses := startCluster(t, kfake.NumBrokers(c.up))
			if c.down {
				down(cluster, addresses)
			}
			l := connect(t, addresses)
			l.unknownTimeout = 0
			err := l.Create(testContext(t), Topic{Name: "t", Partitions: 1, Replication: c.replication}, Topic{Name: "t2", Partitions: 1,
				Replication: c.replication})
			if c.want > 0 {
				noError(t, err)
			} else if short, ok := errors.AsType[*ReplicationError](err); !ok || short.Up != c.up || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			if n := replicasOf(t, l, "t"); n != c.want {
				t.Errorf("%d replicas, want %d", n, c.want)
			}
		})
	}
}

// Brokers learn of a topic with a delay. Create waits for them longer than for a topic that may not exist.
func TestCreateWaitsUntilBrokersKnowTheTopics(t *testing.T) {
	cluster, addresses := startCluster(t, kfake.NumBrokers(1))
	l := connect(t, addresses)
	l.unknownTimeout = 100 * time.Millisecond
	made, hidden := time.Time{}, 5*l.unknownTimeout
	cluster.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		made = time.Now()
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := request.(*kmsg.MetadataRequest)
		if made.IsZero() || time.Since(made) > hidden || len(asked.Topics) == 0 {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range asked.Topics {
			answer := kmsg.NewMetadataResponseTopic()
			answer.Topic, answer.ErrorCode = topic.Topic, kerr.UnknownTopicOrPartition.Code
			response.Topics = append(response.Topics, answer)
		}
		host, port, _ := strings.Cut(addresses[0], ":")
		number, _ := strconv.Atoi(port)
		broker := kmsg.NewMetadataResponseBroker()
		broker.Host, broker.Port = host, int32(number)
		response.Brokers = append(response.Brokers, broker)
		return response, nil, true
	})
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	if time.Since(made) < hidden {
		t.Error("Create returned before the broker knew the topic")
	}
}

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
func appendAndFollow(t *testing.T, l *Log, f *Range, from, to int) {
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
