package run_test

import (
	"fmt"
	"time"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

// The topics and the consumer groups of a pipeline are named for it.
func ExampleTopicsOf() {
	topics := run.TopicsOf("digits")
	fmt.Println(topics.Examples, topics.Weights, topics.Workers())
	// Output: digits.examples digits.weights digits.work
}

// What a worker does next follows from the plan and the accepted records. Without records the survey is due.
func ExampleChain_Due() {
	plan := &schemas.Plan{Name: "digits", Stages: make([]schemas.Stage, 4)}
	chain := run.NewChain(plan, run.NewCodec(nil, 0), event.Ignore{})
	visit, _ := chain.Due()
	fmt.Println("visit", visit.Number, "of", run.StageName(visit.Stage))
	fmt.Println("computed from the plan:", visit.Parent == plan.Digest())
	// Output:
	// visit 0 of the survey
	// computed from the plan: true
}

// The only process on an embedded broker owns all partitions.
func ExampleNewAlone() {
	owner := run.NewAlone(4)
	mine, err := run.Owns(owner, 3)
	fmt.Println(owner.Owned(), mine, err)
	// Output: [0 1 2 3] true <nil>
}

// A role that nobody answers waits longer each time.
func ExamplePatience() {
	var waits []time.Duration
	for wait := run.MinPatience; wait < run.MaxPatience; wait = run.Patience(wait) {
		waits = append(waits, wait)
	}
	fmt.Println(waits, run.MaxPatience)
	// Output: [30s 1m0s 2m0s 4m0s] 5m0s
}
