package sink_test

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/residuals"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/sink"
)

// The score after a stage is the score before it plus the block times the weights.
func ExampleFitted_Scores() {
	block := kernel.Dense{Rows: 1, Cols: 2, Data: []float32{1, 2}}
	weights := kernel.Dense{Rows: 2, Cols: 3, Data: []float32{1, 0, 0, 0, 1, 0}}
	before := kernel.Dense{Rows: 1, Cols: 3, Data: []float32{0, 0, 4}}

	fitted, score := sink.Fitted{W: kernel.NewWeights(weights)}, kernel.NewDense(1, 3)
	fitted.Scores(kernel.Gonum(), score, before, block)
	fmt.Println(score.Data)
	// Output: [1 2 4]
}

// Scores and residuals of one examples message, after a stage.
func ExampleMessages() {
	score, residual := kernel.NewDense(3, 2), kernel.NewDense(3, 2)
	id := wire.Identity{Kind: residuals.Kind, Run: "run", Parent: wire.DigestJSON("weights")}
	messages, err := sink.Messages(id, "attempt", 7, sink.Finished{Score: score, Residual: residual}, memory.DefaultAllocator)
	if err != nil {
		fmt.Println(err)
		return
	}
	part, err := residuals.Decode(messages[0], 2, memory.DefaultAllocator)
	fmt.Println(len(messages), part.Offset, len(part.Score), err)
	// Output: 1 7 6 <nil>
}
