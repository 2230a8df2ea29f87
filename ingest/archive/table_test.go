package archive

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	parquetformat "github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/arrowtest"
	"github.com/stagewise/stagewise/schemas/arrowvalue"
)

// row is a row of the tables of the tests.
type row struct {
	Group  int32   `parquet:"group,id(1)"`
	Offset int64   `parquet:"offset,id(2)"`
	Word   *string `parquet:"word,optional,id(3)"`
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	arrowtest.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	arrowtest.NoError(t, os.WriteFile(name, content, 0o644))
}

func writeJSON(t *testing.T, name string, values ...any) {
	t.Helper()
	var lines []byte
	for _, v := range values {
		line := arrowtest.Must(json.Marshal(v))(t)
		lines = append(append(lines, line...), '\n')
	}
	writeFile(t, name, lines)
}

func writeParquet[T any](t *testing.T, name string, rows []T) {
	t.Helper()
	writeFile(t, name, nil)
	arrowtest.NoError(t, parquet.WriteFile(name, rows, parquet.MaxRowsPerRowGroup(3)))
}

// tableOf returns the table in a directory.
func tableOf(t *testing.T, root string) *table {
	t.Helper()
	s := arrowtest.Must(openStore(root, Options{}))(t)
	return &table{ctx: t.Context(), store: s, root: root}
}

// live returns the files of a table.
func live(t *testing.T, layout, root string, at snapshotName) ([]dataFile, error) {
	t.Helper()
	l, err := layoutOf(layout, "")
	if err != nil {
		t.Fatal(err)
	}
	return liveFiles(t.Context(), tableOf(t, root).store, l, root, at)
}

// offsets returns the offsets of the live rows of a table, in order.
func offsets(t *testing.T, layout, root string, at snapshotName) (offsets []int64) {
	t.Helper()
	files := arrowtest.Must(live(t, layout, root, at))(t)
	for _, f := range files {
		n := int64(0)
		err := eachParquet(tableOf(t, root), f.Path, f.Columns, func(row arrow.Nested) error {
			offset := find(row, "offset")
			if offset.Of == nil {
				offset = find(row, "place")
			}
			if _, deleted := slices.BinarySearch(f.Deleted, n); !deleted {
				of, _ := offset.Of.Whole(offset.Row)
				offsets = append(offsets, of)
			}
			n++
			return nil
		})
		if err != nil {
			t.Fatal(f, n, err)
		}
	}
	slices.Sort(offsets)
	return offsets
}

// expectRefused checks that a table is refused with a text.
func expectRefused(t *testing.T, layout, root string, at snapshotName, want string) {
	t.Helper()
	if files, err := live(t, layout, root, at); err == nil || !strings.Contains(err.Error(), want) || !strings.HasPrefix(err.Error(), root) {
		t.Errorf("%v, %v, expected %s", files, err, want)
	}
}

// Columns that a file lacks are its partition values, of the type of all of their values. Others are in the file.
func TestPartitionValues(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.parquet")
	writeParquet(t, name, []row{{Group: 7}})
	values := []input.Partition{{Column: "day", Text: "x"}, {Column: "hour", Text: "09", Whole: 9, IsWhole: true}, {Column: "none", Null: true},
		{Column: "group", Text: "8", Whole: 8, IsWhole: true}}
	err := eachParquet(tableOf(t, name), name, parquetformat.Columns{Values: values}, func(row arrow.Nested) error {
		const want = `{"day":"x","group":7,"hour":9,"none":null,"offset":0,"word":null}`
		if got := string(arrowvalue.AppendJSON(nil, row.Of.Column, row.Row)); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Of the columns that no value is in, none is read; paths to values may have indices of lists and keys of maps.
func TestColumnsThatAreRead(t *testing.T) {
	type item struct {
		Title string `parquet:"title"`
	}
	type nested struct {
		Items []item          `parquet:"items,list"`
		ByKey map[string]item `parquet:"by"`
		Place struct {
			X int64 `parquet:"x"`
			Y int64 `parquet:"y"`
		} `parquet:"place"`
		Other string `parquet:"other"`
	}
	name := filepath.Join(t.TempDir(), "a.parquet")
	writeParquet(t, name, []nested{{Items: []item{{"a"}}, ByKey: map[string]item{"k": {"b"}}}})
	read := parquetformat.Columns{Wanted: wanted([]string{"items.0.title", "by.k.title", "place.y"}, [properties][]string{})}
	err := eachParquet(tableOf(t, name), name, read, func(row arrow.Nested) error {
		const want = `{"by":[{"key":"k","value":{"title":"b"}}],"items":[{"title":"a"}],"place":{"y":0}}`
		if got := string(arrowvalue.AppendJSON(nil, row.Of.Column, row.Row)); got != want {
			t.Errorf("%s, expected %s", got, want)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestNoTables(t *testing.T) {
	for _, l := range layouts() {
		if l.live != nil {
			expectRefused(t, l.name, t.TempDir(), snapshotName{}, "no table of ")
		}
	}
}

// clock returns the time of a state, in milliseconds.
func clock(state int) int64 { return 1_700_000_000_000 + int64(state)*1000 }

// states returns how a state is named.
func states(id string, state int) []snapshotName {
	return []snapshotName{{ID: id}, {AsOf: time.UnixMilli(clock(state))}, {AsOf: time.UnixMilli(clock(state) + 999)}}
}

// expectStates checks the rows of each state of a table.
func expectStates(t *testing.T, layout, root string, first int, want [][]int64, id func(state int) string) {
	t.Helper()
	for state, want := range want {
		named := states(id(state), state)
		if state < first {
			continue
		}
		for _, at := range named {
			if got := offsets(t, layout, root, at); !slices.Equal(got, want) {
				t.Errorf("state %d, %+v: rows %v, expected %v", state, at, got, want)
			}
		}
	}
	if got := offsets(t, layout, root, snapshotName{}); !slices.Equal(got, want[len(want)-1]) {
		t.Errorf("rows %v, expected %v", got, want[len(want)-1])
	}
	expectRefused(t, layout, root, snapshotName{AsOf: time.UnixMilli(clock(-1))}, " at 2023-11-14T")
	expectRefused(t, layout, root, snapshotName{ID: fmt.Sprint(len(want) + 1000)}, "no ")
}
