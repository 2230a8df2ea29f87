package pipeline

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/replay"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/pipeline/worker"
	"github.com/stagewise/stagewise/pipeline/worker/visit"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Each algorithm, kind of features and sequence of links learns rings, which no linear function separates. The model's predictions
// have the errors and the loss that the report says.
func TestRunLearns(t *testing.T) {
	long(t)
	training, test := rings(900, 3, 3, 1), rings(300, 3, 3, 2)
	with := func(s schemas.Stage, change func(*schemas.Stage)) schemas.Stage {
		change(&s)
		return s
	}
	kind := func(kind string) func(*schemas.Stage) { return func(s *schemas.Stage) { s.Features.Kind = kind } }
	for name, c := range map[string]struct {
		prepare  schemas.Prepare
		stages   []schemas.Stage
		average  int
		maxError float64 // percent, on the test rows
	}{
		"identity":   {stages: []schemas.Stage{rffStage(link.Identity, 65, 1)}, maxError: 4},
		"softmax":    {stages: []schemas.Stage{rffStage(link.Softmax, 64, 8)}, maxError: 4},
		"calibrated": {stages: []schemas.Stage{rffStage(link.Calibrated, 63, 4)}, maxError: 4},
		"stagewise": {stages: []schemas.Stage{rffStage(link.Softmax, 16, 6), rffStage(link.Softmax, 16, 6), rffStage(link.Softmax, 16,
			6)}, maxError: 6},
		"links change": {stages: []schemas.Stage{rffStage(link.Identity, 64, 1), rffStage(link.Softmax, 32, 4), rffStage(link.Calibrated,
			32, 2), rffStage(link.Softmax, 8, 2)}, maxError: 4},
		"logits":     {stages: []schemas.Stage{with(rffStage(link.Softmax, 100, 8), kind(stages.Logits))}, maxError: 10},
		"polynomial": {stages: []schemas.Stage{with(rffStage(link.Softmax, 40, 12), kind(stages.Polynomial))}, maxError: 10},
		"scores": {stages: []schemas.Stage{rffStage(link.Softmax, 64, 4), with(rffStage(link.Softmax, 16, 4),
			func(s *schemas.Stage) { s.Scores = true })}, maxError: 4},
		"average": {average: 3, stages: []schemas.Stage{rffStage(link.Softmax, 32, 4), with(rffStage(link.Calibrated, 16, 2),
			func(s *schemas.Stage) { s.Scores = true })}, maxError: 4},
		"components": {prepare: schemas.Prepare{Scale: stages.ScaleStandard, PCA: 3}, stages: []schemas.Stage{rffStage(link.Softmax,
			100, 8)}, maxError: 8},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newJob(t, training, test, c.stages...)
			job.Average = c.average
			if c.prepare.Scale != "" {
				job.Prepare = c.prepare
			}
			report, model := train(t, log, job)
			assert.True(t, report.Rows == 900 && report.Splits["test"].Rows == 300 && report.Classes == 3,
				"%d training rows, %d test rows, %d classes; expected 900, 300, 3", report.Rows, report.Splits["test"].Rows, report.Classes)
			assert.True(t, *report.TestError <= c.maxError, "test error %.2f %%, expected at most %g", *report.TestError, c.maxError)
			p, wrong, loss := probabilities(t, model, test), 0, 0.0
			for i, label := range test.labels {
				best, sum := 0, 0.0
				for k, v := range p.Row(i) {
					if sum += float64(v); v > p.Row(i)[best] {
						best = k
					}
				}
				assert.Near(t, sum, 1, 1e-5, "the sum of the probabilities of row %d", i)
				if model.Labels()[best] != label {
					wrong++
				}
				for k, l := range model.Labels() {
					if l == label {
						loss -= math.Log(max(float64(p.Row(i)[k]), 1e-6)) / 300
					}
				}
			}
			assert.Near(t, 100*float64(wrong)/300, *report.TestError, 1e-9, "the test error of the model, and of the report")
			assert.Near(t, *report.Splits["test"].LogLoss, loss, 1e-4, "log loss of the report, and of the model")
			assert.Equal(t, model.Digest(), report.WeightsDigest, "the digest of the model, and of the report")
		})
	}
}

// A stage with another link than the stage before it begins with what was learnt: its error is hardly higher, and its loss is far
// below the loss of no prediction.
func TestLinksThatChangeKeepWhatWasLearnt(t *testing.T) {
	long(t)
	links := []schemas.Link{link.Identity, link.Softmax, link.Calibrated}
	for _, from := range links {
		for _, to := range links {
			t.Run(fmt.Sprint(from, " to ", to), func(t *testing.T) {
				recorder := &eventRecorder{}
				trainRecorded(t, openEmbedded(t), newJob(t, rings(600, 2, 3, 1), table{}, rffStage(from, 64, 8), rffStage(to, 8, 2)), recorder.Record)
				before := eventsOf[event.StageEnded](recorder)[0].TrainError
				untrained := 1.0 / 3 // half the squared distance between a label and a third for each class
				if to == link.Softmax {
					untrained = math.Log(3)
				}
				for _, p := range eventsOf[event.Passed](recorder) {
					if p.Stage != 1 || p.Visit != 0 {
						continue
					}
					first := p.Metrics[examples.Train]
					assert.True(t, first.Error <= before+2 && first.Loss <= untrained/2,
						"stage 0 ends with error %.2f %%; stage 1 begins with %.2f %% and loss %g, untrained %g", before, first.Error, first.Loss, untrained)
				}
			})
		}
	}
}

// What the matrices of a run take is no longer there for rows, and if nothing is left of the memory, a run says so.
func TestMatricesTakeMemory(t *testing.T) {
	for memory, noticed := range map[int64]int{1 << 30: 0, 10_000: 1} {
		recorder := &eventRecorder{}
		job := newJob(t, rings(700, 3, 3, 1), table{}, rffStage(link.Softmax, 33, 4), rffStage(link.Identity, 16, 1))
		job.Memory = memory
		trainRecorded(t, openEmbedded(t), job, recorder.Record)
		texts := eventsOf[event.Noticed](recorder)
		assert.True(t, len(texts) == noticed && (noticed <= 0 || strings.Contains(texts[0].Text, "no rows stay in memory")),
			"memory %d: %v, expected %d lines", memory, texts, noticed)
	}
}

// With a fixed feature map, an example of weight 2 has the same effect as the example twice.
func TestWeightTwoIsTheExampleTwice(t *testing.T) {
	long(t)
	once := rings(300, 3, 3, 1)
	weighted, twice := once, once
	weighted.weights = make([]float32, 300)
	for i := range once.rows {
		weighted.weights[i] = 1
		if i%3 == 0 {
			weighted.weights[i] = 2
			twice.rows, twice.labels = append(twice.rows, once.rows[i]), append(twice.labels, once.labels[i])
		}
	}
	for _, l := range []schemas.Link{link.Identity, link.Softmax, link.Calibrated} {
		s := rffStage(l, 0, 5)
		s.Features.Kind = stages.Columns
		_, a := train(t, openEmbedded(t), newJob(t, weighted, table{}, s))
		_, b := train(t, openEmbedded(t), newJob(t, twice, table{}, s))
		p, q := probabilities(t, a, once), probabilities(t, b, once)
		for i, v := range p.Data {
			// Algorithm 2 raises scores to the third power, and solves with little regularisation: rounding errors grow.
			assert.Near(t, float64(v), float64(q.Data[i]), (map[bool]float64{false: 1e-4, true: 3e-4}[l == link.Calibrated]),
				"%s: probability %d with weights, and with repeated examples", l, i)
		}
	}
}

