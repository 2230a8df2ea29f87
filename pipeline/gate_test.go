package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// noisyRings returns the test rows and the training rows of a message, in that order. Of the labels of test rows a
// tenth is drawn at random, of those of training rows the share wrong.
func noisyRings(tested, trained int, wrong float64, seed uint64) examples.Rows {
	data, random := rings(tested+trained, 4, 3, seed), rand.New(rand.NewPCG(seed, 5))
	for i := range data.labels {
		share := 0.1
		if i >= tested {
			share = wrong
		}
		if random.Float64() < share {
			data.labels[i] = fmt.Sprint("ring", random.IntN(3))
		}
	}
	batch := data.exampleRows()
	batch.Splits = append(slices.Repeat([]examples.Split{examples.Test}, tested), make([]examples.Split, trained)...)
	return batch
}

// gatedStream is messages of which each is an update.
type gatedStream struct {
	messages, tested, trained int                       // rows of each message for tests and for training, together 1,000 or more
	wrong                     func(message int) float64 // the share of the labels that is wrong in the training rows of a message
	seed                      uint64
}

// gatedChain returns what a chain did with a stream.
func gatedChain(t *testing.T, log *kafkalog.Log, stream gatedStream, change func(*topics.Job)) []*schemas.RetrainReport {
	t.Helper()
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages, job.Retrain = job.Stages[:1], topics.DefaultRetrain()
	job.Stages[0].Features.Size, job.Stages[0].Passes = 100, 12
	job.Retrain.Rows, job.Retrain.Gate.Split = 1000, examples.Test.String()
	change(&job)
	p := topics.Open(log, job.Name, nil)
	if err := topics.Create(t.Context(), p, &job); err != nil {
		t.Fatal(err)
	}
	for i := range stream.messages {
		produce(t, log, job, 0, exampleMessage(t, noisyRings(stream.tested, stream.trained, stream.wrong(i), stream.seed+uint64(i))))
	}
	report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if err != nil {
		t.Fatal(err)
	}
	return report.Updates
}

// On a stream that does not change, the gate withholds at most one of 50 versions.
func TestGateOffersVersionsOfAStationaryStream(t *testing.T) {
	long(t)
	for tested, change := range map[int]func(*topics.Job){
		200: func(*topics.Job) {},

		250: func(job *topics.Job) { job.Retrain.Window.Increments = 4 },
	} {
		updates, withheld := gatedChain(t, openEmbedded(t), gatedStream{messages: 51, tested: tested, trained: 1000,
			wrong: func(int) float64 { return 0.1 }}, change), 0
		for _, u := range updates[1:] {
			if u.Gate == nil || u.Gate.StandardError == nil {
				t.Fatalf("version %d is not compared: %+v", u.Version, u)
			}
			if !u.Offered {
				withheld++
				t.Logf("version %d is withheld: %+v, standard error %v", u.Version, u.Gate, *u.Gate.StandardError)
			}
		}
		if len(updates) < 51 || withheld > 1 {
			t.Errorf("%d test rows an update: %d of %d versions are withheld", tested, withheld, len(updates)-1)
		}
	}
}

// Of versions that are worse by a tenth of their loss the gate withholds nine of ten. The loss is 0.27, so by 1,000
// rows it would withhold seven.
func TestGateWithholdsWorseVersions(t *testing.T) {
	long(t)
	updates := gatedChain(t, openEmbedded(t), gatedStream{messages: 100, tested: 2000, trained: 1000,
		wrong: func(message int) float64 { return []float64{0.1, 0.22}[message%2] }}, func(job *topics.Job) {
		job.Retrain.Window.Increments, job.Retrain.Refresh, job.Retrain.Full = 1, 0, topics.FullOptions{}
	})
	withheld, versions, worse := 0, 0, 0.0
	for _, u := range updates {
		if u.Kind == schemas.RunUpdate && u.Spans[0].From%2 == 1 {
			if versions++; !u.Offered {
				withheld++
			}
			worse += u.Gate.Loss/u.Gate.OfferedLoss - 1
		}
	}
	if worse /= float64(versions); versions != 50 || worse < 0.08 || worse > 0.12 {
		t.Fatalf("%d versions, worse by %.3f of their loss; expected 50, worse by a tenth", versions, worse)
	}
	if withheld < 45 {
		t.Errorf("%d of %d versions are withheld", withheld, versions)
	}
}

