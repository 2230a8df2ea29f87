package ingest

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

func TestLIBSVM(t *testing.T) {
	var wide strings.Builder
	wide.WriteString("1")
	for i := range 100_000 {
		fmt.Fprintf(&wide, " %d:1", i)
	}
	for _, test := range []struct {
		name, Content string
		classes       []string
		want          string
	}{
		{"rows", "1 1:2 7:-0.5\n-1 0:1e2\n", nil, `2 × 0 [1 7]:[2 -0.5] [0]:[100] words ["1" "-1"]`},
		{"no end of line, tabs and returns", "a\t3:1\r\nb  3:2  4:3 ", nil, `2 × 0 [3]:[1] [3 4]:[2 3] words ["a" "b"]`},
		{"comments and blank lines", "# of words\n\n1 2:1 # the first\n \n2 # nothing\n", nil, `2 × 0 [2]:[1] []:[] words ["1" "2"]`},
		{"queries", "1 qid:3 1:1\n2 qid:4\n", nil, `2 × 0 [1]:[1] []:[] words ["1" "2"]`},
		{"zeros are left out", "1 1:0 2:3 3:-0\n2 1:1e-60", nil, `2 × 0 [2]:[3] []:[] words ["1" "2"]`},
		{"classes", "1 1:1\n", []string{"1", "2"}, `1 × 0 [1]:[1] words ["1"]`},

		{"empty", "", nil, "rows.libsvm: an empty file"},
		{"label of no class", "1 1:1\n7 1:1\n", []string{"1"}, `rows.libsvm: line 2, column 0: label "7" is not one of the classes`},
		{"several labels", "1,5 1:1\n", nil, `rows.libsvm: line 1, column 0: labels "1,5": expected one label, or examples.labels: several`},
		{"no label", "1:1 2:1\n", nil, `rows.libsvm: line 1, column 0: "1:1": expected a label before the features`},
		{"label that is not UTF-8", "\xff 1:1\n", nil, `rows.libsvm: line 1, column 0: label "\xff" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`},
		{"descending", "1 1:1\n1 5:1 4:1\n", nil, "rows.libsvm: line 2, column 2: index 4 after 5: expected ascending indices, each once"},
		{"repeated", "1 4:0 4:1\n", nil, "rows.libsvm: line 1, column 2: index 4 after 4: expected ascending indices, each once"},
		{"negative", "1 -4:1\n", nil, `rows.libsvm: line 1, column 1: index "-4": expected a whole number from 0 to 67108863`},
		{"huge", "1 67108864:1\n", nil, `rows.libsvm: line 1, column 1: index "67108864": expected a whole number from 0 to 67108863`},
		{"huger", "1 99999999999999999999:1\n", nil, `rows.libsvm: line 1, column 1: index "99999999999999999999": expected a whole number from 0 to 67108863`},
		{"NaN", "1 1:1 2:nan\n", nil, `rows.libsvm: line 1, column 2: "2:nan": expected index:value: "nan" is not a finite number`},
		{"overflow", "1 1:1e39\n", nil, `rows.libsvm: line 1, column 1: "1:1e39": 1e+39 is not a finite float32`},
		{"no value", "1 1:\n", nil, `rows.libsvm: line 1, column 1: "1:": expected index:value: an empty field`},
		{"no index", "1 x:1\n", nil, `rows.libsvm: line 1, column 1: "x:1": expected index:value, the index a whole number`},
		{"query in a later field", "1 1:1 qid:3\n", nil, `rows.libsvm: line 1, column 2: "qid:3": expected index:value, the index a whole number`},
		{"CSV", "1,2,3\n", nil, `rows.libsvm: line 1, column 0: labels "1,2,3": expected one label, or examples.labels: several`},
		{"a word", "1 1:1 spam\n", nil, `rows.libsvm: line 1, column 2: "spam": expected index:value`},
		{"wide", "1 1:1\n" + wide.String(), nil, "rows.libsvm: line 2, column 0: the example does not fit a message of 900000 bytes"},
		{"long line", "1 1:1\n1 " + strings.Repeat("1", 4194304), nil, "rows.libsvm: line 2: a line of more than 4 MiB"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.Classes, o.Train = test.classes, []string{f.write(t, "rows.libsvm", []byte(test.Content))}
			if got := f.first(t, o); got != test.want {
				t.Errorf("%s, expected %s", got, test.want)
			}
		})
	}
}

