package ingest

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/schemas/examples"
)

func sparseLike(index, value arrow.DataType) arrow.DataType {
	return arrow.ListOf(arrow.StructOf(nullable("index", index), nullable("value", value)))
}

// messages returns the messages of the examples of a file.
func messages(t *testing.T, name string, content []byte) (values [][]byte) {
	t.Helper()
	f, o := newFolder(t), Defaults()
	o.Train, o.BatchRows = []string{f.write(t, name, content)}, 64
	sources := must(Sources(t.Context(), o))(t)
	for rows, err := range sources[0].Batches(t.Context()) {
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
