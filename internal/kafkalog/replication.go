package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"

	"github.com/stagewise/stagewise/internal/kafkalog/cluster"
)

// usualReplicas is the default replication factor: with it, one broker can fail while another is restarted.
const usualReplicas = 3

// ReplicationError means that too few brokers are up for the replication factor of topics.
type ReplicationError = cluster.ReplicationError

// missing returns the topics that do not exist, with their replication factors, or a *ReplicationError. Brokers that have
// just started may know neither the topics nor each other, so it waits briefly before it returns that error.
func (l *Log) missing(ctx context.Context, topics []Topic) (missing []Topic, err error) {
	var short *ReplicationError
	began := time.Now()
	err = l.retry(ctx, "find out which topics exist", func(ctx context.Context) error {
		missing, short = nil, nil
		m, err := l.metadata(ctx, names(topics))
		if err != nil {
			return err
		}
		absent := map[string]bool{}
		for _, t := range m.Topics {
			// Without permission to describe a topic, one can't tell whether it exists.
			absent[t.Name] = unknown(t.Error) || errors.Is(t.Error, kafka.TopicAuthorizationFailed)
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
		if up, all, err = l.cluster.Brokers(ctx); err != nil {
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
