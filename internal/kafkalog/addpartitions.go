package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// AddPartitions makes sure that a topic has at least the given number of partitions, and waits until added ones can be
// used. It may be called concurrently. It needs no permission to alter a topic that has enough partitions.
func (l *Log) AddPartitions(ctx context.Context, topic string, partitions int) error {
	what := fmt.Sprintf("add partitions to %s, up to %d", topic, partitions)
	asked := false
	err := l.retryOn(ctx, topic, what, func(ctx context.Context) error {
		m, err := l.metadata(ctx, []string{topic})
		if err != nil {
			return err
		}
		if m.Topics[0].Error != nil {
			return m.Topics[0].Error
		}
		have := m.Topics[0].Partitions
		if len(have) >= partitions {
			for _, p := range have {
				if asked && p.Error != nil {
					return p.Error
				}
			}
			return nil
		}
		asked = true
		response, err := l.client.CreatePartitions(ctx, &kafka.CreatePartitionsRequest{
			Topics: []kafka.TopicPartitionsConfig{{Name: topic, Count: int32(partitions)}},
		})
		if err != nil {
			return err
		}
		// A topic that already has as many or more gives InvalidPartitionNumber. The next check decides.
		if err := response.Errors[topic]; err != nil && !errors.Is(err, kafka.InvalidPartitionNumber) {
			return err
		}
		return errPending
	})
	if asked {
		l.cluster.Forget(topic) // its cached metadata lacks the partitions
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