// Unusual data can be trained on, or the error says what is wrong with it.
func TestOddData(t *testing.T) {
	long(t)
	constant := rings(200, 3, 2, 1)
	for i := range constant.rows {
		constant.rows[i] = append(constant.rows[i], 10_000)
	}
	single := rings(100, 2, 1, 1)
	hundred := rings(2000, 2, 100, 1)
	few := rings(20, 2, 2, 1)
	same := table{}
	for range 50 {
		same.rows, same.labels = append(same.rows, []float32{1, 2}), append(same.labels, "a")
	}
	for name, data := range map[string]table{
		"constant column": constant, "single class": single, "100 classes": hundred,
		"fewer rows than features": few, "two classes": rings(100, 2, 2, 1), "one row many times": same,
	} {
		for _, l := range []schemas.Link{link.Identity, link.Softmax, link.Calibrated} {
			t.Run(fmt.Sprint(name, " ", l), func(t *testing.T) {
				job := newJob(t, data, table{}, rffStage(l, 50, 3))
				if slices.Max(data.labels) == slices.Min(data.labels) { // of the two classes of the configuration, the examples have one
					job.Examples.Classes = []string{data.labels[0], "another"}
				}
				report, model := train(t, openEmbedded(t), job)
				assert.True(t, report.TestError == nil && report.Rows == int64(len(data.rows)),
					"test error %v and %d rows, expected none and %d", report.TestError, report.Rows, len(data.rows))
				for i, v := range probabilities(t, model, data).Data {
					assert.Need(t, v == v && v >= 0 && v <= 1.00001, "probability %d is %g, expected a number from 0 to 1", i, v)
				}
			})
		}
	}
	t.Run("empty partitions", func(t *testing.T) {
		job := newJob(t, few, table{}, rffStage(link.Softmax, 10, 2))
		job.Examples.Partitions = 16
		report, _ := train(t, openEmbedded(t), job)
		assert.Equal(t, report.Rows, 20, "rows")
	})
	t.Run("singular without a ridge", func(t *testing.T) {
		s := rffStage(link.Identity, 50, 1)
		s.Ridge = 0
		assert.Fails(t, trainError(t, openEmbedded(t), newJob(t, few, table{}, s)), "larger ridge")
	})
	t.Run("more components than features", func(t *testing.T) {
		job := newJob(t, few, table{}, rffStage(link.Identity, 5, 1))
		job.Prepare.PCA = 3
		assert.Fails(t, trainError(t, openEmbedded(t), job), (&solve.WidthError{Components: 3, Features: 2}).Error())
	})
	t.Run("no examples", func(t *testing.T) {
		job := newJob(t, few, table{}, rffStage(link.Identity, 5, 1))
		job.Examples.Train = nil
		assert.Fails(t, trainError(t, openEmbedded(t), job), new(*protocol.NoExamplesError))
	})
}

// If no feature differs between rows, a model predicts the shares of the classes, with any ridge. A chain that begins
// with such rows learns from later ones that differ.
func TestConstantFeatures(t *testing.T) {
	long(t)
	for name, ridge := range map[string]schemas.Ridge{"default": kindStage(stages.Columns, link.Softmax).Ridge, "large": 1e6,
		"auto": schemas.RidgeAuto} {
		for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
			t.Run(name+" "+string(l), func(t *testing.T) {
				stage := kindStage(stages.Columns, l)
				stage.Ridge, stage.Passes = ridge, 20
				job := newForeignJob(t, stage, stage)
				job.Prepare.Scale = stages.ScaleStandard
				constant := rings(200, 4, 3, 1)
				for _, row := range constant.rows {
					copy(row, []float32{60, 0, -1, 1e6})
				}
				log := openEmbedded(t)
				produce(t, log, job, 0, exampleMessage(t, constant.exampleRows()))
				_, m := train(t, log, job)
				for c, label := range m.Labels() {
					share := 0.0
					for _, other := range constant.labels {
						if other == label {
							share += 1. / 200
						}
					}
					assert.Near(t, float64(probabilities(t, m, constant).Row(0)[c]), share, 0.01, "the probability of %s, and its share", label)
				}
				job.Retrain = topics.DefaultRetrain()
				job.Retrain.Rows = 200
				for i := range 3 {
					produce(t, log, job, 0, exampleMessage(t, rings(200, 4, 3, uint64(2+i)).exampleRows()))
				}
				report, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
				assert.True(t, err == nil && report.Updates[len(report.Updates)-1].WindowRows == 800, "report %+v, error %v", report, err)
			})
		}
	}
}

// Without a BLAS and without vector instructions, the errors are the same, and predictions differ by at most 1e-4 (RMS). The stages
// have no principal components, so the survey's result is the same too.
func TestFallbackPredictsTheSame(t *testing.T) {
	long(t)
	training, test := rings(2000, 3, 3, 1), rings(500, 3, 3, 2)
	fast := openBLAS(t)
	if fast.Hint() != "" {
		t.Log("there is no fast BLAS: the test compares only vector instructions")
	}
	for name, list := range map[string][]schemas.Stage{
		"identity":   {rffStage(link.Identity, 65, 1), rffStage(link.Identity, 65, 8)},
		"softmax":    {rffStage(link.Softmax, 65, 8), rffStage(link.Softmax, 17, 8)},
		"calibrated": {rffStage(link.Calibrated, 63, 3)},
	} {
		t.Run(name, func(t *testing.T) {
			for i := range list {
				list[i].Ridge = 1e-4 // a smaller one, which auto may choose, magnifies rounding
			}
			job := newJob(t, training, test, list...)
			trainAndPredict := func(blas *kernel.BLAS) (*schemas.Report, kernel.Dense) {
				report, model, err := Train(t.Context(), openEmbedded(t), blas, job, dispatch.TrainOptions{Allocator: assert.Allocator(t)},
					ignore)
				assert.NoError(t, err)
				return report, predict(blas, model, test)
			}
			report, p := trainAndPredict(fast)
			features, accelerated := cpu.X86, vek32.Info().Acceleration
			defer func() {
				cpu.X86 = features
				vek32.SetAcceleration(accelerated)
			}()
			assert.NoError(t, kernel.UseVector("none"))
			slow, q := trainAndPredict(kernel.Gonum())
			assert.Equal(t, *slow.TestError, *report.TestError, "the test error, and with a BLAS")
			assert.Equal(t, slow.TrainError, report.TrainError, "the train error, and with a BLAS")
			sum := 0.0
			for i, v := range p.Data {
				sum += math.Pow(float64(v-q.Data[i]), 2)
			}
			if rms := math.Sqrt(sum / float64(len(p.Data))); !(rms <= 1e-4) {
				t.Errorf("predictions differ by %.1e (RMS), expected at most 1e-4", rms)
			} else {
				t.Logf("predictions differ by %.1e (RMS)", rms)
			}
		})
	}
}

const wideClasses = 4

// newWideJob returns a job of that many columns, each of which occurs, and of conjugate gradients.
func newWideJob(t *testing.T, columns int) topics.Job {
	t.Helper()
	const each = 2000 // values of a row
	random, path, lines := rand.New(rand.NewPCG(1, 2)), filepath.Join(t.TempDir(), "train.libsvm"), strings.Builder{}
	for from := 1 + wideClasses; from <= columns; from += each {
		class := random.IntN(wideClasses)
		fmt.Fprintf(&lines, "%d %d:%d", class, 1+class, each)
		for column := from; column < min(from+each, columns+1); column++ {
			fmt.Fprintf(&lines, " %d:%d", column, 1+random.IntN(3))
		}
		lines.WriteByte('\n')
	}
	assert.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	stage := solve.Defaults()
	stage.Features, stage.Link, stage.Method, stage.Passes = stages.DefaultsOf(stages.Columns), link.Identity, solve.MethodCG, 4
	job := newJob(t, rings(1, 3, 3, 1), table{}, stage)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 2
	return job
}

// A run whose matrices of sparse rows exceed the memory of the job fails, and says how many bytes they take.
func TestMemoryOfWideRows(t *testing.T) {
	job := newWideJob(t, 200_000)
	job.Memory = 16 << 20
	assert.Fails(t, trainError(t, openAlone(t), job), "set memory to at least 89600448")
}

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
	assert.NoError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	job := newJob(t, rings(1, 3, 3, 1), table{}, list...)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 3
	return job
}

