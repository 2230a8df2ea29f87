package ingest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

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
		{`{"label":["a","b"],"x":1}` + "\n" + `{"label":["a",null],"x":1}`, `rows.jsonl: line 2, column 0 ("label"): label 1 of an array of 2: an empty field: expected a label`, func(o *Options) { o.Labels = layout.LabelsSeveral }},
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
