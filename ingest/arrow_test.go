package ingest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// arrowRows builds a record from rows in JSON.
func arrowRows(t testing.TB, rows string, fields ...arrow.Field) arrow.Record {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	noError(t, err)
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
		file := must(ipc.NewFileWriter(&seekable{Buffer: &content}, options...))(t)
		w = file
	}
	for from := int64(0); from < record.NumRows(); from += rows {
		noError(t, w.Write(record.NewSlice(from, min(from+rows, record.NumRows()))))
	}
	noError(t, w.Close())
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
	if err != nil && !errors.As(err, new(*input.Error)) {
		t.Errorf("%v is no *input.Error", err)
	}
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
					if problem != "" || fmt.Sprint(sizes) != "[64 64 2]" || names != `["x","n","yes"]` ||
						fmt.Sprint(got.Floats) != fmt.Sprint(want) || !slices.Equal(got.Words, labels) {
						t.Fatalf("%v in batches of %d, file %v: %s, batches %v, columns %s", label, size, asFile, problem, sizes, names)
					}
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
		if problem != "" || fmt.Sprint(got.Floats, got.Numbers) != "[1 2 3 NaN] [7 8]" || names != "" {
			t.Errorf("%v: %v, %v, columns %s, %s", list, got.Floats, got.Numbers, names, problem)
		}
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
		if _, _, _, got := readAs(t, "a.arrow", test.Content, test.change); got != test.want {
			t.Errorf("%s\nexpected %s", got, test.want)
		}
	}
}
