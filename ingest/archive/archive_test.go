package archive

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	parquetformat "github.com/stagewise/stagewise/ingest/format/parquet"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/stream"
)

// containerOf returns an Avro container file with rows of one number, and a codec in its header.
func containerOf(t *testing.T, codec string, rows ...int64) []byte {
	t.Helper()
	var b bytes.Buffer
	w, err := ocf.NewWriter(&b, avro.MustParse(`{"type":"record","name":"r","fields":[{"name":"x","type":"long"}]}`), ocf.WithBlockCount(2),
		ocf.WithCodec(ocf.DeflateCodec(1)))
	assert.NoError(t, err)
	for _, x := range rows {
		assert.NoError(t, w.Encode(map[string]any{"x": x}))
	}
	assert.NoError(t, w.Close())
	return bytes.Replace(b.Bytes(), []byte("deflate"), []byte(codec), 1)
}

// read returns the offsets of the rows of partition 0 in a folder with these files, from an offset on, each with the number of those
// missing before it, and the files with its copies.
func read(t *testing.T, o Options, files map[string]string, from int64) (rows []string, err error) {
	t.Helper()
	o.Files = t.TempDir()
	for name, content := range files {
		writeFile(t, filepath.Join(o.Files, name), []byte(content))
	}
	defer func() {
		if err != nil {
			err = errors.New(strings.ReplaceAll(err.Error(), o.Files+"/", ""))
		}
	}()
	a, err := Open(t.Context(), o, "t", nil)
	if err != nil {
		return nil, err
	}
	first, end, err := a.Bounds(t.Context(), 0)
	if err != nil {
		return nil, err
	}
	for found, err := range a.Range(t.Context(), 0, max(first, from), end, end) {
		if gap, ok := errors.AsType[*GapError](err); ok {
			rows = append(rows, fmt.Sprintf("(%d to %d)", gap.From, gap.To))
			continue
		}
		if err != nil {
			return nil, err
		}
		for i := range int64(found.Len()) {
			rows = append(rows, fmt.Sprint(found.Offset+i))
			if text, decoded := found.Value(int(i)); text == nil && decoded == nil {
				rows[len(rows)-1] += " is null"
			}
		}
		for _, c := range found.Copies {
			rows[len(rows)-1] += " = " + filepath.Base(c.File)
		}
	}
	return rows, nil
}

