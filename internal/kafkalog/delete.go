package kafkalog

import (
	"context"
	"fmt"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// kafka-go's table of requests, which is filled by init functions, is extensible.
func init() { protocol.Register(&deleteRecords{}, &deletedRecords{}) }

// deleteRecords is Kafka's DeleteRecords request, versions 0 and 1, for one partition.
type deleteRecords struct {
	Topics    []deleteRecordsTopic `kafka:"min=v0,max=v1"`
	TimeoutMs int32                `kafka:"min=v0,max=v1"`
}

type deleteRecordsTopic struct {
	Name       string                   `kafka:"min=v0,max=v1"`
	Partitions []deleteRecordsPartition `kafka:"min=v0,max=v1"`
}

type deleteRecordsPartition struct {
	Index  int32 `kafka:"min=v0,max=v1"`
	Offset int64 `kafka:"min=v0,max=v1"` // the new start of the partition
}

//lint:ignore ST1003 the name is that of kafka-go's interface
func (*deleteRecords) ApiKey() protocol.ApiKey { return protocol.DeleteRecords }

// Broker returns the leader of the partition, which must handle the request.
func (r *deleteRecords) Broker(cluster protocol.Cluster) (protocol.Broker, error) {
	name, number := r.Topics[0].Name, r.Topics[0].Partitions[0].Index
	partition, ok := cluster.Topics[name].Partitions[number]
	if !ok {
		return protocol.Broker{}, protocol.NewErrNoPartition(name, number)
	}
	return cluster.Brokers[partition.Leader], nil
}

// deletedRecords is the response.
type deletedRecords struct {
	ThrottleTimeMs int32                 `kafka:"min=v0,max=v1"`
	Topics         []deletedRecordsTopic `kafka:"min=v0,max=v1"`
}

type deletedRecordsTopic struct {
	Name       string                    `kafka:"min=v0,max=v1"`
	Partitions []deletedRecordsPartition `kafka:"min=v0,max=v1"`
}

type deletedRecordsPartition struct {
	Index        int32 `kafka:"min=v0,max=v1"`
	LowWatermark int64 `kafka:"min=v0,max=v1"` // the new first offset of the partition
	ErrorCode    int16 `kafka:"min=v0,max=v1"`
}

//lint:ignore ST1003 the name is that of kafka-go's interface
func (*deletedRecords) ApiKey() protocol.ApiKey { return protocol.DeleteRecords }

// DeleteBefore deletes the messages of a partition before an offset. Kafka rejects this for compacted topics. Offsets that
// are already deleted are no error.
func (l *Log) DeleteBefore(ctx context.Context, topic string, partition int, offset int64) error {
	what := fmt.Sprintf("delete the messages of %s[%d] before offset %d", topic, partition, offset)
	err := l.retryOn(ctx, topic, what, func(ctx context.Context) error {
		first, _, err := l.Bounds(ctx, topic, partition)
		if err != nil || first >= offset {
			return err
		}
		asked, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		answer, err := l.cluster.RoundTrip(asked, l.client.Addr, &deleteRecords{
			Topics:    []deleteRecordsTopic{{Name: topic, Partitions: []deleteRecordsPartition{{int32(partition), offset}}}},
			TimeoutMs: int32(requestTimeout.Milliseconds()),
		})
		if err != nil {
			return err
		}
		for _, t := range answer.(*deletedRecords).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return kafka.Error(p.ErrorCode)
				}
			}
		}
		if l.broker != nil {
			return l.broker.KeepEnd(topic, partition, offset)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
