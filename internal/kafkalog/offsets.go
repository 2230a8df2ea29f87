package kafkalog

import (
	"context"
	"fmt"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/segmentio/kafka-go/protocol/listoffsets"
)

// Bounds is the range of readable offsets of a partition: [First, End).
type Bounds struct {
	// First is the first offset that is not deleted.
	First int64
	// End is the offset after the last message, or the first offset of an open transaction.
	End int64
}

// Bounds returns the first offset of a partition, and its end: the offset after the last message, or the first offset of
// an open transaction.
func (l *Log) Bounds(ctx context.Context, topic string, partition int) (first, end int64, err error) {
	b, err := l.bounds(ctx, fmt.Sprintf("find the bounds of %s[%d]", topic, partition), topic, partition)
	if err != nil {
		return 0, 0, err
	}
	return b[0].First, b[0].End, nil
}

// AllBounds returns the bounds of all partitions of a topic, in order. It sends two requests to each leader. The bounds
// are not a consistent snapshot.
func (l *Log) AllBounds(ctx context.Context, topic string) ([]Bounds, error) {
	what := "find the bounds of " + topic
	partitions, err := l.partitions(ctx, what, topic)
	if err != nil {
		return nil, err
	}
	return l.bounds(ctx, what, topic, partitions...)
}

// OffsetsAt returns, for each partition of a topic, the first offset whose message has the given timestamp or a later one,
// or the end of the partition if there is none. Timestamps are in milliseconds and set by producers, so later offsets may
// have earlier timestamps.
func (l *Log) OffsetsAt(ctx context.Context, topic string, t time.Time) ([]int64, error) {
	what := fmt.Sprintf("find the offsets of %s at %s", topic, t.Format(time.RFC3339))
	partitions, err := l.partitions(ctx, what, topic)
	if err != nil {
		return nil, err
	}
	// The ends come first. Otherwise messages written between the requests would be before the end and after the time.
	ends, err := l.offsets(ctx, what, topic, kafka.LastOffset, partitions)
	if err != nil {
		return nil, err
	}
	milliseconds := max(0, t.Add(time.Millisecond-1).UnixMilli()) // rounded up; negative numbers have special meanings
	offsets, err := l.offsets(ctx, what, topic, milliseconds, partitions)
	if err != nil {
		return nil, err
	}
	for p, offset := range offsets {
		if offset < 0 {
			offsets[p] = ends[p]
		}
	}
	return offsets, nil
}

// partitions returns the numbers of a topic's partitions.
func (l *Log) partitions(ctx context.Context, what, topic string) ([]int, error) {
	n, err := l.Partitions(ctx, topic)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	all := make([]int, n)
	for p := range all {
		all[p] = p
	}
	return all, nil
}

func (l *Log) bounds(ctx context.Context, what, topic string, partitions ...int) ([]Bounds, error) {
	// Brokers answer one query per partition in a request.
	first, err := l.offsets(ctx, what, topic, kafka.FirstOffset, partitions)
	if err != nil {
		return nil, err
	}
	end, err := l.offsets(ctx, what, topic, kafka.LastOffset, partitions)
	if err != nil {
		return nil, err
	}
	all := make([]Bounds, len(partitions))
	for i := range all {
		all[i] = Bounds{first[i], end[i]}
	}
	return all, nil
}

// offsets returns an offset of each partition: the first at or after a timestamp in milliseconds, or -1 if there is none;
// or that of kafka.FirstOffset or kafka.LastOffset. what describes the operation.
func (l *Log) offsets(ctx context.Context, what, topic string, timestamp int64, partitions []int) ([]int64, error) {
	offsets := make([]int64, len(partitions))
	err := l.retryOn(ctx, topic, what, func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, requestTimeout)
		defer cancel()
		message, err := l.cluster.RoundTrip(ctx, l.client.Addr, newByLeader(topic, timestamp, partitions))
		if err != nil {
			return err
		}
		found := make(map[int]int64, len(partitions))
		for _, t := range message.(*listoffsets.Response).Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode != 0 {
					return fmt.Errorf("partition %d: %w", p.Partition, kafka.Error(p.ErrorCode))
				}
				found[int(p.Partition)] = p.Offset
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
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return offsets, nil
}

// byLeader is a request for one offset of each partition of a topic, sent once to each leader. kafka-go would split it
// into a request for each partition, and report only kafka.Unknown if one of them has no leader.
type byLeader struct{ listoffsets.Request }

func newByLeader(topic string, timestamp int64, partitions []int) *byLeader {
	asked := make([]listoffsets.RequestPartition, len(partitions))
	for i, p := range partitions {
		asked[i] = listoffsets.RequestPartition{Partition: int32(p), CurrentLeaderEpoch: -1, Timestamp: timestamp}
	}
	return &byLeader{listoffsets.Request{
		ReplicaID: -1, IsolationLevel: int8(kafka.ReadCommitted), Topics: []listoffsets.RequestTopic{{Topic: topic, Partitions: asked}},
	}}
}

// Split returns one request for each leader.
func (r *byLeader) Split(cluster protocol.Cluster) ([]protocol.Message, protocol.Merger, error) {
	name := r.Topics[0].Topic
	var messages []protocol.Message
	requests := map[int32]*listoffsets.Request{}
	for _, p := range r.Topics[0].Partitions {
		found, ok := cluster.Topics[name].Partitions[p.Partition]
		if !ok {
			return nil, nil, protocol.NewErrNoPartition(name, p.Partition)
		}
		request := requests[found.Leader]
		if request == nil {
			request = &listoffsets.Request{
				ReplicaID: r.ReplicaID, IsolationLevel: r.IsolationLevel, Topics: []listoffsets.RequestTopic{{Topic: name}},
			}
			requests[found.Leader] = request
			messages = append(messages, request)
		}
		request.Topics[0].Partitions = append(request.Topics[0].Partitions, p)
	}
	return messages, r, nil
}

// Merge merges the responses of the leaders. If one has failed, it returns its error.
func (*byLeader) Merge(_ []protocol.Message, results []any) (protocol.Message, error) {
	all := &listoffsets.Response{}
	for _, result := range results {
		message, err := protocol.Result(result)
		if err != nil {
			return nil, err
		}
		all.Topics = append(all.Topics, message.(*listoffsets.Response).Topics...)
	}
	return all, nil
}
