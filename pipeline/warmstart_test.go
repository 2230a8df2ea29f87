package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// A warm start begins where an earlier version ended, over the same features.
func TestWarmStart(t *testing.T) {
	log, training := openEmbedded(t), rings(600, 3, 3, 1)
	job := newJob(t, training, table{}, rffStage(link.Softmax, 50, 10), rffStage(link.Softmax, 50, 10))
	cold, _ := train(t, log, job)

	for i := range job.Stages {
		job.Stages[i].Passes = 2
	}
	job.Warm = protocol.Latest
	recorder := &eventRecorder{}
	warm, _ := trainRecorded(t, log, job, recorder)
	first := eventsOf[event.Passed](recorder)[0]
	if got, want := first.Metrics[examples.Train].Loss, cold.Stages[0].TrainLoss; math.Abs(got-want) > 1e-4 {
		t.Errorf("the first pass has loss %g, the earlier version ended at %g", got, want)
	}
	if warm.Stages[1].TrainLoss > cold.Stages[1].TrainLoss+1e-4 {
		t.Errorf("the warm start ends with loss %g, expected at most the %g of the earlier version", warm.Stages[1].TrainLoss,
			cold.Stages[1].TrainLoss)
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
	if err := trainError(t, log, job); !errors.As(err, new(*protocol.NoVersionError)) {
		t.Errorf("from version 99: got error %v, expected a *run.NoVersionError", err)
	}
}

// A warm start fails if its examples have other features or classes than the earlier version, and the error says so.
func TestWarmStartThatDoesNotFit(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(300, 2, 3, 1), table{}, rffStage(link.Softmax, 20, 3))
	train(t, log, job)
	job.Warm = protocol.Latest
	wide := newJob(t, rings(300, 3, 3, 1), table{}, job.Stages...)
	wide.Warm = protocol.Latest
	if err := trainError(t, log, wide); !strings.Contains(err.Error(), "3 features, but 2 in the version that this run starts from") {
		t.Errorf("with 3 features: got error %v", err)
	}
	job.Examples.Classes = []string{"ring2", "ring1", "ring0"}
	if err := trainError(t, log, job); !strings.Contains(err.Error(), "examples.classes are not those") {
		t.Errorf("with other classes: got error %v", err)
	}
}

// A run that keeps the preparation of a version sends nothing of which a preparation is made: its survey counts, and notes the labels.
func TestSurveyOfAWarmStart(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(300, 3, 3, 1), rings(50, 3, 3, 2), rffStage(link.Softmax, 20, 3))
	job.Prepare = schemas.Prepare{Scale: prepare.ScaleStandard, PCA: 2}
	cold, _ := train(t, log, job)
	sent := sentBySurvey(t, log, job.Name, cold.Run)
	job.Warm = protocol.Latest
	warm, _ := train(t, log, job)
	sentWarm := sentBySurvey(t, log, job.Name, warm.Run)
	if warm.Rows != cold.Rows || warm.Splits["test"].Rows != cold.Splits["test"].Rows {
		t.Errorf("the warm start has %d rows and the splits %v, the version that it starts from %d and %v", warm.Rows, warm.Splits,
			cold.Rows, cold.Splits)
	}
	for _, part := range []string{"sample", "gram", statistics.FieldSums, statistics.FieldSquares, statistics.FieldPresent} {
		if !sent[part] || sentWarm[part] {
			t.Errorf("%s: the first run sends it, %v, the warm start sends it, %v; expected true and false", part, sent[part], sentWarm[part])
		}
	}
	for _, part := range []string{"visit", statistics.FieldSplits, statistics.FieldLabels} {
		if !sentWarm[part] {
			t.Errorf("the warm start does not send %s", part)
		}
	}
}

// sentBySurvey returns the kinds of the records that the survey of a run has sent, and the names of the tensors in its visits.
func sentBySurvey(t *testing.T, log *kafkalog.Log, name, id string) map[string]bool {
	t.Helper()
	sent, collector := map[string]bool{}, wire.Collector[float64]{}
	for _, message := range readTopic(t, log, protocol.TopicsOf(name).Statistics) {
		m := protocol.FromKafka(message)
		if m.Run() != id || m.Get("stage") != fmt.Sprint(wire.Survey) {
			continue
		}
		if sent[string(m.Kind())] = true; m.Kind() != statistics.KindVisit {
			continue
		}
		r := must(collector.Add(m, arrowtest.Allocator(t)))(t)
		if r != nil {
			for _, tensor := range r.Tensors {
				sent[tensor.Name] = true
			}
		}
	}
	return sent
}
