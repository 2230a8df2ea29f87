package pipeline

import (
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
)

// Where an update could take forgotten rows away, the next version is full all the same if the last full run had read
// them: its means, deviations and bandwidth had seen them.
func TestFullAfterRowsThatTheMapsHaveSeen(t *testing.T) {
	for rows, kind := range map[string]string{"test.examples/0/1/3": schemas.RunFull, "test.examples/0/3/3": schemas.RunUpdate} {
		log, job := openEmbedded(t), forgetfulJob(t)
		job.Stages = []schemas.Stage{rffStage(link.Identity, 16, 3)}
		learn := func() *Retraining {
			report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
			if err != nil {
				t.Fatal(err)
			}
			return report
		}
		produceRings(t, log, job, 0, 6) // two messages an update
		learn()
		forget(t, log, job, admin.ToForget{Rows: rowsNamed(t, job, rows)})
		produceRings(t, log, job, 6, 8)
		if updates := learn().Updates; len(updates) == 0 || updates[0].Kind != kind {
			t.Errorf("after %s was forgotten: %+v, expected first the kind %s", rows, updates, kind)
		}
	}
}
