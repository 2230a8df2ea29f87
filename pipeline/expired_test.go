package pipeline

import (
	"maps"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas/coverage"
)

// What retention has left of a source counts in a run of the topic, and the report says how much is gone. A run of the file ingests
// it again.
func TestExpiredSource(t *testing.T) {
	job := newJob(t, rings(640, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.Partitions = 2 // five messages of 64 rows each
	log := openEmbedded(t)
	train(t, log, job)
	deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, 0, 3)
	foreign := job
	foreign.Examples.Train = nil
	report, _ := train(t, log, foreign)
	if want := (coverage.PassedOver{coverage.Expired: 3}); report.Rows != 7*64 || !maps.Equal(report.PassedOver, want) {
		t.Errorf("%d rows, passed over %v; expected %d and %v", report.Rows, report.PassedOver, 7*64, want)
	}
	deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, 1, 5) // nothing is left in partition 1
	report, _ = train(t, log, foreign)
	if want := (coverage.PassedOver{coverage.Expired: 8}); report.Rows != 2*64 || !maps.Equal(report.PassedOver, want) {
		t.Errorf("%d rows, passed over %v; expected %d and %v", report.Rows, report.PassedOver, 2*64, want)
	}
	if report, _ := train(t, log, job); report.Rows != 640 {
		t.Errorf("%d rows of the file, expected 640", report.Rows)
	}
	report, _ = train(t, log, foreign)
	if want := (coverage.PassedOver{coverage.Unsealed: 2}); report.Rows != 640 || !maps.Equal(report.PassedOver, want) {
		t.Errorf("%d rows, passed over %v; expected 640 and %v, as the file was ingested again", report.Rows, report.PassedOver, want)
	}
}

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