// By 1,000 rows an update, of which a fifth is held out, the gate withholds 45 of 50 versions that are worse by a tenth
// of their loss, as it compares them by the rows of increments that are visited again too. By those of the new
// increment alone it would withhold 14.
func TestGateComparesByRevisitedRows(t *testing.T) {
	long(t)
	const trials, tested = 50, 200
	log, withheld, worse := openEmbedded(t), 0, 0.0
	for trial := range trials {
		last := topics.DefaultRetrain().Refresh + 1 // the message whose training rows are wrong: the window is what its update visits
		wrong := func(message int) float64 { return []float64{0.1, 0.88}[message/last] }
		updates := gatedChain(t, log, gatedStream{last + 1, tested, 1000 - tested, wrong, uint64(1000 * trial)}, func(job *topics.Job) {
			job.Name = fmt.Sprint("trial", trial)
			job.Retrain.Window.Increments, job.Retrain.Full = last, topics.FullOptions{}
		})
		u := updates[last]
		if u.Gate == nil || u.Gate.Weight != tested*float64(last) || u.Gate.Revisited != tested*float64(last-1) {
			t.Fatalf("version %d is compared by other rows: %+v", u.Version, u.Gate)
		}
		if worse += (u.Gate.Loss/u.Gate.OfferedLoss - 1) / trials; !u.Offered {
			withheld++
		}
		for _, u := range updates[:last] {
			if !u.Offered {
				t.Errorf("trial %d: version %d is withheld before the stream has changed", trial, u.Version)
			}
		}
	}
	if worse < 0.08 || worse > 0.12 {
		t.Fatalf("the versions are worse by %.3f of their loss, expected a tenth", worse)
	}
	if withheld < trials*9/10 {
		t.Errorf("%d of %d versions are withheld", withheld, trials)
	}
}

// A version that is withheld is kept, but it is not the latest.
func TestGateWithholdsVersions(t *testing.T) {
	long(t)
	stream := gatedStream{messages: 12, tested: 300, trained: 1000, wrong: func(message int) float64 { return []float64{0.1, 0.9}[message%2] }}
	log := openEmbedded(t)
	updates := gatedChain(t, log, stream, func(job *topics.Job) { job.Keep = 1 })
	offered, withheld := 0, 0
	for _, u := range updates {
		if u.Offered {
			offered = u.Version
		} else {
			withheld++
		}
	}
	if withheld == 0 || withheld == len(updates) {
		t.Fatalf("%d of %d versions are withheld", withheld, len(updates))
	}
	m, err := topics.Open(log, "test", nil).Model(t.Context(), "latest")
	if err != nil {
		t.Fatal(err)
	}
	if m.Manifest.Version != offered {
		t.Errorf("latest is version %d, the last that was offered is %d", m.Manifest.Version, offered)
	}

	for _, u := range gatedChain(t, openEmbedded(t), stream, func(job *topics.Job) { job.Retrain.Gate.Margin = 100 }) {
		if !u.Offered {
			t.Errorf("version %d is withheld, although it may be worse by 100", u.Version)
		}
	}
}

