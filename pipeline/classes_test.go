package pipeline

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/source"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
)

// sorted returns messages of 40 rows each, of which the first n have rows of one label. Row 7 of the first has another
// label, but overflows.
func sorted(t *testing.T, n, all int) (messages []kafkalog.Message) {
	for i := range all {
		rows := rings(40, 4, 3, uint64(i+1)).exampleRows()
		if i < n {
			for row := range rows.Words {
				rows.Words[row] = "ring0"
			}
		}
		if i == 0 {
			setTo(3e38, "ring1")(&rows)
		}
		messages = append(messages, exampleMessage(t, rows))
	}
	return messages
}

// A chain that finds one class waits for another, and says so once. Up to the end of a topic that is an error, and no run fails for it.
func TestChainWaitsForASecondClass(t *testing.T) {
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	job.Stages = []schemas.Stage{kindStage(stages.RFF, link.Softmax)}
	job.Retrain = topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.After = 80, 1
	log := openEmbedded(t)
	writeAll(t, log, job, sorted(t, 3, 3))
	_, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
	if !errors.As(err, new(*solve.LabelsError)) || !strings.Contains(err.Error(), `all examples have the label "ring0"`) {
		t.Errorf("got error %v, expected that there is one label", err)
	}
	if runs := readLedger(t, topics.Open(log, job.Name, nil)).Chained(); runs != nil {
		t.Errorf("run %+v was made", runs)
	}
	recorder := &eventRecorder{}
	waits := make(chan struct{})
	done := make(chan error, 1)
	recorder.on = func(e event.Event) {
		switch e := e.(type) {
		case event.Noticed:
			if strings.Contains(e.Text, "waits for rows of a second class: of 120 rows so far") {
				close(waits) // panics if it is said twice
			}
		case event.Retrained:
			done <- nil
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder)
		ended <- err
		done <- err
	}()
	select {
	case <-waits:
	case err := <-done:
		t.Fatalf("the chain has ended: %v", err)
	}
	writeAll(t, log, job, sorted(t, 0, 4)[3:])
	if err := <-done; err != nil {
		t.Error(err)
	}
	cancel()
	<-ended
}

// oneClassLeft returns a log with a chain of three versions, whose rows with other labels than ring0 are forgotten, and its job.
func oneClassLeft(t *testing.T) (*kafkalog.Log, topics.Job) {
	t.Helper()
	job, _ := newForeignJob(t, rings(1, 4, 3, 1))
	job.Stages, job.Retrain = []schemas.Stage{kindStage(stages.RFF, link.Softmax)}, topics.DefaultRetrain()
	job.Retrain.Rows, job.Retrain.Full, job.Retrain.After = 80, topics.FullOptions{}, 1
	log := openEmbedded(t)
	produce(t, log, job, 0, sorted(t, 4, 7)[1:]...) // without the row that overflows
	if report, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{}); err != nil || len(report.Updates) != 2 {
		t.Fatalf("%d versions, error %v", len(report.Updates), err)
	}
	forget(t, log, job, source.ToForget{Rows: rowsNamed(t, job, "test.examples/0/3", "test.examples/0/4", "test.examples/0/5")})
	return log, job
}

