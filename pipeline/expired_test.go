package pipeline

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// deleteRecords deletes the messages of a partition before an offset, as retention does.
func deleteRecords(t *testing.T, log *kafkalog.Log, topic string, partition int32, before int64) {
	t.Helper()
	client := must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...)))(t)
	defer client.Close()
	request := kmsg.NewPtrDeleteRecordsRequest()
	request.TimeoutMillis = 10_000
	rt := kmsg.NewDeleteRecordsRequestTopic()
	rt.Topic = topic
	rp := kmsg.NewDeleteRecordsRequestTopicPartition()
	rp.Partition, rp.Offset = partition, before
	rt.Partitions = append(rt.Partitions, rp)
	request.Topics = append(request.Topics, rt)
	response := must(request.RequestWith(t.Context(), client))(t)
	noError(t, kerr.ErrorForCode(response.Topics[0].Partitions[0].ErrorCode))
}