// With another share of rows held out, some of them have been learnt. So the next version is full, and the gate
// compares no version by such rows.
func TestAnotherHoldoutMakesAFullVersion(t *testing.T) {
	log := openEmbedded(t)
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages, job.Retrain = job.Stages[:1], topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Examples.Holdout = 100, topics.FullOptions{}, 0.1
	p := topics.Open(log, job.Name, nil)
	if err := topics.Create(t.Context(), p, &job); err != nil {
		t.Fatal(err)
	}
	kinds := func(messages int) (kinds []string) {
		for i := range messages {
			produce(t, log, job, 0, exampleMessage(t, noisyRings(0, 100, 0, uint64(i))))
		}
		report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range report.Updates {
			if kinds = append(kinds, u.Kind); u.Kind == schemas.RunFull && u.Gate != nil && u.Gate.Revisited > 0 {
				t.Errorf("version %d is compared by rows that were learnt: %+v", u.Version, u.Gate)
			}
		}
		return kinds
	}
	if got := kinds(2); !slices.Equal(got, []string{schemas.RunFull, schemas.RunUpdate}) {
		t.Errorf("versions are %q", got)
	}
	job.Examples.Holdout = 0.2
	if got := kinds(2); !slices.Equal(got, []string{schemas.RunFull, schemas.RunUpdate}) {
		t.Errorf("with another holdout versions are %q, expected a full one and an update", got)
	}
}

// A version that has learnt a class that appears later is offered, whatever classes weigh: of the rows of that class, the version before
// loses what a prediction of the smallest probability loses.
func TestGateOffersClassesThatAppearLater(t *testing.T) {
	long(t)
	const messages, rows, appears = 14, 400, 8
	for name, test := range map[string]struct {
		weight schemas.ClassWeight
		link   schemas.Link
		share  float64 // of the rows that are of the class
	}{
		"no weights":             {schemas.ClassWeight{}, link.Softmax, 0.1},
		"balanced":               {schemas.ClassWeight{Balanced: true}, link.Softmax, 0.1},
		"balanced, rare":         {schemas.ClassWeight{Balanced: true}, link.Softmax, 0.02},
		"a number":               {schemas.ClassWeight{By: map[string]float64{"late": 20}}, link.Softmax, 0.1},
		"numbers of all":         {schemas.ClassWeight{By: map[string]float64{"late": 3, "ring0": 0.5, "ring1": 2}}, link.Softmax, 0.1},
		"balanced, logistic":     {schemas.ClassWeight{Balanced: true}, link.Logistic, 0.1},
		"balanced, squared loss": {schemas.ClassWeight{Balanced: true}, link.Identity, 0.1},
	} {
		t.Run(name, func(t *testing.T) {
			log := openEmbedded(t)
			job, _ := newForeignJob(t, rings(10, 4, 2, 1))
			job.Stages, job.Retrain = job.Stages[:1], topics.DefaultRetrain()
			job.Stages[0].Link = test.link
			job.Examples.Holdout, job.Examples.ClassWeight = 0.2, test.weight
			job.Retrain.Rows, job.Retrain.NewClassRows = rows, 5
			for i := range messages {
				data, random := rings(rows, 4, 2, uint64(i)), rand.New(rand.NewPCG(uint64(i), 3))
				for j := range data.labels {
					if i >= appears && random.Float64() < test.share {
						data.labels[j], data.rows[j] = "late", []float32{6, 6, 0, 0}
					}
				}
				produce(t, log, job, 0, exampleMessage(t, data.exampleRows()))
			}
			report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
			if err != nil {
				t.Fatal(err)
			}
			m, err := topics.Open(log, job.Name, nil).Model(t.Context(), "latest")
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Contains(m.Labels(), "late") {
				t.Errorf("subscribers get version %d of %d, which knows %q", m.Manifest.Version, len(report.Updates), m.Labels())
			}
			withheld := 0
			for _, u := range report.Updates {
				if len(u.Spans) > 0 && u.Spans[0].From > appears && !u.Offered {
					withheld++
				}
			}
			if withheld > 1 {
				t.Errorf("%d versions are withheld after the class was learnt", withheld)
			}
		})
	}
}
