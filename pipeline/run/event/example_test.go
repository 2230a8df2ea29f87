package event_test

import (
	"fmt"

	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// passes is a recorder that counts the passes of each stage.
type passes map[int]int

// Record is called for every event; most are of no interest here.
func (p passes) Record(e event.Event) {
	if e, ok := e.(event.Passed); ok {
		p[e.Stage]++
	}
}

// A recorder picks the events that it wants by their types.
func ExampleRecorder() {
	counted := passes{}
	var rec event.Recorder = counted
	rec.Record(event.Began{Run: "73c9650f2e46"})
	for pass := range 3 {
		rec.Record(event.Passed{Stage: 0, Pass: pass + 1, Objective: 1 / float64(pass+1)})
	}
	rec.Record(event.Passed{Stage: 1, Pass: 1})
	fmt.Println(counted)
	// Output: map[0:3 1:1]
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
	sums := schemas.Tensors[float64]{schemas.Matrix(schemas.FieldSplits, 3, 4, []float64{
		200, 200, 10, 50, // train: Σw, rows, Σw of wrong rows, Σw·loss
		0, 0, 0, 0, // holdout
		100, 100, 20, 60, // test
	})}
	metrics := event.MetricsOf(sums)
	fmt.Println(len(metrics), "splits have rows")
	fmt.Println("train", metrics[schemas.Train].Error, metrics[schemas.Train].Loss)
	fmt.Println("test", metrics[schemas.Test].Error, metrics[schemas.Test].Loss)
	// Output:
	// 2 splits have rows
	// train 5 0.25
	// test 20 0.6
}
