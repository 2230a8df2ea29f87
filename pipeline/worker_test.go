package pipeline

import (
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas"
)

// What ends a run is said until the run has ended: a broker may lose what it has acknowledged.
func TestFailureIsSaidUntilTheRunEnds(t *testing.T) {
	topics := topicsOf("t")
	log := &simLog{topics: map[string][]*simPartition{topics.plans: {{}}, topics.weights: {{}}, topics.statistics: {{}}}}
	d := desk{log: simJournal{simLog: log, actor: &actor{free: true}}, topics: topics, codec: formats{mem: memory.DefaultAllocator}}
	plan := &schemas.Plan{Name: "t", Warm: &schemas.Warm{}} // a version that is not there
	w := newWorker(d, nil, plan, 0, newAlone(0), 0, ignored{})
	failures := 0
	log.check = func(topic string, m schemas.Message) {
		if m.Kind() != schemas.KindFailure {
			return
		}
		if failures++; failures == 3 {
			end := &schemas.End{Run: w.run, State: schemas.Failed}
			log.topics[topics.plans][0].append(end.Message())
		}
	}
	if err := w.work(t.Context()); err != nil || failures != 3 {
		t.Errorf("%d failures, %v", failures, err)
	}
}