// named gives the columns of a job's file names: label, a, b, ….
func named(t *testing.T, job topics.Job, columns int) topics.Job {
	t.Helper()
	header := "label"
	for j := range columns {
		header += "," + string(rune('a'+j))
	}
	path := job.Examples.Train[0]
	rows := assert.Must(os.ReadFile(path))(t)
	job.Examples.Train = []string{filepath.Join(filepath.Dir(path), "named.csv")}
	assert.NoError(t, os.WriteFile(job.Examples.Train[0], []byte(header+"\n"+string(rows)), 0o600))
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
		"table":    {600, 3, true, []string{stages.Trees, stages.RFF}, []string{stages.ScaleStandard, stages.ScaleRanks}},
		"numbers":  {600, 3, false, []string{stages.RFF}, []string{stages.ScaleNone}},
		"few rows": {300, 3, true, []string{stages.RFF}, []string{stages.ScaleStandard}}, // no 50 of them would be held out
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, rings(test.rows, test.columns, 2, 1), table{})
			job.Prepare.Scale = stages.ScaleAuto
			if test.named {
				job = named(t, job, test.columns)
			}
			told := &eventRecorder{}
			report, m := trainRecorded(t, openEmbedded(t), job, told.Record)
			plan := m.Manifest.Plan
			assert.True(t, slices.Contains(test.kinds, plan.Stages[0].Features.Kind) && slices.Contains(test.prepare, plan.Prepare.Scale),
				"chose %s and scale %s, expected one of %v and %v", plan.Stages[0].Features.Kind, plan.Prepare.Scale, test.kinds, test.prepare)
			assert.Equal(t, report.Rows, int64(test.rows), "rows that the version learnt")
			assert.Equal(t, plan.Holdout, 0, "the share that it holds out")
			few := len(plan.Stages) == 1
			assert.True(t, test.rows >= 500 || few, "%d stages were chosen by few rows", len(plan.Stages))
			assert.True(t, said(told, "stages: "), "nothing is said of the choice: %+v", told.events)
			listed := job
			listed.Stages, listed.Prepare = plan.Stages, plan.Prepare
			again, _ := train(t, openEmbedded(t), listed)
			assert.Equal(t, again.WeightsDigest, report.WeightsDigest, "the digest of a job that lists the chosen stages")
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
// above the lowest: the version has these stages, without the rule, and that temperature, unless the configuration has one. Of few rows a
// quarter is held out.
func TestStopEndsStages(t *testing.T) {
	stage, data := overfittingTrees()
	job := newJob(t, data, table{}, slices.Repeat([]schemas.Stage{stage}, 12)...)
	report, m := train(t, openEmbedded(t), job)
	plan := m.Manifest.Plan
	n := len(plan.Stages)
	assert.Need(t, n >= 1 && n != 12 && report.Rows == 300, "%d stages from %d rows, expected fewer than 12 from 300", n, report.Rows)
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
	assert.Need(t, last+1 == len(plan.Stages), "%d stages, expected %d by the losses of held-out rows: %v", len(plan.Stages), last+1, losses)
	want := held.Stages[last].Tempered
	assert.True(t, want.Temperature > 1 && report.Temperature == want.Temperature && plan.Stages[last].Temperature == want.Temperature,
		"temperature %g, in the plan %g, expected %+v, above 1", report.Temperature, plan.Stages[last].Temperature, want)
	scaled := func(s schemas.Stage) bool { return s.Temperature != 0 }
	assert.True(t, !slices.ContainsFunc(plan.Stages[:last], scaled) && report.Stages[last].Tempered == nil, "stages %+v", plan.Stages)
	for i := range job.Stages {
		job.Stages[i].Stop, job.Stages[i].Temperature = &schemas.Stop{Split: "holdout", Patience: 1, Stages: true}, 1.25
	}
	report, _ = train(t, openEmbedded(t), job)
	assert.Equal(t, report.Temperature, 1.25, "temperature, of the configuration")
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
		"Fourier features":               {true, []schemas.Stage{columns, stage(stages.RFF)}, 0, stages.ScaleStandard},
		"Fourier features of components": {true, []schemas.Stage{stage(stages.SORF)}, 2, stages.ScaleStandard},
		"columns":                        {true, []schemas.Stage{trees, columns}, 0, stages.ScaleStandard},
		"trees":                          {true, []schemas.Stage{trees}, 0, stages.ScaleNone},
		"no names":                       {false, []schemas.Stage{stage(stages.RFF)}, 0, stages.ScaleNone},
	} {
		t.Run(name, func(t *testing.T) {
			job := newJob(t, rings(200, 3, 2, 1), table{})
			if test.named {
				job = named(t, job, 3)
			}
			job.Stages, job.Prepare = test.stages, schemas.Prepare{Scale: stages.ScaleAuto, PCA: test.pca}
			p := openEmbedded(t)
			_, m := train(t, p, job)
			assert.Equal(t, m.Manifest.Plan.Prepare.Scale, test.want, "scale")
			job.Prepare.Scale = stages.ScaleUnit
			train(t, p, job)
			job.Prepare.Scale, job.Warm = stages.ScaleAuto, "latest"
			_, m = train(t, p, job)
			assert.Equal(t, m.Manifest.Plan.Prepare.Scale, stages.ScaleUnit, "the scale of a warm start from a version with scale unit")
		})
	}
}

// What the examples are is what the run learns from: the files of another job in the pipeline do not count, whichever came first.
func TestOtherSourcesDoNotChoose(t *testing.T) {
	p, other := openEmbedded(t), newJob(t, rings(200, 3, 2, 1), table{}, rffStage(link.Softmax, 16, 1))
	train(t, p, other)
	job := named(t, newJob(t, rings(200, 3, 2, 1), table{}), 3)
	job.Prepare.Scale = stages.ScaleAuto
	_, m := train(t, p, job)
	assert.Equal(t, m.Manifest.Plan.Prepare.Scale, stages.ScaleStandard, "the scale of a file with names of columns")
	job.Stages = other.Stages
	_, m = train(t, p, job)
	assert.Equal(t, m.Manifest.Plan.Prepare.Scale, stages.ScaleStandard, "the scale with stages")
}

// A run that is submitted has the stages and the preparation that Train chooses, so that Train goes on with this run. So has a search.
func TestSubmitChoosesAsTrainDoes(t *testing.T) {
	long(t)
	stage, data := overfittingTrees()
	ended := newJob(t, data, table{}, slices.Repeat([]schemas.Stage{stage}, 6)...)
	averaged := ended
	averaged.Average = 2
	none := named(t, newJob(t, rings(300, 3, 2, 1), table{}), 3)
	none.Prepare.Scale = stages.ScaleAuto
	sparse := sparseChainJob(t, link.Softmax)
	sparse.Stages, sparse.Untuned, sparse.Unlinked = sparse.Stages[:1], true, true
	sparse.Prepare = schemas.Prepare{Scale: stages.ScaleAuto}
	bare := sparse
	bare.Stages = nil
	for name, job := range map[string]topics.Job{
		"stages are ended": ended, "of an average too": averaged, "no stages": none, "preparation of sparse rows": sparse,
		"no stages of sparse rows": bare,
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			id, err := Submit(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, nil)
			assert.NoError(t, err)
			report, m := train(t, log, job)
			assert.Equal(t, report.Run, id, "the run that is trained, and the one that was submitted")
			assert.Equal(t, report.Version, 1, "its version")
			if job.Examples.Holdout = 0.25; len(job.Stages) < 2 { // which is what is held out of so few rows
				_, m = train(t, openEmbedded(t), job)
			}
			err = Search(t.Context(), openEmbedded(t), openBLAS(t), []topics.Job{job}, 0, nil, func(_ int, c *replay.Candidate) error {
				assert.Equal(t, c.Plan.Stages, m.Manifest.Plan.Stages, "the stages that a search trains")
				assert.Equal(t, c.Plan.Prepare, m.Manifest.Plan.Prepare, "the preparation of a search")
				return c.Err
			})
			assert.Fails(t, err, nil)
		})
	}
}

// tried returns how many choices a notice says were tried.
func tried(rec *eventRecorder) (n int) {
	for _, notice := range eventsOf[event.Noticed](rec) {
		if strings.HasPrefix(notice.Text, "stages: tried") {
			n++
		}
	}
	return n
}

