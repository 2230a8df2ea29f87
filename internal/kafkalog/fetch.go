package kafkalog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math"
	"slices"
	"time"

	"github.com/segmentio/kafka-go/compress"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// fetchBytes and embeddedFetchBytes limit a fetch response, unless its first batch is larger. A reader holds up to two
	// responses. Measured with messages of 800 KB: Apache Kafka reads 700 MB/s in fetches of 4 MiB, 450 in fetches of 2, and
	// no more in larger ones; kfake, which grows its responses batch by batch, 280 in fetches of 4 MiB and 350 in fetches of
	// 2.
	fetchBytes         = 4 << 20
	embeddedFetchBytes = 2 << 20
	// minFetchBytes makes a fetch return the first batch only. Brokers return that batch whatever its size.
	minFetchBytes = 1
	// pollTime is the maximum wait of a fetch at the broker. A new message ends the wait at once.
	pollTime = 500 * time.Millisecond
	// maxBatchBytes limits a record batch after decompression. Brokers accept batches of 1 MiB by default
	// (message.max.bytes), and messages of examples do not compress by a factor of 256.
	maxBatchBytes = 256 << 20
)

// fetch reads batches of partitions led by one broker, up to maxBytes from each, from the position of each source on. If
// there are none it waits for one, at most for poll. The result has nil for partitions of which the broker says nothing.
// The byte limit is that of each partition: with a limit for the request, kfake omits the aborted transactions.
func (l *Log) fetch(ctx context.Context, broker int32, poll time.Duration, maxBytes int32, sources ...*source) (
	[]*kmsg.FetchResponseTopicPartition, error,
) {
	request := kmsg.NewPtrFetchRequest()
	request.MaxWaitMillis, request.MinBytes, request.MaxBytes = int32(poll.Milliseconds()), 1, math.MaxInt32
	request.IsolationLevel, request.SessionEpoch = 1, -1 // committed messages, without a session
	at := map[topicPartition]int{}
	for i, s := range sources {
		at[s.topicPartition] = i
		of := slices.IndexFunc(request.Topics, func(t kmsg.FetchRequestTopic) bool { return t.Topic == s.topic })
		if of < 0 {
			of = len(request.Topics)
			topic := kmsg.NewFetchRequestTopic()
			topic.Topic = s.topic
			request.Topics = append(request.Topics, topic)
		}
		partition := kmsg.NewFetchRequestTopicPartition()
		partition.Partition, partition.FetchOffset, partition.PartitionMaxBytes = int32(s.partition), s.position, maxBytes
		request.Topics[of].Partitions = append(request.Topics[of].Partitions, partition)
	}
	response, err := send[*kmsg.FetchResponse](ctx, l, broker, request)
	if err != nil {
		return nil, err
	}
	if err := failure(response.ErrorCode); err != nil {
		return nil, err
	}
	found := make([]*kmsg.FetchResponseTopicPartition, len(sources))
	for i := range response.Topics {
		t := &response.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if i, asked := at[topicPartition{t.Topic, int(p.Partition)}]; asked {
				found[i] = p
			}
		}
	}
	return found, nil
}

// decode returns the committed messages of a partition of a fetch response from an offset on, and the offset after its
// batches. The messages share the memory of the response. After an error in a batch the next fetch starts with that batch.
func decode(p *kmsg.FetchResponseTopicPartition, from int64) (messages []Message, next int64, err error) {
	if err := failure(p.ErrorCode); err != nil {
		return nil, from, err
	}
	options := kgo.ProcessFetchPartitionOpts{Offset: from, IsolationLevel: kgo.ReadCommitted(), Partition: p.Partition}
	found, next := kgo.ProcessFetchPartition(options, p, decompressor{}, nil)
	switch n := len(found.Records); {
	case found.Err != nil && n == 0:
		return nil, from, found.Err
	case found.Err != nil:
		next = found.Records[n-1].Offset + 1 // kgo skips a batch of an unknown version
	case next == from && len(p.RecordBatches) > 0:
		return nil, from, fmt.Errorf("the batch at offset %d is damaged", from)
	}
	for _, r := range found.Records {
		m := Message{Partition: int(p.Partition), Offset: r.Offset, Key: r.Key, Value: r.Value}
		if r.Timestamp.UnixMilli() >= 0 { // the producers of old clients write −1 for none
			m.Time = r.Timestamp
		}
		for _, h := range r.Headers {
			m.Headers = append(m.Headers, Header(h))
		}
		messages = append(messages, m)
	}
	return messages, next, nil
}

// decompressor decompresses record batches up to maxBatchBytes: one megabyte of zstd can decompress to thirty thousand.
type decompressor struct{}

// batchError is a record batch that decompresses to more than maxBatchBytes. Brokers do not reject such a batch: they limit
// the compressed size, and validate records one by one.
type batchError struct{}

func (batchError) Error() string {
	return fmt.Sprintf("a record batch decompresses to more than %d bytes", maxBatchBytes)
}

// Decompress implements [kgo.Decompressor].
func (decompressor) Decompress(source []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return source, nil
	}
	if int(codec) >= len(compress.Codecs) || compress.Codecs[codec] == nil {
		return nil, fmt.Errorf("compression %d is not known", codec)
	}
	r := compress.Codecs[codec].NewReader(bytes.NewReader(source))
	defer r.Close()
	var parts [][]byte // a buffer that grows would take three times the memory
	for whole := 0; ; {
		part := make([]byte, min(max(4*len(source), whole), 16<<20))
		n, err := io.ReadFull(r, part)
		parts, whole = append(parts, part[:n]), whole+n
		switch {
		case whole > maxBatchBytes:
			return nil, batchError{}
		case err == io.EOF || err == io.ErrUnexpectedEOF:
			return slices.Concat(parts...), nil
		case err != nil:
			return nil, err
		}
	}
}