// Rows have the offsets that their files say, each once and in order; what is wrong with a file is an error with its name.
func TestFiles(t *testing.T) {
	whole := string(containerOf(t, "deflate", 1, 2, 3))
	for name, test := range map[string]struct {
		options Options
		files   map[string]string
		want    string // offsets, or the error
	}{
		"in order of offset": {files: map[string]string{"b/t+0+0.json": "{\"x\":1}\n{\"x\":2}\n", "a/t+0+2.avro": whole}, want: "0 1 2 3 4"},
		"a gap":              {files: map[string]string{"t+0+0.avro": whole, "t+0+7.avro": whole}, want: "0 1 2 (3 to 7) 7 8 9"},
		"keys beside":        {files: map[string]string{"t+0+3.avro": whole, "t+0+3.keys.avro": "k"}, want: "3 4 5"},
		"the last offset":    {files: map[string]string{"t+0+000+002.avro": whole, "t+0+003+005.avro": whole}, want: "0 1 2 3 4 5"},
		"no gap within a file": {Options{Offset: "at"}, map[string]string{"t+0+0.json": "{\"at\":0}\n{\"at\":2}\n", "t+0+3.json": "{\"at\":3}"},
			"0 2 3"},
		"the last one ends first": {files: map[string]string{"t+0+0.json": "{\"x\":1}\n{\"x\":2}\n{\"x\":3}\n", "t+0+1.json": "{\"x\":2}\n"},
			want: "0 1 = t+0+1.json 2"},
		"twice": {files: map[string]string{"t+0+0.json": "{\"x\":1}\n{\"x\":2}\n", "t+0+1.json": "{\"x\":2}\n{\"x\":3}\n", "a/t+0+1.avro": whole},
			want: "0 1 = t+0+1.avro = t+0+1.json 2 = t+0+1.json 3"},
		"an array": {Options{Layout: "aiven"}, map[string]string{
			"t-0-5": "[\n{\"offset\":5,\"value\":{\"x\":1}},\n{\"offset\":6,\"value\":null}\n]\n"}, "5 6 is null"},
		"columns, not in order": {Options{Layout: inColumns}, map[string]string{
			"a.jsonl": "{\"partition\":0,\"offset\":3}\n{\"partition\":1,\"offset\":9}\n{\"partition\":0,\"offset\":1}\n",
			"b.jsonl": "{\"partition\":0,\"offset\":2}\n"},
			"1 2 3"},
		"a column in an envelope of schema and payload": {Options{Offset: "at"}, map[string]string{
			"t+0+0.json": "{\"schema\":{},\"payload\":{\"at\":0}}\n{\"schema\":{},\"payload\":{\"at\":2}}\n"}, "0 2"},
		"blank lines":    {files: map[string]string{"t+0+0.json": "\ufeff\n\n\n\n{\"x\":1}\n", "t+0+1.json": "\n"}, want: "0"},
		"truncated JSON": {files: map[string]string{"t+0+0.json": "{\"x\":1}\n{\"x\":"}, want: "t+0+0.json: line 2: not JSON: it ends too early"},
		"truncated Avro": {files: map[string]string{"t+0+0.avro": whole[:len(whole)-9]},
			want: "t+0+0.avro: row 2, counted from 0: ocf: reading block sync marker: unexpected EOF"},
		"an unknown codec": {files: map[string]string{"t+0+0.avro": string(containerOf(t, "xeflate", 1))},
			want: `t+0+0.avro: ocf: unknown codec "xeflate": expected a container file with the codec null, deflate, snappy or zstandard`},
		"an empty file": {files: map[string]string{"t+0+0.avro": ""}, want: "t+0+0.avro: an empty file"},
		"another format": {files: map[string]string{"t+0+0.csv": "a,1"},
			want: "t+0+0.csv: rows of no format of archives: expected an Avro container file, Parquet, or JSON with a row in each line"},
		"another topic": {files: map[string]string{"u+0+0.avro": whole},
			want: "u+0+0.avro: a file of the topic u: expected files of t; make the pattern examples.archive.files narrower"},
		"another partition": {Options{Partition: "p"}, map[string]string{"t+0+0.json": "{\"p\":1}"},
			"t+0+0.json: row 0, counted from 0, is of partition 1, and the name of the file says 0: is it a file of another topic?"},
		"no name": {files: map[string]string{"t.avro": whole},
			want: "t.avro: no file name of a sink: set examples.archive.layout to where rows have partition and offset"},
		"no time": {Options{Timestamp: "at"}, map[string]string{"t+0+0.json": "{\"at\":\"\"}\n{\"at\":\"1 May\"}\n"}, `t+0+0.json: line 2: the time of ` +
			`the message: "1 May" is not a time: expected a form such as 2026-11-01 or 2026-11-01T09:30:15+02:00, or a number: milliseconds since 1970; set ` +
			"examples.archive.timestamp to the column that has it"},
		"a large partition": {Options{Layout: inColumns}, map[string]string{"a.jsonl": "{\"partition\":100000,\"offset\":0}"},
			"a.jsonl: line 1: 100000 as partition or offset: expected at least 0, and a partition below 100000"},
		"no columns": {Options{Layout: inColumns}, map[string]string{"t.avro": whole},
			"t.avro: row 0, counted from 0: no partition and offset: set examples.archive.partition and " +
				"examples.archive.offset to the columns that have them"},
	} {
		t.Run(name, func(t *testing.T) {
			rows, err := read(t, test.options, test.files, 0)
			got := strings.Join(rows, " ")
			if err != nil {
				got = err.Error()
			}
			assert.Equal(t, got, test.want, "got")
		})
	}
}

