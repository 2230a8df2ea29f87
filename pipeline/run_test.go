package pipeline

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// Each algorithm, kind of features and mixture of links learns rings that no
// linear function tells apart, and the model predicts as the report says.
func TestRunLearns(t *testing.T) {
	training, test := rings(900, 3, 3, 1), rings(300, 3, 3, 2)
	with := func(s schemas.Stage, change func(*schemas.Stage)) schemas.Stage {
		change(&s)
		return s
	}
	kind := func(kind string) func(*schemas.Stage) {
		return func(s *schemas.Stage) { s.Features.Kind = kind }
	}
	for name, c := range map[string]struct {
		prepare schemas.Prepare
		stages  []schemas.Stage
		most    float64 // percent
	}{
		"identity":     {stages: []schemas.Stage{stage(link.Identity, 65, 1)}, most: 4},
		"softmax":      {stages: []schemas.Stage{stage(link.Softmax, 64, 8)}, most: 4},
		"calibrated":   {stages: []schemas.Stage{stage(link.Calibrated, 63, 4)}, most: 4},
		"stagewise":    {stages: []schemas.Stage{stage(link.Softmax, 16, 6), stage(link.Softmax, 16, 6), stage(link.Softmax, 16, 6)}, most: 6},
		"links change": {stages: []schemas.Stage{stage(link.Identity, 64, 1), stage(link.Softmax, 32, 4), stage(link.Calibrated, 32, 2), stage(link.Softmax, 8, 2)}, most: 4},
		"logits":       {stages: []schemas.Stage{with(stage(link.Softmax, 100, 8), kind(stages.Logits))}, most: 10},
		"polynomial":   {stages: []schemas.Stage{with(stage(link.Softmax, 40, 12), kind(stages.Polynomial))}, most: 10},
		"scores":       {stages: []schemas.Stage{stage(link.Softmax, 64, 4), with(stage(link.Softmax, 16, 4), func(s *schemas.Stage) { s.Scores = true })}, most: 4},
		"components":   {prepare: schemas.Prepare{Scale: stages.ScaleStandard, PCA: 3}, stages: []schemas.Stage{stage(link.Softmax, 100, 8)}, most: 8},
	} {
		t.Run(name, func(t *testing.T) {
			log, job := openEmbedded(t), jobOn(t, training, test, c.stages...)
			if c.prepare.Scale != "" {
				job.Prepare = c.prepare
			}
			report, model := train(t, log, job)
			if report.Rows != 900 || report.Splits["test"].Rows != 300 || report.Classes != 3 {
				t.Errorf("%d training rows, %d test rows, %d classes", report.Rows, report.Splits["test"].Rows, report.Classes)
			}
			if *report.TestError > c.most {
				t.Errorf("test error %.2f %%, expected at most %g", *report.TestError, c.most)
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
				t.Errorf("the model's test error is %g %%, the report's %g", got, *report.TestError)
			}
			if got := report.Splits["test"].LogLoss; math.Abs(got-loss) > 1e-4 {
				t.Errorf("log loss %g in the report, %g by the model", got, loss)
			}
			if got := model.Digest(); got != report.WeightsDigest {
				t.Errorf("digest %s of the model, %s in the report", got, report.WeightsDigest)
			}
		})
	}
}

// Where links change, the next stage begins with what was learnt: its error is
// hardly higher, and its loss, now in another unit, far from that of nothing.
func TestLinksThatChangeKeepWhatWasLearnt(t *testing.T) {
	links := []schemas.Link{link.Identity, link.Softmax, link.Calibrated}
	for _, from := range links {
		for _, to := range links {
			t.Run(fmt.Sprint(from, " to ", to), func(t *testing.T) {
				recorder := &events{}
				job := jobOn(t, rings(600, 2, 3, 1), table{}, stage(from, 64, 8), stage(to, 8, 2))
				if _, _, err := Train(t.Context(), openEmbedded(t), openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder); err != nil {
					t.Fatal(err)
				}
				before := of[event.StageEnded](recorder)[0].TrainError
				nothing := 1.0 / 3 // half the squared distance of a third each from one
				if to == link.Softmax {
					nothing = math.Log(3)
				}
				for _, p := range of[event.Passed](recorder) {
					if p.Stage != 1 || p.Visit != 0 {
						continue
					}
					if first := p.Metrics[schemas.Train]; first.Error > before+2 || first.Loss > nothing/2 {
						t.Errorf("error %.2f %% at the end of stage 0; %.2f %% and loss %g at the beginning of stage 1", before, first.Error, first.Loss)
					}
				}
			})
		}
	}
}

