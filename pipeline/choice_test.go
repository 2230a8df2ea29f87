package pipeline

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
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
	rows := must(os.ReadFile(path))(t)
	job.Examples.Train = []string{filepath.Join(filepath.Dir(path), "named.csv")}
	noError(t, os.WriteFile(job.Examples.Train[0], []byte(header+"\n"+string(rows)), 0o600))
	job.Examples.Label = "label"
	return job
}

// A job without stages gets those that predict held-out rows best, by what its examples are. The version learns from all rows, and is that
// of a job that lists these stages.
func TestTrainChoosesStages(t *testing.T) {
	long(t)
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

// overfittingTrees returns a stage of trees that overfits the rows soon, with a rule that ends stages.
func overfittingTrees() (schemas.Stage, table) {
	stage := treesStage(link.Softmax, 3)
	stage.Rate, stage.Ridge = 1, 0.01
	stage.Stop = &schemas.Stop{Split: "holdout", Patience: 1, Stages: true}
	data := rings(300, 4, 2, 3)
	for i := 0; i < len(data.labels)/2; i += 2 { // half of these are wrong
		data.labels[i] = data.labels[len(data.labels)-1-i]
	}
	return stage, data
}

// A stop rule for stages ends them after the last block of trees whose loss of held-out rows, each at its best temperature, is at most 2 %
// above the lowest: the version has these stages, without the rule. Of few rows a quarter is held out.
func TestStopEndsStages(t *testing.T) {
	stage, data := overfittingTrees()
	job := newJob(t, data, table{}, slices.Repeat([]schemas.Stage{stage}, 12)...)
	report, m := train(t, openEmbedded(t), job)
	plan := m.Manifest.Plan
	if n := len(plan.Stages); n < 1 || n == 12 || report.Rows != 300 {
		t.Fatalf("%d stages from %d rows, expected fewer than 12 from 300", n, report.Rows)
	}
	searched := job
	searched.Examples.Holdout = 0.25
	for i := range searched.Stages {
		searched.Stages[i].Stop = nil
	}
	held, _ := train(t, openEmbedded(t), searched)
	losses := make([]float64, 0, 12)
	for _, s := range held.Stages {
		losses = append(losses, s.Tempered.HoldoutLoss)
	}
	last := len(losses) - 1
	for losses[last] > 1.02*slices.Min(losses) {
		last--
	}
	if last+1 != len(plan.Stages) {
		t.Errorf("%d stages, expected %d by the losses of held-out rows: %v", len(plan.Stages), last+1, losses)
	}
}

// `auto` scales dense rows with named columns by what the stages need. It is never in a plan, and a version that a run starts from decides.
func TestScaleByExamplesAndStages(t *testing.T) {
	long(t)
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

// What the examples are is what the run learns from: the files of another job in the pipeline do not count, whichever came first.
func TestOtherSourcesDoNotChoose(t *testing.T) {
	p, other := openEmbedded(t), newJob(t, rings(200, 3, 2, 1), table{}, rffStage(link.Softmax, 16, 1))
	train(t, p, other)
	job := named(t, newJob(t, rings(200, 3, 2, 1), table{}), 3)
	job.Prepare.Scale = prepare.ScaleAuto
	if _, m := train(t, p, job); m.Manifest.Plan.Prepare.Scale != prepare.ScaleStandard {
		t.Errorf("scale is %s, as of a file without names of columns", m.Manifest.Plan.Prepare.Scale)
	}
	job.Stages = other.Stages
	if _, m := train(t, p, job); m.Manifest.Plan.Prepare.Scale != prepare.ScaleStandard {
		t.Errorf("with stages, scale is %s", m.Manifest.Plan.Prepare.Scale)
	}
}

// A run that is submitted has the stages and the preparation that Train chooses, so that Train goes on with this run. So has
// a search.
func TestSubmitChoosesAsTrainDoes(t *testing.T) {
	long(t)
	stage, data := overfittingTrees()
	ended := newJob(t, data, table{}, slices.Repeat([]schemas.Stage{stage}, 6)...)
	averaged := ended
	averaged.Average = 2
	none := named(t, newJob(t, rings(300, 3, 2, 1), table{}), 3)
	none.Prepare.Scale = prepare.ScaleAuto
	sparse := sparseChainJob(t, link.Softmax)
	sparse.Stages, sparse.Untuned, sparse.Unlinked = sparse.Stages[:1], true, true
	sparse.Prepare = schemas.Prepare{Scale: prepare.ScaleAuto}
	for name, job := range map[string]topics.Job{
		"stages are ended": ended, "of an average too": averaged, "no stages": none, "preparation of sparse rows": sparse,
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			id, err := Submit(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, event.Ignore{})
			noError(t, err)
			report, m := train(t, log, job)
			if report.Run != id || report.Version != 1 {
				t.Errorf("run %s is submitted, run %s trained as version %d", id, report.Run, report.Version)
			}
			if job.Examples.Holdout = 0.25; len(job.Stages) < 2 { // which is what is held out of so few rows
				_, m = train(t, openEmbedded(t), job)
			}
			err = Search(t.Context(), openEmbedded(t), openBLAS(t), []topics.Job{job}, 0, event.Ignore{}, func(_ int, c *replay.Candidate) error {
				if !reflect.DeepEqual(c.Plan.Stages, m.Manifest.Plan.Stages) || c.Plan.Prepare != m.Manifest.Plan.Prepare {
					t.Errorf("a search trains %+v, expected %+v", c.Plan.Stages, m.Manifest.Plan.Stages)
				}
				return c.Err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
}

// A chain whose keys say nothing of how its sparse rows are prepared and fitted chooses it by the rows of its first version. Later
// versions, and processes that start later, have the same.
func TestChainChoosesPreparation(t *testing.T) {
	long(t)
	job := sparseChainJob(t, link.Softmax)
	job.Stages = job.Stages[:1]
	job.Stages[0].Ridge, job.Stages[0].Passes = schemas.RidgeAuto, solve.Defaults().Passes
	job.Prepare, job.Untuned = schemas.Prepare{Scale: prepare.ScaleAuto}, true
	job.Retrain.Rows, job.Retrain.Window.Increments, job.Retrain.Full.Every = 400, 0, 2
	log, told := openEmbedded(t), &eventRecorder{}
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, told)
	if err != nil || len(report.Updates) < 4 {
		t.Fatalf("%v, updates %+v", err, report)
	}
	said := func(told *eventRecorder) (tried int) {
		for _, notice := range eventsOf[event.Noticed](told) {
			if strings.HasPrefix(notice.Text, "stages: tried") {
				tried++
			}
		}
		return tried
	}
	if n := said(told); n != 3 {
		t.Errorf("%d preparations were tried, expected 3", n)
	}
	p := topics.Open(log, job.Name, nil)
	first := must(p.Version(t.Context(), "1"))(t)
	if s := first.Plan.Stages[0]; first.Plan.Prepare.Scale == prepare.ScaleAuto || s.Stop != nil || s.Link != link.Softmax ||
		first.Plan.Holdout != 0 || first.Plan.Chain == nil {
		t.Errorf("the first version has prepare %+v, stage %+v, and holds out %g", first.Plan.Prepare, s, first.Plan.Holdout)
	}
	later := &eventRecorder{}
	job.Examples.Train = append(job.Examples.Train, wordCounts(t, 900))
	if report, err = Retrain(t.Context(), log, openBLAS(t), job, true, later); err != nil || len(report.Updates) == 0 || said(later) > 0 {
		t.Fatalf("%v, updates %+v, %d preparations were tried", err, report, said(later))
	}
	last, err := p.Version(t.Context(), protocol.Latest)
	if err != nil || !reflect.DeepEqual(last.Plan.Stages, first.Plan.Stages) || last.Plan.Prepare != first.Plan.Prepare {
		t.Errorf("%v: the first version has %+v, %+v, the last %+v, %+v", err, first.Plan.Stages, first.Plan.Prepare, last.Plan.Stages,
			last.Plan.Prepare)
	}
}

// An auto ridge of the columns of sparse rows is one that held-out rows choose: the version learns from all rows, and is that of a job with
// this ridge. With too few rows to choose, it is worth one row.
func TestRidgeOfSparseRows(t *testing.T) {
	long(t)
	job := sparseChainJob(t, link.Softmax)
	job.Stages = job.Stages[:1]
	job.Stages[0].Ridge = schemas.RidgeAuto
	for _, holdout := range []float64{0, 0.01} {
		told := &eventRecorder{}
		job.Examples.Holdout = holdout
		report, m := trainRecorded(t, openEmbedded(t), job, told)
		tried := 0
		for _, notice := range eventsOf[event.Noticed](told) {
			if strings.HasPrefix(notice.Text, "stages: tried") {
				tried++
			}
		}
		plan := m.Manifest.Plan
		if chosen := holdout == 0; chosen != (tried > 1) || chosen != (plan.Stages[0].Ridge > 0) || plan.Holdout != holdout || plan.Warm != nil {
			t.Errorf("holdout %g: %d ridges were tried; the plan has ridge %v, holdout %g", holdout, tried, plan.Stages[0].Ridge, plan.Holdout)
		}
		listed := job
		listed.Stages = slices.Clone(job.Stages)
		listed.Stages[0].Ridge = report.Stages[0].Ridge
		if again, _ := train(t, openEmbedded(t), listed); again.WeightsDigest != report.WeightsDigest {
			t.Errorf("a job with the chosen ridge %v has another version", report.Stages[0].Ridge)
		}
	}
}
