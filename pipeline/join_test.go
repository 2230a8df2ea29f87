package pipeline

import (
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
)

// Partitions belong to who can work on them: a process that ingests is no member of the group of workers, and one that trains is.
func TestIngestIsNoMember(t *testing.T) {
	job := newJob(t, rings(3000, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	job.Examples.BatchRows = 8
	log := openEmbedded(t)
	client := must(kgo.NewClient(kgo.SeedBrokers(log.Addr()...)))(t)
	defer client.Close()
	members := func() int {
		request := kmsg.NewPtrDescribeGroupsRequest()
		request.Groups = []string{protocol.TopicsOf(job.Name).Workers()}
		response := must(request.RequestWith(t.Context(), client))(t)
		return len(response.Groups[0].Members)
	}
	ingesting, training, asked := 0, 0, 0
	recorder := &eventRecorder{on: func(e event.Event) {
		switch e.(type) {
		case event.Ingested:
			asked++
			ingesting = max(ingesting, members())
		case event.Passed:
			training = max(training, members())
		}
	}}
	if _, _, err := Train(t.Context(), connect(t, log), openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
		recorder); err != nil {
		t.Fatal(err)
	}
	if asked < 100 || ingesting != 0 || training != 1 {
		t.Errorf("asked %d times, the group of workers has %d members during ingest and %d during the run; expected 0 and 1", asked,
			ingesting, training)
	}
}
