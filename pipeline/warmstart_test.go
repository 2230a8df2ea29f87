package pipeline

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
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

func ridgesOf(r *schemas.Report) (ridges []schemas.Ridge) {
	for _, s := range r.Stages {
		ridges = append(ridges, s.Ridge)
	}
	return ridges
}

// A warm start keeps the ridges of its version: those that were chosen, and those that its configuration had.
func TestWarmStartKeepsRidges(t *testing.T) {
	long(t)
	for _, ridge := range []schemas.Ridge{schemas.RidgeAuto, 0.07} {
		log, s := openEmbedded(t), rffStage(link.Softmax, 30, 5)
		s.Ridge = ridge
		job := newJob(t, rings(400, 3, 3, 1), table{}, s, s)
		cold, _ := train(t, log, job)
		job.Warm = protocol.Latest
		for range 2 { // the second starts from a version that was started so
			for i := range job.Stages {
				job.Stages[i].Ridge = schemas.RidgeAuto
			}
			if warm, _ := train(t, log, job); fmt.Sprint(ridgesOf(warm)) != fmt.Sprint(ridgesOf(cold)) {
				t.Errorf("ridges %v, the version has %v", ridgesOf(warm), ridgesOf(cold))
			}
		}
	}
}

// Members begin at score 0, each with an intercept. So members of the same features, which no configuration allows, are
// the run without them, to the bit, one after the other. So is their mean, of whatever is predicted, with whatever
// links.
func TestMembersAreModelsByThemselves(t *testing.T) {
	long(t)
	stage := func(l schemas.Link, passes int, scores bool) schemas.Stage {
		s := rffStage(l, 0, passes)
		s.Features, s.Scores = stages.DefaultsOf(stages.Columns), scores
		return s
	}
	file := func(name, text string) func(*topics.Job) {
		return func(j *topics.Job) {
			path := filepath.Join(t.TempDir(), name)
			noError(t, os.WriteFile(path, []byte(text), 0o600))
			j.Examples.Train, j.Examples.Test = []string{path}, nil
		}
	}
	var numbers, several, sparse strings.Builder
	numbers.WriteString("y,z,a,b\n")
	several.WriteString("label,a,b\n")
	for i, row := range rings(300, 2, 3, 3).rows {
		a, b := row[0], row[1]
		fmt.Fprintf(&numbers, "%g,%g,%g,%g\n", a*b, a+b, a, b)
		fmt.Fprintf(&several, "%s,%g,%g\n", []string{"right", "up", "right;up"}[i%3], a+float32(i%3), b)
		fmt.Fprintf(&sparse, "%d %d:%g %d:%g\n", i%3, 1+i%3, a*a, 4+i%5, b*b)
	}
	for name, c := range map[string]struct {
		stages []schemas.Stage
		change func(*topics.Job)
		// clipped says that predictions of the last stage may lie outside of their region, and what a mean is made of does not.
		clipped bool
	}{
		"one stage": {stages: []schemas.Stage{stage(link.Softmax, 3, false)}},
		"links": {stages: []schemas.Stage{stage(link.Softmax, 2, false), stage(link.Calibrated, 2, true), stage(link.Identity, 1,
			true)}, clipped: true},
		"calibrated": {stages: []schemas.Stage{stage(link.Identity, 1, false), stage(link.Calibrated, 2, true)}},
		"other units": {stages: []schemas.Stage{stage(link.Identity, 1, false), stage(link.Logistic, 3, true)},
			change: func(j *topics.Job) { j.Examples.Holdout = 0.2 }, clipped: true},
		"numbers": {stages: []schemas.Stage{stage(link.Identity, 1, false), stage(link.Identity, 1, true)}, change: func(j *topics.Job) {
			file("numbers.csv", numbers.String())(j)
			j.Examples.Targets, j.Stages[0].Ridge, j.Stages[1].Ridge = []string{"y", "z"}, schemas.RidgeAuto, schemas.RidgeAuto
		}},
		"several": {stages: []schemas.Stage{stage(link.Logistic, 3, false), stage(link.Calibrated, 2, true)}, change: func(j *topics.Job) {
			file("several.csv", several.String())(j)
			j.Examples.Labels, j.Examples.Label, j.Examples.Holdout = layout.LabelsSeveral, "label", 0.2
		}},
		"sparse": {stages: []schemas.Stage{stage(link.Softmax, 4, false), stage(link.Softmax, 2, false)}, change: file("rows.libsvm",
			sparse.String())},
	} {
		t.Run(name, func(t *testing.T) {
			for _, memory := range []int64{1 << 30, 1} {
				job := newJob(t, rings(300, 3, 3, 1), rings(100, 3, 3, 2), slices.Clone(c.stages)...)
				if c.change != nil {
					c.change(&job)
				}
				job.Memory = memory
				log := openEmbedded(t)
				alone, one := train(t, log, job)
				job.Average = 2
				together, both := train(t, log, job)

				n := len(job.Stages)
				for s := range n {
					first, second, want := weightsOf(both, s), weightsOf(both, n+s), weightsOf(one, s)
					if first != want || second != want {
						t.Errorf("stage %d: the members have weights %s and %s, the run alone %s", s, first, second, want)
					}
				}
				if len(together.Stages) != 2*n {
					t.Fatalf("%d stages are reported of two members of %d", len(together.Stages), n)
				}
				for s, r := range together.Stages {
					want := alone.Stages[s%n]
					if r.TrainError != want.TrainError || r.TrainLoss != want.TrainLoss || r.Ridge != want.Ridge || r.Passes != want.Passes ||
						r.Member != 1+s/n || (r.Average != nil) != (s%n == n-1) {
						t.Errorf("stage %d is reported as %+v, alone %+v", s, r, want)
					}
				}
				if a := together.Stages[2*n-1].Average; a.Members != 2 || a.TrainError != together.TrainError ||
					a.TrainLoss != together.Splits["train"].Loss {
					t.Errorf("the report has the average %+v, and train error %g", a, together.TrainError)
				}
				if together.TrainError != alone.TrainError || fmt.Sprint(together.Thresholds) != fmt.Sprint(alone.Thresholds) {
					t.Errorf("train error %g and thresholds %v, alone %g and %v", together.TrainError, together.Thresholds, alone.TrainError,
						alone.Thresholds)
				}
				for split, want := range alone.Splits {
					got := together.Splits[split]
					if !c.clipped && math.Abs(got.Loss-want.Loss) > 1e-5*want.Loss {
						t.Errorf("%s rows: loss %g, alone %g", split, got.Loss, want.Loss)
					}
					if got.Loss, want.Loss = 0, 0; !reflect.DeepEqual(got, want) {
						t.Errorf("%s rows: %+v, alone %+v", split, got, want)
					}
				}
				if both.Manifest.Metrics["train_error"] != together.TrainError || both.Manifest.Plan.Average != 2 {
					t.Errorf("the manifest has metrics %v and average %d", both.Manifest.Metrics, both.Manifest.Plan.Average)
				}
			}
		})
	}
}

