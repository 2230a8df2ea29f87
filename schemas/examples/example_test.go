package examples_test

import (
	"errors"
	"fmt"
	"math"

	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// A producer encodes rows as an examples message, and a worker decodes it.
func ExampleDecode() {
	mem := memory.NewGoAllocator()
	rows := examples.Rows{
		Rows: 2, Cols: 3,
		Floats: []float32{0.5, float32(math.NaN()), 3, 1, 2, 4},
		Words:  []string{"seven", "two"},
		Splits: []examples.Split{examples.Train, examples.Test},
	}
	record := rows.Record(mem)
	defer record.Release()
	value, err := examples.Encode(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}

	batch, err := examples.Decode(value, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer batch.Release()
	features := make([]float32, batch.Rows*batch.Width)
	batch.Features(features, batch.Width)
	for row := range batch.Rows {
		fmt.Println(features[row*batch.Width:][:batch.Width], batch.Label(row), batch.Weight(row), batch.Split(row))
	}
	// Output:
	// [0.5 NaN 3] seven 1 train
	// [1 2 4] two 1 test
}

// A message with a bad value names the row and the feature.
func ExampleDecode_badValue() {
	mem := memory.NewGoAllocator()
	rows := examples.Rows{Rows: 1, Cols: 2, Floats: []float32{1, float32(math.Inf(1))}}
	record := rows.Record(mem)
	defer record.Release()
	value, err := examples.Encode(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = examples.Decode(value, mem)
	fmt.Println(err)
	fmt.Println("damaged:", errors.Is(err, wire.ErrDamaged))
	// Output:
	// row 0, feature 1: +Inf is not a finite number
	// damaged: true
}

// Labels compare as text, so a number and its text are one class.
func ExampleBatch_Classes() {
	mem := memory.NewGoAllocator()
	found := []string{"10", "9", "2"}
	examples.SortLabels(found)
	labels := examples.NewLabels(found)
	rows := examples.Rows{Rows: 3, Cols: 1, Bytes: []uint8{0, 0, 0}, Numbers: []int64{9, 2, 10}}
	record := rows.Record(mem)
	defer record.Release()
	value, err := examples.Encode(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	batch, err := examples.Decode(value, mem)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer batch.Release()
	classes := make([]int32, batch.Rows)
	fmt.Println(labels.Text(), batch.Classes(classes, labels, examples.UnknownLabel), classes)
	// Output:
	// [2 9 10] <nil> [1 0 2]
}
