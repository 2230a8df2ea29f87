package ingest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/format/jsonl"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// JSON Lines give the same examples as a CSV with the same rows, whatever the order of members, and with omitted members.
func TestJSONLinesAsCSV(t *testing.T) {
	csv, lines := "label,x,n,yes,colour,w\n", "\ufeff\n"
	for i := range 130 {
		colour := []string{"red", "green", "a \\\"blue\\\" one", ""}[i%4]
		csv += fmt.Sprintf("%d,%g,%d,%d,%s,%g\n", i%3, float32(i)/8, i, i%2, `"`+strings.ReplaceAll(colour, `\"`, `""`)+`"`, float32(i%2)/2)
		x := fmt.Sprintf(`"x":%g`, float32(i)/8)
		switch i % 10 { // the notations of a missing value
		case 8:
			csv = strings.Replace(csv, fmt.Sprintf("\n%d,%g,%d,", i%3, float32(i)/8, i), fmt.Sprintf("\n%d,,%d,", i%3, i), 1)
			x = `"x":null`
		case 9:
			csv = strings.Replace(csv, fmt.Sprintf("\n%d,%g,%d,", i%3, float32(i)/8, i), fmt.Sprintf("\n%d,,%d,", i%3, i), 1)
			x = `"label":` + fmt.Sprint(i%3)
		}
		members := []string{`"label":` + fmt.Sprint(i%3), x, `"n":` + fmt.Sprint(i), `"yes":` + fmt.Sprint(i%2 == 1),
			fmt.Sprintf(`"colour":"%s"`, colour), fmt.Sprintf(`"w":%g`, float32(i%2)/2)}
		if i%10 == 9 {
			members = members[1:]
		}
		if i > 0 {
			members[0], members[len(members)-1] = members[len(members)-1], members[0]
		}
		lines += " { " + strings.Join(members, " , ") + "}\r\n\n"
	}
	for _, rows := range []int{1, 63, 64, 65, 1000} {
		change := func(o *Options) {
			o.Weight, o.Label, o.Categorical, o.BatchRows = "w", "label", []string{"colour"}, rows
		}
		want, sizes, columns, problem := readAs(t, "rows.csv", []byte(csv), change)
		if problem != "" {
			t.Fatal(problem)
		}
		got, gotSizes, gotColumns, problem := readAs(t, "rows.jsonl", []byte(lines), change)
		for _, label := range got.Numbers { // which are words in a CSV
			got.Words = append(got.Words, fmt.Sprint(label))
		}
		got.Numbers = nil
		if problem != "" || show(got) != show(want) || fmt.Sprint(gotSizes) != fmt.Sprint(sizes) || gotColumns != columns {
			t.Errorf("batches of %d: %s\n%s %v %s, expected\n%s %v %s", rows, problem, show(got), gotSizes, gotColumns, show(want), sizes, columns)
		}
	}
}

// Lists, sparse rows, several labels and texts match those of the same Arrow table.
func TestJSONLinesAsArrow(t *testing.T) {
	pairs := sparseLike(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64)
	several := func(o *Options) { o.Labels = layout.LabelsSeveral }
	for _, test := range []struct {
		lines  []string
		fields []arrow.Field
		change func(*Options)
	}{
		{[]string{`{"label":"a","v":[1,2.5,null]}`, `{"label":"b","v":[3,4,5]}`}, []arrow.Field{nullable("label", arrow.BinaryTypes.String), nullable("v", arrow.ListOf(arrow.PrimitiveTypes.Float64))}, nil},
		{[]string{`{"label":7,"v":[{"index":2,"value":1},{"index":9,"value":-2.5}]}`, `{"label":8,"v":[]}`}, []arrow.Field{nullable("label", arrow.PrimitiveTypes.Int64), nullable("v", pairs)}, nil},
		{[]string{`{"label":["a","b"],"x":1}`, `{"label":[],"x":2}`, `{"label":["c"],"x":3}`}, []arrow.Field{nullable("label", arrow.ListOf(arrow.BinaryTypes.String)), nullable("x", arrow.PrimitiveTypes.Float64)}, several},
		{[]string{`{"label":"a,b","x":1}`, `{"label":null,"x":2}`}, []arrow.Field{nullable("label", arrow.BinaryTypes.String), nullable("x", arrow.PrimitiveTypes.Float64)}, several},
		{[]string{`{"label":"a","at":{"of":[1]},"t":"One two, \u00e9"}`, `{"label":"b","t":null}`}, []arrow.Field{nullable("label", arrow.BinaryTypes.String), nullable("t", arrow.BinaryTypes.String)},
			func(o *Options) { o.Text = "t" }},
		{[]string{`{"a":1,"b":2.5,"c":3}`, `{"a":2,"b":3,"c":4}`}, []arrow.Field{nullable("a", arrow.PrimitiveTypes.Int64), nullable("b", arrow.PrimitiveTypes.Float64), nullable("c", arrow.PrimitiveTypes.Float64)},
			func(o *Options) { o.Targets = []string{"b", "c"} }},
	} {
		record := arrowRows(t, "["+strings.Join(test.lines, ",")+"]", test.fields...)
		want, _, wantColumns, problem := readAs(t, "rows.arrow", arrowContent(t, record, 64, false), test.change)
		if problem != "" {
			t.Fatal(problem)
		}
		got, _, columns, problem := readAs(t, "rows.jsonl", []byte(strings.Join(test.lines, "\n")), test.change)
		if problem != "" || show(got) != show(want) || columns != wantColumns {
			t.Errorf("%s: %s\n%s %s, expected\n%s %s", test.lines, problem, show(got), columns, show(want), wantColumns)
		}
	}
}