// A chain whose keys say nothing of how its sparse rows are prepared and fitted chooses it by the rows of its first version. Later
// versions, and processes that start later, have the same.
func TestChainChoosesPreparation(t *testing.T) {
	long(t)
	job := sparseChainJob(t, link.Softmax)
	job.Stages = job.Stages[:1]
	job.Stages[0].Ridge, job.Stages[0].Passes = schemas.RidgeAuto, solve.Defaults().Passes
	job.Prepare, job.Untuned = schemas.Prepare{Scale: stages.ScaleAuto}, true
	job.Retrain.Rows, job.Retrain.Window.Increments, job.Retrain.Full.Every = 400, 0, 2
	log, told := openEmbedded(t), &eventRecorder{}
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, told.Record)
	assert.Need(t, err == nil && len(report.Updates) >= 4, "%v, updates %+v", err, report)
	assert.Equal(t, tried(told), 3, "preparations that were tried")
	p := topics.Open(log, job.Name, nil)
	first := assert.Must(p.Version(t.Context(), "1"))(t)
	s := first.Plan.Stages[0]
	assert.True(t, first.Plan.Prepare.Scale != stages.ScaleAuto && s.Stop == nil && s.Link == link.Softmax && first.Plan.Holdout == 0 &&
		first.Plan.Chain != nil, "the first version has prepare %+v, stage %+v, and holds out %g", first.Plan.Prepare, s, first.Plan.Holdout)
	later := &eventRecorder{}
	job.Examples.Train = append(job.Examples.Train, wordCounts(t, 900))
	report, err = Retrain(t.Context(), log, openBLAS(t), job, true, later.Record)
	assert.Need(t, err == nil && len(report.Updates) > 0 && tried(later) <= 0, "%v, updates %+v, %d were tried", err, report, tried(later))
	last, err := p.Version(t.Context(), protocol.Latest)
	assert.True(t, err == nil && reflect.DeepEqual(last.Plan.Stages, first.Plan.Stages) && last.Plan.Prepare == first.Plan.Prepare,
		"%v: the first version has %+v, %+v, the last %+v, %+v", err, first.Plan.Stages, first.Plan.Prepare, last.Plan.Stages, last.Plan.Prepare)
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
		report, m := trainRecorded(t, openEmbedded(t), job, told.Record)
		plan := m.Manifest.Plan
		if chosen := holdout == 0; chosen != (tried(told) > 1) || chosen != (plan.Stages[0].Ridge > 0) || plan.Holdout != holdout || plan.Warm != nil {
			t.Errorf("holdout %g: %d ridges were tried; the plan has ridge %v, holdout %g", holdout, tried(told), plan.Stages[0].Ridge, plan.Holdout)
		}
		listed := job
		listed.Stages = slices.Clone(job.Stages)
		listed.Stages[0].Ridge = report.Stages[0].Ridge
		again, _ := train(t, openEmbedded(t), listed)
		assert.Equal(t, again.WeightsDigest, report.WeightsDigest, "the digest of a job with the chosen ridge %v", report.Stages[0].Ridge)
	}
}

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
				job.Average, job.Prepare.Scale = c.members, stages.ScaleStandard
				report, m := train(t, openEmbedded(t), job)
				assert.Near(t, *report.Splits["test"].LogLoss, logLossOf(t, m, test), 1e-4,
					"temperature %g: log loss of the report, and of the model", last)
				assert.Equal(t, report.Temperature, last, "the temperature of the report")
				return report, *report.Splits["test"].LogLoss
			}
			plain, loss := run(0, 0)
			tempered, temperedLoss := run(0, 3)
			_, unchanged := run(3, 0)
			assert.True(t, tempered.WeightsDigest == plain.WeightsDigest && *tempered.TestError == *plain.TestError &&
				(c.members != 1 || tempered.Splits["test"].Loss == plain.Splits["test"].Loss),
				"digest %s, error %g, loss %g; without a temperature %s, %g, %g", tempered.WeightsDigest, *tempered.TestError,
				tempered.Splits["test"].Loss, plain.WeightsDigest, *plain.TestError, plain.Splits["test"].Loss)
			assert.True(t, math.Abs(temperedLoss-loss) >= 1e-3 && unchanged == loss,
				"log loss %g at temperature 1, %g at 3, %g with 3 in the first stage", loss, temperedLoss, unchanged)
		})
	}
}

// Versions of a chain have the weights, the losses and the decisions of the gate that they have without a temperature. Only the
// probabilities of new rows differ.
func TestTemperatureInChain(t *testing.T) {
	run := func(temperature float64) (reports []schemas.RetrainReport, digests []wire.Digest) {
		stage := treesStage(link.Softmax, 2)
		stage.Temperature = temperature
		job := newStreamJob(t, 100, stage, stage)
		job.Retrain.Gate = topics.GateOptions{Split: examples.Test.String(), Margin: 0.01}
		log := openEmbedded(t)
		p := topics.Open(log, job.Name, nil)
		assert.NoError(t, topics.Create(t.Context(), p, &job))
		for i := range 4 {
			batch := rings(160, 4, 3, uint64(i)).exampleRows()
			batch.Splits = append(slices.Repeat([]examples.Split{examples.Test}, 60), make([]examples.Split, 100)...)
			if i == 3 { // these are wrong
				slices.Reverse(batch.Words[60:])
			}
			produce(t, log, job, 0, exampleMessage(t, batch))
		}
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		versions := assert.Must(p.Versions(t.Context()))(t)
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
	assert.Need(t, slices.Equal(digests, same) && len(plain) == len(tempered) && len(plain) >= 3,
		"%d versions %v, with a temperature %d %v", len(plain), digests, len(tempered), same)
	for i, u := range tempered {
		want := plain[i]
		assert.Equal(t, u.Gate, want.Gate, "version %d: the gate, and without a temperature", u.Version)
		assert.True(t, (u.PrequentialError == nil) == (want.PrequentialError == nil) && u.Offered == want.Offered, "version %d: %v", u.Version, u)
		if u.PrequentialError == nil {
			continue
		}
		assert.True(t, *u.PrequentialError == *want.PrequentialError && *u.PrequentialLoss == *want.PrequentialLoss &&
			math.Abs(*u.PrequentialLogLoss-*want.PrequentialLogLoss) >= 1e-3,
			"version %d: error %g, loss %g, log loss %g, without a temperature %g, %g, %g", u.Version, *u.PrequentialError, *u.PrequentialLoss,
			*u.PrequentialLogLoss, *want.PrequentialError, *want.PrequentialLoss, *want.PrequentialLogLoss)
	}
}

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
	warm, _ := trainRecorded(t, log, job, recorder.Record)
	first := eventsOf[event.Passed](recorder)[0]
	assert.Near(t, first.Metrics[examples.Train].Loss, cold.Stages[0].TrainLoss, 1e-4,
		"the loss of the first pass, and of the end of the earlier version")
	assert.True(t, warm.Stages[1].TrainLoss <= cold.Stages[1].TrainLoss+1e-4,
		"the warm start ends with loss %g, expected at most the %g of the earlier version", warm.Stages[1].TrainLoss, cold.Stages[1].TrainLoss)

	for want, change := range map[string]func(*topics.Job){
		"examples.classes are not those": func(j *topics.Job) { j.Examples.Classes = []string{"ring2", "ring1", "ring0"} },
		"4 features, but 3 in the version that this run starts from": func(j *topics.Job) {
			j.Examples.Train = newJob(t, rings(300, 4, 3, 1), table{}).Examples.Train
		},
	} {
		other := job
		change(&other)
		assert.True(t, strings.Contains(trainError(t, log, other).Error(), want), "expected an error with %q", want)
	}
	more := rings(100, 3, 4, 3)
	job.Examples.Train = append(job.Examples.Train, more.writeCSV(t, t.TempDir(), "more.csv"))
	assert.Fails(t, trainError(t, log, job), `labels ["ring3"] are not among the classes`)
	job.Warm = "99"
	assert.Fails(t, trainError(t, log, job), new(*protocol.NoVersionError))
}

