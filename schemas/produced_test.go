package schemas

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/examples"
)

func encodedRows(t testing.TB, rows *examples.Rows, mem memory.Allocator) []byte {
	record := rows.Record(mem)
	defer record.Release()
	return arrowtest.Must(examples.Encode(record, mem))(t)
}

// producedAs encodes rows of JSON as an examples message, as another producer might.
func producedAs(t testing.TB, mem memory.Allocator, rows string, fields ...arrow.Field) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(mem, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	if err != nil {
		t.Fatal(err)
	}
	defer record.Release()
	return arrowtest.Must(examples.Encode(record, mem))(t)
}

// producedRows makes rows with different columns, by name.
func producedRows(rows int) map[string]*examples.Rows {
	const cols = 3
	floats, missing := make([]float32, rows*cols), make([]float32, rows*cols)
	bytes := make([]uint8, rows*cols)
	words, numbers := make([]string, rows), make([]int64, rows)
	weights, splits := make([]float32, rows), make([]examples.Split, rows)
	for i := range floats {
		floats[i], missing[i], bytes[i] = float32(i)-0.5, float32(i), uint8(i)
		if i%7 == 3 {
			missing[i] = float32(math.NaN())
		}
	}
	for i := range rows {
		words[i], numbers[i] = fmt.Sprintf("klasse %d é", i%4), int64(i%5)-2
		weights[i], splits[i] = float32(i)/4, examples.Split(i%int(examples.Splits))
	}
	return map[string]*examples.Rows{
		"floats":  {Rows: rows, Cols: cols, Floats: floats},
		"missing": {Rows: rows, Cols: cols, Floats: missing, Words: words},
		"bytes":   {Rows: rows, Cols: cols, Bytes: bytes, Numbers: numbers},
		"all": {Rows: rows, Cols: cols, Floats: missing, Words: words, Weights: weights, Splits: splits,
			Columns: examples.Columns{{Name: "größe"}, {Name: "colour", Categories: []string{"red"}}}},
	}
}

func sparseFeatures(index arrow.DataType) arrow.Field {
	pair := arrow.StructOf(arrow.Field{Name: "index", Type: index, Nullable: true}, arrow.Field{Name: "value",
		Type: arrow.PrimitiveTypes.Float32, Nullable: true})
	return arrow.Field{Name: "features", Type: arrow.ListOf(pair), Nullable: true}
}

func nullable(name string, t arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: t, Nullable: true}
}
