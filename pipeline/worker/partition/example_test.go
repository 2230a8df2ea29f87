package partition_test

import (
	"fmt"

	"github.com/stagewise/stagewise/pipeline/worker/partition"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Segments are aligned to multiples of their length, so runs over overlapping spans share all except the outermost ones.
func ExampleNew() {
	state := partition.New(16, partition.NewPart(coverage.Span{Partition: 2, From: 10, To: 40}, 0, nil))
	for _, segment := range state.Segments() {
		fmt.Println(segment.Span)
	}
	// Output:
	// [2]@10–16
	// [2]@16–32
	// [2]@32–40
}

// Messages stay in memory while the budget allows. A partition that moves to another worker releases its memory.
func ExampleShare_Release() {
	budget := partition.NewBudget(1000)
	state := partition.New(1, partition.NewPart(coverage.Span{To: 2}, 0, nil))
	for _, segment := range state.Segments() {
		segment.KeepMessages([]partition.Message{{Message: wire.Message{Value: make([]byte, 600)}}}, budget)
		fmt.Println("kept:", segment.Messages() != nil)
	}
	state.Release(budget)
	fmt.Println("all is free:", budget.Has(1000))
	// Output:
	// kept: true
	// kept: false
	// all is free: true
}
