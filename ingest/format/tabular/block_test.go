package tabular

import (
	"fmt"
	"math"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/value"
)

// TestFormsHaveTheSameValues reads the numbers 1, 2 and none, and the same with other kinds, from all forms of a column.
func TestFormsHaveTheSameValues(t *testing.T) {
	missing := value.MissingOf([]string{"-9"})
	wholes, large := Column{}, Column{}
	for v := range int64(2) {
		wholes.AppendWhole(v+1, true)
		large.AppendWhole(v+1, true)
	}
	wholes.AppendNull(false)
	large.AppendNull(false)
	large.AppendWhole(-1, true)
	assert.Equal(t, large.Texts[3], "18446744073709551615", "")
	for name, b := range map[string]Block{
		"numbers":        {Columns: []Column{{Numbers: []float64{1, 2, math.NaN()}}}},
		"whole numbers":  {Columns: []Column{wholes}},
		"large numbers":  {Columns: []Column{large}},
		"texts":          {Columns: []Column{{Texts: []string{"1", "2", ""}, Nulls: []bool{false, false, true}}}},
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
	for name, b := range map[string]Block{
		"column": {Columns: []Column{{Texts: []string{"a", "1"}, Ends: []int{2, 2, 2}, NoLists: []bool{false, false, true}}}},
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
	b := Block{Rows: 1, Lines: []int{7}, Columns: []Column{{Texts: []string{"a\nb"}}, {Texts: []string{"1"}}}}
	at := [3]int{b.Line(0, -1), b.Line(0, 0), b.Line(0, 1)}
	assert.True(t, at == [3]int{7, 7, 8}, "%v", at)
}
