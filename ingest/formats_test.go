package ingest

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/twmb/avro"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
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
		{"label of no class", "1 1:1\n7 1:1\n", []string{"1", "2"}, `rows.libsvm: line 2, column 0: label "7" is not one of the classes`},
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
			assert.Equal(t, f.first(t, o), test.want, "got")
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
		assert.Equal(t, f.first(t, o), want, "%q", content)
	}
}

// Rows to predict may have labels or not. A model on dense rows rejects them.
func TestLIBSVMToPredict(t *testing.T) {
	f := newFolder(t)
	for content, want := range map[string]string{"7 1:1\n8 2:2\n": "2 × 0 [1]:[1] [2]:[2]", "1:1\n2:2\n": "2 × 0 [1]:[1] [2]:[2]"} {
		name := f.write(t, "rows.svm", []byte(content))
		rows, _, err := readRows(File(context.Background(), name, Defaults(), layout.Features{Width: 3, Sparse: true}))
		assert.True(t, err == nil && show(rows) == want, "%s, expected %s: %v", show(rows), want, err)
		_, _, err = readRows(File(context.Background(), name, Defaults(), layout.Features{Width: 3}))
		want := "rows.svm: sparse rows: the model was trained on dense rows of 3 features"
		assert.True(t, err != nil && f.text(err) == want, "%v, expected %s", err, want)
	}
}

// Lists of structs, and maps, written by pyarrow 26 in row groups of three:
//
//	rows = [[(2, 1.), (9, -2.5)], [], [(0, 3.)], [(7, 0.), (8, .5)]]; label = ["a", "b", "a", "b"]
func TestSparseRowsOfPyarrow(t *testing.T) {
	want := messages(t, "rows.libsvm", []byte("a 2:1 9:-2.5\nb\na 0:3\nb 8:0.5"))
	for _, name := range []string{"sparse", "maps"} {
		got := messages(t, "rows.parquet", assert.Must(os.ReadFile("testdata/"+name+".parquet"))(t))
		assert.True(t, len(got) == 1 && bytes.Equal(got[0], want[0]), "%s: other messages than those of LIBSVM", name)
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
	sources := assert.Must(Sources(t.Context(), o))(t)
	for rows, err := range sources[0].batches(t.Context(), nil) {
		assert.NoError(t, err)
		record := rows.Record(memory.DefaultAllocator)
		value, err := examples.Encode(record, memory.DefaultAllocator)
		record.Release()
		assert.NoError(t, err)
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
			assert.Need(t, len(got) == len(want), "%v: %d messages, expected %d", test.typ, len(got), len(want))
			for i := range want {
				assert.True(t, bytes.Equal(got[i], want[i]), "%v in batches of %d: message %d differs from that of LIBSVM", test.typ, size, i)
			}
		}
	}
}

// Sparse rows in messages are the same in each format.
func TestSparseRowsInMessages(t *testing.T) {
	rows := `[{"label":"a","x":[{"index":1,"value":1.5},{"index":70,"value":-2}]},{"label":"b","x":[]}]`
	record := arrowRows(t, rows, nullable("label", arrow.BinaryTypes.String), nullable("x", sparseLike(arrow.PrimitiveTypes.Int32,
		arrow.PrimitiveTypes.Float64)))
	schema := `{"type":"record","name":"Row","fields":[{"name":"label","type":"string"},{"name":"x","type":{"type":"array","items":
		{"type":"record","name":"Entry","fields":[{"name":"index","type":"int"},{"name":"value","type":"double"}]}}}]}`
	file := newFolder(t).write(t, "row.avsc", []byte(schema))
	entry := func(index int, v float64) map[string]any { return map[string]any{"index": index, "value": v} }
	inAvro := func(label string, x ...any) string {
		return string(assert.Must(avro.MustParse(schema).Encode(map[string]any{"label": label, "x": x}))(t))
	}
	of := func(o *Options) { o.Columns.Use = []string{"x"} }
	want := addAll(t, ofTopic("json", of), rows)
	assert.Equal(t, len(want.Sparse.Values), 2, "")
	assert.Equal(t, addAll(t, ofTopic("arrow", of), string(arrowContent(t, record, 2, false))), want, "Arrow")
	got := addAll(t, ofTopic("avro", func(o *Options) { of(o); o.Schema = file }), inAvro("a", entry(1, 1.5), entry(70, -2)), inAvro("b"))
	assert.Equal(t, got, want, "Avro")
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
		_, _, _, got := readAs(t, "rows.arrow", arrowContent(t, record, 64, false), nil)
		assert.Equal(t, got, want, "%s", entries)
	}
	record := arrowRows(t, `[{"label":"a","x":[{"index":1,"value":1}],"y":2}]`, nullable("label", arrow.BinaryTypes.String),
		nullable("x", sparseLike(arrow.PrimitiveTypes.Int64, arrow.PrimitiveTypes.Float64)), nullable("y", arrow.PrimitiveTypes.Float64))
	want := `rows.arrow, column 1 ("x"): sparse rows and 1 other columns: exclude those with examples.columns.drop, or list only this one under examples.columns.use`
	_, _, _, got := readAs(t, "rows.arrow", arrowContent(t, record, 64, false), nil)
	assert.Equal(t, got, want, "")
}

