package kafkalog

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Bounds is the range of readable offsets of a partition: [First, End).
type Bounds struct {
	First int64 // the first offset that is not deleted
	End   int64 // the offset after the last message, or the first offset of an open transaction
}

// Bounds returns the first offset of a partition, and its end: the offset after the last message, or the first offset of
// an open transaction.
func (l *Log) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	what := fmt.Sprintf("find the bounds of %s[%d]", topic, partition)
	found, err := l.pairs(ctx, what, topic, kafka.FirstOffset, kafka.LastOffset, partition)
	if err != nil {
		return 0, 0, err
	}
	return found[0].First, found[0].End, nil
}

// AllBounds returns the bounds of all partitions of a topic, in order. It sends two requests to each leader. The bounds
// are not a consistent snapshot.
func (l *Log) AllBounds(ctx context.Context, topic string) ([]Bounds, error) {
	return l.pairs(ctx, "find the bounds of "+topic, topic, kafka.FirstOffset, kafka.LastOffset)
}

// OffsetsAt returns, for each partition of a topic, the first offset whose message has the given timestamp or a later one,
// or the end of the partition if there is none. Timestamps are in milliseconds and set by producers, so later offsets may
// have earlier timestamps.
func (l *Log) OffsetsAt(ctx context.Context, topic string, t time.Time) ([]int64, error) {
	// The ends come first. Otherwise messages written between the requests would be before the end and after the time.
	at := max(0, t.Add(time.Millisecond-1).UnixMilli()) // rounded up; negative numbers have special meanings
	what := fmt.Sprintf("find the offsets of %s at %s", topic, t.Format(time.RFC3339))
	found, err := l.pairs(ctx, what, topic, kafka.LastOffset, at)
	offsets := make([]int64, len(found))
	for p, f := range found {
		if offsets[p] = f.End; f.End < 0 {
			offsets[p] = f.First
		}
	}
	return offsets, err
}

// Uncommitted returns the range of offsets of each partition, in order, that can't be read until a transaction ends.
func (l *Log) Uncommitted(ctx context.Context, topic string) ([]Bounds, error) {
	// The ends of all messages come first: others may be written between the requests.
	open, err := l.pairs(ctx, "find the open transactions of "+topic, topic, lastUncommitted, kafka.LastOffset)
	for p, b := range open {
		open[p] = Bounds{b.End, b.First}
	}
	return open, err
}

// pairs returns the answers to two queries, one after the other, for each of the partitions, or for all if none is given. what describes
// the operation. Brokers answer one query per partition in a request.
func (l *Log) pairs(ctx context.Context, what, topic string, first, second int64, partitions ...int) ([]Bounds, error) {
	if partitions == nil {
		n, err := l.Partitions(ctx, topic)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
		for p := range n {
			partitions = append(partitions, p)
		}
	}
	a, err := l.offsets(ctx, what, topic, first, partitions)
	if err != nil {
		return nil, err
	}
	b, err := l.offsets(ctx, what, topic, second, partitions)
	if err != nil {
		return nil, err
	}
	all := make([]Bounds, len(partitions))
	for i := range all {
		all[i] = Bounds{a[i], b[i]}
	}
	return all, nil
}

// lastUncommitted asks for kafka.LastOffset including the messages from the first open transaction on.
const lastUncommitted = math.MinInt64

// offsets returns the answer to a query for each partition: the first offset at or after a timestamp in milliseconds, or -1 if there is
// none; or that of kafka.FirstOffset, kafka.LastOffset or lastUncommitted. It sends one request to each leader.
func (l *Log) offsets(ctx context.Context, what, topic string, query int64, partitions []int) ([]int64, error) {
	offsets := make([]int64, len(partitions))
	isolation := int8(1) // committed messages
	if query == lastUncommitted {
		query, isolation = kafka.LastOffset, 0
	}
	err := l.retry(ctx, topic, what, func(ctx context.Context) error {
		requests := map[int32]*kmsg.ListOffsetsRequest{} // by leader
		for _, p := range partitions {
			leader, err := l.leader(ctx, topic, p)
			if err != nil {
				return err
			}
			if requests[leader] == nil {
				request := kmsg.NewPtrListOffsetsRequest()
				request.ReplicaID, request.IsolationLevel = -1, isolation
				request.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: topic}}
				requests[leader] = request
			}
			asked := kmsg.NewListOffsetsRequestTopicPartition()
			asked.Partition, asked.Timestamp = int32(p), query
			to := &requests[leader].Topics[0]
			to.Partitions = append(to.Partitions, asked)
		}
		found := make(map[int]int64, len(partitions))
		for leader, request := range requests {
			response, err := send[*kmsg.ListOffsetsResponse](ctx, l, leader, request)
			if err != nil {
				return err
			}
			for _, t := range response.Topics {
				for _, p := range t.Partitions {
					if err := failure(p.ErrorCode); err != nil {
						return fmt.Errorf("partition %d: %w", p.Partition, err)
					}
					found[int(p.Partition)] = p.Offset
				}
			}
		}
		for i, p := range partitions {
			offset, ok := found[p]
			if !ok {
				return fmt.Errorf("partition %d: %w", p, kafka.UnknownTopicOrPartition)
			}
			offsets[i] = offset
		}
		return nil
	})
	return offsets, err
}

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
		if b := l.broker; b != nil { // kfake records the end of a partition only in its segments, which are gone now, until it is stopped
			return b.running(func() error { return b.files.keepEnd(topic, partition, offset) })
		}
		return nil
	})
}

// Partitioner returns a function from a key to one of the partitions, the default partitioner of Kafka's Java client:
// topics with the same keys and numbers of partitions are co-partitioned.
func Partitioner(partitions int) func(key []byte) int {
	all := make([]int, partitions)
	for p := range all {
		all[p] = p
	}
	return func(key []byte) int { return kafka.Murmur2Balancer{}.Balance(kafka.Message{Key: key}, all...) }
}
