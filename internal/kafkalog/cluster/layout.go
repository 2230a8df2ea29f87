package cluster

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/metadata"
)

// layoutTimeout limits a request for the layout, which brokers answer from memory: another broker may answer if this one has stopped.
const layoutTimeout = 6 * time.Second

// layoutAge is how long the layout is believed. Brokers say so when they no longer lead a partition, but one that is cut off from the
// others does not know it.
const layoutAge = 30 * time.Second

// errNoLayout means that no broker was asked for the layout yet.
var errNoLayout = errors.New("the brokers of the cluster are not known")

func (c *Cluster) known() protocol.Cluster {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if time.Since(c.learnt) > layoutAge {
		c.layout = protocol.Cluster{}
	}
	return c.layout
}

// Forget makes the next request for a topic ask who leads its partitions: a broker has said that it does not, or what it says is out
// of date. Without a name, all is asked for again.
func (c *Cluster) Forget(topic string) {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if topic == "" {
		c.layout = protocol.Cluster{}
		return
	}
	topics := maps.Clone(c.layout.Topics)
	delete(topics, topic)
	c.layout.Topics = topics
}

// find calls with with the layout as it is known, and if something is missing in it once more, after it has asked for that.
func (c *Cluster) find(ctx context.Context, with func(protocol.Cluster) error) error {
	err := with(c.known())
	topic, missing := missingIn(err)
	if !missing {
		return err
	}
	request := &metadata.Request{TopicNames: []string{}}
	if topic != "" {
		request.TopicNames = append(request.TopicNames, topic)
	}
	answer, layout, err := c.ask(ctx, request)
	if err != nil {
		return fmt.Errorf("find the brokers: %w", err)
	}
	for _, t := range answer.Topics {
		if t.ErrorCode != 0 {
			return fmt.Errorf("find the leaders of %s: %w", t.Name, kafka.Error(t.ErrorCode))
		}
	}
	if err = with(layout); errors.Is(err, protocol.ErrNoTopic) || errors.Is(err, protocol.ErrNoPartition) {
		err = fmt.Errorf("%w: %w", err, kafka.UnknownTopicOrPartition)
	}
	return err
}

// missingIn reports whether an error says that the layout lacks a topic, its partition or leader; or, with an empty topic, the brokers.
func missingIn(err error) (topic string, missing bool) {
	if e, ok := errors.AsType[*protocol.TopicError](err); ok {
		return e.Topic, true
	}
	if e, ok := errors.AsType[*protocol.TopicPartitionError](err); ok {
		return e.Topic, true
	}
	return "", errors.Is(err, errNoLayout)
}

// ask asks a broker for the layout of topics, and returns what is known now. Without a list (nil) it asks about all topics, and keeps
// what the answer says about the brokers.
func (c *Cluster) ask(ctx context.Context, request *metadata.Request) (*metadata.Response, protocol.Cluster, error) {
	ctx, cancel := context.WithTimeout(ctx, layoutTimeout)
	defer cancel()
	response, err := c.sendToAny(ctx, request)
	if err != nil {
		return nil, protocol.Cluster{}, err
	}
	answer := response.(*metadata.Response)
	if len(answer.Topics) < len(request.TopicNames) {
		return nil, protocol.Cluster{}, fmt.Errorf("the layout of %d topics was asked for, the answer has %d", len(request.TopicNames),
			len(answer.Topics))
	}
	return answer, c.learn(request, answer), nil
}

// learn takes what a broker has said, and returns what is known now.
func (c *Cluster) learn(request *metadata.Request, answer *metadata.Response) protocol.Cluster {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	layout := protocol.Cluster{
		ClusterID: answer.ClusterID, Controller: answer.ControllerID,
		Brokers: map[int32]protocol.Broker{}, Topics: map[string]protocol.Topic{},
	}
	if len(c.layout.Topics) == 0 {
		c.learnt = time.Now()
	}
	maps.Copy(layout.Topics, c.layout.Topics)
	for _, b := range answer.Brokers {
		layout.Brokers[b.NodeID] = protocol.Broker{ID: b.NodeID, Host: b.Host, Port: b.Port, Rack: b.Rack}
	}
	for _, t := range answer.Topics {
		switch {
		case t.ErrorCode != 0:
			delete(layout.Topics, t.Name)
		case request.TopicNames != nil:
			layout.Topics[t.Name] = topicOf(t)
		}
	}
	c.layout = layout
	return layout
}

func topicOf(t metadata.ResponseTopic) protocol.Topic {
	topic := protocol.Topic{Name: t.Name, Partitions: map[int32]protocol.Partition{}}
	for _, p := range t.Partitions {
		topic.Partitions[p.PartitionIndex] = protocol.Partition{
			ID: p.PartitionIndex, Error: p.ErrorCode, Leader: p.LeaderID, Replicas: p.ReplicaNodes, ISR: p.IsrNodes, Offline: p.OfflineReplicas,
		}
	}
	return topic
}

// Leaders returns the addresses of the brokers that lead the partitions of a topic, by partition; of partitions without a leader none.
func (c *Cluster) Leaders(ctx context.Context, topic string) (leaders map[int]string, err error) {
	err = c.find(ctx, func(layout protocol.Cluster) error {
		t, known := layout.Topics[topic]
		if !known {
			return protocol.NewErrNoTopic(topic)
		}
		leaders = map[int]string{}
		for number, p := range t.Partitions {
			if b, known := layout.Brokers[p.Leader]; known {
				leaders[int(number)] = net.JoinHostPort(b.Host, strconv.Itoa(int(b.Port)))
			}
		}
		return nil
	})
	return leaders, err
}

// HostOf returns the host in what a broker says about a client. Kafka's has a slash before it, as Java prints addresses, the embedded
// broker's a port behind it.
func HostOf(client string) string {
	client = strings.TrimPrefix(client, "/")
	if host, _, err := net.SplitHostPort(client); err == nil {
		return host
	}
	return client
}
