package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"

	formatparquet "github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
)

// arrowRows builds a record from rows in JSON.
func arrowRows(t testing.TB, rows string, fields ...arrow.Field) arrow.Record {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	assert.NoError(t, err)
	return record
}

func nullable(name string, of arrow.DataType) arrow.Field {
	return arrow.Field{Name: name, Type: of, Nullable: true}
}

// arrowContent writes a record in batches of the given number of rows, as a stream or as a file.
func arrowContent(t testing.TB, record arrow.Record, rows int64, asFile bool, options ...ipc.Option) []byte {
	t.Helper()
	var content bytes.Buffer
	options = append(options, ipc.WithSchema(record.Schema()))
	var w interface {
		Write(arrow.Record) error
		Close() error
	} = ipc.NewWriter(&content, options...)
	if asFile {
		w = assert.Must(ipc.NewFileWriter(&seekable{Buffer: &content}, options...))(t)
	}
	for from := int64(0); from < record.NumRows(); from += rows {
		assert.NoError(t, w.Write(record.NewSlice(from, min(from+rows, record.NumRows()))))
	}
	assert.NoError(t, w.Close())
	return content.Bytes()
}

// seekable supports the seeks of a file writer for its current position only.
type seekable struct{ *bytes.Buffer }

func (s *seekable) Seek(int64, int) (int64, error) { return int64(s.Len()), nil }

// readAs reads a file with this name and content.
func readAs(t *testing.T, name string, content []byte, change func(*Options)) (rows examples.Rows, sizes []int, columns string,
	problem string) {
	t.Helper()
	f, o := newFolder(t), Defaults()
	o.Train, o.Missing.Mode, o.BatchRows = []string{f.write(t, name, content)}, layout.MissingMean, 64
	if change != nil {
		change(&o)
	}
	sources, err := Sources(t.Context(), o)
	if err == nil {
		columns = sources[0].Columns.Text()
		rows, sizes, err = readRows(sources[0].batches(t.Context(), nil))
	}
	assert.True(t, err == nil || errors.As(err, new(*input.Error)), "%v is no *input.Error", err)
	return rows, sizes, columns, f.text(err)
}

// The batches of a file depend on its rows, but not on its record batches, its compression, or whether it is a stream.
func TestArrowBatches(t *testing.T) {
	const count = 130
	var rows []string
	var want []float32
	var labels []string
	for i := range count {
		x, missing := fmt.Sprint(i), float32(i)
		if i%7 == 3 {
			x, missing = "null", float32(math.NaN())
		}
		rows = append(rows, fmt.Sprintf(`{"x":%s,"n":%d,"yes":%v,"label":"%d","__index_level_0__":%d}`, x, i%5, i%2 == 0, i%3, i))
		want = append(want, missing, float32(i%5), float32(1-i%2))
		labels = append(labels, fmt.Sprint(i%3))
	}
	category := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	for _, label := range []arrow.DataType{arrow.BinaryTypes.String, arrow.BinaryTypes.LargeString, category} {
		record := arrowRows(t, "["+strings.Join(rows, ",")+"]", nullable("x", arrow.PrimitiveTypes.Float64),
			nullable("n", arrow.PrimitiveTypes.Uint64),
			nullable("yes", arrow.FixedWidthTypes.Boolean), nullable("label", label), nullable("__index_level_0__", arrow.PrimitiveTypes.Int64))
		for _, size := range []int64{1, 63, 64, 65, count} {
			for _, asFile := range []bool{false, true} {
				codecs := [][]ipc.Option{nil}
				if size == count {
					codecs = append(codecs, []ipc.Option{ipc.WithZstd()}, []ipc.Option{ipc.WithLZ4()})
				}
				for _, compressed := range codecs {
					content := arrowContent(t, record, size, asFile, compressed...)
					got, sizes, names, problem := readAs(t, "table", content, nil) // the format is recognised by the first bytes
					assert.Need(t, problem == "" && fmt.Sprint(sizes) == "[64 64 2]" && names == `["x","n","yes"]` &&
						fmt.Sprint(got.Floats) == fmt.Sprint(want) && slices.Equal(got.Words, labels),
						"%v in batches of %d, file %v: %s, batches %v, columns %s", label, size, asFile, problem, sizes, names)
				}
			}
		}
	}
}

