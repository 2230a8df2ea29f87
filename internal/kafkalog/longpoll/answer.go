package longpoll

import (
	"github.com/segmentio/kafka-go/protocol"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// kafka-go decodes a record set into records, and drops fields of the batch headers: append times and offset ranges. So
// fetch responses are registered here with the bytes of the set. kafka-go has one table for the whole process: its own
// Client.Fetch can't be used together with this package.
func init() { protocol.Register(&fetchapi.Request{}, &Answer{}) }

// Answer is fetchapi.Response with the bytes of each record set.
type Answer struct {
	ThrottleTimeMs int32   `kafka:"min=v1,max=v11"`
	ErrorCode      int16   `kafka:"min=v7,max=v11"`
	SessionID      int32   `kafka:"min=v7,max=v11"`
	Topics         []Topic `kafka:"min=v0,max=v11"`
}

// Topic is a topic of a response.
type Topic struct {
	Topic      string      `kafka:"min=v0,max=v11"`
	Partitions []Partition `kafka:"min=v0,max=v11"`
}

// Partition is a partition of a response.
type Partition struct {
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
func (*Answer) ApiKey() protocol.ApiKey { return protocol.Fetch }