// weightsOf returns the digest of the weights of a stage.
func weightsOf(m *model.Model, stage int) wire.Digest {
	var of wire.Tensors[float32]
	for _, tensor := range m.Tensors() {
		if strings.HasPrefix(tensor.Name, fmt.Sprint(stage, "/")) {
			of = append(of, tensor)
		}
	}
	return schemas.WeightsDigest(of)
}

// A warm start begins each member at the weights that it had. It may have more members, which begin at 0.
func TestWarmStartOfMembers(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(600, 3, 3, 1), table{}, rffStage(link.Softmax, 30, 10), rffStage(link.Softmax, 30, 10))
	job.Average = 2
	cold, _ := train(t, log, job)
	job.Warm, job.Average = protocol.Latest, 3
	recorder := &eventRecorder{}
	warm, _ := trainRecorded(t, log, job, recorder)
	for _, p := range eventsOf[event.Passed](recorder) {
		switch {
		case p.Pass > 1:
		case p.Stage == 4:
			if want := math.Log(3); math.Abs(p.Metrics[examples.Train].Loss-want) > 1e-6 {
				t.Errorf("the third member begins with loss %g, expected %g", p.Metrics[examples.Train].Loss, want)
			}
		case (p.Stage == 0 || p.Stage == 2) && p.Metrics[examples.Train].Loss > cold.Stages[p.Stage].TrainLoss+1e-4:
			t.Errorf("stage %d begins with loss %g, the earlier version ended with %g", p.Stage, p.Metrics[examples.Train].Loss,
				cold.Stages[p.Stage].TrainLoss)
		}
	}
	if a := warm.Stages[5].Average; a == nil || a.Members != 3 {
		t.Errorf("the last stage has average %+v", a)
	}
	for _, average := range []int{0, 2} {
		job.Average, job.Stages = average, job.Stages[:1]
		if err := trainError(t, log, job); !strings.Contains(err.Error(), "a warm start needs members with as many stages") {
			t.Errorf("members of one stage from members of two: %v", err)
		}
	}
}

// A version has what features of patches have learnt for its own stages, and for no others.
func TestWarmStartOfMoreFilters(t *testing.T) {
	stage := rffStage(link.Softmax, 0, 2)
	stage.Features = stages.DefaultsOf(stages.Patches)
	plan := func(members int) *schemas.Plan {
		return &schemas.Plan{Stages: slices.Repeat([]schemas.Stage{stage}, members), Average: members}
	}
	if err := dispatch.CheckFeatures(plan(2), plan(2)); err != nil {
		t.Errorf("as many stages: %v", err)
	}
	if err := dispatch.CheckFeatures(plan(3), plan(2)); err == nil || !strings.Contains(err.Error(),
		"stage 2: features of kind patches need a survey, but a warm start") {
		t.Errorf("one stage more: %v", err)
	}
}
