package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"

	"github.com/stagewise/stagewise/schemas"
)

// A tableColumn is a column of a test's table: text, or numbers as people write them. "" is a missing value.
type tableColumn struct {
	name   string
	isText bool
	values []string
}

// rowsOf returns the number of rows of a table.
func rowsOf(table []tableColumn) int { return len(table[0].values) }

// inFormat returns a table as a file of a format.
func inFormat(t *testing.T, format string, table []tableColumn) string {
	t.Helper()
	switch format {
	case "arrow":
		return asArrow(t, table)
	case "parquet":
		return asParquet(t, table)
	}
	var text strings.Builder
	for i := -1; i < rowsOf(table); i++ {
		for j, c := range table {
			value := c.name
			if i >= 0 {
				value = c.values[i]
			}
			text.WriteString(value + []string{",", "\n"}[min(1, (j+1)/len(table))])
		}
	}
	return text.String()
}

// asArrow writes text with a dictionary, as data frames do for categories, or as large_utf8.
func asArrow(t *testing.T, table []tableColumn) string {
	t.Helper()
	var fields []arrow.Field
	var rows []map[string]any
	for range rowsOf(table) {
		rows = append(rows, map[string]any{})
	}
	category := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	for j, c := range table {
		field := arrow.Field{Name: c.name, Type: arrow.PrimitiveTypes.Float64, Nullable: true}
		if c.isText {
			field.Type = []arrow.DataType{category, arrow.BinaryTypes.LargeString}[j%2]
		}
		fields = append(fields, field)
		for i, value := range c.values {
			if value == "" {
				rows[i][c.name] = nil
			} else if rows[i][c.name] = value; !c.isText {
				rows[i][c.name] = json.Number(value)
			}
		}
	}
	text, err := json.Marshal(rows)
	if err != nil {
		t.Fatal(err)
	}
	return string(arrowStream(t, string(text), fields...))
}