// Lines may have several labels if configured.
func TestLIBSVMOfSeveralLabels(t *testing.T) {
	for content, want := range map[string]string{
		"1,5,7 1:2\n2 0:1\n3:4\n": `3 × 0 [1]:[2] [0]:[1] [3]:[4] lists [["1" "5" "7"] ["2"] []]`,
		"a|b 1:2\n":               `1 × 0 [1]:[2] lists [["a" "b"]]`,
		"1:2\n2 1:1 # 3\n":        `2 × 0 [1]:[2] [1]:[1] lists [[] ["2"]]`,
		"1,,7 1:2\n":              `rows.libsvm: line 1, column 0: label 1 of "1,,7": an empty field: expected a label`,
		"1,\xff 1:2\n":            `rows.libsvm: line 1, column 0: label 1 of "1,\xff": label "\xff" is not UTF-8: set examples.encoding, such as windows-1252, or convert the text`,
		"1,5 5:1 4:1\n":           "rows.libsvm: line 1, column 2: index 4 after 5: expected ascending indices, each once",
	} {
		f := newFolder(t)
		o := Defaults()
		o.Labels, o.Train = layout.LabelsSeveral, []string{f.write(t, "rows.libsvm", []byte(content))}
		if got := f.first(t, o); got != want {
			t.Errorf("%q: %s, expected %s", content, got, want)
		}
	}
}

// Rows to predict may have labels or not. A model on dense rows rejects them.
func TestLIBSVMToPredict(t *testing.T) {
	f := newFolder(t)
	for content, want := range map[string]string{"7 1:1\n8 2:2\n": "2 × 0 [1]:[1] [2]:[2]", "1:1\n2:2\n": "2 × 0 [1]:[1] [2]:[2]"} {
		name := f.write(t, "rows.svm", []byte(content))
		rows, _, err := readRows(File(context.Background(), name, Defaults(), layout.Features{Width: 3, Sparse: true}))
		if err != nil || show(rows) != want {
			t.Errorf("%s, expected %s: %v", show(rows), want, err)
		}
		_, _, err = readRows(File(context.Background(), name, Defaults(), layout.Features{Width: 3}))
		if want := "rows.svm: sparse rows: the model was trained on dense rows of 3 features"; err == nil ||
			f.text(err) != want {
			t.Errorf("%v, expected %s", err, want)
		}
	}
}

// Lists of structs, and maps, written by pyarrow 26 in row groups of three:
//
//	rows = [[(2, 1.), (9, -2.5)], [], [(0, 3.)], [(7, 0.), (8, .5)]]; label = ["a", "b", "a", "b"]
func TestSparseRowsOfPyarrow(t *testing.T) {
	want := messages(t, "rows.libsvm", []byte("a 2:1 9:-2.5\nb\na 0:3\nb 8:0.5"))
	for _, name := range []string{"sparse", "maps"} {
		content := must(os.ReadFile("testdata/" + name + ".parquet"))(t)
		if got := messages(t, "rows.parquet", content); len(got) != 1 || !bytes.Equal(got[0], want[0]) {
			t.Errorf("%s: other messages than those of LIBSVM", name)
		}
	}
}

func sparseLike(index, value arrow.DataType) arrow.DataType {
	return arrow.ListOf(arrow.StructOf(nullable("index", index), nullable("value", value)))
}

// messages returns the messages of the examples of a file.
func messages(t *testing.T, name string, content []byte) (values [][]byte) {
	t.Helper()
	f, o := newFolder(t), Defaults()
	o.Train, o.BatchRows = []string{f.write(t, name, content)}, 64
	sources := must(Sources(t.Context(), o))(t)
	for rows, err := range sources[0].batches(t.Context(), nil) {
		noError(t, err)
		record := rows.Record(memory.DefaultAllocator)
		value, err := examples.Encode(record, memory.DefaultAllocator)
		record.Release()
		noError(t, err)
		values = append(values, value)
	}
	return values
}

