package pipeline

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages/prepare"
)

// logLossOf returns the mean of −log p of the labels of a table, by the probabilities of a model.
func logLossOf(t *testing.T, m *model.Model, data table) (loss float64) {
	t.Helper()
	p := probabilities(t, m, data)
	for i, label := range data.labels {
		loss -= math.Log(max(float64(p.Row(i)[slices.Index(m.Labels(), label)]), 1e-6)) / float64(len(data.labels))
	}
	return loss
}

// The temperature of the last stage, or of the last one of each member, changes probabilities, and what the report says of them, but
// neither weights nor errors nor the losses of fits. That of other stages changes nothing.
func TestTemperatureOfVersion(t *testing.T) {
	long(t)
	training, test := rings(600, 4, 3, 1), rings(200, 4, 3, 2)
	for i := 0; i < len(training.labels); i += 5 {
		training.labels[i] = "ring0"
	}
	for name, c := range map[string]struct {
		stage   schemas.Stage
		members int
	}{
		"trees": {treesStage(link.Softmax, 2), 1}, "Fourier features": {rffStage(link.Softmax, 16, 2), 1},
		"logistic": {rffStage(link.Logistic, 16, 2), 1}, "members": {treesStage(link.Softmax, 2), 2},
	} {
		t.Run(name, func(t *testing.T) {
			run := func(first, last float64) (*schemas.Report, float64) {
				list := slices.Repeat([]schemas.Stage{c.stage}, 2)
				list[0].Temperature, list[1].Temperature = first, last
				job := newJob(t, training, test, list...)
				job.Average, job.Prepare.Scale = c.members, prepare.ScaleStandard
				report, m := train(t, openEmbedded(t), job)
				if got := *report.Splits["test"].LogLoss; math.Abs(got-logLossOf(t, m, test)) > 1e-4 {
					t.Errorf("temperature %g: the report says log loss %g, the model has %g", last, got, logLossOf(t, m, test))
				}
				if report.Temperature != last {
					t.Errorf("the report says temperature %g, expected %g", report.Temperature, last)
				}
				return report, *report.Splits["test"].LogLoss
			}
			plain, loss := run(0, 0)
			tempered, temperedLoss := run(0, 3)
			_, unchanged := run(3, 0)
			if tempered.WeightsDigest != plain.WeightsDigest || *tempered.TestError != *plain.TestError ||
				c.members == 1 && tempered.Splits["test"].Loss != plain.Splits["test"].Loss {
				t.Errorf("digest %s, error %g, loss %g; without a temperature %s, %g, %g", tempered.WeightsDigest, *tempered.TestError,
					tempered.Splits["test"].Loss, plain.WeightsDigest, *plain.TestError, plain.Splits["test"].Loss)
			}
			if math.Abs(temperedLoss-loss) < 1e-3 || unchanged != loss {
				t.Errorf("log loss %g at temperature 1, %g at 3, %g with 3 in the first stage", loss, temperedLoss, unchanged)
			}
		})
	}
}

// A rule that ends stages of trees also chooses the temperature with which held-out rows have the lowest loss after these stages. A
// temperature of the configuration stays.
func TestStopChoosesTemperature(t *testing.T) {
	stage, data := overfittingTrees()
	job := newJob(t, data, table{}, slices.Repeat([]schemas.Stage{stage}, 8)...)
	report, m := train(t, openEmbedded(t), job)
	list := m.Manifest.Plan.Stages
	searched := newJob(t, data, table{}, slices.Repeat([]schemas.Stage{stage}, 8)...)
	searched.Examples.Holdout = 0.25
	for i := range searched.Stages {
		searched.Stages[i].Stop = nil
	}
	held, _ := train(t, openEmbedded(t), searched)
	last := len(list) - 1
	want := held.Stages[last].Tempered
	if want == nil || want.Temperature <= 1 || report.Temperature != want.Temperature || list[last].Temperature != want.Temperature {
		t.Fatalf("temperature %g, in the plan %g, expected %+v, above 1", report.Temperature, list[last].Temperature, want)
	}
	if want.HoldoutLoss > *held.Stages[last].HoldoutLoss || held.Splits[examples.Holdout.String()].Rows == 0 {
		t.Errorf("loss %g at the best temperature, %g at 1", want.HoldoutLoss, *held.Stages[last].HoldoutLoss)
	}
	if slices.ContainsFunc(list[:last], func(s schemas.Stage) bool { return s.Temperature != 0 }) || report.Stages[last].Tempered != nil {
		t.Errorf("stages %+v, tempered %+v", list, report.Stages[last].Tempered)
	}
	for i := range job.Stages {
		job.Stages[i].Temperature = 1.25
	}
	if report, _ := train(t, openEmbedded(t), job); report.Temperature != 1.25 {
		t.Errorf("temperature %g, the configuration has 1.25", report.Temperature)
	}
}

// Versions of a chain have the weights, the losses and the decisions of the gate that they have without a temperature. Only the
// probabilities of new rows differ.
func TestTemperatureInChain(t *testing.T) {
	run := func(temperature float64) (reports []schemas.RetrainReport, digests []wire.Digest) {
		job, _ := newForeignJob(t, rings(10, 4, 3, 1))
		stage := treesStage(link.Softmax, 2)
		stage.Temperature = temperature
		job.Stages, job.Keep, job.Retrain = []schemas.Stage{stage, stage}, 1000, topics.DefaultRetrain()
		job.Retrain.Rows, job.Retrain.Full = 100, topics.FullOptions{}
		job.Retrain.Gate = topics.GateOptions{Split: examples.Test.String(), Margin: 0.01}
		log := openEmbedded(t)
		p := topics.Open(log, job.Name, nil)
		noError(t, topics.Create(t.Context(), p, &job))
		for i := range 4 {
			batch := rings(160, 4, 3, uint64(i)).exampleRows()
			batch.Splits = append(slices.Repeat([]examples.Split{examples.Test}, 60), make([]examples.Split, 100)...)
			if i == 3 { // these are wrong
				slices.Reverse(batch.Words[60:])
			}
			produce(t, log, job, 0, exampleMessage(t, batch))
		}
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
		versions := must(p.Versions(t.Context()))(t)
		for _, v := range versions {
			digests = append(digests, v.WeightsDigest)
		}
		for _, u := range report.Updates {
			reports = append(reports, *u)
		}
		return reports, digests
	}
	plain, digests := run(0)
	tempered, same := run(2.5)
	if !slices.Equal(digests, same) || len(plain) != len(tempered) || len(plain) < 3 {
		t.Fatalf("%d versions %v, with a temperature %d %v", len(plain), digests, len(tempered), same)
	}
	for i, u := range tempered {
		want := plain[i]
		if (u.PrequentialError == nil) != (want.PrequentialError == nil) || !reflect.DeepEqual(u.Gate, want.Gate) || u.Offered != want.Offered {
			t.Errorf("version %d: gate %+v, without a temperature %+v", u.Version, u.Gate, want.Gate)
		}
		if u.PrequentialError == nil {
			continue
		}
		if *u.PrequentialError != *want.PrequentialError || *u.PrequentialLoss != *want.PrequentialLoss ||
			math.Abs(*u.PrequentialLogLoss-*want.PrequentialLogLoss) < 1e-3 {
			t.Errorf("version %d: error %g, loss %g, log loss %g, without a temperature %g, %g, %g", u.Version, *u.PrequentialError,
				*u.PrequentialLoss, *u.PrequentialLogLoss, *want.PrequentialError, *want.PrequentialLoss, *want.PrequentialLogLoss)
		}
	}
}