func asParquet(t *testing.T, table []tableColumn) string {
	t.Helper()
	var fields schema.FieldList
	for _, c := range table {
		if c.isText {
			fields = append(fields, schema.MustPrimitive(schema.NewPrimitiveNodeLogical(c.name, parquet.Repetitions.Optional,
				schema.StringLogicalType{}, parquet.Types.ByteArray, 0, -1)))
		} else {
			fields = append(fields, schema.NewFloat64Node(c.name, parquet.Repetitions.Optional, -1))
		}
	}
	var content bytes.Buffer
	w := file.NewParquetWriter(&content, schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1)))
	group := w.AppendRowGroup()
	for _, c := range table {
		var levels []int16
		var texts []parquet.ByteArray
		var numbers []float64
		for _, value := range c.values {
			if value == "" {
				levels = append(levels, 0)
				continue
			}
			levels, texts = append(levels, 1), append(texts, parquet.ByteArray(value))
			v, _ := strconv.ParseFloat(value, 64) // 0 for text
			numbers = append(numbers, v)
		}
		column, err := group.NextColumn()
		if err != nil {
			t.Fatal(err)
		}
		switch column := column.(type) {
		case *file.ByteArrayColumnChunkWriter:
			_, err = column.WriteBatch(texts, levels, nil)
		case *file.Float64ColumnChunkWriter:
			_, err = column.WriteBatch(numbers, levels, nil)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := column.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := group.Close(); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return content.String()
}

// signals is a table whose colour, a word, tells the kind. Some colours and sizes are missing.
func signals(rows int) []tableColumn {
	table := []tableColumn{{name: "colour", isText: true}, {name: "size"}, {name: "kind", isText: true}}
	for i := range rows {
		colour, size := []string{"red", "green", "blue"}[i%3], strconv.Itoa(i%5)
		kind := map[string]string{"red": "stop", "green": "go", "blue": "other"}[colour]
		if i%10 == 0 {
			size = ""
		}
		if i%40 == 7 {
			colour = ""
		}
		for j, value := range []string{colour, size, kind} {
			table[j].values = append(table[j].values, value)
		}
	}
	return table
}

// The same table gives the same weights in every format, and rows of every format the same predictions. A word that training did not
// have counts as another one.
func TestWordsInEveryFormat(t *testing.T) {
	want, wantPredicted := "", ""
	rows := []tableColumn{
		{name: "size", values: []string{"1", "", "3", "2"}},
		{name: "colour", isText: true, values: []string{"red", "green", "blue", "purple"}},
	}
	for _, format := range []string{"csv", "arrow", "parquet"} {
		inFolder(t, map[string]string{
			"signals." + format: inFormat(t, format, signals(120)),
			"rows.csv":          inFormat(t, "csv", rows), "rows.arrow": inFormat(t, "arrow", rows), "rows.parquet": inFormat(t, "parquet", rows),
			"signals.yaml": "name: signals\nexamples: {train: signals." + format + ", label: kind, categorical: [colour], missing: mean}\n" +
				"stages: [{features: {kind: columns}, passes: 50, ridge: 1e-4}]\n",
		})
		t.Setenv("STAGEWISE_BLAS", "gonum")
		code, stdout, stderr := stagewise("train", "-c", "signals.yaml", "--quiet", "--model", "model", "--report", "-")
		var report schemas.Report
		if err := json.Unmarshal([]byte(stdout), &report); err != nil || code != exitDone {
			t.Fatalf("%s: exit code %d: %s", format, code, stderr)
		}
		if want == "" {
			want = string(report.WeightsDigest)
		}
		if string(report.WeightsDigest) != want {
			t.Errorf("%s: other weights than with csv", format)
		}
		for _, other := range []string{"csv", "arrow", "parquet"} {
			code, stdout, stderr := stagewise("predict", "--model", "model", "-i", "rows."+other, "--format", other)
			if wantPredicted == "" {
				wantPredicted = stdout
			}
			if code != exitDone || stdout != wantPredicted || strings.Count(stdout, "\n") != 5 {
				t.Errorf("trained on %s, predict %s: exit code %d: %s%s", format, other, code, stdout, stderr)
			}
		}
	}
}

// What can't be meant is refused in tables as in CSV, with the key that decides.
func TestTrainRefusesTablesThatCantBeMeant(t *testing.T) {
	count := func(format string, values ...string) (column []string) {
		for i := range 50 {
			if format != "" {
				column = append(column, fmt.Sprintf(format, i))
			} else {
				column = append(column, values[i%len(values)])
			}
		}
		return column
	}
	x, colour := tableColumn{name: "x", values: count("%d")}, tableColumn{name: "colour", isText: true, values: count("", "red", "blue")}
	label := func(values []string) tableColumn { return tableColumn{name: "label", isText: true, values: values} }
	ab := label(count("", "a", "b"))
	for name, test := range map[string]struct {
		table    []tableColumn
		examples string
		want     string
	}{
		"fractions as labels": {[]tableColumn{x, label(count("%d.25"))}, "",
			`column 1 ("label"): "0.25" looks like a measurement, not a label: set examples.label to the label column`},
		"row numbers as labels": {[]tableColumn{x, label(count("%d"))}, "", "50 different values in 50 rows do not look like " +
			"labels: set examples.label to the label column"},
		"one class": {[]tableColumn{x, label(count("", "a"))}, "", `all examples have the label "a"`},
		"words": {[]tableColumn{colour, ab}, "",
			"examples.categorical accepts columns of words, examples.columns.drop excludes a column"},
		"a missing value": {[]tableColumn{{name: "x", values: count("", "1", "")}, ab}, "",
			`row 1, counted from 0: a missing value: examples.missing: mean`},
		"a missing word": {[]tableColumn{{name: "c", isText: true, values: count("", "red", "NA")}, ab}, "categorical: [c]",
			`row 1, counted from 0: a missing value, "NA": examples.missing: mean`},
		"no name": {[]tableColumn{{name: "", values: x.values}, ab}, "",
			"an unnamed column, such as the index of a data frame: exclude it with examples.columns.drop: [0]"},
		"label and weight": {[]tableColumn{ab, x}, "weight: 0", "both the label and the weight"},
		"another label": {[]tableColumn{x, {name: "kind", isText: true, values: ab.values}}, "",
			`no column "label": set examples.label to one of the columns "x" and "kind"`},
	} {
		for _, format := range []string{"arrow", "parquet"} {
			t.Run(name+", "+format, func(t *testing.T) {
				inFolder(t, map[string]string{"rows." + format: inFormat(t, format, test.table),
					"c.yaml": "name: c\nexamples:\n  train: rows." + format + "\n  " + test.examples + "\nstages: [{features: {size: 10}}]\n"})
				if code, _, stderr := stagewise("train", "-c", "c.yaml"); code == exitDone || !strings.Contains(stderr, test.want) {
					t.Errorf("exit code %d: %s\nexpected %s", code, stderr, test.want)
				}
			})
		}
	}
}

// Where a flag of predict decides, the error names the flag, and not the key of a configuration that predict does not read.
func TestPredictNamesItsFlags(t *testing.T) {
	header, lines := named(3)
	trainNamed(t, map[string]string{
		"rows": columnsOf(header, lines, true, "width", "height", "depth"), "doubt.csv": "a;b,c;d\ne;f,g;h\n",
		"gap.csv": "width,height,depth\n1,,2\n",
	})
	for name, want := range map[string]string{
		"rows":      "rows: neither name nor content identifies the format: set --format",
		"doubt.csv": `several delimiters fit its rows, "," (2 columns) and ";" (3 columns): set --delimiter`,
		"gap.csv":   `column 1 ("height"): an empty field: the model was trained with examples.missing: error`,
	} {
		code, _, stderr := stagewise("predict", "--model", "model", "-i", name)
		if code != exitFailed || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s\nexpected %s", code, stderr, want)
		}
	}
	if got := predicted(t, "-i", "rows", "--format", "csv"); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("with --format: %v", got)
	}
}

// A row that can't be one of the model's is refused before any row is predicted.
func TestPredictRefusesOtherTables(t *testing.T) {
	column := func(name string, isText bool, value string) tableColumn {
		return tableColumn{name, isText, []string{value}}
	}
	width, height, depth := column("width", false, "1"), column("height", false, "2"), column("depth", false, "3")
	trainNamed(t, nil)
	for want, table := range map[string][]tableColumn{
		`the file lacks columns that the model needs: "height"`: {width, depth},
		`column 1 ("height"): type `:                            {width, column("height", true, "tall"), depth},
		`column 3 ("width"): another column has the same name`:  {width, height, depth, width},
	} {
		if err := os.WriteFile("rows.parquet", []byte(asParquet(t, table)), 0o600); err != nil {
			t.Fatal(err)
		}
		code, stdout, stderr := stagewise("predict", "--model", "model", "-i", "rows.parquet")
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("exit code %d: %s%s\nexpected %s", code, stdout, stderr, want)
		}
	}
}
