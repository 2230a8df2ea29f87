package tabular_test

import (
	"fmt"
	"math"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/memory"

	formatarrow "github.com/stagewise/stagewise/ingest/format/arrow"
	. "github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/value"
)

// column returns a column of Arrow with values from texts.
func column(t *testing.T, of arrow.DataType, texts ...string) *stream.Values {
	b := array.NewBuilder(memory.DefaultAllocator, of)
	for _, text := range texts {
		assert.NoError(t, b.AppendValueFromString(text))
	}
	field := arrow.Field{Name: "x", Type: of, Nullable: true}
	return formatarrow.RowsOf(array.NewRecord(arrow.NewSchema([]arrow.Field{field}, nil), []arrow.Array{b.NewArray()}, int64(len(texts))))
}

// TestFormsHaveTheSameValues reads the numbers 1, 2 and none, and the same with other kinds, from all forms of a column.
func TestFormsHaveTheSameValues(t *testing.T) {
	missing := value.MissingOf([]string{"-9"})
	large := column(t, arrow.PrimitiveTypes.Uint64, "1", "2", "(null)", "18446744073709551615")
	filled := func(rows *stream.Values) (b Block) {
		assert.Need(t, formatarrow.Fill(&b, rows, []string{"x"}), "no values")
		return b
	}
	b := filled(large)
	last := b.Cell(3, 0)
	text, err := last.Text()
	assert.True(t, err == nil && text == "18446744073709551615", "%q, %v", text, err)
	for name, b := range map[string]Block{
		"numbers":        filled(column(t, arrow.PrimitiveTypes.Float64, "1", "2", "NaN")),
		"whole numbers":  filled(column(t, arrow.PrimitiveTypes.Int64, "1", "2", "(null)")),
		"large numbers":  b,
		"texts":          filled(column(t, arrow.BinaryTypes.String, "1", "2", "(null)")),
		"cells":          {Columns: make([]Column, 1), Cells: [][]Cell{{Float(1)}, {JSON(value.Cell("2"))}, {}}},
		"cells of words": {Columns: make([]Column, 1), Cells: [][]Cell{{Word("1")}, {Integer(2)}, nil}},
	} {
		b.Rows = 3
		got := ""
		for row := range b.Rows {
			cell := b.Cell(row, 0)
			v, err := cell.Number(missing)
			text, err2 := cell.Text()
			got += fmt.Sprintf("%v %v %q %v %v; ", v, err, text, err2, cell.Null())
		}
		assert.Equal(t, got, `1 <nil> "1" <nil> false; 2 <nil> "2" <nil> false; NaN <nil> "" <nil> true; `, "%s", name)
	}
}

func TestListsOfColumnsAndCells(t *testing.T) {
	lists := column(t, arrow.ListOf(arrow.BinaryTypes.String), `["a", "1"]`, `[]`, "(null)").Named("x")
	cell := func(row int) Cell { return formatarrow.Nested{Of: lists, Row: row}.Cell() }
	for name, b := range map[string]Block{
		"column": {Columns: make([]Column, 1), Cells: [][]Cell{{cell(0)}, {cell(1)}, {cell(2)}}},
		"cells":  {Columns: make([]Column, 1), Cells: [][]Cell{{Items([]Cell{Word("a"), Integer(1)})}, {Items(nil)}}},
		"JSON":   {Columns: make([]Column, 1), Cells: [][]Cell{{JSON(value.Cell(`["a", 1.0]`))}, {JSON(value.Cell("[]"))}}},
	} {
		b.Rows = 3
		got := ""
		for row := range b.Rows {
			list := b.Cell(row, 0)
			texts, err := list.Texts()
			words, err2 := list.Words()
			got += fmt.Sprintf("%v %v %q %v %q %v; ", list.IsList(), list.Null(), texts, err, words, err2)
		}
		assert.Equal(t, got, `true false ["a" "1"] <nil> "a 1" <nil>; true false [] <nil> "" <nil>; false true [] <nil> "" <nil>; `, "%s", name)
	}
}

// A value of JSON is the number and the word that it is, and an object is no value of a column.
func TestJSON(t *testing.T) {
	for text, want := range map[string]struct {
		number float64
		word   string
	}{
		`1.0`: {1, "1"}, `-2.50`: {-2.5, "-2.5"}, `1e400`: {math.Inf(1), "1e400"}, `true`: {1, "true"}, `false`: {0, "false"},
		`null`: {math.NaN(), ""}, ``: {math.NaN(), ""}, `"1.5"`: {1.5, "1.5"}, `"NA"`: {math.NaN(), "NA"}, `"\u0031"`: {1, "1"},
		`-0`: {math.Copysign(0, -1), "0"}, `9007199254740993`: {1 << 53, "9007199254740993"}, `18446744073709551617.0`: {1 << 64, "18446744073709551617"},
		`9007199254740993.0`: {1 << 53, "9007199254740993"},
	} {
		cell := JSON(value.Cell(text))
		number, err := cell.Number(value.MissingOf(value.Usual()))
		assert.True(t, err == nil &&
			(math.Float64bits(number) == math.Float64bits(want.number) || number != number && want.number != want.number),
			"%s: %v, %v, expected %v", text, number, err, want.number)
		word, err := cell.Text()
		assert.True(t, err == nil && word == want.word, "%s: %q, %v, expected %q", text, word, err, want.word)
	}
	boolean := JSON(value.Cell("true"))
	v, err := boolean.Whole()
	assert.True(t, err != nil, "true is the whole number %d", v)
	for _, text := range []string{`[1]`, `{"a":1}`} {
		cell := JSON(value.Cell(text))
		_, number := cell.Number(value.Missing{})
		_, word := cell.Text()
		assert.True(t, number != nil && word != nil, "%s: no error", text)
	}
}

func TestLinesOfTexts(t *testing.T) {
	b := Block{Rows: 1, Lines: []int{7}, Columns: make([]Column, 2), Cells: [][]Cell{{Word("a\nb"), Word("1")}}}
	at := [3]int{b.Line(0, -1), b.Line(0, 0), b.Line(0, 1)}
	assert.True(t, at == [3]int{7, 7, 8}, "%v", at)
}
