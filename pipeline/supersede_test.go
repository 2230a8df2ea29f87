package pipeline

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
)

// A trigger's run replaces the runs of triggers that wait, and no other: not the one that goes first, and none that somebody submitted
// by hand.
func TestTriggerReplacesWaitingRuns(t *testing.T) {
	log, job := openEmbedded(t), newJob(t, rings(100, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	p := topics.Open(log, job.Name, arrowtest.Allocator(t))
	noError(t, topics.Create(t.Context(), p, &job))
	files := must(source.IngestFiles(t.Context(), p, job, event.Ignore{}))(t)
	var submitted []string
	for i, trigger := range []bool{true, true, false, true, true} {
		job.Seed = uint64(i)
		l := readLedger(t, p)
		plan, err := dispatch.Plan(t.Context(), p, job, dispatch.Arithmetic(openBLAS(t)), files.Seals, l, files.Retention)
		noError(t, err)
		plan.Trigger = trigger
		if plan, _, err = dispatch.Enqueue(t.Context(), p, plan, l, false, event.Ignore{}); err != nil {
			t.Fatal(err)
		}
		submitted = append(submitted, plan.Run())
	}
	var unfinished []string
	l := readLedger(t, p)
	for id := range l.Unfinished() {
		unfinished = append(unfinished, id)
	}
	if want := []string{submitted[0], submitted[2], submitted[4]}; !slices.Equal(unfinished, want) {
		t.Errorf("unfinished are %v of %v, expected %v", unfinished, submitted, want)
	}
	if end := l.End(submitted[1]); end == nil || end.State != schemas.Cancelled || !strings.Contains(end.Reason, submitted[3]) {
		t.Errorf("the second run ended with %+v, expected that the fourth replaces it", end)
	}
}

// A run of another arithmetic that nobody has taken up is given up, with the reason. One that a worker has taken up goes on.
func TestUnclaimedRunIsGivenUp(t *testing.T) {
	for name, taken := range map[string]bool{"nobody": false, "a worker": true} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newJob(t, rings(100, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
			p, plan := submitJob(t, log, job, event.Ignore{})
			p.GiveUp = time.Nanosecond
			if taken {
				failure := &schemas.Failure{Run: plan.Run()} // any message of the run
				must(p.Log.Append(t.Context(), p.Topics.Statistics, 0, failure.Message()))(t)
			}
			if got, err := dispatch.TakenUp(t.Context(), p, plan); got != taken || err != nil {
				t.Fatalf("taken up: %v, %v", got, err)
			}
			if taken {
				return
			}
			noError(t, dispatch.EndedOrGivenUp(t.Context(), p, plan, event.Ignore{}))
			if end := readLedger(t, p).End(plan.Run()); end.State != schemas.Failed || !strings.Contains(end.Reason,
				"no worker and no solver started the run") {
				t.Errorf("the run ended with %+v", end)
			}
		})
	}
}
