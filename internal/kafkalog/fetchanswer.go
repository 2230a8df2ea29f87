package kafkalog

import (
	"bytes"
	"fmt"

	"github.com/segmentio/kafka-go/protocol"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// kafka-go reads a record set into records, and drops what the headers of its batches say: when the broker got them, and which offsets they
// cover. So answers to a fetch are registered here with the bytes of the set. kafka-go has one table for the whole process: its own
// Client.Fetch can't be used beside this package.
func init() { protocol.Register(&fetchapi.Request{}, &fetchAnswer{}) }

// fetchAnswer is fetchapi.Response with the bytes of each record set.
type fetchAnswer struct {
	ThrottleTimeMs int32         `kafka:"min=v1,max=v11"`
	ErrorCode      int16         `kafka:"min=v7,max=v11"`
	SessionID      int32         `kafka:"min=v7,max=v11"`
	Topics         []fetchTopics `kafka:"min=v0,max=v11"`
}

type fetchTopics struct {
	Topic      string            `kafka:"min=v0,max=v11"`
	Partitions []fetchPartitions `kafka:"min=v0,max=v11"`
}

type fetchPartitions struct {
	Partition            int32                          `kafka:"min=v0,max=v11"`
	ErrorCode            int16                          `kafka:"min=v0,max=v11"`
	HighWatermark        int64                          `kafka:"min=v0,max=v11"`
	LastStableOffset     int64                          `kafka:"min=v4,max=v11"`
	LogStartOffset       int64                          `kafka:"min=v5,max=v11"`
	AbortedTransactions  []fetchapi.ResponseTransaction `kafka:"min=v4,max=v11"`
	PreferredReadReplica int32                          `kafka:"min=v11,max=v11"`
	RecordSet            recordbatch.Set                `kafka:"min=v0,max=v11"`
}

//lint:ignore ST1003 the name is that of kafka-go's interface
func (*fetchAnswer) ApiKey() protocol.ApiKey { return protocol.Fetch }

// plain returns the messages of a batch from an offset on, if it is not compressed. A message that is more than half of
// a batch shares its bytes. Others are copied: each would keep all of the batch in memory.
func plain(e recordbatch.Batch, partition int, from int64) ([]Message, error) {
	var messages []Message
	d := recordbatch.Decoder{Rest: e[recordbatch.HeaderBytes:], OK: true}
	for range e.Int32(recordbatch.AtCount) {
		r := recordbatch.Decoder{Rest: d.Bytes(), OK: true}
		r.Take(1) // attributes, of which there are none
		milliseconds := e.Int64(recordbatch.AtFirstTime) + r.Varint()
		m := Message{Partition: partition, Offset: e.Base() + r.Varint(), Time: e.Time(milliseconds), Key: r.Bytes(), Value: r.Bytes()}
		for headers := r.Varint(); headers > 0 && r.OK; headers-- {
			m.Headers = append(m.Headers, Header{string(r.Bytes()), r.Bytes()})
		}
		if !d.OK || !r.OK {
			return nil, fmt.Errorf("the records of the batch at offset %d are damaged", e.Base())
		}
		if m.Offset < from {
			continue
		}
		if len(m.Key)+len(m.Value) <= len(e)/2 {
			m.Key, m.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
			for i, h := range m.Headers {
				m.Headers[i].Value = bytes.Clone(h.Value)
			}
		}
		messages = append(messages, m)
	}
	return messages, nil
}
