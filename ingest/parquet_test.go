package ingest

import (
	"bytes"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/compress"
	"github.com/apache/arrow/go/v17/parquet/file"
	"github.com/apache/arrow/go/v17/parquet/schema"
	parquetgo "github.com/parquet-go/parquet-go"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// pandasFrame is a file written by pandas 3.1, with a missing value and a category as label, in row groups of three:
//
//	pandas.DataFrame({"x": [.5, None, -3, 4.25], "n": [1, 2, 3, 40000], "yes": [True, False, True, True],
//	  "label": pandas.Series(["a", "b", "a", "b"], dtype="category"), "weight": [1., 2., .5, 0.]}).to_parquet(…, row_group_size=3)
func pandasFrame(t testing.TB) []byte {
	t.Helper()
	return must(os.ReadFile("testdata/pandas.parquet"))(t)
}

// parquetValues are the values of a leaf in a row group. Nulls are omitted.
type parquetValues struct {
	node   schema.Node // of its column; nil: as for the previous leaf
	levels []int16     // definition level of each value; nil: there are no nulls
	starts []int16     // repetition level of each value of a list
	values any
}

func optional(node func(string, parquet.Repetition, int32) *schema.PrimitiveNode, name string) schema.Node {
	return node(name, parquet.Repetitions.Optional, -1)
}

func required(node func(string, parquet.Repetition, int32) *schema.PrimitiveNode, name string) schema.Node {
	return node(name, parquet.Repetitions.Required, -1)
}

func logical(name string, of schema.LogicalType, physical parquet.Type) schema.Node {
	return schema.MustPrimitive(schema.NewPrimitiveNodeLogical(name, parquet.Repetitions.Required, of, physical, 0, -1))
}

func words(name string) schema.Node {
	return logical(name, schema.StringLogicalType{}, parquet.Types.ByteArray)
}

// listOf is a nullable column of lists of nullable numbers.
func listOf(name string) schema.Node {
	element := optional(schema.NewFloat64Node, "element")
	values := schema.MustGroup(schema.NewGroupNode("list", parquet.Repetitions.Repeated, schema.FieldList{element}, -1))
	return schema.MustGroup(schema.NewGroupNodeLogical(name, parquet.Repetitions.Optional, schema.FieldList{values},
		schema.NewListLogicalType(), -1))
}

// parquetFile writes row groups with the same columns.
func parquetFile(t testing.TB, groups [][]parquetValues, options ...parquet.WriterProperty) []byte {
	t.Helper()
	var fields schema.FieldList
	for _, c := range groups[0] {
		if c.node != nil {
			fields = append(fields, c.node)
		}
	}
	root := schema.MustGroup(schema.NewGroupNode("schema", parquet.Repetitions.Required, fields, -1))
	var content bytes.Buffer
	w := file.NewParquetWriter(&content, root, file.WithWriterProps(parquet.NewWriterProperties(options...)))
	for _, group := range groups {
		rows := w.AppendRowGroup()
		for _, c := range group {
			column, err := rows.NextColumn()
			noError(t, err)
			switch column := column.(type) {
			case *file.BooleanColumnChunkWriter:
				_, err = column.WriteBatch(c.values.([]bool), c.levels, c.starts)
			case *file.Int32ColumnChunkWriter:
				_, err = column.WriteBatch(c.values.([]int32), c.levels, c.starts)
			case *file.Int64ColumnChunkWriter:
				_, err = column.WriteBatch(c.values.([]int64), c.levels, c.starts)
			case *file.Float32ColumnChunkWriter:
				_, err = column.WriteBatch(c.values.([]float32), c.levels, c.starts)
			case *file.Float64ColumnChunkWriter:
				_, err = column.WriteBatch(c.values.([]float64), c.levels, c.starts)
			case *file.ByteArrayColumnChunkWriter:
				var texts []parquet.ByteArray
				for _, text := range c.values.([]string) {
					texts = append(texts, parquet.ByteArray(text))
				}
				_, err = column.WriteBatch(texts, c.levels, c.starts)
			}
			noError(t, err)
			noError(t, column.Close())
		}
		noError(t, rows.Close())
	}
	noError(t, w.Close())
	return content.Bytes()
}

// allKinds creates the rows [from, to) of a file with a column of each kind, and the expected result.
func allKinds(from, to int) (columns []parquetValues, want examples.Rows) {
	var yes []bool
	var small []int32
	var large, labels []int64
	var single []float32
	var double, weights []float64
	var levels []int16
	for i := from; i < to; i++ {
		yes, small, large = append(yes, i%3 == 0), append(small, int32(-i)), append(large, int64(i)<<20)
		single, labels, weights = append(single, float32(i)/4), append(labels, int64(i%5)), append(weights, float64(i%7)/2)
		x := math.NaN()
		if present := i%11 != 4; present {
			x = float64(i) / 8
			double, levels = append(double, x), append(levels, 1)
		} else {
			levels = append(levels, 0)
		}
		bit := float32(0)
		if i%3 == 0 {
			bit = 1
		}
		// -i as an unsigned number of 32 bits is 2³² - i.
		want.Floats = append(want.Floats, bit, float32(uint32(int32(-i))), float32(int64(i)<<20), float32(i)/4, float32(x))
		want.Numbers, want.Weights = append(want.Numbers, int64(i%5)), append(want.Weights, float32(i%7)/2)
	}
	want.Rows, want.Cols = to-from, 5
	return []parquetValues{
		{node: required(schema.NewBooleanNode, "yes"), values: yes},
		{node: logical("label", schema.NewIntLogicalType(64, true), parquet.Types.Int64), values: labels},
		{node: logical("small", schema.NewIntLogicalType(32, false), parquet.Types.Int32), values: small},
		{node: required(schema.NewInt64Node, "large"), values: large},
		{node: required(schema.NewFloat64Node, "weight"), values: weights},
		{node: required(schema.NewFloat32Node, "single"), values: single},
		{node: optional(schema.NewFloat64Node, "double"), values: double, levels: levels},
	}, want
}

// The batches of a file depend on its rows, but not on its row groups, its pages or its compression.
func TestParquetBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	const rows = 130
	_, want := allKinds(0, rows)
	for _, groupRows := range []int{1, 63, 64, 65, rows} {
		for _, codec := range []compress.Compression{compress.Codecs.Uncompressed, compress.Codecs.Snappy, compress.Codecs.Gzip,
			compress.Codecs.Zstd} {
			if groupRows == 1 && codec != compress.Codecs.Zstd {
				continue
			}
			var groups [][]parquetValues
			for from := 0; from < rows; from += groupRows {
				group, _ := allKinds(from, min(from+groupRows, rows))
				groups = append(groups, group)
			}
			content := parquetFile(t, groups, parquet.WithCompression(codec), parquet.WithDataPageSize(512),
				parquet.WithDictionaryDefault(groupRows%2 == 0),
				parquet.WithDataPageVersion(parquet.DataPageVersion(groupRows%2)))
			// The format is recognised by the first bytes.
			got, sizes, names, problem := readAs(t, "table", content, func(o *Options) { o.Weight = "weight" })
			if problem != "" || fmt.Sprint(sizes) != "[64 64 2]" || fmt.Sprint(got.Floats) != fmt.Sprint(want.Floats) ||
				!slices.Equal(got.Numbers, want.Numbers) || !slices.Equal(got.Weights, want.Weights) ||
				names != `["yes","small","large","single","double"]` {
				t.Errorf("row groups of %d, %v: batches of %v rows, columns %s, %s", groupRows, codec, sizes, names, problem)
			}
		}
	}
}

