package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxAppendBytes limits the size of one request, unless a single message is larger. Brokers accept record batches of up to
// 1,048,588 bytes by default (message.max.bytes), and a message of 900 KB must fit with its headers.
const maxAppendBytes = 1_000_000

// Append appends messages to a partition, in order. It returns the offset of the first message when all in-sync replicas
// have all messages, or -1 without messages. A long list takes several requests, and other producers may write in
// between. Append retries transient errors until ctx ends; after an error, the leading messages may be written. A request
// that the broker applied but answered with an error is sent again, so messages may be duplicated, but never reordered.
func (l *Log) Append(ctx context.Context, topic string, partition int, messages ...Message) (base int64, err error) {
	base = -1
	for limit := maxAppendBytes; len(messages) > 0; {
		n, size := fit(messages, limit)
		offset, err := l.produce(ctx, topic, partition, messages[:n])
		if errors.Is(err, kafka.MessageSizeTooLarge) && n > 1 {
			limit = size / 2 // the topic has a smaller max.message.bytes
			continue
		}
		if err != nil {
			return base, err
		}
		if base < 0 {
			base = offset
		}
		messages = messages[n:]
	}
	return base, nil
}

// fit returns the number of leading messages that fit into a record batch of limit bytes, at least one, and the batch's
// size.
func fit(messages []Message, limit int) (n, size int) {
	const (
		recordOverhead = 36 // upper bound: lengths, timestamp and offset deltas, number of headers
		headerOverhead = 10
	)
	size = headerBytes
	for _, m := range messages {
		record := recordOverhead + len(m.Key) + len(m.Value)
		for _, h := range m.Headers {
			record += headerOverhead + len(h.Key) + len(h.Value)
		}
		if n > 0 && size+record > limit {
			break
		}
		n, size = n+1, size+record
	}
	return n, size
}

// produce writes messages as one record batch.
func (l *Log) produce(ctx context.Context, topic string, partition int, messages []Message) (base int64, err error) {
	doubtful := false // brokers may have the messages of the previous attempt
	err = l.retry(ctx, topic, fmt.Sprintf("append to %s[%d]", topic, partition), func(ctx context.Context) (err error) {
		if doubtful && l.repeated != nil {
			l.repeated(topic)
		}
		defer func() { doubtful = mayBeWritten(err) }()
		leader, err := l.leader(ctx, topic, partition)
		if err != nil {
			return err
		}
		request := kmsg.NewPtrProduceRequest()
		request.Acks, request.TimeoutMillis = -1, int32(requestTimeout.Milliseconds())
		to, into := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
		into.Partition, into.Records = int32(partition), encode(messages, time.Now())
		to.Topic, to.Partitions = topic, append(to.Partitions, into)
		request.Topics = append(request.Topics, to)
		response, err := l.write(ctx, leader, request)
		if err != nil {
			return err
		}
		if len(response.Topics) != 1 || len(response.Topics[0].Partitions) != 1 {
			return errors.New("the broker's response has no offset")
		}
		written := response.Topics[0].Partitions[0]
		base, err = written.BaseOffset, failure(written.ErrorCode)
		if l.broker != nil && errors.Is(err, kafka.Unknown) {
			return l.broker.explain(err)
		}
		return err
	})
	return base, err
}

// write sends a write. The broker may apply it at any later time, even after the caller has checked the end of the
// partition and written the same messages again. So write does not abandon it at once when ctx ends, but waits up to
// writeTime for the response.
func (l *Log) write(ctx context.Context, broker int32, request *kmsg.ProduceRequest) (*kmsg.ProduceResponse, error) {
	if l.broker != nil {
		l.broker.writes.RLock()
		defer l.broker.writes.RUnlock()
	}
	whole, abandon := context.WithCancel(context.WithoutCancel(ctx))
	defer abandon()
	defer context.AfterFunc(l.ctx, abandon)()
	defer context.AfterFunc(ctx, func() {
		timeout := time.AfterFunc(writeTime, abandon)
		context.AfterFunc(whole, func() { timeout.Stop() })
	})()
	response, err := send[*kmsg.ProduceResponse](whole, l, broker, request)
	if err != nil && ctx.Err() != nil {
		err = ctx.Err()
	}
	return response, err
}

// mayBeWritten reports whether brokers may have the messages of a failed request. A broker that rejects a request has not
// appended them, except with the errors below; a connection that could not be opened has sent nothing.
func mayBeWritten(err error) bool {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return slices.Contains([]kafka.Error{kafka.RequestTimedOut, kafka.NotEnoughReplicasAfterAppend, kafka.NetworkException,
			kafka.KafkaStorageError, kafka.Unknown}, code)
	}
	op, ok := errors.AsType[*net.OpError](err)
	return err != nil && !(ok && op.Op == "dial")
}

// encode returns messages as an uncompressed record batch: https://kafka.apache.org/documentation/#recordbatch
func encode(messages []Message, at time.Time) []byte {
	b := kmsg.RecordBatch{PartitionLeaderEpoch: -1, Magic: 2, LastOffsetDelta: int32(len(messages) - 1), FirstTimestamp: at.UnixMilli(),
		MaxTimestamp: at.UnixMilli(), ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(messages))}
	var record []byte
	for i, m := range messages {
		r := kmsg.Record{OffsetDelta: int32(i), Key: m.Key, Value: m.Value}
		for _, h := range m.Headers {
			r.Headers = append(r.Headers, kmsg.Header(h))
		}
		record = r.AppendTo(record[:0])
		r.Length = int32(len(record) - 1) // without the length field, which is 0
		b.Records = r.AppendTo(b.Records)
	}
	return encodeBatch(b)
}