// A range that begins in a gap lacks the rest of the gap; one that begins where a file has no row does not, nor one behind a shorter file
// that begins later.
func TestRangesFromGaps(t *testing.T) {
	for layout, names := range map[string][2]string{"confluent": {"t+0+0.json", "t+0+7.json"}, inColumns: {"a.json", "b.json"}} {
		o := Options{Layout: layout, Partition: "partition", Offset: "offset"}
		files := map[string]string{
			names[0]: "{\"partition\":0,\"offset\":0}\n{\"partition\":0,\"offset\":2}\n",
			names[1]: "{\"partition\":0,\"offset\":7}\n{\"partition\":0,\"offset\":9}\n",
		}
		for from, want := range map[int64]string{0: "0 2 (3 to 7) 7 9", 1: "2 (3 to 7) 7 9", 3: "(3 to 7) 7 9", 5: "(5 to 7) 7 9", 7: "7 9", 8: "9"} {
			rows, err := read(t, o, files, from)
			assert.True(t, err == nil && strings.Join(rows, " ") == want, "%s, from %d: %v %v, expected %s", layout, from, rows, err, want)
		}
	}
	// Nor does a range that ends where a file has no row, as before the first offset of the topic.
	o := Options{Files: t.TempDir(), Offset: "at"}
	writeFile(t, o.Files+"/t+0+0.json", []byte("{\"at\":0}\n{\"at\":2}\n"))
	for rows, err := range assert.Must(Open(t.Context(), o, "t", nil))(t).Range(t.Context(), 0, 0, 2, 2) {
		assert.True(t, err == nil && rows.Offset+int64(rows.Len()) == 1, "%v: %v", rows, err)
	}
	// A sink with a folder for each hour writes an earlier hour's row after others, and the current hour goes on.
	files := map[string]string{"h=2/t+0+0.json": "{\"at\":0}\n{\"at\":1}\n{\"at\":4}\n{\"at\":7}\n",
		"h=1/t+0+2.json": "{\"at\":2}\n", "h=0/t+0+3.json": "{\"at\":3}\n", "h=1/t+0+5.json": "{\"at\":5}\n", "h=0/t+0+6.json": "{\"at\":6}\n"}
	for from, want := range map[int64]string{0: "0 1 2 3 4 5 6 7", 3: "3 4 5 6 7", 4: "4 5 6 7", 6: "6 7", 7: "7"} {
		rows, err := read(t, o, files, from)
		assert.True(t, err == nil && strings.Join(rows, " ") == want, "from %d: %v %v, expected %s", from, rows, err, want)
	}
}

// The time of a message, which a column may have at a path, is exact to the millisecond, whatever the format of the file.
func TestTimes(t *testing.T) {
	type stamped struct {
		Meta struct {
			At time.Time `parquet:"at,timestamp(millisecond)"`
		} `parquet:"meta"`
	}
	first := time.UnixMilli(clock(0) + 1).UTC()
	var parquets []stamped
	var avros bytes.Buffer
	w, err := ocf.NewWriter(&avros, avro.MustParse(`{"type":"record","name":"r","fields":[{"name":"meta","type":{"type":"record","name":"m",`+
		`"fields":[{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}}]}}]}`))
	assert.NoError(t, err)
	lines := ""
	for i := range 1000 {
		at := first.Add(time.Duration(i) * time.Millisecond)
		parquets = append(parquets, stamped{})
		parquets[i].Meta.At = at
		assert.NoError(t, w.Encode(map[string]any{"meta": map[string]any{"at": at}}))
		lines += fmt.Sprintf("{\"meta\":{\"at\":%q}}\n", at.Format(time.RFC3339Nano))
	}
	assert.NoError(t, w.Close())
	folder := t.TempDir()
	writeParquet(t, filepath.Join(folder, "t+0+0.parquet"), parquets)
	writeFile(t, filepath.Join(folder, "t+1+0.avro"), avros.Bytes())
	writeFile(t, filepath.Join(folder, "t+2+0.json"), []byte(lines))
	a := assert.Must(Open(t.Context(), Options{Files: folder, Timestamp: "meta.at"}, "t", nil))(t)
	for partition := range a.Partitions() {
		i := int64(0)
		for rows, err := range a.Range(t.Context(), partition, 0, 1000, 1000) {
			assert.NoError(t, err)
			for row := range rows.Len() {
				assert.Equal(t, rows.Time(row), first.UnixMilli()+i, "%s: the time of row %d", filepath.Base(rows.File), i)
				i++
			}
		}
		assert.Equal(t, i, int64(1000), "rows")
	}
}

