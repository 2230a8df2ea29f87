package kafkalog

import (
	"context"
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"
)

// AddPartitions makes sure that a topic has at least that many partitions, and waits until those that it adds can be used. Other
// processes may do the same at the same time. It needs no permission to change a topic that has as many.
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
		// A topic that has as many or more by now is an invalid number of partitions. The next look decides.
		if err := response.Errors[topic]; err != nil && !errors.Is(err, kafka.InvalidPartitionNumber) {
			return err
		}
		return errPending
	})
	if asked {
		l.cluster.Forget(topic) // its layout lacks the partitions
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
