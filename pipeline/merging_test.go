package pipeline

import (
	"flag"
	"testing"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

var updates = flag.Int("updates", 400, "make this number of updates with room for few terms")

// With room for the fewest terms a chain goes on, however many increments are merged, and an update visits no more rows
// than `retrain.refresh` says.
func TestManyUpdatesWithRoomForFewTerms(t *testing.T) {
	long(t)
	const rows = 8
	log, job := openEmbedded(t), standingJob(t, 1)
	job.Retrain.Rows, job.Retrain.Refresh, job.Memory, job.Keep = rows, 1, 1, 5
	job.Topics = topics.DefaultTopics()
	job.Topics.State = 1
	messages := 0
	produceMore := func(n int) {
		for range n {
			produce(t, log, job, 0, exampleMessage(t, rings(rows, 4, 3, uint64(messages)).exampleRows()))
			messages++
		}
	}
	var visited int64
	versions, full, most := 0, 0, int64(0)
	rec := recorderFunc(func(e event.Event) {
		switch e := e.(type) {
		case event.Visited:
			if e.Stage == 0 && e.Visit == 0 {
				visited += e.Rows
			}
		case event.Retrained:
			versions++
			if e.Kind == schemas.RunUpdate {
				most = max(most, visited)
			} else if versions > 1 { // the gate has withheld a version
				full++
			}
			visited = 0
		}
	})
	for versions < *updates { // each start goes on from the topics
		produceMore(min(100, *updates-versions))
		if _, err := Retrain(t.Context(), log, openBLAS(t), job, true, rec); err != nil {
			t.Fatalf("after %d versions: %v", versions, err)
		}
	}
	if limit := int64(rows * (1 + job.Retrain.Refresh)); most > limit {
		t.Errorf("an update visits %d rows, expected at most %d", most, limit)
	}
	w := newestWindow(t, log, job)
	if groups := len(w.Groups()); len(w.Increments) != w.Chain.Number-full || groups > int(job.Retrain.FewestTerms()) {
		t.Errorf("the window has %d increments in %d groups, expected %d in at most %d", len(w.Increments), groups, w.Chain.Number-full,
			job.Retrain.FewestTerms())
	}
}
