package event_test

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/pipeline"
	"github.com/stagewise/stagewise/pipeline/dispatch"
	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/topics"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/solve"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// passes is a recorder that counts the passes of each stage.
type passes map[int]int

// Record counts the events that it wants, by their type, and ignores all others.
func (p passes) Record(e event.Event) {
	if e, ok := e.(event.Passed); ok {
		p[e.Stage]++
	}
}

// A recorder follows a run: this one counts the passes of each stage while a model of the digits is trained.
func ExampleRecorder() {
	dir, err := os.MkdirTemp("", "stagewise-*")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	log, err := kafkalog.Open(ctx, kafkalog.Options{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	counted := passes{}
	_, _, err = pipeline.Train(ctx, log, kernel.Gonum(), digits(), dispatch.TrainOptions{}, counted)
	if err := errors.Join(err, log.Close()); err != nil {
		fmt.Println(err)
	}
	fmt.Println(counted)
	// Output: map[0:3 1:2]
}

// digits is a job on the digits that the repository carries: two stages of the pixels themselves, of 3 and 2 passes.
func digits() topics.Job {
	examples := ingest.Defaults()
	examples.Train = []string{"../../examples/digits/digits-train.csv.gz"}
	first := solve.Defaults()
	first.Features = stages.DefaultsOf(stages.Columns)
	first.Passes = 3
	second := first
	second.Passes = 2
	return topics.Job{
		Name: "digits", Examples: examples, Prepare: schemas.Prepare{Scale: prepare.ScaleNone}, Stages: []schemas.Stage{first, second},
		Intercept: true, Seed: 1, OnBadMessage: schemas.QuarantineBadMessages, Segment: 16, Memory: 1 << 28,
	}
}

// printed is a recorder that prints what an operator should know.
type printed struct{}

// Record prints notices.
func (printed) Record(e event.Event) {
	if e, ok := e.(event.Noticed); ok {
		fmt.Println(e.Text)
	}
}

// Several goroutines may record at once if they share a serialised recorder.
func ExampleSerialised() {
	rec := event.Serialised(printed{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		event.Notice(rec, "partition %d has no rows", 3)
	}()
	<-done
	// Output: partition 3 has no rows
}

// The sums of a visit say how many rows of each split are wrong, and how large the loss is.
func ExampleMetricsOf() {
	sums := wire.Tensors[float64]{wire.Matrix(statistics.FieldSplits, 3, 4, []float64{
		200, 200, 10, 50, // train: Σw, rows, Σw of wrong rows, Σw·loss
		0, 0, 0, 0, // holdout
		100, 100, 20, 60, // test
	})}
	metrics := event.MetricsOf(sums)
	fmt.Println(len(metrics), "splits have rows")
	fmt.Println("train", metrics[examples.Train].Error, metrics[examples.Train].Loss)
	fmt.Println("test", metrics[examples.Test].Error, metrics[examples.Test].Loss)
	// Output:
	// 2 splits have rows
	// train 5 0.25
	// test 20 0.6
}