// A run that keeps the preparation of a version sends nothing of which a preparation is made: its survey counts, and notes the labels.
func TestSurveyOfAWarmStart(t *testing.T) {
	log := openEmbedded(t)
	job := newJob(t, rings(300, 3, 3, 1), rings(50, 3, 3, 2), rffStage(link.Softmax, 20, 3))
	job.Prepare = schemas.Prepare{Scale: stages.ScaleStandard, PCA: 2}
	cold, _ := train(t, log, job)
	sent := sentBySurvey(t, log, job.Name, cold.Run)
	job.Warm = protocol.Latest
	warm, _ := train(t, log, job)
	sentWarm := sentBySurvey(t, log, job.Name, warm.Run)
	assert.Equal(t, warm.Rows, cold.Rows, "rows of the warm start")
	assert.Equal(t, warm.Splits["test"].Rows, cold.Splits["test"].Rows, "test rows of the warm start")
	for _, part := range []string{"sample", "gram", statistics.FieldSums, statistics.FieldSquares, statistics.FieldPresent} {
		assert.True(t, sent[part] && !sentWarm[part],
			"%s: the first run sends it, %v, the warm start sends it, %v; expected true and false", part, sent[part], sentWarm[part])
	}
	for _, part := range []string{"visit", statistics.FieldSplits, statistics.FieldLabels} {
		assert.True(t, sentWarm[part], "the warm start does not send %s", part)
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
		r := assert.Must(collector.Add(m, assert.Allocator(t)))(t)
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
			warm, _ := train(t, log, job)
			assert.Equal(t, fmt.Sprint(ridgesOf(warm)), fmt.Sprint(ridgesOf(cold)), "ridges, and those of the version")
		}
	}
}

// Members begin at score 0, each with an intercept. So members of the same features, which no configuration allows, are the run without
// them, to the bit, one after the other. So is their mean, of whatever is predicted, with whatever links.
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
			assert.NoError(t, os.WriteFile(path, []byte(text), 0o600))
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
					assert.Equal(t, first, want, "the first member's weights of stage %d, and of the run alone", s)
					assert.Equal(t, second, want, "the second member's weights of stage %d, and of the run alone", s)
				}
				assert.Need(t, len(together.Stages) == 2*n, "%d stages are reported of two members of %d", len(together.Stages), n)
				for s, r := range together.Stages {
					want := alone.Stages[s%n]
					assert.True(t, r.TrainError == want.TrainError && r.TrainLoss == want.TrainLoss && r.Ridge == want.Ridge && r.Passes == want.Passes &&
						r.Member == 1+s/n && (r.Average != nil) == (s%n == n-1),
						"stage %d is reported as %+v, alone %+v", s, r, want)
				}
				a := together.Stages[2*n-1].Average
				assert.True(t, a.Members == 2 && a.TrainError == together.TrainError && a.TrainLoss == together.Splits["train"].Loss,
					"the report has the average %+v, and train error %g", a, together.TrainError)
				assert.Equal(t, together.TrainError, alone.TrainError, "train error, and alone")
				assert.Equal(t, fmt.Sprint(together.Thresholds), fmt.Sprint(alone.Thresholds), "thresholds, and alone")
				for split, want := range alone.Splits {
					got := together.Splits[split]
					assert.True(t, c.clipped || math.Abs(got.Loss-want.Loss) <= 1e-5*want.Loss, "%s rows: loss %g, alone %g", split, got.Loss, want.Loss)
					got.Loss, want.Loss = 0, 0
					assert.Equal(t, got, want, "%s rows, and alone", split)
				}
				assert.Equal(t, both.Manifest.Metrics["train_error"], together.TrainError, "the train error of the manifest")
				assert.Equal(t, both.Manifest.Plan.Average, 2, "its members")
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
	warm, _ := trainRecorded(t, log, job, recorder.Record)
	for _, p := range eventsOf[event.Passed](recorder) {
		switch {
		case p.Pass > 1:
		case p.Stage == 4:
			assert.Near(t, p.Metrics[examples.Train].Loss, math.Log(3), 1e-6, "the loss with which the third member begins")
		case (p.Stage == 0 || p.Stage == 2) && p.Metrics[examples.Train].Loss > cold.Stages[p.Stage].TrainLoss+1e-4:
			t.Errorf("stage %d begins with loss %g, the earlier version ended with %g", p.Stage, p.Metrics[examples.Train].Loss,
				cold.Stages[p.Stage].TrainLoss)
		}
	}
	a := warm.Stages[5].Average
	assert.True(t, a != nil && a.Members == 3, "the last stage has average %+v", a)
	for _, average := range []int{0, 2} {
		job.Average, job.Stages = average, job.Stages[:1]
		assert.Fails(t, trainError(t, log, job), "a warm start needs members with as many stages")
	}
}

// ends returns where the partitions of all topics end.
func ends(t *testing.T, log *kafkalog.Log) map[string]int64 {
	t.Helper()
	topics := assert.Must(log.Topics(t.Context(), ""))(t)
	list := map[string]int64{}
	for _, topic := range topics {
		for n := range topic.Partitions {
			_, end, err := log.Bounds(t.Context(), topic.Name, n)
			assert.NoError(t, err)
			list[fmt.Sprintf("%s[%d]", topic.Name, n)] = end
		}
	}
	return list
}

// checkVerified verifies a version, and checks which versions are the same, and that nothing is written to the topics of the pipeline and
// nothing left beside them. It returns the events.
func checkVerified(t *testing.T, log *kafkalog.Log, job topics.Job, version string, want ...int) *eventRecorder {
	t.Helper()
	before, rec := ends(t, log), &eventRecorder{}
	p := topics.OpenFor(log, job, nil)
	same := assert.Must(replay.Verify(t.Context(), p, dispatch.NewProcess(openBLAS(t)), job, version, rec.Record))(t)
	var got []int
	for _, v := range same {
		got = append(got, v.Version)
	}
	assert.Equal(t, got, want, "version %s: verified", version)
	assert.Equal(t, fmt.Sprint(ends(t, log)), fmt.Sprint(before), "where the topics end")
	return rec
}

// checkReported checks that reproduced versions are reported as those of a chain were: with the same errors, and offered or not.
func checkReported(t *testing.T, report *Retraining, rec *eventRecorder) {
	t.Helper()
	for _, e := range eventsOf[event.Retrained](rec) {
		got := e.RetrainReport
		i := slices.IndexFunc(report.Updates, func(u *schemas.RetrainReport) bool { return u.Version == got.Version })
		assert.Need(t, i >= 0, "version %d is not one of the chain", got.Version)
		want := *report.Updates[i]
		want.Seconds, got.Curve = got.Seconds, nil // the report has no curves of versions
		if !reflect.DeepEqual(got, want) {
			here, _ := json.Marshal(got)
			there, _ := json.Marshal(want)
			t.Errorf("version %d is reported as %s, expected %s", got.Version, here, there)
		}
	}
}