func TestIDX(t *testing.T) {
	images := idxFile(8, []uint32{3, 1, 2}, []uint8{1, 2, 3, 4, 5, 255})
	labels := idxFile(8, []uint32{3}, []uint8{7, 0, 255})
	claim := func(kind byte, dims ...uint32) []byte { return idxFile(kind, dims) }
	for _, test := range []struct {
		name           string
		images, labels []byte
		classes        []string
		want           string
	}{
		{"bytes", images, labels, nil, "3 × 2 bytes [1 2 3 4 5 255] numbers [7 0 255]"},
		{"classes", images, labels, []string{"7", "0", "255", "none"}, "3 × 2 bytes [1 2 3 4 5 255] numbers [7 0 255]"},
		{"int8", idxFile(9, []uint32{3, 1}, []int8{-128, 0, 127}), idxFile(9, []uint32{3}, []int8{-1, 0, 1}), nil, "3 × 1 floats [-128 0 127] numbers [-1 0 1]"},
		{"int16", idxFile(11, []uint32{2, 1}, []int16{-32768, 1}), idxFile(11, []uint32{2}, []int16{-2, 300}), nil, "2 × 1 floats [-32768 1] numbers [-2 300]"},
		{"int32", idxFile(12, []uint32{2, 1}, []int32{-70000, 1}), idxFile(12, []uint32{2}, []int32{-70000, 3}), nil, "2 × 1 floats [-70000 1] numbers [-70000 3]"},
		{"float32", idxFile(13, []uint32{1, 2}, []float32{-0.5, 2}), idxFile(8, []uint32{1}, uint8(1)), nil, "1 × 2 floats [-0.5 2] numbers [1]"},
		{"float64", idxFile(14, []uint32{1, 2}, []float64{-0.25, 3}), idxFile(8, []uint32{1}, uint8(1)), nil, "1 × 2 floats [-0.25 3] numbers [1]"},

		{"empty", nil, labels, nil, "images.idx: offset 0: the file ends in its header: unexpected EOF"},
		{"wrong magic", []byte("\x00\x01\x08\x03 and more"), labels, nil, "images.idx: offset 0: an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one begins with 00010803"},
		{"wrong type", []byte("\x00\x00\x0a\x03 and more"), labels, nil, "images.idx: offset 0: an idx file begins with 0000, a type (08 to 0e) and the number of dimensions: this one begins with 00000a03"},
		{"header cut off", images[:10], labels, nil, "images.idx: offset 10: the file ends in its header: unexpected EOF"},
		{"images cut off", images[:19], labels, nil, "images.idx: offset 19: the file ends in row 1 of the 3 in its header: unexpected EOF"},
		{"labels cut off", images, labels[:8], nil, "labels.idx: offset 8: the file ends in row 0 of the 3 in its header: unexpected EOF"},
		{"more images", append(images[:len(images):len(images)], 1), labels, nil, "images.idx: offset 22: the file has more bytes than its header announces"},
		{"more labels", images, append(labels[:len(labels):len(labels)], 1), nil, "labels.idx: offset 11: the file has more bytes than its header announces"},
		{"fewer labels", images, idxFile(8, []uint32{2}, []uint8{1, 2}), nil, "labels.idx: offset 4: 2 labels, but images.idx has 3 images"},
		{"labels first", labels, images, nil, "images.idx: offset 0: 3 numbers, as labels are: expected images"},
		{"images twice", images, images, nil, "labels.idx: offset 0: 3 × 1 × 2 values, as images are: expected the labels of images.idx"},
		{"labels that are fractions", images, idxFile(13, []uint32{3}, []float32{1, 2, 3}), nil, "labels.idx: offset 2: labels are floating-point numbers: expected whole numbers"},
		{"label of no class", images, labels, []string{"7", "00"}, `labels.idx: offset 9: label "0" is not one of the classes`},
		{"NaN", idxFile(13, []uint32{3, 2}, []float32{1, 2, 3, 4, 5, float32(math.NaN())}), labels, nil, "images.idx: offset 32, column 1: not a finite float32"},
		{"overflow", idxFile(14, []uint32{3, 1}, []float64{1, 1e39, 3}), labels, nil, "images.idx: offset 20, column 0: not a finite float32"},
		{"no rows", claim(8, 0, 28, 28), claim(8, 0), nil, "images.idx: offset 4: no values: 0 × 28 × 28 values, as images are"},
		{"no columns", claim(8, 3, 28, 0), labels, nil, "images.idx: offset 4: no values: 3 × 28 × 0 values, as images are"},
		{"absurd rows", claim(8, math.MaxUint32, 28, 28), claim(8, math.MaxUint32), nil, "images.idx: offset 16: the file ends in row 0 of the 4294967295 in its header: unexpected EOF"},
		{"absurd columns", claim(8, 3, math.MaxUint32, math.MaxUint32, math.MaxUint32), labels, nil, "images.idx: offset 8: 3 × 4294967295 × 4294967295 × 4294967295 values, as images are: an example does not fit a message of 900000 bytes"},
		{"wide floats", claim(13, 3, 300000), labels, nil, "images.idx: offset 8: 3 × 300000 values, as images are: an example does not fit a message of 900000 bytes"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := Defaults()
			o.BatchRows = 2
			o.Classes = test.classes
			o.Train = []string{f.write(t, "images.idx", test.images), f.write(t, "labels.idx", test.labels)}
			assert.Equal(t, f.first(t, o), test.want, "got")
		})
	}
}

