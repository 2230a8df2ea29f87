package pipeline

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
)

// newSparseJob returns a job of sparse rows with the stages of list.
func newSparseJob(t *testing.T, list ...schemas.Stage) topics.Job {
	t.Helper()
	random, path, lines := rand.New(rand.NewPCG(1, 2)), filepath.Join(t.TempDir(), "train.libsvm"), strings.Builder{}
	for range 500 {
		class := random.IntN(3)
		fmt.Fprint(&lines, class)
		for j := 1; j <= 80; j++ {
			if random.IntN(12) == 0 || j%3 == class && random.IntN(4) == 0 {
				fmt.Fprintf(&lines, " %d:%.3f", j, 1+random.Float64())
			}
		}
		lines.WriteByte('\n')
	}
	noError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	job := newJob(t, rings(1, 3, 3, 1), table{}, list...)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 3
	return job
}

// The report is a function of the log: whoever takes over after the last weights of a stage reports the same of its fit
// as the solver that has made it.
func TestReportOfWhoTakesOver(t *testing.T) {
	blocks, counts := rffStage(link.Softmax, 20, 4), rffStage(link.Identity, 0, 1)
	blocks.Features.Kind, counts.Features = stages.Gradient, stages.DefaultsOf(stages.ClassCounts)
	given := counts
	given.Features.Weight = 0.25
	ridge := rffStage(link.Softmax, 20, 3)
	ridge.Ridge = schemas.RidgeAuto
	for name, newJob := range map[string]func() topics.Job{
		"links":  func() topics.Job { return newMultiStageJob(t) },
		"ridges": func() topics.Job { return newJob(t, rings(300, 3, 3, 1), table{}, ridge, ridge) },
		"counts": func() topics.Job {
			job := newSparseJob(t, blocks, counts, given)
			job.Examples.Holdout = 0.3
			return job
		},
	} {
		recorder := &eventRecorder{}
		want, _ := trainRecorded(t, openEmbedded(t), newJob(), recorder)
		last := map[int]event.Solved{} // of each stage
		for _, e := range eventsOf[event.Solved](recorder) {
			last[e.Stage] = e
		}
		for stage := range want.Stages {
			want.Stages[stage].Seconds = 0
			if len(want.Stages[stage].ByPass) == 0 || (want.Stages[stage].Weight != nil) != (name == "counts" && stage > 0) {
				t.Errorf("%s: the report says %+v of stage %d", name, want.Stages[stage], stage)
			}
		}
		for stage, of := range last {
			log, job := openEmbedded(t), newJob()
			trainUntil(t, log, job, func(e event.Event) bool {
				solved, ok := e.(event.Solved)
				return ok && solved.Stage == of.Stage && solved.Visit == of.Visit
			})
			got, _ := train(t, log, job)
			for i := range got.Stages {
				got.Stages[i].Seconds = 0
			}
			if !reflect.DeepEqual(got.Stages, want.Stages) {
				t.Errorf("%s, interrupted after the last weights of stage %d: the report says %+v, uninterrupted %+v", name, stage, got.Stages,
					want.Stages)
			}
		}
	}
}