// list returns the paths of the files that match a pattern, relative to a folder.
func list(t *testing.T, s store, folder, pattern string) (paths []string, err error) {
	t.Helper()
	for file, err := range s.List(t.Context(), folder+"/"+pattern) {
		if err != nil {
			return nil, err
		}
		paths = append(paths, strings.TrimPrefix(file, folder+"/"))
	}
	slices.Sort(paths)
	return paths, nil
}

// places are files whose content is their name.
var places = []string{".tmp/a.avro", "_temporary/a.avro", "a.avro", "a.txt", "a/b/c.avro", "a/b/d.json", "a/b.avro", "a/_day=1/e.avro", "b/.e.crc", "b/e.avro"}

// patterns are patterns and the files that match them.
var patterns = map[string]string{
	"**":          "a.avro a.txt a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json b/e.avro",
	"":            "a.avro a.txt a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json b/e.avro",
	"a":           "a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json",
	"a/":          "a/_day=1/e.avro a/b.avro a/b/c.avro a/b/d.json",
	"a/b.avro":    "a/b.avro",
	"**/*.avro":   "a.avro a/_day=1/e.avro a/b.avro a/b/c.avro b/e.avro",
	"*/*.avro":    "a/b.avro b/e.avro",
	"[ab]/?.avro": "a/b.avro b/e.avro",
	"a/**/c.*":    "a/b/c.avro",
	"**/b/**":     "a/b/c.avro a/b/d.json b/e.avro",
	"b/.*":        "b/.e.crc",
	"_*/**":       "_temporary/a.avro",
	"_temporary/": "_temporary/a.avro",
	"*.none":      "",
}

func TestPatterns(t *testing.T) {
	folder := t.TempDir()
	for _, file := range places {
		write(t, folder, file)
	}
	s := assert.Must(openStore(folder+"/**", Options{}))(t)
	checkPatterns(t, s, folder)
	assert.NoError(t, os.Symlink("nowhere", filepath.Join(folder, "a", "link")))
	_, err := list(t, s, folder, "a/*")
	assert.True(t, err != nil, "a listing ends before a link that leads nowhere, without an error")
	t.Chdir(folder)
	assert.Equal(t, assert.Must(list(t, s, ".", "a/b/*"))(t), []string{"a/b/c.avro", "a/b/d.json"}, "")
}

func checkPatterns(t *testing.T, s store, folder string) {
	t.Helper()
	for pattern, want := range patterns {
		got, err := list(t, s, folder, pattern)
		assert.True(t, err == nil && strings.Join(got, " ") == want, "%s: %q, %v, expected %s", pattern, got, err, want)
	}
	assert.MustFail(list(t, s, folder, "a[/*"))(t, "not a valid pattern")
	f := assert.Must(s.Open(t.Context(), folder+"/a/b.avro"))(t)
	content := make([]byte, f.Size())
	n, err := f.ReadAt(content[2:], 2)
	assert.True(t, string(content) == "\x00\x00avro" && n == 4 && err == nil, "%q, %v", content, err)
	assert.Fails(t, f.Close(), nil)
	_, err = s.Open(t.Context(), folder+"/none")
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), folder+"/none: "), "%v", err)
}