// An object with a value for each index is also a sparse row, in any order.
func TestSparseRowsOfJSONLines(t *testing.T) {
	want := messages(t, "rows.libsvm", []byte("a 3:1 20:-2.5 100:3\nb\na 7:1e3"))
	for _, lines := range []string{
		`{"label":"a","f":{"20":-2.5,"100":3,"3":1}}` + "\n" + `{"label":"b","f":{}}` + "\n" + `{"label":"a","f":{"7":1e3}}`,
		`{"label":"a","f":[{"value":1,"index":3},{"index":5,"value":0},{"index":20,"value":-2.5},{"index":100,"value":3}]}` + "\n" +
			`{"label":"b","f":[]}` + "\n" + `{"label":"a","f":[{"index":7,"value":1000}]}`,
	} {
		got := messages(t, "rows.jsonl", []byte(lines))
		if len(got) != len(want) || !bytes.Equal(got[0], want[0]) {
			t.Errorf("%s: other messages than those of LIBSVM", lines)
		}
	}
}

func TestBadJSONLines(t *testing.T) {
	first := `{"label":"a","x":1,"s":"red"}` + "\n\n"
	words := func(o *Options) { o.Categorical = []string{"s"} }
	sparse := `{"label":"a","x":[{"index":1,"value":1}]}` + "\n"
	for _, test := range []struct {
		lines, want string
		change      func(*Options)
	}{
		{"", "rows.jsonl: an empty file", nil},
		{"\n \n", "rows.jsonl: an empty file", nil},
		{first + `[1,2]`, `rows.jsonl: line 3: "[1,2]": expected an object with a value for each column`, words},
		{first + `{"label":"a","x":1,"s":"red"`, "rows.jsonl: line 3: not JSON: it ends too early", words},
		{first + `{"label":"a","x":.5}`, `rows.jsonl: line 3: not JSON: byte 18: invalid character '.' looking for beginning of value`, words},
		{first + `{"label":"a","x":1,"s":"red"} {}`, "rows.jsonl: line 3: not JSON: byte 31: invalid character '{' after top-level value", words},
		{first + `{"label":"a","x":1,"x":2}`, `rows.jsonl: line 3: duplicate member "x"`, words},
		{first + "{\"label\":\"a\",\"s\":\"\xff\"}", "rows.jsonl: line 3: byte 18, 0xff, is not UTF-8: set examples.encoding, such as windows-1252, or convert the text", words},
		{first + `{"label":"\ud800","x":1}`, `rows.jsonl: line 3: byte 10: \ud800: an unpaired surrogate`, words},
		{first + `{"label":"a","x":"one","s":"red"}`, `rows.jsonl, column 1 ("x"): type whole number and string: features are numbers, booleans, or one list of numbers: examples.categorical accepts columns of words, examples.columns.drop excludes a column, examples.missing_values lists the words for a missing value, if "one" is one`, words},
		{first + `{"label":"a","x":1e39,"s":"red"}`, `rows.jsonl: line 3, column 1 ("x"): 1e+39 is not a finite float32`, words},
		{first + `{"label":"a","x":1e999,"s":"red"}`, `rows.jsonl: line 3, column 1 ("x"): +Inf is not a finite float32`, words},
		{`{"label":null,"x":1}` + "\n" + `{"label":"NA","x":1}`, "rows.jsonl: no row has a label: check examples.label (the label column) and examples.missing_values (the words for a missing label)", nil},
		{first, `rows.jsonl, column 2 ("s"): type string: features are numbers, booleans, or one list of numbers: examples.categorical accepts columns of words, examples.columns.drop excludes a column`, nil},
		{`{"label":"a","x":{"y":1}}`, `rows.jsonl, column 1 ("x"): type object: features are numbers, booleans, or one list of numbers: exclude the column with examples.columns.drop, or convert it to a number`, nil},
		{`{"label":1.5,"x":1}`, `rows.jsonl, column 0 ("label"): "1.5" looks like a measurement, not a label: set examples.label to the label column`, nil},
		{`{"label":"a","v":[1,2]}` + "\n" + `{"label":"a","v":[1]}`, `rows.jsonl: line 2, column 1 ("v"): a list of 1: expected 2 numbers, as in the first row`, nil},
		{`{"label":["a","b"],"x":1}` + "\n" + `{"label":["a",null],"x":1}`, `rows.jsonl: line 2, column 0 ("label"): label 1 of the list: an empty field: expected a label`, func(o *Options) { o.Labels = layout.LabelsSeveral }},
		{sparse + `{"label":"a","x":[{"index":5,"value":1},{"index":4,"value":1}]}`, `rows.jsonl: line 2, column 1 ("x"): index 4 after 5: expected ascending indices, each once`, nil},
		{sparse + `{"label":"a","x":{"5":1,"05":1}}`, `rows.jsonl: line 2, column 1 ("x"): index 5 after 5: expected ascending indices, each once`, nil},
		{sparse + `{"label":"a","x":[{"index":1.5,"value":1}]}`, `rows.jsonl: line 2, column 1 ("x"): index 1.5: expected a whole number from 0 to 67108863`, nil},
		{sparse + `{"label":"a","x":[{"index":1}]}`, `rows.jsonl: line 2, column 1 ("x"): entry 0 is {"index":1}: expected an index and a value`, nil},
		{sparse + `{"label":"a"}`, `rows.jsonl: line 2, column 1 ("x"): null instead of a sparse row`, nil},
		{strings.Repeat(`{"label":"a","x":1}`+"\n", 1024) + `{"label":"b","x":1,"y":2}`, `rows.jsonl: line 1025: a column "y", which is missing in the first 1024 rows: list the feature columns under examples.columns.use`, nil},
		{strings.Repeat(`{"label":"a","x":1}`+"\n", 1024) + `{"label":"b","x":"one"}`, `rows.jsonl: line 1025, column 1 ("x"): "one" is not a number: examples.categorical accepts columns of words, examples.columns.drop excludes a column, examples.missing_values lists the words for a missing value`, nil},
		{`{"label":"` + strings.Repeat("a", 4194304) + `"}`, "rows.jsonl: line 1: a line of more than 4 MiB", nil},
	} {
		if _, _, _, got := readAs(t, "rows.jsonl", []byte(test.lines), test.change); got != test.want {
			t.Errorf("%.100q:\n%s, expected\n%s", test.lines, got, test.want)
		}
	}
}

