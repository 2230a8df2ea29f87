package pipeline

import (
	"context"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/pipeline/solver"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/schemas"
)

// On the embedded broker, a run of another configuration cancels an unfinished run: nobody else can be at work on it. The
// cancelled run does not come back.
func TestAnotherConfigurationSupersedes(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	trainUntil(t, log, job, func(e event.Event) bool { _, ok := e.(event.StageEnded); return ok })
	other := job
	other.Seed = 7
	recorder := &eventRecorder{}
	trainRecorded(t, log, other, recorder)
	if noticed := eventsOf[event.Noticed](recorder); len(noticed) != 1 || !strings.Contains(noticed[0].Text, "cancelled") {
		t.Errorf("notices %+v, expected one that the earlier run is cancelled", noticed)
	}
	recorder = &eventRecorder{}
	trainRecorded(t, log, job, recorder)
	if began := eventsOf[event.Began](recorder); len(began) != 1 || began[0].Resumed {
		t.Errorf("got events %+v, expected one run that is not resumed", began)
	}
}

// A solver that has not read yet that its run was cancelled publishes no version.
func TestCancelledRunMakesNoVersion(t *testing.T) {
	log, job, recorder := openEmbedded(t), newMultiStageJob(t), event.Serialised(&eventRecorder{})
	p, plan := submitJob(t, log, job, recorder)
	ctx, cancel := context.WithCancel(t.Context())
	worked := make(chan error)
	go func() {
		worked <- worker.New(p.Client, openBLAS(t), plan, 0, run.NewAlone(4), worker.Options{Bytes: 1 << 30}, recorder).Work(ctx)
	}()
	end := &schemas.End{Run: plan.Run(), State: schemas.Cancelled}
	if _, err := p.Log.Append(t.Context(), p.Topics.Plans, 0, end.Message()); err != nil {
		t.Fatal(err)
	}
	if err := solver.New(p.Client, openBLAS(t), plan, 0, run.NewAlone(1), recorder).Solve(t.Context()); err != nil {
		t.Error(err)
	}
	cancel()
	<-worked
	if versions, err := Versions(t.Context(), log, job.Name); err != nil || len(versions) != 0 {
		t.Errorf("%d versions, error %v; expected none", len(versions), err)
	}
}