func write(t *testing.T, folder, file string) {
	t.Helper()
	writeFile(t, filepath.Join(folder, file), []byte(filepath.Base(file)))
}

// tables are files of tables, which no pattern lists, and the directory that the error names.
var tables = map[string]string{
	"sales/_delta_log/00000000000000000000.json": "sales: a table of Delta Lake, which also has files of earlier states: set examples.archive",
	"sales/.hoodie/hoodie.properties":            "sales: a table of Apache Hudi, which also has files of earlier states: write",
	"sales/metadata/v1.metadata.json":            "sales: a table of Apache Iceberg, which also has files of earlier states: set examples.archive",
}

// A file in a table is not listed, whether the pattern begins in the table, above it or below it, but the files that the log of a table
// names are.
func TestTablesAreNoFiles(t *testing.T) {
	for file, want := range tables {
		folder := t.TempDir()
		write(t, folder, file)
		write(t, folder, "sales/data/a.parquet")
		checkTable(t, store{local{}}, folder, file, want)
	}
	folder := t.TempDir()
	write(t, folder, "metadata/notes.json")
	assert.Equal(t, len(assert.Must(list(t, store{local{}}, folder, "**"))(t)), 1, "")
}

func checkTable(t *testing.T, s store, folder, file, want string) {
	t.Helper()
	for _, pattern := range []string{"**", "sales/**", "sales", "sales/data", "sales/data/*.parquet", "sales/data/a.parquet"} {
		_, err := list(t, s, folder, pattern)
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), folder+"/"+want), "%s: %v, expected %s", pattern, err, want)
	}
	for found, err := range s.Below(t.Context(), folder+"/"+filepath.ToSlash(filepath.Dir(file))) {
		assert.True(t, err == nil && found == folder+"/"+file, "%v %v", found, err)
	}
}

// A user that needs the first file only does not wait for the listing of the others.
func TestFirstOfManyFiles(t *testing.T) {
	folder := t.TempDir()
	write(t, folder, "a/a.avro")
	write(t, folder, "b/b.avro")
	s := assert.Must(openStore(folder, Options{}))(t)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var found []string
	for file, err := range s.List(ctx, folder) {
		found = append(found, fmt.Sprintf("%s %v", strings.TrimPrefix(file, folder), err != nil))
		stop() // what was not listed yet fails
	}
	assert.True(t, slices.Equal(found, []string{"/a/a.avro false", " true"}), "found %q, expected one file and an error", found)
}

// row is a row of the tables of the tests.
type row struct {
	Group  int32   `parquet:"group,id(1)"`
	Offset int64   `parquet:"offset,id(2)"`
	Word   *string `parquet:"word,optional,id(3)"`
}

func writeFile(t *testing.T, name string, content []byte) {
	t.Helper()
	assert.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
	assert.NoError(t, os.WriteFile(name, content, 0o644))
}

func writeJSON(t *testing.T, name string, values ...any) {
	t.Helper()
	var lines []byte
	for _, v := range values {
		line := assert.Must(json.Marshal(v))(t)
		lines = append(append(lines, line...), '\n')
	}
	writeFile(t, name, lines)
}

func writeParquet[T any](t *testing.T, name string, rows []T) {
	t.Helper()
	writeFile(t, name, nil)
	assert.NoError(t, parquet.WriteFile(name, rows, parquet.MaxRowsPerRowGroup(3)))
}

// tableOf returns the table in a directory.
func tableOf(t *testing.T, root string) *table {
	t.Helper()
	return &table{ctx: t.Context(), store: assert.Must(openStore(root, Options{}))(t), root: root}
}

// live returns the files of a table.
func live(t *testing.T, layout, root string, at snapshotName) ([]dataFile, error) {
	t.Helper()
	return assert.Must(layoutOf(layout, ""))(t).live(tableOf(t, root), at)
}