// A list column has all features. A value may be missing, but each list has the same length.
func TestParquetLists(t *testing.T) {
	// Definition 3 is a value, 2 a null in a list, 1 an empty list, 0 a null.
	file := func(levels, starts []int16, values ...float64) []byte {
		rows := 0
		for _, s := range starts {
			if s == 0 {
				rows++
			}
		}
		return parquetFile(t, [][]parquetValues{{
			{node: listOf("features"), values: values, levels: levels, starts: starts}, {node: words("label"), values: slices.Repeat([]string{"a"}, rows)},
		}})
	}
	for _, test := range []struct {
		Content []byte
		want    string
	}{
		{file([]int16{3, 3, 3, 2}, []int16{0, 1, 0, 1}, 1, 2, 3), "[1 2 3 NaN]"},
		{file([]int16{3, 3, 3, 3, 3}, []int16{0, 1, 0, 0, 1}, 1, 2, 3, 4, 5), `a.parquet, column 0 ("features"): row 1, counted from 0: a list of 1: expected 2 numbers, as in the first row`},
		{file([]int16{3, 3, 3, 3, 3}, []int16{0, 1, 0, 1, 1}, 1, 2, 3, 4, 5), `a.parquet, column 0 ("features"): row 1, counted from 0: a list of 3: expected 2 numbers, as in the first row`},
		{file([]int16{3, 3, 3}, []int16{0, 1, 0}, 1, 2, 3), `a.parquet, column 0 ("features"): row 1, counted from 0: a list of 1: expected 2 numbers, as in the first row`},
		{file([]int16{3, 0, 3}, []int16{0, 0, 0}, 1, 3), `a.parquet, column 0 ("features"): row 1, counted from 0: null: expected a list of 1 numbers, as in the first row`},
		{file([]int16{1, 3}, []int16{0, 0}, 1), "a.parquet: no column is a feature"},
	} {
		rows, _, _, got := readAs(t, "a.parquet", test.Content, nil)
		if got == "" {
			got = fmt.Sprint(rows.Floats)
		}
		if got != test.want {
			t.Errorf("%s\nexpected %s", got, test.want)
		}
	}
}