// If one class is left in the window of a chain without what is forgotten, the chain waits for a row of another, and says so once. Then it
// fits the window and what is new anew. Up to the end of a topic that is an error. Either way no run fails for it.
func TestChainWaitsForASecondClassAfterForget(t *testing.T) {
	log, job := oneClassLeft(t)
	p := topics.Open(log, job.Name, nil)
	before := readLedger(t, p).Chained()
	for range 2 { // whenever it is started
		_, err := Retrain(t.Context(), log, openBLAS(t), job, true, event.Ignore{})
		if !errors.As(err, new(*solve.LabelsError)) || !strings.Contains(err.Error(), `all examples have the label "ring0"`) {
			t.Errorf("got error %v, expected that there is one label", err)
		}
	}
	recorder, waits, ended := &eventRecorder{}, make(chan struct{}), make(chan error, 1)
	retrained := make(chan event.Retrained, 10)
	recorder.on = func(e event.Event) {
		switch e := e.(type) {
		case event.Noticed:
			if strings.Contains(e.Text, "waits for rows of a second class: without forgotten rows, all examples") {
				close(waits) // panics if it is said twice
			}
		case event.Retrained:
			retrained <- e
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := Retrain(ctx, log, openBLAS(t), job, false, recorder)
		ended <- err
	}()
	select {
	case <-waits:
	case err := <-ended:
		t.Fatalf("the chain has ended: %v", err)
	}
	if runs := readLedger(t, p).Chained(); runs.Number != before.Number || runs.Attempt != before.Attempt {
		t.Errorf("run %+v was made after %+v", runs, before)
	}
	// The first of two messages is of the same class.
	produce(t, log, job, 0, slices.Concat(sorted(t, 2, 2)[1:], sorted(t, 0, 9)[8:])...)
	select {
	case made := <-retrained:
		if made.Kind != schemas.RunFull || made.WindowRows != (8-3)*40 { // forgotten rows weigh nothing
			t.Errorf("a version by %s of %d rows, expected a full one of what is left and the new rows", made.Kind, made.WindowRows)
		}
	case err := <-ended:
		t.Fatalf("the chain has ended: %v", err)
	}
	cancel()
	<-ended
	versions := must(p.Versions(t.Context()))(t)
	if last := versions[len(versions)-1]; len(last.Labels) < 2 || len(last.Plan.Forgotten) == 0 {
		t.Errorf("the last version has the labels %v, and heeds %v", last.Labels, last.Plan.Forgotten)
	}
}

// A chain goes on with the classes that it has found as its classes in the configuration, and back: updates revisit the messages that
// counted when they were added, whose rows may have labels that are not classes. With other classes the next version is full.
func TestChainGoesOnWithItsClassesConfigured(t *testing.T) {
	for _, name := range []string{"one label", "several labels"} {
		t.Run(name, func(t *testing.T) {
			job, _ := newForeignJob(t, rings(1, 4, 3, 1))
			job.Stages, job.Retrain = []schemas.Stage{kindStage(stages.RFF, link.Logistic)}, topics.DefaultRetrain()
			job.Retrain.Rows, job.Retrain.Full, job.Retrain.NewClassRows = 80, topics.FullOptions{}, 1000
			if name == "several labels" {
				job.Examples.Labels = layout.LabelsSeveral
			}
			log, made := openEmbedded(t), 0
			for i, classes := range [][]string{nil, {"ring0", "ring1", "ring2"}, nil, {"ring2", "ring1", "ring0"}} {
				fullFirst := i == 0 || i == 3
				for range 4 {
					rows := rings(40, 4, 3, uint64(made+1)).exampleRows()
					if classes == nil && made > 1 {
						rows.Words[7], rows.Words[9] = "other", "another"
					}
					if name == "several labels" {
						for _, word := range rows.Words {
							rows.LabelLists = append(rows.LabelLists, []string{word})
						}
						rows.Words = nil
					}
					produce(t, log, job, 0, exampleMessage(t, rows))
					made++
				}
				job.Examples.Classes = classes
				recorder := &eventRecorder{}
				report := must(Retrain(t.Context(), log, openBLAS(t), job, true, recorder))(t)
				for i, u := range report.Updates {
					if full := fullFirst && i == 0; full != (u.Kind == schemas.RunFull) {
						t.Errorf("with classes %q version %d is by %s", classes, u.Version, u.Kind)
					}
				}
				for _, e := range eventsOf[event.Ended](recorder) {
					if e.State != schemas.Done {
						t.Errorf("with classes %q: %+v", classes, e)
					}
				}
			}
		})
	}
}

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
