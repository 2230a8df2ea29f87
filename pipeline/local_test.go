package pipeline

import (
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// A small update sends no statistics. Its versions are the same in one process, in processes that are interrupted, and with workers.
func TestSmallUpdatesAreNotDistributed(t *testing.T) {
	job := newJob(t, rings(5, 12, 3, 1), table{}, rffStage(link.Softmax, 40, 3), rffStage(link.Identity, 20, 1))
	job.Examples.Train, job.Examples.Partitions, job.Segment, job.Keep = nil, 4, 2, 100
	job.Topics, job.Retrain = topics.DefaultTopics(), topics.DefaultRetrain()
	job.Retrain.Refresh, job.Retrain.Decay, job.Retrain.Rows = 1, 0.9, 60
	job.Retrain.Window.Increments, job.Retrain.Full = 3, topics.FullOptions{Every: 100}
	log := openEmbedded(t)
	for n := range 18 {
		for partition := range 4 {
			produce(t, log, job, partition, exampleMessage(t, rings(5, 12, 3, uint64(100*partition+n)).exampleRows()))
		}
	}
	interrupted, workers := openEmbedded(t), openEmbedded(t)
	for _, m := range readTopic(t, log, job.Name+".examples") {
		produce(t, interrupted, job, m.Partition, m)
		produce(t, workers, job, m.Partition, m)
	}
	recorder := &eventRecorder{}
	must(Retrain(t.Context(), log, openBLAS(t), job, true, recorder))(t)
	want, plans := digests(t, log, job.Name), map[string]*schemas.Plan{}
	versions, err := topics.Open(log, job.Name, nil).Versions(t.Context())
	if err != nil || len(want) != 6 {
		t.Fatalf("versions %v, %v", want, err)
	}
	for _, v := range versions {
		plans[v.Run] = v.Plan
	}
	visited := map[string]bool{}
	for _, v := range eventsOf[event.Visited](recorder) {
		visited[v.Run] = true
	}
	if len(visited) != len(versions) {
		t.Errorf("visits to %d runs are recorded, expected %d", len(visited), len(versions))
	}
	for _, k := range readTopic(t, log, job.Name+".statistics") {
		m := protocol.FromKafka(k)
		if plan := plans[m.Run()]; plan == nil || plan.Update() != nil && (m.Kind() == statistics.KindVisit || !plan.Update().Local) {
			t.Errorf("a record of kind %s of an update", m.Kind())
		}
	}
	retrainInterrupted(t, interrupted, job, 20, 17)
	if got := digests(t, interrupted, job.Name); !slices.Equal(got, want) {
		t.Errorf("interrupted: versions %v, expected %v", got, want)
	}
	checkChainOfWorkers(t, workers, job, 2, want)
}