// A version is made again with the same bits: that of one run, one that starts from another, and those of a chain, from
// their last full runs on. Of the versions on the way those that were removed are made too.
func TestVerify(t *testing.T) {
	long(t)
	t.Run("train", func(t *testing.T) {
		log, job := openEmbedded(t), newMultiStageJob(t)
		train(t, log, job)
		checkVerified(t, log, job, "latest", 1)
		job.Warm, job.Stages[0].Passes = "1", 5
		train(t, log, job)
		checkVerified(t, log, job, "2", 1, 2)
		checkVerified(t, log, job, "1", 1)
	})
	t.Run("chain", func(t *testing.T) {
		log, job := openEmbedded(t), chainJob(t, "softmax")
		job.Examples.Holdout = 0.2 // there is a gate
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		versions := assert.Must(topics.Open(log, job.Name, nil).Versions(t.Context()))(t)
		fulls := 0
		for i, v := range versions {
			want := []int{v.Version}
			for at := i; versions[at].Plan.Update() != nil; at-- {
				want = append([]int{versions[at-1].Version}, want...)
			}
			if v.Plan.Update() == nil {
				fulls++
			}
			if i >= 6 {
				checkReported(t, report, checkVerified(t, log, job, fmt.Sprint(v.Version), want...))
			}
		}
		assert.True(t, fulls >= 2, "%d full runs, expected several", fulls)
	})
	t.Run("removed versions", func(t *testing.T) {
		log, job := openAlone(t), chainJob(t, "identity")
		job.Keep, job.Retrain.Full = 2, topics.FullOptions{Every: 1000}
		job.Retrain.Rows, job.Examples.BatchRows = 30, 10
		report := assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
		last := len(report.Updates)
		live := map[string]bool{}
		for _, m := range readTopic(t, log, protocol.TopicsOf(job.Name).Plans) {
			if bytes.HasPrefix(m.Key, []byte("plan/")) {
				live[string(m.Key)] = m.Value != nil
			}
		}
		for key, stays := range live {
			assert.Need(t, stays && len(live) == last, "%s stays: %v; %d plans of %d versions", key, stays, len(live), last)
		}
		checkReported(t, report, checkVerified(t, log, job, "latest", last-1, last))
	})
}

// What is missing, or differs, is named.
func TestVerifyNamesWhatIsMissing(t *testing.T) {
	job := newJob(t, rings(640, 2, 2, 1), table{}, rffStage(link.Softmax, 20, 3))
	job.Examples.Partitions = 2
	verify := func(log *kafkalog.Log) error {
		_, err := replay.Verify(t.Context(), topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, protocol.Latest, nil)
		return err
	}
	t.Run("no version", func(t *testing.T) {
		log := openEmbedded(t)
		assert.NoError(t, log.Create(t.Context(), topics.Topics(job)...))
		assert.Fails(t, verify(log), new(*protocol.NoVersionError))
	})
	t.Run("expired examples", func(t *testing.T) {
		log := openEmbedded(t)
		train(t, log, job)
		deleteRecords(t, log, protocol.TopicsOf(job.Name).Examples, 1, 3)
		err := verify(log)
		missing, ok := errors.AsType[*replay.MissingExamplesError](err)
		want := coverage.Spans{{Partition: 1, From: 0, To: 3}}
		assert.True(t, ok && slices.Equal(missing.Spans, want) && strings.Contains(err.Error(), "test.examples[1]@0–3"),
			"got %v, expected that %v are gone", err, want)
	})
	t.Run("other examples", func(t *testing.T) {
		log := openEmbedded(t)
		train(t, log, job)
		examples := protocol.TopicsOf(job.Name).Examples
		messages := readTopic(t, log, examples)
		assert.NoError(t, log.Delete(t.Context(), examples))
		assert.NoError(t, log.Create(t.Context(), topics.Topics(job)[0]))
		other := exampleMessage(t, rings(64, 2, 2, 7).exampleRows())
		for _, m := range messages {
			if m.Partition == 1 && m.Offset == 2 {
				m.Value = other.Value
			}
			produce(t, log, job, m.Partition, m)
		}
		err := verify(log)
		differs, ok := errors.AsType[*replay.DigestError](err)
		assert.True(t, ok && differs.Got != differs.Want && len(differs.Changed) == 1 && differs.Changed[0].Partition == 1,
			"got %v, expected other weights of other examples in partition 1", err)
	})
	t.Run("a plan", func(t *testing.T) {
		log, first := openEmbedded(t), job
		train(t, log, first)
		first.Warm, first.Keep = protocol.Latest, 1
		train(t, log, first)
		plans := protocol.TopicsOf(job.Name).Plans
		second := int64(0)
		for _, m := range readTopic(t, log, plans) {
			if bytes.HasPrefix(m.Key, []byte("plan/")) {
				second = m.Offset
			}
		}
		deleteRecords(t, log, plans, 0, second)
		assert.Fails(t, verify(log), new(*source.MissingPlanError))
	})
	t.Run("arithmetic", func(t *testing.T) {
		p, here := topics.Open(openEmbedded(t), job.Name, nil), dispatch.Arithmetic(openBLAS(t))
		there := here
		there.Vector = "none"
		runs := []source.EarlierRun{{Version: 3, Plan: &schemas.Plan{Arithmetic: there}}}
		err := replay.CheckHistory(t.Context(), p, runs, here, nil)
		assert.Fails(t, err, "version 3 was made with a different arithmetic (vector none, this process has ")
	})
}

// Who interrupts a verification leaves no topics.
func TestInterruptedVerifyLeavesNothing(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	train(t, log, job)
	before, left := ends(t, log), 12
	ctx, cancel := context.WithCancel(t.Context())
	interrupt := func(event.Event) {
		if left--; left == 0 {
			cancel()
		}
	}
	assert.MustFail(replay.Verify(ctx, topics.OpenFor(log, job, nil), dispatch.NewProcess(openBLAS(t)), job, protocol.Latest, interrupt))(t,
		context.Canceled)
	assert.Equal(t, fmt.Sprint(ends(t, log)), fmt.Sprint(before), "where the topics end")
}

// The weights of a run depend only on the plan and the examples: not on the memory of its workers, not on the time, and not on earlier
// runs. So the runs of a search have the weights of separate runs, whatever of them is shared and however little memory there is for it.
func TestSearchHasTheWeightsOfSeparateRuns(t *testing.T) {
	long(t)
	job := newJob(t, rings(700, 3, 3, 1), rings(80, 3, 3, 2), rffStage(link.Softmax, 30, 4), rffStage(link.Calibrated, 20, 2),
		rffStage(link.Softmax, 20, 3), rffStage(link.Identity, 20, 1))
	job.Examples.Holdout = 0.2
	job.Stages[2].Scores, job.Stages[0].GramRows = true, "200"
	var jobs []topics.Job
	for _, change := range []func(*topics.Job){
		func(*topics.Job) {},
		func(j *topics.Job) { j.Stages[0].Ridge = 0.1 },
		func(j *topics.Job) { j.Stages[1].Ridge, j.Stages[3].Ridge = 0.1, schemas.RidgeAuto },
		func(j *topics.Job) { j.Stages[0].GramRows = "all" },
		func(j *topics.Job) { j.Seed = 2 },
		func(j *topics.Job) { j.Stages[1].Features.Size = 25 },
		func(j *topics.Job) { j.Prepare.PCA = 2 },
		func(j *topics.Job) { j.Stages = j.Stages[:2] },
		func(j *topics.Job) { j.Intercept = false },
		func(j *topics.Job) { j.Average, j.Stages = 2, j.Stages[:2] }, // stage 2 begins a member
		func(*topics.Job) {},
	} {
		j := job
		j.Stages = append([]schemas.Stage(nil), job.Stages...)
		change(&j)
		jobs = append(jobs, j)
	}
	log := openEmbedded(t)
	var alone []wire.Digest
	for _, j := range jobs {
		report, _ := train(t, log, j)
		alone = append(alone, report.WeightsDigest)
	}
	assert.Equal(t, alone[len(alone)-1], alone[0], "the digest of the same job after other runs")
	for _, memory := range []int64{1 << 30, 200_000, 1} {
		t.Run(fmt.Sprint(memory), func(t *testing.T) {
			for i := range jobs {
				jobs[i].Memory = memory
			}
			ended := 0
			err := Search(t.Context(), log, openBLAS(t), jobs, 0, nil, func(i int, c *replay.Candidate) error {
				assert.True(t, c.Err == nil && c.Report.WeightsDigest == alone[i],
					"candidate %d: %v, expected digest %s in %+v", i, c.Err, alone[i], c.Report)
				ended++
				return nil
			})
			assert.Need(t, err == nil && ended == len(jobs), "%v after %d of %d runs", err, ended, len(jobs))
		})
	}
	left, err := log.Topics(t.Context(), job.Name+".search-")
	assert.True(t, err == nil && len(left) == 0, "%v are still there, %v", replay.Names(left), err)
}

