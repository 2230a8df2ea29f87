package stream_test

import (
	"errors"
	"fmt"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/stream"
)

// A stream that is cut short is an error, never a panic.
func ExampleDecode() {
	mem := memory.NewGoAllocator()
	b := array.NewRecordBuilder(mem, arrow.NewSchema([]arrow.Field{{Name: "score", Type: arrow.PrimitiveTypes.Float32}}, nil))
	defer b.Release()
	b.Field(0).(*array.Float32Builder).AppendValues([]float32{0.25, 0.75}, nil)
	record := b.NewRecord()
	defer record.Release()
	value, err := stream.Encode(record, mem)
	if err != nil {
		fmt.Println(err)
		return
	}

	decoded, err := stream.Decode(value, mem, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer decoded.Release()
	fmt.Println(decoded.NumRows(), "rows:", decoded.Column(0))

	_, err = stream.Decode(value[:len(value)/2], mem, nil)
	fmt.Println("damaged:", errors.Is(err, stream.ErrDamaged))
	// Output:
	// 2 rows: [0.25 0.75]
	// damaged: true
}