// A column whose name has a dot is a column, whatever others the options name.
func TestParquetNamesWithDots(t *testing.T) {
	content := parquetFile(t, [][]parquetValues{{
		{node: required(schema.NewFloat64Node, "user.age"), values: []float64{1, 2}}, {node: words("user.city"), values: []string{"x", "y"}},
		{node: words("label"), values: []string{"a", "b"}},
	}})
	_, _, names, problem := readAs(t, "a.parquet", content, func(o *Options) { o.Categorical = []string{"user.city"} })
	if problem != "" || !strings.Contains(names, "user.age") {
		t.Errorf("columns %s, %s; expected user.age too", names, problem)
	}
}

// Files that are damaged, or without rows, are errors. Others are those of Arrow, whose columns the table has.
func TestParquetErrors(t *testing.T) {
	empty := [][]parquetValues{{{node: required(schema.NewFloat64Node, "x"), values: []float64{}}, {node: words("label"), values: []string{}}}}
	for want, content := range map[string][]byte{
		"a.parquet: no rows": parquetFile(t, empty),
		`a.parquet: an incomplete or damaged Parquet file: write or download it again: invalid magic footer of parquet file: "else"`: []byte("PAR1 and nothing\x00\x00\x00\x00else"),
	} {
		if _, _, _, got := readAs(t, "a.parquet", content, nil); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
	}
}

