package pipeline

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

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
