package kafkalog

import (
	"errors"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

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
