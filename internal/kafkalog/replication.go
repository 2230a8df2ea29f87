package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// usualReplicas is the default replication factor: with it, one broker can fail while another is restarted.
const usualReplicas = 3

// ReplicationError means that too few brokers are up for the replication factor of topics.
type ReplicationError struct {
	// Topic is the first of the topics, and Others the number of further ones.
	Topic  string
	Others int
	// Replicas is the replication factor.
	Replicas int
	// Chosen means that the replication factor was not configured, but derived from the size of the cluster.
	Chosen bool
	// Up is the number of live brokers, and Brokers that of the cluster.
	Up, Brokers int
}

// Error includes the resulting replication and the remedy.
func (e *ReplicationError) Error() string {
	topics, why := e.Topic, "as topics.replication says"
	if e.Others > 0 {
		topics = fmt.Sprintf("%s and %d more", e.Topic, e.Others)
	}
	if e.Chosen {
		why = fmt.Sprintf("because the cluster has %d brokers and topics.replication is 0", e.Brokers)
	}
	allow := "1"
	if e.Up > 1 {
		allow = fmt.Sprintf("%d or fewer", e.Up)
	}
	return fmt.Sprintf("%s would get %d replicas, %s, but only %d of %d brokers can be reached: start the others, or set "+
		"topics.replication to %s",
		topics, e.Replicas, why, e.Up, max(e.Up, e.Brokers), allow)
}

// missing returns the topics that do not exist, with their replication factors, or a *ReplicationError. Brokers that have
// just started may know neither the topics nor each other, so it waits briefly before it returns that error.
func (l *Log) missing(ctx context.Context, topics []Topic) (missing []Topic, err error) {
	var short *ReplicationError
	began := time.Now()
	err = l.attempt(ctx, "", "find out which topics exist", func(ctx context.Context) error {
		missing, short = nil, nil
		m, err := l.metadata(ctx, names(topics))
		if err != nil {
			return err
		}
		absent := map[string]bool{}
		for _, t := range m.Topics {
			// Without permission to describe a topic, one can't tell whether it exists.
			err := failure(t.ErrorCode)
			absent[*t.Topic] = unknown(err) || errors.Is(err, kafka.TopicAuthorizationFailed)
		}
		for _, t := range topics {
			if absent[t.Name] {
				missing = append(missing, t)
			}
		}
		if short, err = l.replicate(ctx, missing); short != nil && time.Since(began) < l.unknownTimeout {
			return fmt.Errorf("%w: %w", short, errPending)
		}
		return err
	})
	if err == nil && short != nil {
		err = short
	}
	return missing, err
}

// replicate sets the replication factor of topics to create. It returns a *ReplicationError if there are too few brokers
// for one.
func (l *Log) replicate(ctx context.Context, topics []Topic) (short *ReplicationError, err error) {
	if len(topics) == 0 {
		return nil, nil
	}
	up, all := 1, 1
	if !l.Embedded() {
		if up, all, err = l.brokers(ctx); err != nil {
			return nil, err
		}
	}
	for i := range topics {
		t := &topics[i]
		chosen := t.Replication == 0
		switch {
		case l.Embedded(), chosen && all < usualReplicas:
			t.Replication = 1
		case chosen:
			t.Replication = usualReplicas
		}
		switch {
		case t.Replication <= up:
		case short == nil:
			short = &ReplicationError{Topic: t.Name, Replicas: t.Replication, Chosen: chosen, Up: up, Brokers: all}
		default:
			short.Others++
		}
	}
	return short, nil
}

// brokers returns the number of live brokers, and of all known brokers of the cluster: live ones, registered ones that are
// down, which brokers since Kafka 4.0 report, and those with replicas of a topic.
func (l *Log) brokers(ctx context.Context) (up, all int, err error) {
	found, err := l.metadata(ctx, nil)
	if err != nil {
		return 0, 0, err
	}
	known := map[int32]bool{}
	for _, broker := range found.Brokers {
		known[broker.NodeID] = true
	}
	up = len(known)
	for _, topic := range found.Topics {
		for _, partition := range topic.Partitions {
			for _, broker := range partition.Replicas {
				known[broker] = true
			}
		}
	}
	const withBrokersDown = 2 // the first version of DescribeCluster with brokers that are down
	supported, err := send[*kmsg.ApiVersionsResponse](ctx, l, controller, kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return 0, 0, err
	}
	request := kmsg.NewPtrDescribeClusterRequest()
	request.IncludeFencedBrokers = true
	for _, api := range supported.ApiKeys {
		if api.ApiKey != request.Key() || api.MaxVersion < withBrokersDown {
			continue
		}
		described, err := l.exchange(ctx, &call{request: request, broker: controller, version: withBrokersDown})
		if err != nil {
			return 0, 0, err
		}
		response := described.Response.(*kmsg.DescribeClusterResponse)
		if err := failure(response.ErrorCode); err != nil {
			return 0, 0, err
		}
		for _, broker := range response.Brokers {
			known[broker.NodeID] = true
		}
	}
	return up, len(known), nil
}
