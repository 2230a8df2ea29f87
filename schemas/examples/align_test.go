package examples

import (
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// Features are less the offsets that are asked for, whatever the message was less: of any type, with missing values,
// and again after another question. A message that does not say its columns has those that are asked for.
func TestAlign(t *testing.T) {
	mem := arrowtest.Allocator(t)
	own := Columns{{Name: "time", Offset: 1000}, {Name: "colour", Categories: []string{"red"}}, {Name: "size"}}
	nan := float32(math.NaN())
	rows := &Rows{Rows: 2, Cols: 4, Floats: []float32{1, 0, 1, 5, nan, 1, 0, 6}, Columns: own}
	said := arrowtest.Must(Decode(encodeRows(t, rows, mem), mem))(t)
	defer said.Release()
	rows.Columns = nil
	silent := arrowtest.Must(Decode(encodeRows(t, rows, mem), mem))(t)
	defer silent.Release()
	other := Columns{{Name: "time", Offset: 990}, {Name: "colour", Categories: []string{"red"}}, {Name: "size", Offset: -2}}
	for _, test := range []struct {
		name     string
		examples *Batch
		columns  Columns
		want     []float32
	}{
		{"same", said, own, rows.Floats},
		{"other", said, other, []float32{11, 0, 1, 7, nan, 1, 0, 8}},
		{"same again", said, own, rows.Floats},
		{"none", said, Columns{{Name: "time"}, {Name: "colour", Categories: []string{"red"}}, {Name: "size"}}, []float32{1001, 0, 1, 5, nan, 1, 0, 6}},
		{"unknown", said, nil, rows.Floats},
		{"silent", silent, other, rows.Floats},
	} {
		if err := test.examples.Align(test.columns); err != nil {
			t.Errorf("%s: %v", test.name, err)
		}
		got := make([]float32, 8)
		test.examples.Features(got, 4)
		if !slices.EqualFunc(got, test.want, func(a, b float32) bool { return a == b || a != a && b != b }) {
			t.Errorf("%s: %v, expected %v", test.name, got, test.want)
		}
	}
	if err := said.Align(Columns{{Name: "time", Offset: 1}}); err == nil {
		t.Error("columns of another width are aligned")
	}
}

// Columns come back from their text. A column with an offset is an object, others stay what they were.
func TestColumnsWithOffsets(t *testing.T) {
	columns := Columns{{Name: "time", Offset: 1764000038912}, {Name: "colour", Categories: []string{"red"}}, {Name: "size"}}
	const want = `[{"name":"time","offset":1764000038912},{"name":"colour","categories":["red"]},"size"]`
	if columns.Text() != want {
		t.Errorf("%s, expected %s", columns.Text(), want)
	}
	if again := arrowtest.Must(ParseColumns(want))(t); !reflect.DeepEqual(again, columns) {
		t.Errorf("became %+v", again)
	}
	for _, text := range []string{`[{"name":"a"}]`, `[{"name":"a","categories":[]}]`, `[{"name":"a","categories":["x"],"offset":1}]`} {
		if _, err := ParseColumns(text); err == nil {
			t.Errorf("%s is read", text)
		}
	}
}