// offsets returns the offsets of the live rows of a table, in order.
func offsets(t *testing.T, layout, root string, at snapshotName) (offsets []int64) {
	t.Helper()
	files := assert.Must(live(t, layout, root, at))(t)
	for _, f := range files {
		n := int64(0)
		err := eachParquet(tableOf(t, root), f.Path, f.Columns, func(row arrow.Nested) error {
			offset := cmp.Or(row.Of.Named("offset"), row.Of.Named("place"))
			if _, deleted := slices.BinarySearch(f.Deleted, n); !deleted {
				of, _ := offset.Whole(row.Row)
				offsets = append(offsets, of)
			}
			n++
			return nil
		})
		assert.Need(t, err == nil, "%v %v %v", f, n, err)
	}
	slices.Sort(offsets)
	return offsets
}

// expectRefused checks that a table is refused with a text.
func expectRefused(t *testing.T, layout, root string, at snapshotName, want string) {
	t.Helper()
	files, err := live(t, layout, root, at)
	assert.True(t, err != nil && strings.Contains(err.Error(), want) && strings.HasPrefix(err.Error(), root),
		"%v, %v, expected %s", files, err, want)
}

// checkRow checks that a file has one row, which is this JSON.
func checkRow(t *testing.T, name string, columns parquetformat.Columns, want string) {
	t.Helper()
	var got []string
	assert.NoError(t, eachParquet(tableOf(t, name), name, columns, func(row arrow.Nested) error {
		got = append(got, string(stream.AppendJSON(nil, row.Of.Column, row.Row)))
		return nil
	}))
	assert.Equal(t, got, []string{want}, "")
}

// Columns that a file lacks are its partition values, of the type of all of their values. Others are in the file.
func TestPartitionValues(t *testing.T) {
	name := filepath.Join(t.TempDir(), "a.parquet")
	writeParquet(t, name, []row{{Group: 7}})
	values := []input.Partition{{Column: "day", Text: "x"}, {Column: "hour", Text: "09", Whole: 9, IsWhole: true}, {Column: "none", Null: true},
		{Column: "group", Text: "8", Whole: 8, IsWhole: true}}
	checkRow(t, name, parquetformat.Columns{Values: values}, `{"day":"x","group":7,"hour":9,"none":null,"offset":0,"word":null}`)
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
	read := parquetformat.Columns{Wanted: wanted([properties][]string{}, "items.0.title", "by.k.title", "place.y")}
	checkRow(t, name, read, `{"by":[{"key":"k","value":{"title":"b"}}],"items":[{"title":"a"}],"place":{"y":0}}`)
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
			assert.Equal(t, offsets(t, layout, root, at), want, "state %d, %+v: rows", state, at)
		}
	}
	assert.Equal(t, offsets(t, layout, root, snapshotName{}), want[len(want)-1], "rows")
	expectRefused(t, layout, root, snapshotName{AsOf: time.UnixMilli(clock(-1))}, " at 2023-11-14T")
	expectRefused(t, layout, root, snapshotName{ID: fmt.Sprint(len(want) + 1000)}, "no ")
}

// deltaSchema is the schema of the tables of the tests.
const deltaSchema = `{"type":"struct","fields":[{"name":"group","type":"integer"},{"name":"offset","type":"long"},{"name":"word","type":"string"}]}`

func deltaLogName(root string, version int, end string) string {
	return filepath.Join(root, "_delta_log", fmt.Sprintf("%020d.%s", version, end))
}

// checkpointRow is a row of a checkpoint.
type checkpointRow struct {
	Txn *struct {
		Version int64 `parquet:"version"`
	} `parquet:"txn,optional"`
	Add *struct {
		Path   string             `parquet:"path,optional"`
		Values map[string]*string `json:"partitionValues" parquet:"partitionValues,optional"`
		Parsed struct {
			Rows int64 `parquet:"numRecords"`
		} `parquet:"stats_parsed,optional"`
	} `parquet:"add,optional"`
	Meta *struct {
		Schema        string            `json:"schemaString" parquet:"schemaString,optional"`
		Partitions    []string          `json:"partitionColumns" parquet:"partitionColumns,list,optional"`
		Configuration map[string]string `parquet:"configuration,optional"`
	} `json:"metaData" parquet:"metaData,optional"`
	Protocol *struct {
		Version  int32    `json:"minReaderVersion" parquet:"minReaderVersion,optional"`
		Features []string `json:"readerFeatures" parquet:"readerFeatures,list,optional"`
	} `parquet:"protocol,optional"`
}