// Lists hold all features, and labels may be integers.
func TestArrowLists(t *testing.T) {
	for _, list := range []arrow.DataType{arrow.ListOf(arrow.PrimitiveTypes.Float64), arrow.LargeListOf(arrow.PrimitiveTypes.Int16),
		arrow.FixedSizeListOf(2, arrow.PrimitiveTypes.Float32)} {
		record := arrowRows(t, `[{"features":[1,2],"label":7},{"features":[3,null],"label":8}]`, nullable("features", list),
			nullable("label", arrow.PrimitiveTypes.Uint8))
		got, _, names, problem := readAs(t, "a.arrow", arrowContent(t, record, 1, true), nil)
		assert.True(t, problem == "" && fmt.Sprint(got.Floats, got.Numbers) == "[1 2 3 NaN] [7 8]" && names == "",
			"%v: %v, %v, columns %s, %s", list, got.Floats, got.Numbers, names, problem)
	}
}

func TestArrowErrors(t *testing.T) {
	f64, word := arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String
	good := arrowRows(t, `[{"x":1,"label":"a"},{"x":null,"label":"b"}]`, nullable("x", f64), nullable("label", word))
	stream := arrowContent(t, good, 1, false)
	write := func(rows string, fields ...arrow.Field) []byte {
		return arrowContent(t, arrowRows(t, rows, fields...), 100, false)
	}
	lists := arrow.ListOf(f64)
	for _, test := range []struct {
		Content []byte
		change  func(*Options)
		want    string
	}{
		{stream, func(o *Options) { o.Missing.Mode = layout.MissingError }, `a.arrow, column 0 ("x"): row 1, counted from 0: a missing value: examples.missing: mean uses the mean of the column`},
		{write(`[{"x":1,"n":null,"label":"a"}]`, nullable("x", f64), nullable("n", arrow.Null), nullable("label", word)),
			func(o *Options) { o.Missing.Mode = layout.MissingError }, `a.arrow, column 1 ("n"): row 0, counted from 0: a missing value: examples.missing: mean uses the mean of the column`},
		{slices.Concat(stream, stream), nil, fmt.Sprintf("a.arrow: damaged or foreign bytes: %d bytes after the end of the stream: expected all batches in one stream", len(stream))},
		{stream[:len(stream)-8], nil, "a.arrow: damaged or foreign bytes: a truncated Arrow stream"},
		{stream[:len(stream)-30], nil, "a.arrow: damaged or foreign bytes: the stream ends within a message: unexpected EOF"},
		{write(`[{"x":1,"label":null}]`, nullable("x", f64), nullable("label", word)), nil, "a.arrow: no row has a label: check examples.label (the label column) and examples.missing_values (the words for a missing label)"},
		{write(`[{"x":"2026-01-01","label":"a"}]`, nullable("x", arrow.FixedWidthTypes.Date32), nullable("label", word)), nil,
			`a.arrow, column 0 ("x"): type date32: features are numbers, booleans, or one list of numbers: exclude the column with examples.columns.drop, or list it under examples.times`},
		{write(`[{"x":1,"label":9223372036854775808}]`, nullable("x", f64), nullable("label", arrow.PrimitiveTypes.Uint64)), nil,
			`a.arrow, column 1 ("label"): row 0, counted from 0: "9223372036854775808" is not a whole number that fits int64`},
		{write(`[{"x":[1,2],"label":"a"},{"x":[1],"label":"a"}]`, nullable("x", lists), nullable("label", word)), nil,
			`a.arrow, column 0 ("x"): row 1, counted from 0: a list of 1: expected 2 numbers, as in the first row`},
		{write(`[{"x":[1,2],"label":"a"},{"x":null,"label":"a"}]`, nullable("x", lists), nullable("label", word)), nil,
			`a.arrow, column 0 ("x"): row 1, counted from 0: null: expected a list of 2 numbers, as in the first row`},
		{write(`[]`, nullable("x", f64), nullable("label", word)), nil, "a.arrow: no rows"},
		{[]byte("ARROW1\x00\x00hello, world"), nil, "a.arrow: damaged or foreign bytes: arrow/ipc: could not read message schema: the file does not begin with its schema: " +
			"write it as Parquet, or as a stream (in Polars write_parquet, or write_ipc_stream with compat_level=CompatLevel.oldest())"},
	} {
		_, _, _, got := readAs(t, "a.arrow", test.Content, test.change)
		assert.True(t, got == test.want, "%s\nexpected %s", got, test.want)
	}
}