// Of each job of a search with folds a run holds out each fold: together all training rows, each once, and test rows never. Whatever runs
// share, each has the weights that it has alone, and those of different folds differ.
func TestSearchWithFolds(t *testing.T) {
	const rows, folds = 600, 4
	job := newJob(t, rings(rows, 3, 3, 1), rings(80, 3, 3, 2), rffStage(link.Softmax, 30, 3))
	other := job
	other.Stages = append([]schemas.Stage(nil), job.Stages...)
	other.Stages[0].Ridge = 0.1
	log := openEmbedded(t)
	digests := map[examples.Fold][]wire.Digest{}
	search := func(jobs ...topics.Job) (made [][]*replay.Candidate) {
		made = make([][]*replay.Candidate, len(jobs))
		assert.NoError(t, Search(t.Context(), log, openBLAS(t), jobs, folds, nil, func(i int, c *replay.Candidate) error {
			if c.Err != nil {
				return c.Err
			}
			made[i] = append(made[i], c)
			return nil
		}))
		return made
	}
	both := search(job, other)
	for i, runs := range both {
		held, seen := int64(0), map[wire.Digest]bool{}
		for _, c := range runs {
			splits := c.Report.Splits
			train, holdout, test := splits["train"].Rows, splits["holdout"].Rows, splits["test"].Rows
			assert.True(t, train+holdout == rows && test == 80 && holdout >= rows/folds*7/10 && holdout <= rows/folds*13/10,
				"job %d, fold %+v: %d, %d and %d rows", i, c.Plan.Fold, train, holdout, test)
			held += holdout
			seen[c.Report.WeightsDigest] = true
			digests[c.Plan.Fold] = append(digests[c.Plan.Fold], c.Report.WeightsDigest)
		}
		assert.True(t, held == rows && len(runs) == folds && len(seen) == folds,
			"job %d: %d runs, %d different, hold out %d rows", i, len(runs), len(seen), held)
	}
	for i, runs := range search(other) {
		for _, c := range runs {
			assert.Equal(t, c.Report.WeightsDigest, digests[c.Plan.Fold][1],
				"job %d, fold %+v: digest alone, and beside another job", i, c.Plan.Fold)
		}
	}
}

// FuzzLedger checks that any message of the plans topic is either damaged or harmless: a plan that the ledger accepts can be followed.
func FuzzLedger(f *testing.F) {
	plan := func(p schemas.Plan) *schemas.Plan { return &p }
	sound := schemas.Plan{Name: "test", Segment: 16, Stages: []schemas.Stage{rffStage(link.Softmax, 20, 3)},
		Prepare: schemas.Prepare{Scale: "none"}}
	wide := sound
	wide.Spans = coverage.Spans{{To: 1 << 60}}
	twice := sound
	twice.Classes = []string{"a", "a"}
	for _, p := range []*schemas.Plan{plan(sound), plan(wide), plan(twice), {Segment: 1}} {
		f.Add(string(schemas.KindPlan), assert.Must(p.Messages())(f)[0].Value)
	}
	f.Add(string(schemas.KindEnd), (&schemas.End{Run: "run", State: schemas.Done}).Message().Value)
	f.Add(string(schemas.KindSource), (&schemas.SourceSeal{ID: "a", Partitions: 2, Messages: 1 << 62,
		Spans: coverage.Spans{{To: 1 << 62}}}).Message().Value)
	f.Fuzz(func(t *testing.T, kind string, value []byte) {
		topics := protocol.TopicsOf("test")
		log := &simLog{topics: map[string][]*simPartition{topics.Plans: {{}}}}
		client := &protocol.Client{Log: actorLog{simLog: log, actor: unattended()}, Topics: topics, Memory: memory.DefaultAllocator}
		l := assert.Must(client.ReadLedger(t.Context()))(t)
		digest := sha256.Sum256(value)
		headers := []wire.Header{{Key: "kind", Value: kind}, {Key: "chunks", Value: "1"}, {Key: "digest", Value: hex.EncodeToString(digest[:])}}
		for _, number := range []string{"stage", "visit", "partition", "chunk"} {
			headers = append(headers, wire.Header{Key: number, Value: "0"})
		}
		err := l.Add(protocol.Message{Message: wire.Message{Value: value, Headers: headers}})
		assert.True(t, err == nil || errors.Is(err, wire.ErrDamaged), "%v", err)
		for _, p := range l.Unfinished() {
			p.Content()
			dispatch.Narrow(p.Spans, dispatch.Remaining(l, p.Spans))
			segments := 0.0
			for _, s := range p.Spans {
				segments += float64(s.To-s.From) / float64(p.Segment)
			}
			if segments < 100_000 { // the segments of a plan at the limit take too long
				for i, span := range p.Spans {
					visit.NewShare(p.Segment, &visit.Part{Span: span, Ordinal: i})
				}
			}
		}
	})
}

// A plan that does not fit a warm start is refused by the first key that differs, with both values.
func TestCheckFeatures(t *testing.T) {
	plan := func() *schemas.Plan {
		return &schemas.Plan{
			Seed: 1, Intercept: true, Prepare: schemas.Prepare{Scale: "unit"},
			Stages: []schemas.Stage{{Link: "softmax", Features: schemas.Features{Kind: "rff", Size: 256, BandwidthScale: 1}}},
		}
	}
	for want, change := range map[string]func(p *schemas.Plan){
		"": func(*schemas.Plan) {},
		"seed 2, this run has 1: a warm start needs the same seed":                        func(p *schemas.Plan) { p.Seed = 2 },
		"intercept false, this run has true: a warm start needs the same intercept":       func(p *schemas.Plan) { p.Intercept = false },
		"prepare: scale none, this run has unit: a warm start needs the same preparation": func(p *schemas.Plan) { p.Prepare.Scale = "none" },
		"stage 0: link identity, this run has softmax: a warm start needs the same link":  func(p *schemas.Plan) { p.Stages[0].Link = "identity" },
		"stage 0: scores true, this run has false: a warm start needs the same scores":    func(p *schemas.Plan) { p.Stages[0].Scores = true },
		"prepare: scale none, this run has unit; pca 50, this run has 0: a warm start needs the same preparation": func(p *schemas.Plan) {
			p.Prepare = schemas.Prepare{Scale: "none", PCA: 50}
		},
		"stage 0: features: size 512, this run has 256: a warm start needs the same features": func(p *schemas.Plan) {
			p.Stages[0].Features.Size = 512
		},
	} {
		earlier := plan()
		change(earlier)
		assert.Equal(t, fmt.Sprint(dispatch.CheckFeatures(plan(), earlier)), cmp.Or(want, "<nil>"), "")
	}
	// A version has what features of patches have learnt for its own stages, and for no others.
	members := func(n int) *schemas.Plan {
		stage := schemas.Stage{Features: stages.DefaultsOf(stages.Patches)}
		return &schemas.Plan{Stages: slices.Repeat([]schemas.Stage{stage}, n), Average: n}
	}
	assert.NoError(t, dispatch.CheckFeatures(members(2), members(2)))
	want := "stage 2: features of kind patches need a survey, but a warm start"
	assert.Fails(t, dispatch.CheckFeatures(members(3), members(2)), want)
}

// A trigger's run replaces the runs of triggers that wait, and no other: not the one that goes first, and none that somebody submitted
// by hand.
func TestTriggerReplacesWaitingRuns(t *testing.T) {
	log, job := openEmbedded(t), newJob(t, rings(100, 2, 2, 1), table{}, rffStage(link.Identity, 10, 1))
	var submitted, unfinished []string
	for i, trigger := range []bool{true, true, false, true, true} {
		job.Seed = uint64(i)
		_, plan := submitJob(t, log, job, nil, trigger)
		submitted = append(submitted, plan.Run())
	}
	l := readLedger(t, topics.Open(log, job.Name, assert.Allocator(t)))
	for id := range l.Unfinished() {
		unfinished = append(unfinished, id)
	}
	assert.Equal(t, unfinished, []string{submitted[0], submitted[2], submitted[4]}, "unfinished of %v", submitted)
	end := l.End(submitted[1])
	assert.True(t, end != nil && end.State == schemas.Cancelled && strings.Contains(end.Reason, submitted[3]), "the second run has %+v", end)
}

