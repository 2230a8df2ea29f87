package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// A number that means a missing value does so whatever its type and spelling. A boolean is no such number.
func TestNumbersThatMeanMissing(t *testing.T) {
	lines := []string{`{"x":-999,"y":1.5,"z":true,"label":"a"}`, `{"x":7,"y":-99.9,"z":false,"label":"b"}`, `{"x":0,"y":2.5,"z":true,"label":"a"}`}
	record := func(x, y arrow.DataType) []byte {
		return arrowContent(t, arrowRows(t, "["+strings.Join(lines, ",")+"]", nullable("x", x), nullable("y", y),
			nullable("z", arrow.FixedWidthTypes.Boolean), nullable("label", arrow.BinaryTypes.String)), 2, true)
	}
	numbers := []string{"-999", "0.0", "-99.9", "-"}
	for name, content := range map[string][]byte{
		"rows.csv":     []byte("x,y,z,label\n-999,1.5,True,a\n7.0,-99.90,False,b\n0,2.5,True,a\n"),
		"pandas.csv":   []byte("x,y,z,label\n-999.0,1.5,True,a\n7.0,-9.99e1,False,b\n-0.0,2.5,True,a\n"),
		"rows.jsonl":   []byte(strings.Join(lines, "\n")),
		"texts.jsonl":  []byte(strings.NewReplacer("-999", `"-999.00"`, "-99.9", `"-99.9"`, `"x":0`, `"x":"0"`).Replace(strings.Join(lines, "\n"))),
		"rows.arrow":   record(arrow.PrimitiveTypes.Int16, arrow.PrimitiveTypes.Float64),
		"single.arrow": record(arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Float32),
		"rows.parquet": parquetFile(t, [][]parquetValues{{{node: required(schema.NewFloat32Node, "x"), values: []float32{-999, 7, 0}},
			{node: required(schema.NewFloat32Node, "y"), values: []float32{1.5, -99.9, 2.5}},
			{node: required(schema.NewBooleanNode, "z"), values: []bool{true, false, true}}, {node: words("label"), values: []string{"a", "b", "a"}}}}),
	} {
		rows, _, _, problem := readAs(t, name, content, func(o *Options) { o.Label, o.MissingValues = "label", numbers })
		if got, want := fmt.Sprint(rows.Floats), "[NaN 1.5 1 7 NaN 0 NaN 2.5 1]"; got != want || problem != "" {
			t.Errorf("%s: %s %s, expected %s", name, got, problem, want)
		}
	}
	list := arrowContent(t, arrowRows(t, `[{"f":[1,-999],"label":"a"},{"f":[-999,2],"label":"b"}]`,
		nullable("f", arrow.ListOf(arrow.PrimitiveTypes.Float32)), nullable("label", arrow.BinaryTypes.String)), 2, true)
	rows, _, _, problem := readAs(t, "lists.arrow", list, func(o *Options) { o.MissingValues = numbers })
	if got, want := fmt.Sprint(rows.Floats), "[1 NaN NaN 2]"; got != want || problem != "" {
		t.Errorf("lists: %s %s, expected %s", got, problem, want)
	}
	_, _, _, problem = readAs(t, "targets.csv", []byte("x,y\n1,2\n3,-999.0\n"), func(o *Options) { o.Targets, o.MissingValues = []string{"y"}, numbers })
	if !strings.Contains(problem, "line 3, column 1 (\"y\"): a missing value: expected a number to predict") {
		t.Errorf("a missing target: %q", problem)
	}
}