// Rows to predict only need the columns of the model, and other columns are ignored.
func TestJSONLinesToPredict(t *testing.T) {
	f, o := newFolder(t), Defaults()
	want := layout.Features{Width: 4, Columns: examples.Columns{{Name: "x"}, {Name: "s", Categories: []string{"red", "green"}}}}
	name := f.write(t, "new.jsonl", []byte(strings.Repeat(`{"s":"green","x":1,"z":[{}]}`+"\n", 1024)+`{"more":1,"x":2,"s":"blue"}`))
	rows, _, err := readRows(File(t.Context(), name, o, want))
	if err != nil || rows.Rows != 1024+1 || fmt.Sprint(rows.Floats[4*1024-4:]) != "[1 0 1 0 2 0 0 1]" {
		t.Errorf("%v: %d rows that end with %v", err, rows.Rows, rows.Floats[max(0, len(rows.Floats)-8):])
	}
}

func FuzzJSONLines(f *testing.F) {
	for _, seed := range []string{
		`{"label":"a","x":1,"s":null}` + "\n" + `{"x":true,"label":"b"}`, `{"label":["a","b"],"v":[1,2]}`,
		`{"label":1,"f":[{"index":1,"value":2}]}`, `{"label":1,"f":{"7":2}}`,
		"\ufeff{}", "{\"a\":\"\xff\"}", `{"label":"a","t":"One two"}`, `{"a":1,"a":2}`, `{"a":`, `{"a":[[1]],"label":"b"}`,
	} {
		for flags := range byte(16) {
			f.Add([]byte(seed), flags)
		}
	}
	f.Fuzz(func(t *testing.T, file []byte, flags byte) {
		o := Defaults()
		o.BatchRows = 2
		if flags&1 != 0 {
			o.Labels = layout.LabelsSeveral
		}
		if flags&2 != 0 {
			o.Text = "t"
		}
		if flags&4 != 0 {
			o.Missing.Mode = layout.MissingMean
		}
		open := func(c *input.Content) (format.Reader, error) {
			return jsonl.Format().Open([]*input.Content{c}, o.Options, nil, nil)
		}
		if flags&8 != 0 {
			open = func(c *input.Content) (format.Reader, error) {
				return jsonl.Format().Open([]*input.Content{c}, o.Options, &layout.Features{Width: 2, Sparse: flags&2 != 0}, nil)
			}
		}
		fuzzReader(t, open, file)
	})
}