// inCheckpoint returns actions as a checkpoint has them.
func inCheckpoint(t *testing.T, actions []any) (rows []checkpointRow) {
	t.Helper()
	for _, a := range actions {
		var row checkpointRow
		text, err := json.Marshal(a)
		if err == nil {
			err = json.Unmarshal(text, &row)
		}
		assert.NoError(t, err)
		rows = append(rows, row)
	}
	return rows
}

// actionsOf returns the actions at the start of a table.
func actionsOf(p deltaProtocol, m deltaMeta) []any {
	m.Schema, m.Format.Provider = deltaSchema, "parquet"
	return []any{map[string]any{"protocol": map[string]any{"minReaderVersion": p.Version, "readerFeatures": p.Features}},
		map[string]any{"metaData": map[string]any{"schemaString": m.Schema, "partitionColumns": m.Partitions, "format": map[string]any{"provider": "parquet"},
			"configuration": m.Configuration}}}
}

// Random tables have the rows of their log at each version, from commits and from checkpoints in one or several parts.
func TestDelta(t *testing.T) {
	for seed := range uint64(10) {
		random, root := rand.New(rand.NewPCG(seed, 1)), t.TempDir()
		files, rows, want, offset, first := map[string]any{}, map[string][]int64{}, [][]int64{}, int64(0), 0
		meta := deltaMeta{Schema: deltaSchema, Partitions: []string{"group"}}
		for version := range 12 {
			actions := []any{map[string]any{"commitInfo": map[string]any{"timestamp": clock(version)}}}
			if version == 0 {
				actions = append(actions, actionsOf(deltaProtocol{Version: 1}, meta)...)
			}
			for _, path := range slices.Sorted(maps.Keys(files)) {
				if random.IntN(4) == 0 {
					actions = append(actions, map[string]any{"remove": map[string]any{"path": path}})
					delete(files, path)
				}
			}
			for range random.IntN(3) {
				group := fmt.Sprint(random.IntN(3))
				name := fmt.Sprintf("group=%s/a %d.parquet", group, random.Uint32())
				path := "group=" + group + "/a%20" + name[len("group=0/a "):]
				var content []row
				for range 1 + random.IntN(4) {
					content, rows[path] = append(content, row{Offset: offset}), append(rows[path], offset)
					offset++
				}
				writeParquet(t, filepath.Join(root, name), content)
				files[path] = map[string]any{"add": map[string]any{"path": path, "partitionValues": map[string]any{"group": group}}}
				actions = append(actions, files[path])
			}
			writeJSON(t, deltaLogName(root, version, "json"), actions...)
			live := []int64{}
			for path := range files {
				live = append(live, rows[path]...)
			}
			slices.Sort(live)
			want = append(want, live)
			if version > 0 && random.IntN(4) == 0 {
				all := actionsOf(deltaProtocol{Version: 1}, meta)
				for _, path := range slices.Sorted(maps.Keys(files)) {
					all = append(all, files[path])
				}
				rows := inCheckpoint(t, all)
				if half := len(rows) / 2; random.IntN(2) == 0 {
					writeParquet(t, deltaLogName(root, version, "checkpoint.0000000001.0000000002.parquet"), rows[:half])
					writeParquet(t, deltaLogName(root, version, "checkpoint.0000000002.0000000002.parquet"), rows[half:])
				} else {
					writeParquet(t, deltaLogName(root, version, "checkpoint.parquet"), rows)
				}
				if random.IntN(2) == 0 { // the log before is cleaned up
					for ; first < version; first++ {
						assert.NoError(t, os.Remove(deltaLogName(root, first, "json")))
					}
				}
			} else if random.IntN(4) == 0 { // a checkpoint without its second part
				writeParquet(t, deltaLogName(root, version, "checkpoint.0000000001.0000000002.parquet"), inCheckpoint(t, actionsOf(deltaProtocol{Version: 9}, meta)))
			}
		}
		expectStates(t, "delta", root, first, want, func(state int) string { return fmt.Sprint(state) })
		if first > 0 {
			expectRefused(t, "delta", root, snapshotName{ID: "0"}, "_delta_log has no commit 0, which version 0 needs")
		}
		all, err := live(t, "delta", root, snapshotName{})
		for _, f := range all {
			group := filepath.Base(filepath.Dir(f.Path))
			v := f.Values
			assert.True(t, len(v) == 1 && group == "group="+v[0].Text && v[0].IsWhole && group == fmt.Sprint("group=", v[0].Whole) && !v[0].Null,
				"%+v, %v", f, err)
		}
	}
}

