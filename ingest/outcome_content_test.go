package ingest

import (
	"math"
	"strings"
	"testing"
	"testing/quick"

	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/ingest/outcome"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/value"
)

// cellsAt returns the values of an outcome by their paths.
func cellsAt(cells map[string]tabular.Cell) func(string) *tabular.Cell {
	return func(path string) *tabular.Cell {
		c := cells[path]
		return &c
	}
}

// An outcome has the values at its paths, and is rejected if these can't be predicted.
func TestContentOfOutcomes(t *testing.T) {
	list := func(items ...string) tabular.Cell {
		return tabular.JSON(value.Cell("[" + strings.Join(items, ",") + "]"))
	}
	one, several := predicted{Label: "kind"}, predicted{Task: examples.SeveralLabels, Label: "kind"}
	columns := predicted{Task: examples.SeveralLabels, Columns: []string{"a", "b"}}
	numbers := predicted{Task: examples.Numbers, Columns: []string{"a", "b"}}
	for _, test := range []struct {
		p          predicted
		a, b, kind tabular.Cell
		want, err  string
	}{
		{p: one, kind: tabular.Word("book"), want: "book"},
		{p: one, kind: tabular.Float(1.5), want: "1.5"},
		{p: one, kind: tabular.Word(""), err: "(examples.outcome.label)"},
		{p: one, kind: list(`"book"`), err: "examples.outcome.label"},
		{p: several, kind: list(`"book"`, "7", "true"), want: `["book","7","true"]`},
		{p: several, kind: list(), want: "[]"},
		{p: several, kind: tabular.Items(nil), want: "[]"},
		{p: several, kind: tabular.Word(""), want: `""`},
		{p: several, kind: tabular.Word("book|film"), want: `"book|film"`},
		{p: several, err: "(examples.outcome.label)"},
		{p: several, kind: list(`["book"]`), err: "examples.outcome.label"},
		{p: columns, a: tabular.Truth(false), b: tabular.Word(" 1"), want: `["b"]`},
		{p: columns, a: tabular.Integer(0), b: tabular.Float(0), want: "[]"},
		{p: columns, a: tabular.Integer(2), b: tabular.Integer(0), err: `examples.label_columns: "a": "2"`},
		{p: columns, a: tabular.Integer(1), err: `examples.label_columns: "b"`},
		{p: numbers, a: tabular.Word("1e3"), b: tabular.Float(-0.1), want: "[1000,-0.1]"},
		{p: numbers, a: tabular.Word("many"), b: tabular.Float(1), err: `examples.targets: "a"`},
		{p: numbers, a: tabular.Float(1), err: `examples.targets: "b": a missing value`},
		{p: numbers, a: tabular.Float(1), b: tabular.Float(1e39), err: `examples.targets: "b"`},
	} {
		said, err := test.p.Read(cellsAt(map[string]tabular.Cell{"a": test.a, "b": test.b, "kind": test.kind}))
		if said != test.want || (err != nil) != (test.err != "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%+v says %q, %v; expected %q, %q", test, said, err, test.want, test.err)
		}
	}
}

// The content for rows without an outcome is a valid content of outcomes, or they are skipped.
func TestWhenAbsent(t *testing.T) {
	for _, test := range []struct {
		rows   layout.Options
		absent []string
		want   string
		skips  bool
	}{
		{absent: []string{"none"}, want: "none"},
		{absent: []string{"skip"}, skips: true},
		{rows: layout.Options{Labels: layout.LabelsSeveral}, absent: []string{}, want: "[]"},
		{rows: layout.Options{Labels: layout.LabelsSeveral}, absent: []string{"a", "b"}, want: `["a","b"]`},
		{rows: layout.Options{Labels: layout.LabelsSeveral}, absent: []string{"skip"}, skips: true},
		{rows: layout.Options{Targets: []string{"x", "y"}}, absent: []string{"0.5"}, want: "[0.5,0.5]"},
		{rows: layout.Options{Targets: []string{"x", "y"}}, absent: []string{"1", "-2"}, want: "[1,-2]"},
		{rows: layout.Options{Targets: []string{"x", "y"}}, absent: []string{"skip"}, skips: true},
	} {
		p := predictedOf(test.rows, outcome.Options{Label: "kind", Absent: test.absent})
		if said, ok := p.WhenAbsent(); said != test.want || ok == test.skips {
			t.Errorf("%+v: %q, %v", test, said, ok)
		}
	}
}

// Numbers become targets without loss of precision.
func TestNumbersKeepTheirBits(t *testing.T) {
	p := predicted{Task: examples.Numbers, Columns: []string{"x", "y"}}
	err := quick.Check(func(x float64, y float32, whole int64) bool {
		x = math.Mod(x, math.MaxFloat32)
		for _, c := range [][2]tabular.Cell{{tabular.Float(x), tabular.Float(float64(y))}, {tabular.Float(x), tabular.Integer(whole)}} {
			said, err := p.Read(cellsAt(map[string]tabular.Cell{"x": c[0], "y": c[1]}))
			if err != nil {
				t.Error(err)
				return false
			}
			for i, got := range p.cells(said) {
				want, _ := c[i].Number(value.Missing{})
				if v, err := got.Number(value.Missing{}); v != want || err != nil {
					t.Errorf("%v is %v in %s: %v", want, v, said, err)
					return false
				}
			}
		}
		return true
	}, nil)
	if err != nil {
		t.Error(err)
	}
}