// The weights of a run depend on the plan and the examples alone: not on the
// memory that it had, nor on when, nor on what ran before.
func TestSamePlanSameDigest(t *testing.T) {
	training, test := rings(700, 3, 3, 1), rings(100, 3, 3, 2)
	for _, partitions := range []int{1, 4} {
		t.Run(fmt.Sprint(partitions, " partitions"), func(t *testing.T) {
			digests := map[schemas.Digest]string{}
			for _, memory := range []int64{1 << 30, 20_000, 1} {
				sampled := stage(link.Softmax, 20, 3)
				sampled.GramRows = "300"
				job := jobOn(t, training, test, stage(link.Softmax, 33, 4), sampled, stage(link.Calibrated, 31, 2), stage(link.Identity, 16, 1))
				job.Examples.Partitions, job.Memory = partitions, memory
				log := openEmbedded(t)
				first, _ := train(t, log, job)
				second, _ := train(t, log, job)
				if second.Version != first.Version+1 || second.Run == first.Run {
					t.Errorf("run %s is version %d, the one before it %s %d", second.Run, second.Version, first.Run, first.Version)
				}
				if first.Rows != 700 || second.Rows != 700 {
					t.Errorf("%d rows, then %d", first.Rows, second.Rows)
				}
				digests[first.WeightsDigest] = fmt.Sprint(memory, " bytes")
				digests[second.WeightsDigest] = fmt.Sprint(memory, " bytes, again")
			}
			if len(digests) != 1 {
				t.Errorf("the digests differ: %v", digests)
			}
		})
	}
}

// With a fixed feature map an example of weight 2 is the example twice.
func TestWeightTwoIsTheExampleTwice(t *testing.T) {
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
		s := stage(l, 0, 5)
		s.Features.Kind = stages.Columns
		_, a := train(t, openEmbedded(t), jobOn(t, weighted, table{}, s))
		_, b := train(t, openEmbedded(t), jobOn(t, twice, table{}, s))
		p, q := probabilities(t, a, once), probabilities(t, b, once)
		for i, v := range p.Data {
			// Algorithm 2 raises roundings to the third power, and solves with little regularisation
			if bound := map[bool]float64{false: 1e-4, true: 3e-4}[l == link.Calibrated]; math.Abs(float64(v-q.Data[i])) > bound {
				t.Fatalf("%s: value %d is %g weighted, %g repeated", l, i, v, q.Data[i])
			}
		}
	}
}

// The odd shapes of data work, or say what is wrong.
func TestOddData(t *testing.T) {
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
				job := jobOn(t, data, table{}, stage(l, 50, 3))
				report, model := train(t, openEmbedded(t), job)
				if report.TestError != nil || report.Rows != int64(len(data.rows)) {
					t.Errorf("test error %v, %d rows", report.TestError, report.Rows)
				}
				for i, v := range probabilities(t, model, data).Data {
					if v != v || v < 0 || v > 1.00001 {
						t.Fatalf("probability %d is %g", i, v)
					}
				}
			})
		}
	}
	t.Run("empty partitions", func(t *testing.T) {
		job := jobOn(t, few, table{}, stage(link.Softmax, 10, 2))
		job.Examples.Partitions = 16
		if report, _ := train(t, openEmbedded(t), job); report.Rows != 20 {
			t.Errorf("%d rows", report.Rows)
		}
	})
	t.Run("singular without a ridge", func(t *testing.T) {
		s := stage(link.Identity, 50, 1)
		s.Ridge = 0
		err := failing(t, openEmbedded(t), jobOn(t, few, table{}, s))
		if !strings.Contains(err.Error(), "larger ridge") {
			t.Errorf("%v", err)
		}
	})
	t.Run("more components than features", func(t *testing.T) {
		job := jobOn(t, few, table{}, stage(link.Identity, 5, 1))
		job.Prepare.PCA = 3
		if err := failing(t, openEmbedded(t), job); !strings.Contains(err.Error(), (&solve.WidthError{Components: 3, Features: 2}).Error()) {
			t.Errorf("%v", err)
		}
	})
	t.Run("nothing there", func(t *testing.T) {
		job := jobOn(t, few, table{}, stage(link.Identity, 5, 1))
		job.Examples.Train = nil
		if err := failing(t, openEmbedded(t), job); !errors.As(err, new(*run.NoExamplesError)) {
			t.Errorf("%v", err)
		}
	})
}

