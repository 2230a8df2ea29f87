package run_test

import (
	"fmt"

	"github.com/stagewise/stagewise/pipeline/run"
	"github.com/stagewise/stagewise/pipeline/run/event"
	"github.com/stagewise/stagewise/schemas"
)

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
