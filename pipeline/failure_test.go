package pipeline

import (
	"testing"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// A worker reports a failure until the run has ended: a broker may lose what it has acknowledged.
func TestFailureIsReportedUntilTheRunEnds(t *testing.T) {
	topics := run.TopicsOf("t")
	log := &simLog{topics: map[string][]*simPartition{topics.Plans: {{}}, topics.Weights: {{}}, topics.Statistics: {{}}}}
	client := &run.Client{Log: simClientLog{simLog: log, actor: &actor{free: true}}, Topics: topics, Codec: run.NewCodec(nil, 0)}
	plan := &schemas.Plan{Name: "t", Warm: &schemas.Warm{}} // a version that is not there
	w := worker.New(client, nil, plan, 0, run.NewAlone(0), worker.Options{}, event.Ignore{})
	failures := 0
	log.check = func(topic string, m schemas.Message) {
		if m.Kind() != schemas.KindFailure {
			return
		}
		if failures++; failures == 3 {
			end := &schemas.End{Run: plan.Run(), State: schemas.Failed}
			log.topics[topics.Plans][0].append(end.Message())
		}
	}
	if err := w.Work(t.Context()); err != nil || failures != 3 {
		t.Errorf("%d failures, %v", failures, err)
	}
}
