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

// layoutTimeout limits a metadata request, which brokers answer from memory: if this one has stopped, another may answer.
const layoutTimeout = 6 * time.Second

// layoutAge is the maximum age of the metadata. Brokers report when they no longer lead a partition, but a partitioned
// broker does not know it.
const layoutAge = 30 * time.Second

// errNoLayout means that no metadata was requested yet.
var errNoLayout = errors.New("the brokers of the cluster are not known")

func (c *Cluster) known() protocol.Cluster {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if time.Since(c.learnt) > layoutAge {
		c.layout = protocol.Cluster{}
	}
	return c.layout
}

// Forget invalidates the metadata of a topic, so that the next request for the topic refreshes it: a broker has reported
// that it is not the leader, or its metadata is outdated. Without a name, all metadata is invalidated.
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

// find passes the cached metadata to with, and refreshes it and tries once more if something is missing.
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

// missingIn reports whether an error means that the metadata lacks a topic, its partition or leader; with an empty topic,
// the brokers.
func missingIn(err error) (topic string, missing bool) {
	if e, ok := errors.AsType[*protocol.TopicError](err); ok {
		return e.Topic, true
	}
	if e, ok := errors.AsType[*protocol.TopicPartitionError](err); ok {
		return e.Topic, true
	}
	return "", errors.Is(err, errNoLayout)
}

// ask requests the metadata of topics from a broker, and returns the updated cache. Without a list (nil) it requests all
// topics, and caches only the brokers.
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

// learn merges a response into the cached metadata, and returns the result.
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

// Leaders returns the addresses of the leaders of a topic's partitions, by partition, without leaderless partitions.
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

// HostOf returns the host in a broker's description of a client. Kafka has a slash before it, as Java prints addresses,
// and the embedded broker a port after it.
func HostOf(client string) string {
	client = strings.TrimPrefix(client, "/")
	if host, _, err := net.SplitHostPort(client); err == nil {
		return host
	}
	return client
}
