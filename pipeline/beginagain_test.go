package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// If the next messages have no row to fit to, and all others would leave the window, nothing leaves it. An update with
// nothing to fit to would fail, be followed by a full run, and be made again, for ever.
func TestWindowKeepsRowsUntilOthersCome(t *testing.T) {
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages, job.Retrain = job.Stages[:1], topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window = 100, topics.FullOptions{}, topics.WindowOptions{Time: time.Millisecond}
	log := openEmbedded(t)
	retrain := func() []*schemas.RetrainReport {
		t.Helper()
		ctx, cancel := context.WithCancel(t.Context())
		made := 0
		report := must(Retrain(ctx, log, openBLAS(t), job, true, &eventRecorder{on: func(e event.Event) {
			if _, ok := e.(event.Retrained); ok {
				if made++; made > 1 {
					cancel()
				}
			}
		}}))(t)
		return report.Updates
	}
	for i, weights := range [][]float32{nil, make([]float32, 100), nil} {
		rows := rings(100, 4, 3, uint64(i)).exampleRows()
		rows.Weights = weights
		produce(t, log, job, 0, exampleMessage(t, rows))
		made := retrain()
		if want := []int64{100, 200, 100}[i]; len(made) != 1 || made[0].WindowRows != want {
			t.Errorf("%+v, expected one version whose window has %d rows", made, want)
		}
	}
}
