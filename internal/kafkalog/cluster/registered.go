package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Brokers returns the number of live brokers, and of all known brokers of the cluster: live ones, registered ones that are
// down, which brokers since Kafka 4.0 report, and those with replicas of a topic.
func (c *Cluster) Brokers(ctx context.Context) (up, all int, err error) {
	answer, _, err := c.ask(ctx, &metadata.Request{})
	if err != nil {
		return 0, 0, err
	}
	known := map[int32]bool{}
	for _, broker := range answer.Brokers {
		known[broker.NodeID] = true
	}
	up = len(known)
	for _, topic := range answer.Topics {
		for _, partition := range topic.Partitions {
			for _, broker := range partition.ReplicaNodes {
				known[broker] = true
			}
		}
	}
	described, err := c.sendToAny(ctx, &describeCluster{clientID: c.options.ClientID})
	if err != nil {
		return 0, 0, err
	}
	for _, broker := range described.(*describedCluster).brokers {
		known[broker] = true
	}
	return up, len(known), nil
}

// describeCluster is Kafka's DescribeCluster request, which kafka-go lacks, including fenced brokers.
type describeCluster struct {
	clientID  string
	supported bool // by the broker
}

// describedCluster is the response: the ids of the brokers. It is empty if the broker doesn't support the request.
type describedCluster struct{ brokers []int32 }

const (
	describeClusterKey protocol.ApiKey = 60
	withBrokersDown    int16           = 2 // the first version with fenced brokers
)

//lint:ignore ST1003 the name is that of kafka-go's interface
func (*describeCluster) ApiKey() protocol.ApiKey { return describeClusterKey }

//lint:ignore ST1003 the name is that of kafka-go's interface
func (*describedCluster) ApiKey() protocol.ApiKey { return describeClusterKey }

// Required makes a connection call RawExchange, because kafka-go has no table for this request.
func (r *describeCluster) Required(versions map[protocol.ApiKey]int16) bool {
	r.supported = versions[describeClusterKey] >= withBrokersDown
	return true
}

// RawExchange sends the request and reads the response.
func (r *describeCluster) RawExchange(conn io.ReadWriter) (protocol.Message, error) {
	if !r.supported {
		return &describedCluster{}, nil
	}
	request := kmsg.NewPtrDescribeClusterRequest()
	request.SetVersion(withBrokersDown)
	request.IncludeFencedBrokers = true
	if _, err := conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID(r.clientID)).AppendRequest(nil, request, 0)); err != nil {
		return nil, err
	}
	var size int32
	if err := binary.Read(conn, binary.BigEndian, &size); err != nil {
		return nil, err
	}
	const header = 4 + 1 // correlation id, and no tags
	if size < header || size > 1<<20 {
		return nil, fmt.Errorf("an answer of %d bytes to a request for the brokers of the cluster", size)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(conn, body); err != nil {
		return nil, err
	}
	response := kmsg.NewPtrDescribeClusterResponse()
	response.SetVersion(withBrokersDown)
	if err := response.ReadFrom(body[header:]); err != nil {
		return nil, fmt.Errorf("decode the brokers of the cluster: %w", err)
	}
	if response.ErrorCode != 0 {
		return nil, kafka.Error(response.ErrorCode)
	}
	answer := &describedCluster{}
	for _, broker := range response.Brokers {
		answer.brokers = append(answer.brokers, broker.NodeID)
	}
	return answer, nil
}
