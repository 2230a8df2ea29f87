package pipeline

import (
	"context"
	"testing"
	"time"

	"github.com/stagewise/stagewise/pipeline/admin"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// Where all rows of the window are forgotten, no run fails: the chain begins again with the next rows, and does not
// learn again what it has counted and what has left the window.
func TestChainBeginsAgainWhereAllIsForgotten(t *testing.T) {
	long(t)
	job := newJob(t, rings(640, 4, 3, 1), table{}, rffStage("softmax", 20, 3))
	job.Examples.Partitions, job.Keep, job.Retrain = 1, 1000, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.Window.Increments, job.Retrain.Refresh = 128, topics.FullOptions{}, 2, 0
	log := openEmbedded(t)
	retrain := func() []*schemas.RetrainReport {
		t.Helper()
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		return report.Updates
	}
	if made := retrain(); len(made) != 5 {
		t.Fatalf("%d versions, expected 5: %+v", len(made), made)
	}
	// the window, of which no update can be made without the rows
	forget(t, log, job, admin.ToForget{Rows: rowsNamed(t, job, "test.examples/0/6-9")})
	for range 2 {
		if made := retrain(); len(made) > 0 {
			t.Fatalf("versions of forgotten rows: %+v", made)
		}
	}
	if left := digests(t, log, job.Name); len(left) != 5 {
		t.Errorf("%d versions are left, expected 5: nothing can replace them yet", len(left))
	}
	produce(t, log, job, 0, exampleMessage(t, rings(130, 4, 3, 2).exampleRows()))
	made := retrain()
	if len(made) != 1 || made[0].Kind != schemas.RunFull || made[0].Rows != 130 || made[0].WindowRows != 130 || !made[0].Offered {
		t.Errorf("%+v, expected one version of the 130 rows that came", made)
	}
	produce(t, log, job, 0, exampleMessage(t, rings(131, 4, 3, 3).exampleRows()))
	if made := retrain(); len(made) != 1 || made[0].Kind != schemas.RunUpdate || made[0].Rows != 131 || made[0].WindowRows != 261 {
		t.Errorf("%+v, expected an update of 131 rows", made)
	}
	if left := digests(t, log, job.Name); len(left) != 5 { // of which three have left the window before what is forgotten came
		t.Errorf("%d versions are left, expected the three that have not learnt what is forgotten, and two", len(left))
	}
}

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
