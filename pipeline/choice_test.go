package pipeline

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// named gives the columns of a job's file names: label, a, b, ….
func named(t *testing.T, job topics.Job, columns int) topics.Job {
	t.Helper()
	header := "label"
	for j := range columns {
		header += "," + string(rune('a'+j))
	}
	path := job.Examples.Train[0]
	rows, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	job.Examples.Train = []string{filepath.Join(filepath.Dir(path), "named.csv")}
	if err := os.WriteFile(job.Examples.Train[0], []byte(header+"\n"+string(rows)), 0o600); err != nil {
		t.Fatal(err)
	}
	job.Examples.Label = "label"
	return job
}

// A job without stages gets those that predict held-out rows best, by what its examples are. The version learns from all rows, and is that
// of a job that lists these stages.
func TestTrainChoosesStages(t *testing.T) {
	for name, test := range map[string]struct {
		rows    int
		columns int
		named   bool
		kinds   []string // of which the first stage may be
		prepare []string
	}{
		"table":    {600, 3, true, []string{stages.Trees, stages.RFF}, []string{prepare.ScaleStandard, prepare.ScaleRanks}},
		"numbers":  {600, 3, false, []string{stages.RFF}, []string{prepare.ScaleNone}},
		"few rows": {300, 3, true, []string{stages.RFF}, []string{prepare.ScaleStandard}}, // no 50 of them would be held out
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, rings(test.rows, test.columns, 2, 1), table{})
			job.Prepare.Scale = prepare.ScaleAuto
			if test.named {
				job = named(t, job, test.columns)
			}
			told := &eventRecorder{}
			report, m := trainRecorded(t, openEmbedded(t), job, told)
			plan := m.Manifest.Plan
			if first := plan.Stages[0].Features.Kind; !slices.Contains(test.kinds, first) || !slices.Contains(test.prepare, plan.Prepare.Scale) {
				t.Errorf("chose %s and scale %s, expected one of %v and %v", first, plan.Prepare.Scale, test.kinds, test.prepare)
			}
			if report.Rows != int64(test.rows) || plan.Holdout != 0 {
				t.Errorf("the version learnt from %d rows, and holds out %g", report.Rows, plan.Holdout)
			}
			if few := len(plan.Stages) == 1; test.rows < 500 && !few {
				t.Errorf("%d stages were chosen by few rows", len(plan.Stages))
			}
			notices := ""
			for _, notice := range eventsOf[event.Noticed](told) {
				notices += notice.Text + "\n"
			}
			if !strings.Contains(notices, "stages: ") {
				t.Errorf("%q says nothing of the choice", notices)
			}
			listed := job
			listed.Stages, listed.Prepare = plan.Stages, plan.Prepare
			if again, _ := train(t, openEmbedded(t), listed); again.WeightsDigest != report.WeightsDigest {
				t.Error("a job that lists the chosen stages has another version")
			}
		})
	}
}

// A stop rule for stages ends them where the loss of held-out rows is lowest: the version has these stages, without the rule.
func TestStopEndsStages(t *testing.T) {
	stage := treesStage(link.Softmax, 3)
	stage.Rate, stage.Ridge = 1, 0.01 // which overfit soon
	stage.Stop = &schemas.Stop{Split: "holdout", Patience: 1, Stages: true}
	job := newJob(t, rings(300, 4, 2, 3), table{}, slices.Repeat([]schemas.Stage{stage}, 12)...)
	report, m := train(t, openEmbedded(t), job)
	plan := m.Manifest.Plan
	if n := len(plan.Stages); n < 1 || n == 12 || report.Rows != 300 {
		t.Fatalf("%d stages from %d rows, expected fewer than 12 from 300", n, report.Rows)
	}
	searched := job
	searched.Examples.Holdout = stages.DefaultHoldout
	for i := range searched.Stages {
		searched.Stages[i].Stop = nil
	}
	held, _ := train(t, openEmbedded(t), searched)
	losses := make([]float64, 0, 12)
	for _, s := range held.Stages {
		losses = append(losses, *s.HoldoutLoss)
	}
	if best := slices.Index(losses, slices.Min(losses)); best+1 != len(plan.Stages) {
		t.Errorf("%d stages, and the loss of held-out rows is lowest after %d: %v", len(plan.Stages), best+1, losses)
	}
}

// `auto` scales dense rows with named columns by what the stages need. It is never in a plan, and a version that a run starts from decides.
func TestScaleByExamplesAndStages(t *testing.T) {
	stage := func(kind string) schemas.Stage {
		s := rffStage(link.Softmax, 16, 2)
		s.Features = stages.DefaultsOf(kind)
		s.Features.Size = min(s.Features.Size, 64)
		return s
	}
	columns, trees := stage(stages.Columns), treesStage(link.Softmax, 2)
	for name, test := range map[string]struct {
		named  bool
		stages []schemas.Stage
		pca    int
		want   string
	}{
		"Fourier features":               {true, []schemas.Stage{columns, stage(stages.RFF)}, 0, prepare.ScaleStandard},
		"Fourier features of components": {true, []schemas.Stage{stage(stages.SORF)}, 2, prepare.ScaleStandard},
		"columns":                        {true, []schemas.Stage{trees, columns}, 0, prepare.ScaleStandard},
		"trees":                          {true, []schemas.Stage{trees}, 0, prepare.ScaleNone},
		"no names":                       {false, []schemas.Stage{stage(stages.RFF)}, 0, prepare.ScaleNone},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, rings(200, 3, 2, 1), table{})
			if test.named {
				job = named(t, job, 3)
			}
			job.Stages, job.Prepare = test.stages, schemas.Prepare{Scale: prepare.ScaleAuto, PCA: test.pca}
			p := openEmbedded(t)
			if _, m := train(t, p, job); m.Manifest.Plan.Prepare.Scale != test.want {
				t.Errorf("scale is %s, expected %s", m.Manifest.Plan.Prepare.Scale, test.want)
			}
			job.Prepare.Scale = prepare.ScaleUnit
			train(t, p, job)
			job.Prepare.Scale, job.Warm = prepare.ScaleAuto, "latest"
			if _, m := train(t, p, job); m.Manifest.Plan.Prepare.Scale != prepare.ScaleUnit {
				t.Errorf("a warm start from a version with scale unit has %s", m.Manifest.Plan.Prepare.Scale)
			}
		})
	}
}
