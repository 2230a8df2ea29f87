package longpoll

import (
	"math"
	"time"

	"github.com/segmentio/kafka-go"
	fetchapi "github.com/segmentio/kafka-go/protocol/fetch"
)

// Place is a partition of a topic.
type Place struct {
	Topic     string
	Partition int
}

// Wanted is a request for a partition: batches from an offset on, up to a number of bytes.
type Wanted struct {
	Place
	Offset   int64
	MaxBytes int32
}

// Request returns a fetch with a maximum wait. The byte limit is that of each partition: with a limit for the request,
// kfake omits the aborted transactions. It uses no fetch session.
func Request(wait time.Duration, wanted ...Wanted) *fetchapi.Request {
	request := &fetchapi.Request{ReplicaID: -1, MaxWaitTime: int32(wait.Milliseconds()), MinBytes: 1, MaxBytes: math.MaxInt32,
		IsolationLevel: int8(kafka.ReadCommitted), SessionEpoch: -1}
	topics := map[string]int{} // indices in the request
	for _, w := range wanted {
		at, known := topics[w.Topic]
		if !known {
			at = len(request.Topics)
			topics[w.Topic] = at
			request.Topics = append(request.Topics, fetchapi.RequestTopic{Topic: w.Topic})
		}
		request.Topics[at].Partitions = append(request.Topics[at].Partitions, fetchapi.RequestPartition{
			Partition: int32(w.Partition), CurrentLeaderEpoch: -1, FetchOffset: w.Offset, LogStartOffset: -1, PartitionMaxBytes: w.MaxBytes})
	}
	return request
}