// Sparse rows in Arrow give the same messages as the same rows in LIBSVM, whatever the record batches.
func TestSparseRowsOfArrow(t *testing.T) {
	const count = 130
	var lines, lists, maps []string
	for i := range count {
		line, list, entries := fmt.Sprint(i%3), []string{}, []string{}
		for j := range i % 5 { // the first value of each row is 0
			line += fmt.Sprintf(" %d:%d.5", i+7*j, j)
			list = append(list, fmt.Sprintf(`{"index":%d,"value":%d.5}`, i+7*j, j))
			entries = append(entries, fmt.Sprintf(`{"key":%d,"value":%d.5}`, i+7*j, j))
		}
		lines = append(lines, line)
		row := `{"label":"%d","features":[%s]}`
		lists = append(lists, fmt.Sprintf(row, i%3, strings.Join(list, ",")))
		maps = append(maps, fmt.Sprintf(row, i%3, strings.Join(entries, ",")))
	}
	want := messages(t, "rows.libsvm", []byte(strings.Join(lines, "\n")))
	for _, test := range []struct {
		rows []string
		typ  arrow.DataType
	}{
		{lists, sparseLike(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32)},
		{lists, sparseLike(arrow.PrimitiveTypes.Uint64, arrow.PrimitiveTypes.Float64)},
		{maps, arrow.MapOf(arrow.PrimitiveTypes.Int32, arrow.PrimitiveTypes.Float32)},
	} {
		record := arrowRows(t, "["+strings.Join(test.rows, ",")+"]", nullable("label", arrow.BinaryTypes.String), nullable("features", test.typ))
		for _, size := range []int64{1, 63, 64, 65, count} {
			got := messages(t, "rows.arrow", arrowContent(t, record, size, size == 64))
			if len(got) != len(want) {
				t.Fatalf("%v: %d messages, expected %d", test.typ, len(got), len(want))
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Errorf("%v in batches of %d: message %d differs from that of LIBSVM", test.typ, size, i)
				}
			}
		}
	}
}

func TestBadSparseRowsOfArrow(t *testing.T) {
	place := `rows.arrow, column 1 ("x"): row 1, counted from 0: `
	for entries, want := range map[string]string{
		`[{"index":5,"value":1},{"index":4,"value":1}]`: place + "index 4 after 5: expected ascending indices, each once",
		`[{"index":4,"value":0},{"index":4,"value":1}]`: place + "index 4 after 4: expected ascending indices, each once",
		`[{"index":-4,"value":1}]`:                      place + "index -4: expected a whole number from 0 to 67108863",
		`[{"index":67108864,"value":1}]`:                place + "index 67108864: expected a whole number from 0 to 67108863",
		`[{"index":1,"value":1e39}]`:                    place + "value 1e+39: expected a finite number of at most 3.4e+38 in size",
		`[{"index":1,"value":null}]`:                    place + "entry 0 is null: expected an index and a value",
		`[{"index":1,"value":1},{"value":1}]`:           place + "entry 1 is null: expected an index and a value",
		`[{"index":1,"value":1},null]`:                  place + "entry 1 is null: expected an index and a value",
		`null`:                                          place + "null instead of a sparse row",
	} {
		rows := `[{"label":"a","x":[{"index":1,"value":1}]},{"label":"b","x":` + entries + `}]`
		record := arrowRows(t, rows, nullable("label", arrow.BinaryTypes.String), nullable("x", sparseLike(arrow.PrimitiveTypes.Int64,
			arrow.PrimitiveTypes.Float64)))
		if _, _, _, got := readAs(t, "rows.arrow", arrowContent(t, record, 64, false), nil); got != want {
			t.Errorf("%s: %s, expected %s", entries, got, want)
		}
	}
	record := arrowRows(t, `[{"label":"a","x":[{"index":1,"value":1}],"y":2}]`, nullable("label", arrow.BinaryTypes.String),
		nullable("x", sparseLike(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64)), nullable("y", arrow.PrimitiveTypes.Float64))
	want := `rows.arrow, column 1 ("x"): sparse rows and 1 other columns: exclude those with examples.columns.drop, or list only this one under examples.columns.use`
	if _, _, _, got := readAs(t, "rows.arrow", arrowContent(t, record, 64, false), nil); got != want {
		t.Errorf("%s, expected %s", got, want)
	}
}