// Reading allocates nothing per row, and nothing for rows in the header that the file does not have.
func TestIDXAllocation(t *testing.T) {
	const rows = 100_000
	f := newFolder(t)
	o := Defaults()
	o.BatchRows = 100
	o.Classes = []string{"0", "1"}
	o.Train = []string{
		f.write(t, "a.idx", append(idxFile(8, []uint32{rows, 3}), make([]byte, 3*rows)...)),
		f.write(t, "b.idx", append(idxFile(11, []uint32{rows}), make([]byte, 2*rows)...)),
	}
	found := assert.Must(Sources(context.Background(), o))(t)
	allocations := testing.AllocsPerRun(1, func() {
		for _, err := range found[0].batches(context.Background(), nil) {
			assert.NoError(t, err)
		}
	})
	assert.True(t, allocations <= 100, "%v allocations for %d rows", allocations, rows)
	f.write(t, "claims.idx", idxFile(14, []uint32{math.MaxUint32, 100_000}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, _, err := readRows(File(context.Background(), f.path("claims.idx"), o, layout.Features{Width: 100_000}))
	runtime.ReadMemStats(&after)
	allocated := after.TotalAlloc - before.TotalAlloc
	assert.True(t, allocated <= 4*wire.MaxMessage && err != nil, "%d bytes allocated for a claim; %v", allocated, err)
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
		_, _, _, got := readAs(t, "rows.jsonl", []byte(test.lines), test.change)
		assert.Equal(t, got, test.want, "%.100q", test.lines)
	}
}

// Rows to predict only need the columns of the model, and other columns are ignored.
func TestJSONLinesToPredict(t *testing.T) {
	f, o := newFolder(t), Defaults()
	want := layout.Features{Width: 4, Columns: examples.Columns{{Name: "x"}, {Name: "s", Categories: []string{"red", "green"}}}}
	name := f.write(t, "new.jsonl", []byte(strings.Repeat(`{"s":"green","x":1,"z":[{}]}`+"\n", 1024)+`{"more":1,"x":2,"s":"blue"}`))
	rows, _, err := readRows(File(t.Context(), name, o, want))
	assert.True(t, err == nil && rows.Rows == 1024+1 && fmt.Sprint(rows.Floats[4*1024-4:]) == "[1 0 1 0 2 0 0 1]",
		"%v: %d rows that end with %v", err, rows.Rows, rows.Floats[max(0, len(rows.Floats)-8):])
}
