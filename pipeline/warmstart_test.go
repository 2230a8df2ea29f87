package pipeline

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// A warm start begins where an earlier version ended, over the same features.
func TestWarmStart(t *testing.T) {
	log, training := openEmbedded(t), rings(600, 3, 3, 1)
	job := newJob(t, training, table{}, rffStage(link.Softmax, 50, 10), rffStage(link.Softmax, 50, 10))
	cold, _ := train(t, log, job)

	for i := range job.Stages {
		job.Stages[i].Passes = 2
	}
	job.Warm = run.Latest
	recorder := &eventRecorder{}
	warm, _ := trainRecorded(t, log, job, recorder)
	first := eventsOf[event.Passed](recorder)[0]
	if got, want := first.Metrics[schemas.Train].Loss, cold.Stages[0].TrainLoss; math.Abs(got-want) > 1e-4 {
		t.Errorf("the first pass has loss %g, the earlier version ended at %g", got, want)
	}
	if warm.Stages[1].TrainLoss > cold.Stages[1].TrainLoss+1e-4 {
		t.Errorf("the warm start ends with loss %g, expected at most the %g of the earlier version", warm.Stages[1].TrainLoss, cold.Stages[1].TrainLoss)
	}

	other := job
	other.Seed = 2
	if err := trainError(t, log, other); !strings.Contains(err.Error(), "seed") {
		t.Errorf("with another seed: got error %v", err)
	}
	more := rings(100, 3, 4, 3)
	job.Examples.Train = append(job.Examples.Train, more.writeCSV(t, t.TempDir(), "more.csv"))
	if err := trainError(t, log, job); !strings.Contains(err.Error(), `labels ["ring3"] are not among the classes`) {
		t.Errorf("with another class: got error %v", err)
	}
	job.Warm = "99"
	if err := trainError(t, log, job); !errors.As(err, new(*run.NoVersionError)) {
		t.Errorf("from version 99: got error %v, expected a *run.NoVersionError", err)
	}
}

// A warm start fails if its examples have other features or classes than the earlier version, and the error says so.
func TestWarmStartThatDoesNotFit(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(300, 2, 3, 1), table{}, rffStage(link.Softmax, 20, 3))
	train(t, log, job)
	job.Warm = run.Latest
	wide := newJob(t, rings(300, 3, 3, 1), table{}, job.Stages...)
	wide.Warm = run.Latest
	if err := trainError(t, log, wide); !strings.Contains(err.Error(), "3 features, the version that this run starts from has 2") {
		t.Errorf("with 3 features: got error %v", err)
	}
	job.Examples.Classes = []string{"ring2", "ring1", "ring0"}
	if err := trainError(t, log, job); !strings.Contains(err.Error(), "examples.classes are not those") {
		t.Errorf("with other classes: got error %v", err)
	}
}