// Files written by pandas are read, and rows to predict may have the label and the weight or not.
func TestPandasFrame(t *testing.T) {
	f, o := newFolder(t), Defaults()
	name := f.write(t, "frame.parquet", pandasFrame(t))
	o.Train, o.Weight, o.Missing.Mode = []string{name}, "weight", layout.MissingMean
	sources := must(Sources(t.Context(), o))(t)
	got, _, err := readRows(sources[0].batches(t.Context(), nil))
	if err != nil || fmt.Sprint(got.Floats, got.Words, got.Weights) != "[0.5 1 1 NaN 2 0 -3 3 1 4.25 40000 1] [a b a b] [1 2 0.5 0]" {
		t.Errorf("%v %v %v, error %v", got.Floats, got.Words, got.Weights, err)
	}
	got, _, err = readRows(File(t.Context(), name, o, layout.Features{Width: 3}))
	if err != nil || fmt.Sprint(got.Floats) != "[0.5 1 1 NaN 2 0 -3 3 1 4.25 40000 1]" || got.Words != nil || got.Weights != nil {
		t.Errorf("to predict: %v, error %v", got.Floats, err)
	}
	o.Label, o.Weight = "3", "4"
	if _, _, err = readRows(File(t.Context(), name, o, layout.Features{Width: 3})); err != nil {
		t.Errorf("columns by number: %v", err)
	}
	if _, _, err = readRows(File(t.Context(), name, o, layout.Features{Width: 7})); err == nil || !strings.Contains(err.Error(),
		"5 columns: expected 7 features, with or without the label") {
		t.Errorf("to predict 7 features: %v", err)
	}
	byName := func(names ...string) (columns examples.Columns) {
		for _, name := range names {
			columns = append(columns, examples.Column{Name: name})
		}
		return columns
	}
	got, _, err = readRows(File(t.Context(), name, Defaults(), layout.Features{Width: 2, Columns: byName("n", "yes")}))
	if err != nil || fmt.Sprint(got.Floats) != "[1 1 2 0 3 1 40000 1]" {
		t.Errorf("by name: %v, error %v", got.Floats, err)
	}
	_, _, err = readRows(File(t.Context(), name, Defaults(), layout.Features{Width: 3, Columns: byName("n", "y", "z")}))
	if got := f.text(err); got != `frame.parquet: missing columns that the model needs: "y" and "z"` {
		t.Error(got)
	}
	chosen := o
	chosen.Weight, chosen.Columns.Use, chosen.Columns.Drop = "", []string{"yes", "n", "x"}, []string{"1"}
	if sources, err = Sources(t.Context(), chosen); err != nil || sources[0].Columns.Text() != `["x","yes"]` {
		t.Errorf("chosen columns: %v, error %v", sources, err)
	}
	packed := f.write(t, "frame.parquet.gz", []byte(gzipped(t, string(pandasFrame(t)))))
	o.Train = []string{packed}
	if _, err := Sources(t.Context(), o); err == nil || !strings.Contains(err.Error(), "a Parquet file compressed with gzip") {
		t.Errorf("compressed with gzip: %v", err)
	}
}

// A compression that is not read is an error, and gives no numbers.
func TestParquetCompressionThatIsNotRead(t *testing.T) {
	type row struct {
		X     float64 `parquet:"x"`
		Label string  `parquet:"label"`
	}
	var content bytes.Buffer
	w := parquetgo.NewGenericWriter[row](&content, parquetgo.Compression(&parquetgo.Lz4Raw))
	must(w.Write([]row{{1, "a"}, {2, "b"}}))(t)
	noError(t, w.Close())
	const want = `a.parquet, column 0 ("x"): compressed with LZ4_RAW: expected a column compressed with snappy, zstd, gzip or brotli, or uncompressed`
	if _, _, _, got := readAs(t, "a.parquet", content.Bytes(), nil); got != want {
		t.Errorf("%s\nexpected %s", got, want)
	}
}

// For any input, the reader returns rows or a *input.Error.
func FuzzParquet(f *testing.F) {
	sparse := must(os.ReadFile("testdata/sparse.parquet"))(f)
	durations, split := must(os.ReadFile("testdata/durations.parquet"))(f), must(os.ReadFile("testdata/split.parquet"))(f)
	for _, content := range [][]byte{pandasFrame(f), sparse, durations, split} {
		f.Add(content)
		for i := range 40 {
			flipped := bytes.Clone(content)
			flipped[len(content)*i/40] ^= 1 << (i % 8)
			f.Add(flipped)
		}
	}
	fuzzTables(f, "fuzz.parquet", "yes")
}
