package pipeline

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/viterin/vek/vek32"
	"golang.org/x/sys/cpu"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
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
	kind := func(kind string) func(*schemas.Stage) {
		return func(s *schemas.Stage) { s.Features.Kind = kind }
	}
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
		"components": {prepare: schemas.Prepare{Scale: prepare.ScaleStandard, PCA: 3}, stages: []schemas.Stage{rffStage(link.Softmax,
			100, 8)}, maxError: 8},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), newJob(t, training, test, c.stages...)
			job.Average = c.average
			if c.prepare.Scale != "" {
				job.Prepare = c.prepare
			}
			report, model := train(t, log, job)
			if report.Rows != 900 || report.Splits["test"].Rows != 300 || report.Classes != 3 {
				t.Errorf("%d training rows, %d test rows, %d classes; expected 900, 300, 3", report.Rows, report.Splits["test"].Rows, report.Classes)
			}
			if *report.TestError > c.maxError {
				t.Errorf("test error %.2f %%, expected at most %g", *report.TestError, c.maxError)
			}
			p, wrong, loss := probabilities(t, model, test), 0, 0.0
			for i, label := range test.labels {
				best, sum := 0, 0.0
				for k, v := range p.Row(i) {
					if sum += float64(v); v > p.Row(i)[best] {
						best = k
					}
				}
				if math.Abs(sum-1) > 1e-5 {
					t.Fatalf("probabilities of row %d sum to %g", i, sum)
				}
				if model.Labels()[best] != label {
					wrong++
				}
				for k, l := range model.Labels() {
					if l == label {
						loss -= math.Log(max(float64(p.Row(i)[k]), 1e-6)) / 300
					}
				}
			}
			if got := 100 * float64(wrong) / 300; math.Abs(got-*report.TestError) > 1e-9 {
				t.Errorf("the model has test error %g %%, the report says %g", got, *report.TestError)
			}
			if got := *report.Splits["test"].LogLoss; math.Abs(got-loss) > 1e-4 {
				t.Errorf("the report says log loss %g, the model has %g", got, loss)
			}
			if got := model.Digest(); got != report.WeightsDigest {
				t.Errorf("the model has digest %s, the report says %s", got, report.WeightsDigest)
			}
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
				job := newJob(t, rings(600, 2, 3, 1), table{}, rffStage(from, 64, 8), rffStage(to, 8, 2))
				if _, _, err := Train(t.Context(), openEmbedded(t), openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
					recorder); err != nil {
					t.Fatal(err)
				}
				before := eventsOf[event.StageEnded](recorder)[0].TrainError
				untrained := 1.0 / 3 // half the squared distance between a label and a third for each class
				if to == link.Softmax {
					untrained = math.Log(3)
				}
				for _, p := range eventsOf[event.Passed](recorder) {
					if p.Stage != 1 || p.Visit != 0 {
						continue
					}
					if first := p.Metrics[examples.Train]; first.Error > before+2 || first.Loss > untrained/2 {
						t.Errorf("stage 0 ends with error %.2f %%; stage 1 begins with error %.2f %% and loss %g, expected at most 2 %% more and %g",
							before, first.Error, first.Loss, untrained/2)
					}
				}
			})
		}
	}
}