// Tables that have more than is supported are refused by name.
func TestDeltaRefuses(t *testing.T) {
	for want, actions := range map[string][]any{
		`a table with the feature "catalogManaged"`:       actionsOf(deltaProtocol{3, []string{"deletionVectors", "catalogManaged"}}, deltaMeta{}),
		"a table for readers of version 4":                actionsOf(deltaProtocol{Version: 4}, deltaMeta{}),
		"a table that maps columns by name":               actionsOf(deltaProtocol{Version: 2}, deltaMeta{Configuration: texts{"delta.columnMapping.mode": new("name")}}),
		"00000000000000000000.json: line 1: json: cannot": {map[string]any{"add": 7}},
		"a deletion vector says": append(actionsOf(deltaProtocol{3, []string{"deletionVectors", "variantType"}}, deltaMeta{}),
			map[string]any{"add": map[string]any{"path": "a", "deletionVector": map[string]any{"storageType": "u", "pathOrInlineDv": "b"}}}),
		"parsing \"x\": invalid syntax": append(actionsOf(deltaProtocol{Version: 1}, deltaMeta{Partitions: []string{"group"}}),
			map[string]any{"add": map[string]any{"path": "a", "partitionValues": map[string]any{"group": "x"}}}),
		"unexpected end of JSON input": {},
	} {
		root := t.TempDir()
		writeJSON(t, deltaLogName(root, 0, "json"), actions...)
		expectRefused(t, "delta", root, snapshotName{}, want)
	}
	// A file whose deletion vector was replaced, and that was rewritten without one, is the rewritten file, in any order of actions.
	root, vector := t.TempDir(), map[string]any{"storageType": "u", "pathOrInlineDv": "b"}
	writeJSON(t, deltaLogName(root, 0, "json"), append(actionsOf(deltaProtocol{Version: 1}, deltaMeta{}), map[string]any{"add": map[string]any{"path": "a"}},
		map[string]any{"commitInfo": map[string]any{"operation": "WRITE"}})...)
	writeJSON(t, deltaLogName(root, 1, "json"), map[string]any{"add": map[string]any{"path": "a", "deletionVector": vector}},
		map[string]any{"remove": map[string]any{"path": "a"}})
	writeJSON(t, deltaLogName(root, 2, "json"), map[string]any{"add": map[string]any{"path": "b", "partitionValues": map[string]any{"group": ""}}},
		map[string]any{"remove": map[string]any{"path": "a", "deletionVector": vector}})
	files, err := live(t, "delta", root, snapshotName{})
	assert.True(t, err == nil && len(files) == 1 && files[0].Path == root+"/b", "%v %v", files, err)
	expectRefused(t, "delta", root, snapshotName{ID: "1"}, "a deletion vector")
	expectRefused(t, "delta", root, snapshotName{AsOf: states("", 0)[0].AsOf.AddDate(90, 0, 0).UTC()}, "a commit without a time")
}
