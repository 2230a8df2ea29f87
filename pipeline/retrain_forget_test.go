package pipeline

import (
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/schemas"
)

// The version after rows were forgotten is full, whether a full run or an update has learnt them.
func TestFullAfterForgottenRows(t *testing.T) {
	long(t)
	for _, rows := range []string{"test.examples/0/1/3", "test.examples/0/3/3"} {
		log, job := openEmbedded(t), forgetfulJob(t)
		job.Stages = []schemas.Stage{rffStage(link.Identity, 16, 3)}
		learn := func() *Retraining {
			report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
			return report
		}
		produceRings(t, log, job, 0, 6) // two messages an update
		learn()
		forget(t, log, job, admin.ToForget{Rows: rowsNamed(t, job, rows)})
		produceRings(t, log, job, 6, 8)
		if updates := learn().Updates; len(updates) == 0 || updates[0].Kind != schemas.RunFull {
			t.Errorf("after %s was forgotten: %+v, expected first a full run", rows, updates)
		}
	}
}