// The weights of a run depend only on the plan and the examples: not on the memory of its workers, not on the time, and not on
// earlier runs.
func TestSamePlanSameDigest(t *testing.T) {
	long(t)
	training, test := rings(700, 3, 3, 1), rings(100, 3, 3, 2)
	for _, c := range []struct{ partitions, members int }{{1, 1}, {4, 2}} {
		partitions, members := c.partitions, c.members
		t.Run(fmt.Sprint(partitions, " partitions, ", members, " members"), func(t *testing.T) {
			digests := map[wire.Digest]string{}
			for _, memory := range []int64{1 << 30, 90_000, 1} {
				sampled := rffStage(link.Softmax, 20, 3)
				sampled.GramRows = "300"
				job := newJob(t, training, test, rffStage(link.Softmax, 33, 4), sampled, rffStage(link.Calibrated, 31, 2),
					rffStage(link.Identity, 16, 1))
				job.Examples.Partitions, job.Memory, job.Average = partitions, memory, members
				log := openEmbedded(t)
				first, _ := train(t, log, job)
				second, _ := train(t, log, job)
				if second.Version != first.Version+1 || second.Run == first.Run {
					t.Errorf("the second run is %s with version %d, the first %s with version %d; expected another id and the next version",
						second.Run, second.Version, first.Run, first.Version)
				}
				if first.Rows != 700 || second.Rows != 700 {
					t.Errorf("the runs have %d and %d rows, expected 700", first.Rows, second.Rows)
				}
				digests[first.WeightsDigest] = fmt.Sprint(memory, " bytes")
				digests[second.WeightsDigest] = fmt.Sprint(memory, " bytes, again")
			}
			if len(digests) != 1 {
				t.Errorf("the weights differ by memory: digests %v", digests)
			}
		})
	}
}

// What the matrices of a run take is no longer there for rows, and if nothing is left of the memory, a run says so.
func TestMatricesTakeMemory(t *testing.T) {
	for memory, noticed := range map[int64]int{1 << 30: 0, 10_000: 1} {
		recorder := &eventRecorder{}
		job := newJob(t, rings(700, 3, 3, 1), table{}, rffStage(link.Softmax, 33, 4), rffStage(link.Identity, 16, 1))
		job.Memory = memory
		if _, _, err := Train(t.Context(), openEmbedded(t), openBLAS(t), job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
			recorder); err != nil {
			t.Fatal(err)
		}
		texts := eventsOf[event.Noticed](recorder)
		if len(texts) != noticed || noticed > 0 && !strings.Contains(texts[0].Text, "no rows stay in memory") {
			t.Errorf("memory %d: %v, expected %d lines", memory, texts, noticed)
		}
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
			if bound := map[bool]float64{false: 1e-4, true: 3e-4}[l == link.Calibrated]; math.Abs(float64(v-q.Data[i])) > bound {
				t.Fatalf("%s: probability %d is %g with weights, %g with repeated examples", l, i, v, q.Data[i])
			}
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
				if report.TestError != nil || report.Rows != int64(len(data.rows)) {
					t.Errorf("test error %v and %d rows, expected none and %d", report.TestError, report.Rows, len(data.rows))
				}
				for i, v := range probabilities(t, model, data).Data {
					if v != v || v < 0 || v > 1.00001 {
						t.Fatalf("probability %d is %g, expected a number from 0 to 1", i, v)
					}
				}
			})
		}
	}
	t.Run("empty partitions", func(t *testing.T) {
		job := newJob(t, few, table{}, rffStage(link.Softmax, 10, 2))
		job.Examples.Partitions = 16
		if report, _ := train(t, openEmbedded(t), job); report.Rows != 20 {
			t.Errorf("%d rows, expected 20", report.Rows)
		}
	})
	t.Run("singular without a ridge", func(t *testing.T) {
		s := rffStage(link.Identity, 50, 1)
		s.Ridge = 0
		err := trainError(t, openEmbedded(t), newJob(t, few, table{}, s))
		if !strings.Contains(err.Error(), "larger ridge") {
			t.Errorf("got error %v, expected one that asks for a larger ridge", err)
		}
	})
	t.Run("more components than features", func(t *testing.T) {
		job := newJob(t, few, table{}, rffStage(link.Identity, 5, 1))
		job.Prepare.PCA = 3
		if err := trainError(t, openEmbedded(t), job); !strings.Contains(err.Error(), (&solve.WidthError{Components: 3, Features: 2}).Error()) {
			t.Errorf("got error %v, expected a *solve.WidthError", err)
		}
	})
	t.Run("no examples", func(t *testing.T) {
		job := newJob(t, few, table{}, rffStage(link.Identity, 5, 1))
		job.Examples.Train = nil
		if err := trainError(t, openEmbedded(t), job); !errors.As(err, new(*protocol.NoExamplesError)) {
			t.Errorf("got error %v, expected a *counting.NoExamplesError", err)
		}
	})
}

