package ingest

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/parquet"
	"github.com/apache/arrow/go/v17/parquet/schema"
)

// pairsNode is a column of lists of index and value, or a map, which may be null, as may its entries.
func pairsNode(isMap bool) schema.Node {
	inner, names := "list", []string{"index", "value"}
	if isMap {
		inner, names = "key_value", []string{"key", "value"}
	}
	fields := schema.FieldList{optional(schema.NewInt64Node, names[0]), optional(schema.NewFloat64Node, names[1])}
	if !isMap {
		fields = schema.FieldList{schema.MustGroup(schema.NewGroupNode("element", parquet.Repetitions.Required, fields, -1))}
	}
	entries := schema.MustGroup(schema.NewGroupNode(inner, parquet.Repetitions.Repeated, fields, -1))
	return schema.MustGroup(schema.NewGroupNode("features", parquet.Repetitions.Optional, schema.FieldList{entries}, -1))
}

// sparseGroup is a row group of sparse rows. A nil row is null, and so is a value of -1.
func sparseGroup(isMap bool, labels []string, rows [][][2]float64) []parquetValues {
	var indices []int64
	var values []float64
	var indexLevels, valueLevels, starts []int16
	for _, row := range rows {
		if len(row) == 0 {
			level := int16(1)
			if row == nil {
				level = 0
			}
			indexLevels, valueLevels, starts = append(indexLevels, level), append(valueLevels, level), append(starts, 0)
		}
		for i, entry := range row {
			indices, indexLevels = append(indices, int64(entry[0])), append(indexLevels, 3)
			if starts = append(starts, int16(min(i, 1))); entry[1] == -1 {
				valueLevels = append(valueLevels, 2)
			} else {
				values, valueLevels = append(values, entry[1]), append(valueLevels, 3)
			}
		}
	}
	return []parquetValues{
		{node: words("label"), values: labels},
		{node: pairsNode(isMap), values: indices, levels: indexLevels, starts: starts}, {values: values, levels: valueLevels, starts: starts},
	}
}

// Sparse rows in Parquet give the same messages as the same rows in LIBSVM, whatever the row groups.
func TestSparseRowsOfParquet(t *testing.T) {
	const count = 700 // several times the number of values read at once
	var lines, labels []string
	rows := make([][][2]float64, count)
	for i := range rows {
		line := fmt.Sprint(i % 3)
		rows[i] = [][2]float64{}
		for j := range i % 13 { // the first value of each row is 0
			line += fmt.Sprintf(" %d:%d", i+7*j, j)
			rows[i] = append(rows[i], [2]float64{float64(i + 7*j), float64(j)})
		}
		lines, labels = append(lines, line), append(labels, fmt.Sprint(i%3))
	}
	want := messages(t, "rows.libsvm", []byte(strings.Join(lines, "\n")))
	for _, isMap := range []bool{false, true} {
		for _, size := range []int{63, 64, 65, count} {
			var groups [][]parquetValues
			for from := 0; from < count; from += size {
				to := min(from+size, count)
				groups = append(groups, sparseGroup(isMap, labels[from:to], rows[from:to]))
			}
			got := messages(t, "rows.parquet", parquetFile(t, groups))
			if len(got) != len(want) {
				t.Fatalf("groups of %d: %d messages, expected %d", size, len(got), len(want))
			}
			for i := range want {
				if !bytes.Equal(got[i], want[i]) {
					t.Errorf("map: %v, groups of %d: message %d differs from that of LIBSVM", isMap, size, i)
				}
			}
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