// pandasFrame is a file written by pandas 3.1, with a missing value and a category as label, in row groups of three:
//
//	pandas.DataFrame({"x": [.5, None, -3, 4.25], "n": [1, 2, 3, 40000], "yes": [True, False, True, True],
//	  "label": pandas.Series(["a", "b", "a", "b"], dtype="category"), "weight": [1., 2., .5, 0.]}).to_parquet(…, row_group_size=3)
func pandasFrame(t testing.TB) []byte {
	t.Helper()
	return assert.Must(os.ReadFile("testdata/pandas.parquet"))(t)
}

// allKinds creates a table with a column of each kind, and the expected result.
func allKinds(n int) (b table, want examples.Rows) {
	b.fields = []arrow.Field{{Name: "yes", Type: arrow.FixedWidthTypes.Boolean}, {Name: "label", Type: arrow.PrimitiveTypes.Int64},
		{Name: "small", Type: arrow.PrimitiveTypes.Uint32}, {Name: "large", Type: arrow.PrimitiveTypes.Int64},
		{Name: "weight", Type: arrow.PrimitiveTypes.Float64}, {Name: "single", Type: arrow.PrimitiveTypes.Float32},
		nullable("double", arrow.PrimitiveTypes.Float64)}
	for i := range n {
		small, bit, x, double := uint32(-i), float32(0), math.NaN(), "null"
		if i%3 == 0 {
			bit = 1
		}
		if i%11 != 4 {
			x, double = float64(i)/8, fmt.Sprint(float64(i)/8)
		}
		b.rows = append(b.rows, fmt.Sprintf(`{"yes":%v,"label":%d,"small":%d,"large":%d,"weight":%v,"single":%v,"double":%s}`, i%3 == 0, i%5, small,
			int64(i)<<20, float64(i%7)/2, float32(i)/4, double))
		want.Floats = append(want.Floats, bit, float32(small), float32(int64(i)<<20), float32(i)/4, float32(x))
		want.Numbers, want.Weights = append(want.Numbers, int64(i%5)), append(want.Weights, float32(i%7)/2)
	}
	return b, want
}

// The batches of a file depend on its rows, but not on its row groups, its pages or its compression.
func TestParquetBatches(t *testing.T) {
	b, want := allKinds(130)
	for _, groupRows := range []int64{1, 63, 64, 65, 130} {
		for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
			if groupRows == 1 && codec != &parquet.Zstd {
				continue
			}
			options := []parquet.WriterOption{parquet.Compression(codec), parquet.PageBufferSize(512), parquet.MaxRowsPerRowGroup(groupRows),
				parquet.DataPageVersion(1 + int(groupRows%2))}
			if groupRows%2 == 0 {
				options = append(options, parquet.DefaultEncodingFor(parquet.Double, &parquet.RLEDictionary))
			}
			// The format is recognised by the first bytes.
			got, sizes, names, problem := readAs(t, "table", b.parquet(t, options...), func(o *Options) { o.Weight = "weight" })
			assert.True(t, problem == "" && fmt.Sprint(sizes) == "[64 64 2]" && fmt.Sprint(got.Floats) == fmt.Sprint(want.Floats) &&
				slices.Equal(got.Numbers, want.Numbers) && slices.Equal(got.Weights, want.Weights) &&
				names == `["yes","small","large","single","double"]`,
				"row groups of %d, %v: batches of %v rows, columns %s, %s", groupRows, codec, sizes, names, problem)
		}
	}
}