// A holdout is part of the training rows that is not fitted. It can stop a stage early.
func TestHoldoutStops(t *testing.T) {
	s := rffStage(link.Softmax, 200, 200)
	s.Ridge = 1e-9
	s.Stop = &schemas.Stop{Split: "holdout", Patience: 2}
	job := newJob(t, rings(400, 6, 3, 1), table{}, s)
	job.Examples.Holdout = 0.25
	report, _ := train(t, openEmbedded(t), job)
	if held := report.Splits["holdout"].Rows; held < 60 || held > 140 || held+report.Rows != 400 {
		t.Errorf("%d rows held out, %d fitted; expected about 100 of 400", held, report.Rows)
	}
	if report.Stages[0].Passes >= 200 || report.Stages[0].HoldoutLoss == nil {
		t.Errorf("stage %+v, expected fewer than 200 passes and a holdout loss", report.Stages[0])
	}
}

// If no feature differs between rows, a model predicts the shares of the classes, with any ridge. A chain that begins
// with such rows learns from later ones that differ.
func TestConstantFeatures(t *testing.T) {
	long(t)
	for name, ridge := range map[string]schemas.Ridge{"default": kindStage(stages.Columns, link.Softmax).Ridge, "large": 1e6,
		"auto": schemas.RidgeAuto} {
		for _, l := range []schemas.Link{link.Softmax, link.Identity, link.Calibrated} {
			t.Run(name+" "+string(l), func(t *testing.T) {
				job, _ := newForeignJob(t, rings(1, 4, 3, 1))
				stage := kindStage(stages.Columns, l)
				stage.Ridge, stage.Passes = ridge, 20
				job.Stages, job.Prepare.Scale = []schemas.Stage{stage, stage}, prepare.ScaleStandard
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
					if p := probabilities(t, m, constant).Row(0)[c]; math.Abs(float64(p)-share) > 0.01 {
						t.Errorf("the probability of %s is %v, its share %v", label, p, share)
					}
				}
				job.Retrain = topics.DefaultRetrain()
				job.Retrain.Rows = 200
				for i := range 3 {
					produce(t, log, job, 0, exampleMessage(t, rings(200, 4, 3, uint64(2+i)).exampleRows()))
				}
				report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
				if err != nil || report.Updates[len(report.Updates)-1].WindowRows != 800 {
					t.Errorf("report %+v, error %v", report, err)
				}
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
				report, model, err := Train(t.Context(), openEmbedded(t), blas, job, dispatch.TrainOptions{Allocator: arrowtest.Allocator(t)},
					&eventRecorder{})
				noError(t, err)
				return report, predict(blas, model, test)
			}
			report, p := trainAndPredict(fast)
			features, accelerated := cpu.X86, vek32.Info().Acceleration
			defer func() {
				cpu.X86 = features
				vek32.SetAcceleration(accelerated)
			}()
			noError(t, kernel.UseVector("none"))
			slow, q := trainAndPredict(kernel.Gonum())
			if *slow.TestError != *report.TestError || slow.TrainError != report.TrainError {
				t.Errorf("test and train errors %v and %v, with a BLAS %v and %v", *slow.TestError, slow.TrainError, *report.TestError,
					report.TrainError)
			}
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
	noError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
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
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: t.TempDir()})
	noError(t, err)
	defer log.Close()
	_, _, err = Train(t.Context(), log, openBLAS(t), job, dispatch.TrainOptions{}, &eventRecorder{})
	if want := "set memory to at least 89600448"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, expected an error with %q", err, want)
	}
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
	noError(t, os.WriteFile(path, []byte(lines.String()), 0o600))
	job := newJob(t, rings(1, 3, 3, 1), table{}, list...)
	job.Examples.Train, job.Examples.Partitions = []string{path}, 3
	return job
}