// A process with another arithmetic than the run's leaves its group, so that others get its partitions, and says so.
func TestAnotherArithmeticStandsAside(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	p, plan := submitJob(t, log, job, nil, false)
	other := plan.Arithmetic
	other.BLAS = "another"
	left, over := make(chan struct{}, 1), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	recorder := &eventRecorder{on: func(e event.Event) {
		if _, ok := e.(event.Ended); ok {
			close(over)
		}
	}}
	ended := make(chan error, 1)
	go func() {
		ended <- dispatch.Serve(ctx, p, other, event.Serialised(recorder.Record), func() dispatch.Member {
			return &leavingMember{SoleOwner: protocol.NewSoleOwner(4), left: left}
		}, func(context.Context, protocol.Owner, *schemas.Plan) error {
			t.Error("a process with another arithmetic takes part in the run")
			return nil
		})
	}()
	<-left
	assert.Must(newSoleMembers(t, p, job, nil).Execute(t.Context(), plan, readLedger(t, p)))(t)
	<-over
	cancel()
	assert.Fails(t, <-ended, context.Canceled)
	aside := eventsOf[event.StoodAside](recorder)
	assert.True(t, len(aside) != 0 && aside[0].Run == plan.Run() && !aside[0].Over && strings.Contains(aside[0].Why, "its arithmetic differs"),
		"%+v, expected first of all that it stands aside", aside)
}

// With arithmetic: any, machines of any kind work on a run together, and the version says so.
func TestAnyArithmetic(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	job.Arithmetic = topics.ArithmeticAny
	p, plan := submitJob(t, log, job, nil, false)
	halves := make(chan error, 2)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for i, blas := range []*kernel.BLAS{openBLAS(t), kernel.Gonum()} {
		here := dispatch.Arithmetic(blas)
		here.Processor = []string{"amd64", "arm64"}[i]
		half := &leavingMember{SoleOwner: protocol.SoleOwner{i, i + 2}, left: make(chan struct{}, 1)}
		go func() {
			halves <- dispatch.Serve(ctx, p, here, nil, func() dispatch.Member { return half }, func(ctx context.Context,
				o protocol.Owner, plan *schemas.Plan) error {
				return worker.New(p.Client, blas, plan, o, worker.Options{Cache: visit.NewRunCache(1 << 30)}, nil).Work(ctx)
			})
		}()
	}
	solving := newSoleMembers(t, p, job, nil)
	solving.Works = protocol.NewSoleOwner(0)
	report, err := solving.Execute(t.Context(), plan, readLedger(t, p))
	assert.Need(t, err == nil && len(report.Stages) == len(job.Stages), "report %+v, %v", report, err)
	stop()
	for range 2 {
		assert.Fails(t, <-halves, context.Canceled)
	}
	assert.Equal(t, assert.Must(p.Version(t.Context(), protocol.Latest))(t).Plan.Arithmetic.Any, true,
		"the version says that any machine worked on the run")
}

// A process that executes a run executes earlier ones first. Each starts where the one before it ends.
func TestEarlierRunsGoFirst(t *testing.T) {
	log, job := openEmbedded(t), newMultiStageJob(t)
	p, first := submitJob(t, log, job, nil, false)
	job.Seed++
	_, second := submitJob(t, log, job, nil, false)
	assert.Must(newSoleMembers(t, p, job, nil).Execute(t.Context(), second, readLedger(t, p)))(t)
	l := readLedger(t, p)
	assert.Equal(t, l.End(first.Run()).State, schemas.Done, "the end of the run that was submitted first")
	assert.Equal(t, l.Plan(second.Run()).Since.Weights, l.End(first.Run()).Since.Weights, "the offset at which the second starts")
}

// leavingMember is a member of a group that sends a value when it leaves.
type leavingMember struct {
	protocol.SoleOwner
	left chan<- struct{}
}

func (l *leavingMember) Leave() error {
	select {
	case l.left <- struct{}{}:
	default: // it has left before
	}
	return nil
}

// A process that retrains finishes no run of another arithmetic, whether it is full or an update: it cancels the run, says so, and makes
// it again. It joins no such run either: executing it is an error.
func TestAnotherArithmeticIsNotFinished(t *testing.T) {
	for name, versions := range map[string]int{"full": 0, "update": 2} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), standingJob(t, 1)
			if fill(t, log, job, 0, 4); versions > 0 {
				assert.Must(Retrain(t.Context(), log, openBLAS(t), job, true, nil))(t)
				fill(t, log, job, 4, 8)
			}
			p, here := topics.OpenFor(log, job, nil), dispatch.Arithmetic(openBLAS(t))
			other, killed := here, errors.New("killed")
			other.BLAS = "another"
			var plan *schemas.Plan
			dies := func(_ context.Context, of *schemas.Plan, _ *protocol.Ledger) (*schemas.Report, error) {
				plan = of
				return nil, killed
			}
			join := func(context.Context) (execution, func(), error) { return dies, func() {}, nil }
			assert.Fails(t, newRunner(p, job, protocol.NewSoleOwner(1), other, join, nil).run(t.Context(), true), killed)
			_, err := newSoleMembers(t, p, job, nil).Execute(t.Context(), plan, readLedger(t, p))
			if aside, ok := errors.AsType[*dispatch.StandAsideError](err); !ok || aside.Run != plan.Run() || !strings.HasSuffix(err.Error(),
				"its arithmetic differs: blas another, this process has "+here.BLAS+". Finish the run where it was planned, or cancel it with --supersede") {
				t.Errorf("the run of another arithmetic is executed: %v", err)
			}
			recorder := &eventRecorder{}
			report, err := Retrain(t.Context(), log, openBLAS(t), job, true, recorder.Record)
			assert.Need(t, err == nil && len(report.Updates) != 0, "%d versions, error %v", len(report.Updates), err)
			end := readLedger(t, p).End(plan.Run())
			assert.True(t, end != nil && end.State == schemas.Cancelled, "the run of another arithmetic has the end %+v", end)
			want := "run " + plan.Run() + " is cancelled: its arithmetic differs: blas another"
			assert.True(t, said(recorder, want), "there is no notice %q: %+v", want, eventsOf[event.Noticed](recorder))
			made := assert.Must(p.Versions(t.Context()))(t)
			for _, m := range made {
				assert.Equal(t, m.Plan.Arithmetic, here, "the arithmetic of version %d", m.Version)
			}
		})
	}
}

// Updates have the shares of their parents when the topic gets partitions; a full run divides the partitions again.
func TestUpdatesHaveTheSharesOfTheirParents(t *testing.T) {
	job := newJob(t, rings(5, 12, 3, 1), table{}, rffStage(link.Identity, 20, 1))
	job.Examples.Train, job.Examples.Partitions, job.Group = nil, 8, 0
	job.Topics, job.Retrain = topics.DefaultTopics(), topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full = 120, topics.FullOptions{Every: 3}
	log := openEmbedded(t)
	var versions []protocol.Finished
	for round := range 5 {
		if round == 1 {
			assert.NoError(t, log.AddPartitions(t.Context(), job.Name+".examples", 9))
		}
		for partition := range 8 {
			produce(t, log, job, (partition+round)%(8+min(round, 1)), exampleMessage(t, rings(5, 12, 3, uint64(100*round+partition)).exampleRows()))
		}
		_, err := Retrain(t.Context(), log, openBLAS(t), job, true, nil)
		if err == nil {
			versions, err = topics.Open(log, job.Name, nil).Versions(t.Context())
		}
		assert.NoError(t, err)
	}
	group, updates := 0, map[int]int{} // updates by size of their shares
	for _, v := range versions {
		if v.Plan.Update() == nil {
			group = v.Plan.Group
			continue
		}
		updates[group]++
		assert.True(t, v.Plan.Group == group, "version %d: shares of %d partitions, expected %d", v.Version, v.Plan.Group, group)
	}
	assert.True(t, updates[1] != 0 && updates[2] != 0, "updates by size of their shares: %v, expected some of 1 and of 2", updates)
}
