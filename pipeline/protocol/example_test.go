package protocol_test

import (
	"fmt"

	"github.com/stagewise/stagewise/pipeline/event"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
)

// The next step of a worker is determined by the plan and the accepted records. Without records the survey is due.
func ExampleChain_Due() {
	plan := &schemas.Plan{Name: "digits", Stages: make([]schemas.Stage, 4)}
	chain := protocol.NewChain(plan, protocol.NewCodec(nil, 0), event.Ignore{})
	visit, _ := chain.Due()
	fmt.Println("visit", visit.Number, "of", event.StageName(visit.Stage))
	fmt.Println("computed from the plan:", visit.Parent == plan.Digest())
	// Output:
	// visit 0 of the survey
	// computed from the plan: true
}
