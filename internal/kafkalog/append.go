package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
)

// maxAppendBytes limits the size of one request, unless a single message is larger. Brokers accept record batches of up to
// 1,048,588 bytes by default (message.max.bytes), and a message of 900 KB must fit with its headers.
const maxAppendBytes = 1_000_000

// Append appends messages to a partition, in order. It returns the offset of the first once all in-sync replicas have all
// of them; without messages it returns -1. A long list takes several requests, and other producers may write in between.
// Append retries transient errors until ctx ends; after an error, the leading messages may be written. A request that the
// broker applied but answered with an error is sent again, so messages may be duplicated, but never reordered. The
// messages must not be modified afterwards: followers of the partition may share their bytes.
func (l *Log) Append(ctx context.Context, topic string, partition int, messages ...Message) (base int64, err error) {
	base, _, err = l.append(ctx, topic, partition, messages, false)
	return base, err
}

// AppendLent is Append for messages whose values the caller may overwrite afterwards, unless kept is set: then a request was repeated, and
// the one before may still be in progress.
func (l *Log) AppendLent(ctx context.Context, topic string, partition int, messages ...Message) (base int64, kept bool, err error) {
	return l.append(ctx, topic, partition, messages, true)
}

func (l *Log) append(ctx context.Context, topic string, partition int, messages []Message, lent bool) (base int64, kept bool, err error) {
	base = -1
	for limit := maxAppendBytes; len(messages) > 0; {
		n, size := fit(messages, limit)
		offset, repeated, err := l.produce(ctx, topic, partition, messages[:n], lent)
		kept = kept || repeated
		if errors.Is(err, kafka.MessageSizeTooLarge) && n > 1 {
			limit = size / 2 // the topic has a smaller max.message.bytes
			continue
		}
		if err != nil {
			return base, true, fmt.Errorf("append to %s[%d]: %w", topic, partition, err)
		}
		if base < 0 {
			base = offset
		}
		messages = messages[n:]
	}
	return base, kept, nil
}

// fit returns the number of leading messages that fit into a record batch of limit bytes, at least one, and the batch's
// size.
func fit(messages []Message, limit int) (n, size int) {
	const (
		batchOverhead  = 61 // the header of a record batch
		recordOverhead = 36 // upper bound: lengths, timestamp and offset deltas, number of headers
		headerOverhead = 10
	)
	size = batchOverhead
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

// produce writes messages as one record batch, and reports whether it has sent more than one request. If lent, nobody else gets their
// values.
func (l *Log) produce(ctx context.Context, topic string, partition int, messages []Message, lent bool) (base int64, repeated bool,
	err error) {
	requests := 0
	doubtful := false // brokers may have the messages of the previous attempt
	err = l.retryOn(ctx, topic, fmt.Sprintf("append to %s[%d]", topic, partition), func(ctx context.Context) (err error) {
		requests++
		if doubtful && l.repeated != nil {
			l.repeated(topic)
		}
		defer func() { doubtful = mayBeWritten(err) }()
		if l.broker != nil {
			if err := l.broker.BeginWrite(ctx); err != nil {
				return err
			}
			defer l.broker.EndWrite()
		}
		when, written := time.UnixMilli(time.Now().UnixMilli()), []Message(nil) // messages have milliseconds
		if l.tail != nil {
			l.tail.begin(topicPartition{topic, partition})
			defer func() { l.tail.end(topicPartition{topic, partition}, base, when, written, lent) }()
		}
		response, err := l.client.Produce(ctx, &kafka.ProduceRequest{
			Topic:        topic,
			Partition:    partition,
			RequiredAcks: kafka.RequireAll,
			Records:      protocol.NewRecordReader(records(messages, when)...),
		})
		if err != nil {
			return err
		}
		if base = response.BaseOffset; response.Error == nil {
			written = messages
		}
		if l.broker != nil && errors.Is(response.Error, kafka.Unknown) {
			return l.broker.Explain(response.Error)
		}
		return response.Error
	})
	return base, requests > 1, err
}

// mayBeWritten reports whether brokers may have the messages of a failed request. A broker that rejects a request has not
// appended them, except with the errors below; a connection that could not be opened has sent nothing.
func mayBeWritten(err error) bool {
	if code, ok := errors.AsType[kafka.Error](err); ok {
		return slices.Contains([]kafka.Error{kafka.RequestTimedOut, kafka.NotEnoughReplicasAfterAppend, kafka.NetworkException,
			kafka.KafkaStorageError, kafka.Unknown}, code)
	}
	op, ok := errors.AsType[*net.OpError](err)
	return err != nil && !(ok && op.Op == "dial") && !errors.Is(err, protocol.ErrNoLeader)
}

func records(messages []Message, when time.Time) []protocol.Record {
	list := make([]protocol.Record, len(messages))
	for i, m := range messages {
		list[i] = protocol.Record{Time: when, Key: protocol.NewBytes(m.Key), Value: protocol.NewBytes(m.Value)}
		for _, h := range m.Headers {
			list[i].Headers = append(list[i].Headers, protocol.Header{Key: h.Key, Value: h.Value})
		}
	}
	return list
}
