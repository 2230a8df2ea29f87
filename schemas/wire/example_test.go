package wire_test

import (
	"fmt"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A large record takes several messages. They may arrive in any order.
func ExampleCollector() {
	mem := memory.NewGoAllocator()
	weights := &schemas.Weights{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: "2297280bb4a3", Stage: 0, Visit: 1},
		Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 30_000, 10, make([]float32, 300_000))},
	}
	messages, err := weights.Record().Encode(mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	var collector wire.Collector[float32]
	for i := len(messages) - 1; i >= 0; i-- {
		record, err := collector.Add(messages[i], mem)
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(messages[i].Key, "completes the record:", record != nil)
		if record != nil {
			fmt.Println(record.Identity, record.Tensors[0].Name, record.Tensors[0].Shape)
		}
	}
	// Output:
	// 2297280bb4a3/weights/0/1/0/1 completes the record: false
	// 2297280bb4a3/weights/0/1/0/0 completes the record: true
	// weights of run 2297280bb4a3, stage 0, visit 1, partition 0 W [30000 10]
}

// Every draw is a hash of numbers that name it, so a draw needs none of those before it.
func ExampleHash() {
	const seed, partition, offset = 1, 0, 12
	for row := range uint64(3) {
		hash := wire.Hash(seed, partition, offset, row)
		fmt.Printf("row %d: %016x, %.4f\n", row, hash, float64(hash>>11)/(1<<53)) // 53 bits are a uniform number below 1
	}
	// Output:
	// row 0: 4d36d2087658fd1d, 0.3016
	// row 1: bb90cf67172ba3b1, 0.7327
	// row 2: 75f36f545ee788f0, 0.4607
}
