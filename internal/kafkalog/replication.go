package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
)

// usualReplicas is how many replicas each message has in a cluster that has so many brokers: one broker can fail, and another be restarted.
const usualReplicas = 3

// ReplicationError means that topics can't have their replicas, as too few brokers are up.
type ReplicationError struct {
	// Topic is the first of the topics, and Others is how many more there are.
	Topic  string
	Others int
	// Replicas is how many each message is to have.
	Replicas int
	// Chosen means that nobody asked for that number: it follows from the size of the cluster.
	Chosen bool
	// Up is how many brokers are up, and Brokers how many the cluster has.
	Up, Brokers int
}

func (e *ReplicationError) Error() string {
	topics, why := e.Topic, "as topics.replication says"
	if e.Others > 0 {
		topics = fmt.Sprintf("%s and %d more", e.Topic, e.Others)
	}
	if e.Chosen {
		why = fmt.Sprintf("as the cluster has %d brokers and topics.replication is 0", e.Brokers)
	}
	allow := "1"
	if e.Up > 1 {
		allow = fmt.Sprintf("%d or fewer", e.Up)
	}
	return fmt.Sprintf("%s would get %d replicas, %s, but only %d of %d brokers can be reached: start the others, or set "+
		"topics.replication to %s",
		topics, e.Replicas, why, e.Up, max(e.Up, e.Brokers), allow)
}

// missing returns those of the topics that do not exist, with the number of their replicas, or a *ReplicationError. Brokers that have just
// started may know neither the topics nor each other, so it waits for a moment before that is an error.
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
			// Whoever may not describe a topic is not told whether it exists.
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

// replicate sets the number of replicas of topics that are created. It returns a *ReplicationError if there are too few brokers for one.
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