// A list column has all features. A value may be missing, but each list has the same length.
func TestParquetLists(t *testing.T) {
	const place = `a.parquet, column 0 ("features"): row 1, counted from 0: `
	for lists, want := range map[string]string{
		"[1,2] [3] [4,5]": place + "a list of 1: expected 2 numbers, as in the first row",
		"[1,2] [3,4,5]":   place + "a list of 3: expected 2 numbers, as in the first row",
		"[1,2] [3]":       place + "a list of 1: expected 2 numbers, as in the first row",
		"[1] null [3]":    place + "null: expected a list of 1 numbers, as in the first row",
		"[] [1]":          "a.parquet: no column is a feature",
	} {
		b := table{fields: []arrow.Field{nullable("features", arrow.ListOf(arrow.PrimitiveTypes.Float64)), {Name: "label", Type: arrow.BinaryTypes.String}}}
		for list := range strings.FieldsSeq(lists) {
			b.rows = append(b.rows, `{"features":`+list+`,"label":"a"}`)
		}
		rows, _, _, got := readAs(t, "a.parquet", b.parquet(t), nil)
		if got == "" {
			got = fmt.Sprint(rows.Floats)
		}
		assert.Equal(t, got, want, "%s", lists)
	}
	of := parquet.NewSchema("rows", parquet.Group{"label": parquet.String(),
		"features": parquet.Optional(parquet.List(parquet.Optional(parquet.Leaf(parquet.DoubleType))))})
	var content bytes.Buffer
	w := parquet.NewWriter(&content, of)
	label, number := parquet.ValueOf("a").Level(0, 0, 1), func(v any, starts, defined int) parquet.Value { return parquet.ValueOf(v).Level(starts, defined, 0) }
	assert.Must(w.WriteRows([]parquet.Row{{number(1.0, 0, 3), number(2.0, 1, 3), label}, {number(3.0, 0, 3), number(nil, 1, 2), label}}))(t)
	assert.NoError(t, w.Close())
	rows, _, _, problem := readAs(t, "a.parquet", content.Bytes(), nil)
	assert.True(t, fmt.Sprint(rows.Floats) == "[1 2 3 NaN]", "a null in a list: %v %s", rows.Floats, problem)
}

// A column whose name has a dot is a column, whatever others the options name.
func TestParquetNamesWithDots(t *testing.T) {
	b := table{fields: []arrow.Field{{Name: "user.age", Type: arrow.PrimitiveTypes.Float64}, {Name: "user.city", Type: arrow.BinaryTypes.String},
		{Name: "label", Type: arrow.BinaryTypes.String}}, rows: []string{`{"user.age":1,"user.city":"x","label":"a"}`, `{"user.age":2,"user.city":"y","label":"b"}`}}
	_, _, names, problem := readAs(t, "a.parquet", b.parquet(t), func(o *Options) { o.Categorical = []string{"user.city"} })
	assert.True(t, problem == "" && strings.Contains(names, "user.age"), "columns %s, %s; expected user.age too", names, problem)
}

// A map is a map, whatever its entries are called. delta-rs 1.6 has written {"m": {"x": 1, "y": 5}, "label": "a"}, {"m": {"x": 2}, "label": "b"}.
func TestParquetMaps(t *testing.T) {
	rows, _, _, problem := readAs(t, "a.parquet", assert.Must(os.ReadFile("testdata/entries.parquet"))(t), func(o *Options) {
		o.Columns.Use = []string{"m.x"}
	})
	assert.True(t, fmt.Sprint(rows.Floats) == "[1 2]", "%v %s", rows.Floats, problem)
}

// Files that are damaged, without rows, or compressed in another way are errors, and give no numbers. Other errors are those of Arrow,
// whose columns the table has.
func TestParquetErrors(t *testing.T) {
	empty := table{fields: []arrow.Field{nullable("x", arrow.PrimitiveTypes.Float64), nullable("label", arrow.BinaryTypes.String)}}
	two := table{fields: empty.fields, rows: []string{`{"x":1,"label":"a"}`, `{"x":2,"label":"b"}`}}
	for want, content := range map[string][]byte{
		"a.parquet: no rows": empty.parquet(t),
		`a.parquet: an incomplete or damaged Parquet file: write or download it again: invalid magic footer of parquet file: "else"`: []byte("PAR1 and nothing\x00\x00\x00\x00else"),
		"a.parquet: a damaged Parquet file: write or download it again: a footer of 4026531840 bytes in a file of 24":                []byte("PAR1 and nothing\x00\x00\x00\xf0PAR1"),
		`a.parquet, column 0 ("x"): compressed with LZ4_RAW: expected a column compressed with snappy, zstd, gzip or brotli, or uncompressed`: two.parquet(t,
			parquet.Compression(&parquet.Lz4Raw)),
	} {
		_, _, _, got := readAs(t, "a.parquet", content, nil)
		assert.Equal(t, got, want, "")
	}
}