// Examples that services write, without a source, count by their offsets;
// rows without a label are predicted, not fitted.
func TestForeignExamples(t *testing.T) {
	data := rings(500, 2, 3, 1)
	job := jobOn(t, data, table{}, stage(link.Softmax, 64, 6))
	job.Examples.Train = nil
	log := openEmbedded(t)
	for p := range 4 {
		rows := schemas.ExampleRows{Rows: 125, Cols: 2}
		for i := p * 125; i < (p+1)*125; i++ {
			rows.Floats, rows.Words = append(rows.Floats, data.rows[i]...), append(rows.Words, data.labels[i])
		}
		accept(t, log, job, p, encoded(t, rows))
	}
	unlabelled := schemas.ExampleRows{Rows: 2, Cols: 2, Floats: []float32{1, 2, 3, 4}}
	accept(t, log, job, 0, encoded(t, unlabelled))
	report, _ := train(t, log, job)
	if report.Rows != 500 || report.TrainError > 5 {
		t.Errorf("%d rows, error %.2f %%", report.Rows, report.TrainError)
	}
}

// encoded is a message as another producer writes it.
func encoded(t *testing.T, rows schemas.ExampleRows) kafkalog.Message {
	t.Helper()
	mem := checked(t)
	record := rows.Record(mem)
	defer record.Release()
	value, err := schemas.EncodeExamples(record, mem)
	if err != nil {
		t.Fatal(err)
	}
	return kafkalog.Message{Value: value}
}

// A holdout is taken from the training rows, is not fitted, and can stop a
// stage early.
func TestHoldoutStops(t *testing.T) {
	s := stage(link.Softmax, 200, 200)
	s.Ridge = 1e-9
	s.Stop = &schemas.Stop{Split: "holdout", Patience: 2}
	job := jobOn(t, rings(400, 6, 3, 1), table{}, s)
	job.Examples.Holdout = 0.25
	report, _ := train(t, openEmbedded(t), job)
	if held := report.Splits["holdout"].Rows; held < 60 || held > 140 || held+report.Rows != 400 {
		t.Errorf("%d rows held out, %d fitted", held, report.Rows)
	}
	if report.Stages[0].Passes >= 200 || report.Stages[0].HoldoutLoss == nil {
		t.Errorf("%+v", report.Stages[0])
	}
}

// A warm start begins where an earlier version ended, over the same features.
func TestWarmStart(t *testing.T) {
	log, training := openEmbedded(t), rings(600, 3, 3, 1)
	job := jobOn(t, training, table{}, stage(link.Softmax, 50, 10), stage(link.Softmax, 50, 10))
	cold, _ := train(t, log, job)

	for i := range job.Stages {
		job.Stages[i].Passes = 2
	}
	job.Warm = run.Latest
	recorder := &events{}
	warm, _, err := Train(t.Context(), log, openBLAS(t), job, TrainOptions{Allocator: checked(t)}, recorder)
	if err != nil {
		t.Fatal(err)
	}
	first := of[event.Passed](recorder)[0]
	if got, want := first.Metrics[schemas.Train].Loss, cold.Stages[0].TrainLoss; math.Abs(got-want) > 1e-4 {
		t.Errorf("the first pass has loss %g, the earlier version ended at %g", got, want)
	}
	if warm.Stages[1].TrainLoss > cold.Stages[1].TrainLoss+1e-4 {
		t.Errorf("loss %g, %g before", warm.Stages[1].TrainLoss, cold.Stages[1].TrainLoss)
	}

	other := job
	other.Seed = 2
	if err := failing(t, log, other); !strings.Contains(err.Error(), "seed") {
		t.Errorf("%v", err)
	}
	more := rings(100, 3, 4, 3)
	job.Examples.Train = append(job.Examples.Train, more.csv(t, t.TempDir(), "more.csv"))
	if err := failing(t, log, job); !strings.Contains(err.Error(), `labels ["ring3"] are not among the classes`) {
		t.Errorf("%v", err)
	}
	job.Warm = "99"
	if err := failing(t, log, job); !errors.As(err, new(*run.NoVersionError)) {
		t.Errorf("%v", err)
	}
}

// Missing values are an error unless they are to be the mean.
func TestMissingIsTheMean(t *testing.T) {
	data := rings(300, 3, 2, 1)
	for i := range data.rows {
		if i%5 == 0 {
			data.rows[i][2] = float32(math.NaN())
		}
	}
	job := jobOn(t, rings(1, 3, 2, 1), table{}, stage(link.Softmax, 64, 6))
	job.Examples.Train = nil
	log := openEmbedded(t)
	rows := schemas.ExampleRows{Rows: 300, Cols: 3, Words: data.labels}
	for _, row := range data.rows {
		rows.Floats = append(rows.Floats, row...)
	}
	accept(t, log, job, 0, encoded(t, rows))
	if err := failing(t, log, job); !errors.As(err, new(*RunError)) {
		t.Errorf("%v", err)
	}
	job.Examples.Missing = ingest.MissingMean
	if report, _ := train(t, log, job); report.Rows != 300 || report.TrainError > 10 {
		t.Errorf("%d rows, error %.2f %%", report.Rows, report.TrainError)
	}
}
