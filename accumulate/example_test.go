package accumulate_test

import (
	"errors"
	"fmt"

	"github.com/stagewise/stagewise/accumulate"
	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/statistics"
)

// sumOver returns a sum over one message of a partition, with one value in the field trace.
func sumOver(partition int, offset int64, value float64) *accumulate.Sum {
	sum := accumulate.NewSum(coverage.Coverage{Spans: coverage.Spans{{Partition: partition, From: offset, To: offset + 1}}}, nil)
	sum.Count(100, 1)
	sum.Field(statistics.FieldTrace, 1)[0] = value
	return sum
}

// Two rows of two features: the Gram matrix Σ x xᵀ, packed, and the cross moment Σ x rᵀ.
func ExampleAccumulator() {
	a := accumulate.Accumulator{BLAS: kernel.Gonum()}
	block := kernel.Dense{Rows: 2, Cols: 2, Data: []float32{1, 2, 3, 4}}
	residual := kernel.Dense{Rows: 2, Cols: 1, Data: []float32{1, -1}}
	weights := []float32{1, 1}

	a.Begin(2, 1, true)
	a.Add(block, residual, weights)
	a.AddGram(block, weights)
	for _, field := range a.End().Tensors() {
		fmt.Println(field.Name, field.Shape, field.Data)
	}
	// Output:
	// cross [2 1] [-2 -2]
	// gram [3] [10 14 20]
}

// The sums of two partitions merge. Nothing is counted twice.
func ExampleSum_Merge() {
	total := sumOver(0, 0, 1.5)
	if err := total.Merge(sumOver(1, 0, 2)); err != nil {
		fmt.Println(err)
	}
	fmt.Println(total.Messages, total.Rows, total.Field(statistics.FieldTrace, 1))

	overlap := (*coverage.OverlapError)(nil)
	fmt.Println(errors.As(total.Merge(sumOver(1, 0, 2)), &overlap))
	// Output:
	// 2 200 [3.5]
	// true
}

// The sample keeps the rows with the smallest hashes, whoever offers them.
func ExampleSample() {
	here, there := accumulate.Sample{Max: 2}, accumulate.Sample{Max: 2}
	here.Offer(30, []float32{3})
	here.Offer(10, []float32{1})
	there.Offer(20, []float32{2})
	here.Merge(&there)
	fmt.Println(here.Rows().Data)
	// Output: [1 2]
}
