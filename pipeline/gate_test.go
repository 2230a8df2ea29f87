package pipeline

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

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

// With another share of rows held out, some of them have been learnt. So the next version is full, and the gate
// compares no version by such rows.
func TestAnotherHoldoutMakesAFullVersion(t *testing.T) {
	log := openEmbedded(t)
	job, _ := newForeignJob(t, rings(10, 4, 3, 1))
	job.Stages, job.Retrain = job.Stages[:1], topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Examples.Holdout = 100, topics.FullOptions{}, 0.1
	p := topics.Open(log, job.Name, nil)
	noError(t, topics.Create(t.Context(), p, &job))
	kinds := func(messages int) (kinds []string) {
		for i := range messages {
			produce(t, log, job, 0, exampleMessage(t, noisyRings(0, 100, 0, uint64(i))))
		}
		report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
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
			report := must(Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}))(t)
			m := must(topics.Open(log, job.Name, nil).Model(t.Context(), "latest"))(t)
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
