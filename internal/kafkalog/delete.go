package kafkalog

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteBefore deletes the messages of a partition before an offset. Kafka rejects this for compacted topics. Offsets that
// are already deleted are no error.
func (l *Log) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	what := fmt.Sprintf("delete the messages of %s[%d] before offset %d", topic, partition, offset)
	return l.retry(ctx, topic, what, func(ctx context.Context) error {
		first, _, err := l.Bounds(ctx, topic, partition)
		if err != nil || first >= offset {
			return err
		}
		leader, err := l.leader(ctx, topic, partition)
		if err != nil {
			return err
		}
		request := kmsg.NewPtrDeleteRecordsRequest()
		request.TimeoutMillis = int32(requestTimeout.Milliseconds())
		request.Topics = []kmsg.DeleteRecordsRequestTopic{{Topic: topic,
			Partitions: []kmsg.DeleteRecordsRequestTopicPartition{{Partition: int32(partition), Offset: offset}}}}
		response, err := send[*kmsg.DeleteRecordsResponse](ctx, l, leader, request)
		if err != nil {
			return err
		}
		for _, t := range response.Topics {
			for _, p := range t.Partitions {
				if err := failure(p.ErrorCode); err != nil {
					return err
				}
			}
		}
		if l.broker != nil {
			return l.broker.keepEnd(topic, partition, offset)
		}
		return nil
	})
}