// A file in which a bit has changed has all of its rows, or is an error: it never ends early.
func TestDamagedParquet(t *testing.T) {
	b := table{fields: []arrow.Field{nullable("x", arrow.PrimitiveTypes.Float64), nullable("label", arrow.BinaryTypes.String)}}
	for i := range 20 {
		b.rows = append(b.rows, fmt.Sprintf(`{"x":%d,"label":"a"}`, i))
	}
	content := b.parquet(t, parquet.MaxRowsPerRowGroup(8))
	for bit := 0; bit < 8*len(content); bit += 3 {
		content[bit/8] ^= 1 << (bit % 8)
		r, err := formatparquet.Open(bytes.NewReader(content), int64(len(content)), formatparquet.Columns{})
		rows := int64(0)
		for err == nil {
			var batch arrow.Record
			if batch, err = r.Next(7, nil); err == nil {
				rows += batch.NumRows()
			}
		}
		assert.Need(t, err != io.EOF || rows == 20,
			"with bit %d of byte %d of %d changed there are %d rows, without an error", bit%8, bit/8, len(content), rows)
		content[bit/8] ^= 1 << (bit % 8)
	}
}

// Files written by pandas are read, and rows to predict may have the label and the weight or not.
func TestPandasFrame(t *testing.T) {
	f, o := newFolder(t), Defaults()
	name := f.write(t, "frame.parquet", pandasFrame(t))
	o.Train, o.Weight, o.Missing.Mode = []string{name}, "weight", layout.MissingMean
	sources := assert.Must(Sources(t.Context(), o))(t)
	got, _, err := readRows(sources[0].batches(t.Context(), nil))
	assert.True(t, err == nil &&
		fmt.Sprint(got.Floats, got.Words, got.Weights) == "[0.5 1 1 NaN 2 0 -3 3 1 4.25 40000 1] [a b a b] [1 2 0.5 0]",
		"%v %v %v, error %v", got.Floats, got.Words, got.Weights, err)
	got, _, err = readRows(File(t.Context(), name, o, layout.Features{Width: 3}))
	assert.True(t, err == nil && fmt.Sprint(got.Floats) == "[0.5 1 1 NaN 2 0 -3 3 1 4.25 40000 1]" && got.Words == nil && got.Weights == nil,
		"to predict: %v, error %v", got.Floats, err)
	o.Label, o.Weight = "3", "4"
	_, _, err = readRows(File(t.Context(), name, o, layout.Features{Width: 3}))
	assert.True(t, err == nil, "columns by number: %v", err)
	_, _, err = readRows(File(t.Context(), name, o, layout.Features{Width: 7}))
	assert.True(t, err != nil && strings.Contains(err.Error(), "5 columns: expected 7 features, with or without the label"),
		"to predict 7 features: %v", err)
	byName := func(names ...string) (columns examples.Columns) {
		for _, name := range names {
			columns = append(columns, examples.Column{Name: name})
		}
		return columns
	}
	got, _, err = readRows(File(t.Context(), name, Defaults(), layout.Features{Width: 2, Columns: byName("n", "yes")}))
	assert.True(t, err == nil && fmt.Sprint(got.Floats) == "[1 1 2 0 3 1 40000 1]", "by name: %v, error %v", got.Floats, err)
	_, _, err = readRows(File(t.Context(), name, Defaults(), layout.Features{Width: 3, Columns: byName("n", "y", "z")}))
	assert.Equal(t, f.text(err), `frame.parquet: missing columns that the model needs: "y" and "z"`, "")
	chosen := o
	chosen.Weight, chosen.Columns.Use, chosen.Columns.Drop = "", []string{"yes", "n", "x"}, []string{"1"}
	sources, err = Sources(t.Context(), chosen)
	assert.True(t, err == nil && sources[0].Columns.Text() == `["x","yes"]`, "chosen columns: %v, error %v", sources, err)
	o.Train = []string{f.write(t, "frame.parquet.gz", []byte(gzipped(t, string(pandasFrame(t)))))}
	assert.MustFail(Sources(t.Context(), o))(t, "a Parquet file compressed with gzip")
}
