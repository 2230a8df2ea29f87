package tabular

import (
	"fmt"
	"math"
	"testing"

	"github.com/stagewise/stagewise/schemas/value"
)

// TestFormsHaveTheSameValues reads the numbers 1, 2 and none, and the same with other kinds, from all forms of a column.
func TestFormsHaveTheSameValues(t *testing.T) {
	missing := value.MissingOf([]string{"-9"})
	nulls := []bool{false, false, true}
	for name, b := range map[string]Block{
		"numbers":        {Columns: []Column{{Numbers: []float64{1, 2, math.NaN()}}}},
		"whole numbers":  {Columns: []Column{{Wholes: []int64{1, 2, 0}, Nulls: nulls}}},
		"texts":          {Columns: []Column{{Texts: []string{"1", "2", ""}, Nulls: nulls}}},
		"cells":          {Columns: make([]Column, 1), Cells: [][]Cell{{Float(1)}, {JSON(value.Cell("2"))}, {}}},
		"cells of words": {Columns: make([]Column, 1), Cells: [][]Cell{{Word("1")}, {Integer(2)}, nil}},
	} {
		b.Rows = 3
		got := ""
		for row := range b.Rows {
			v, err := b.Number(row, 0, missing)
			text, null, err2 := b.Text(row, 0)
			_, isNull := b.List(row, 0)
			got += fmt.Sprintf("%v %v %q %v %v %v %v; ", v, err, text, null, err2, b.Null(row, 0), isNull)
		}
		if want := `1 <nil> "1" false <nil> false false; 2 <nil> "2" false <nil> false false; NaN <nil> "" true <nil> true true; `; got != want {
			t.Errorf("%s: %s, expected %s", name, got, want)
		}
	}
}

func TestListsOfColumnsAndCells(t *testing.T) {
	for name, b := range map[string]Block{
		"column": {Columns: []Column{{Texts: []string{"a", "1"}, Ends: []int{2, 2, 2}, NoLists: []bool{false, false, true}}}},
		"cells":  {Columns: make([]Column, 1), Cells: [][]Cell{{Items([]Cell{Word("a"), Integer(1)})}, {Items(nil)}}},
	} {
		b.Rows = 3
		got := ""
		for row := range b.Rows {
			list, null := b.List(row, 0)
			texts, err := list.Texts()
			words, err2 := b.Words(row, 0)
			got += fmt.Sprintf("%v %v %d %q %v %q %v; ", list.IsList(), null, list.Len(), texts, err, words, err2)
		}
		if want := `true false 2 ["a" "1"] <nil> "a 1" <nil>; true false 0 [] <nil> "" <nil>; false true 0 [] <nil> "" <nil>; `; got != want {
			t.Errorf("%s: %s, expected %s", name, got, want)
		}
	}
}

func TestLinesOfTexts(t *testing.T) {
	b := Block{Rows: 1, Lines: []int{7}, Columns: []Column{{Texts: []string{"a\nb"}}, {Texts: []string{"1"}}}}
	if at := [3]int{b.Line(0, -1), b.Line(0, 0), b.Line(0, 1)}; at != [3]int{7, 7, 8} {
		t.Error(at)
	}
}
