package archive

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/twmb/avro"
	"github.com/twmb/avro/ocf"

	"github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/internal/assert"
)

// icebergTable writes a table as Iceberg's specification says, and knows its rows.
type icebergTable struct {
	t         *testing.T
	root      string
	random    *rand.Rand
	entries   []logged // that are live
	rows      []*icebergRow
	snapshots []any
	log       []any
	want      [][]int64
	offset    int64
}

// logged is a manifest entry, with its spec and the rows of its file.
type logged struct {
	entry map[string]any
	spec  int
	path  string
	rows  []*icebergRow
}

type icebergRow struct {
	row
	deleted bool
}

// importedRow is a row of a file that was written before the table was made: without IDs, with other names, and with a column that the
// table has dropped.
type importedRow struct {
	Place   int64   `parquet:"location"`
	Word    *string `parquet:"word,optional"`
	Dropped int64   `parquet:"offset"`
}

// location is where the table was when it was written.
const location = "s3a://lake/db/clicks"

// Fields of the partitions of specs.
const groupField, voidField = `{"name": "group", "type": ["null", "int"]}`, `{"name": "group_void", "type": ["null", "int"]}`

// schemaOf returns the schema of a kind of files of metadata, with the fields that are read and one that is not. Entries have the fields of
// their partition.
func (x *icebergTable) schemaOf(kind, partition string) string {
	x.t.Helper()
	return strings.Replace(string(assert.Must(os.ReadFile("testdata/iceberg/"+kind+".avsc"))(x.t)), "FIELDS", partition, 1)
}

func (x *icebergTable) writeAvro(name, schema string, records []map[string]any) {
	x.t.Helper()
	var content bytes.Buffer
	w := assert.Must(ocf.NewWriter(&content, avro.MustParse(schema), ocf.WithCodec(ocf.DeflateCodec(1))))(x.t)
	for _, r := range records {
		assert.NoError(x.t, w.Encode(r))
	}
	assert.NoError(x.t, w.Close())
	writeFile(x.t, filepath.Join(x.root, name), content.Bytes())
}

// add adds a file of a kind to the next snapshot.
func (x *icebergTable) add(content, spec, group int, rows int, more map[string]any) logged {
	path := fmt.Sprintf("data/%d-%d.parquet", len(x.want), x.random.Uint32())
	file := map[string]any{"content": content, "file_path": location + "/" + path, "file_format": "PARQUET", "record_count": int64(rows),
		"partition": map[string]any{}}
	switch spec {
	case 0:
		file["partition"] = map[string]any{"group": group}
	case 2:
		file["partition"] = map[string]any{"group_void": nil}
	}
	maps.Copy(file, more)
	l := logged{entry: map[string]any{"status": 1, "snapshot_id": int64(len(x.want)), "data_file": file}, spec: spec, path: path}
	x.entries = append(x.entries, l)
	return l
}

func (x *icebergTable) append() {
	group, words := x.random.IntN(3), []*string{nil, new(""), new("a"), new("b")}
	rows := make([]row, 1+x.random.IntN(8))
	for i := range rows {
		rows[i] = row{int32(group), x.offset, words[x.random.IntN(len(words))]}
		x.offset++
	}
	l := x.add(contentRows, 0, group, len(rows), nil)
	if name := filepath.Join(x.root, l.path); x.random.IntN(2) == 0 {
		writeParquet(x.t, name, rows)
	} else {
		imported := make([]importedRow, len(rows))
		for i, r := range rows {
			imported[i] = importedRow{r.Offset, r.Word, -1}
		}
		writeParquet(x.t, name, imported)
	}
	for _, r := range rows {
		l.rows = append(l.rows, &icebergRow{row: r})
	}
	x.rows = append(x.rows, l.rows...)
	x.entries[len(x.entries)-1] = l
}

func (x *icebergTable) files() (of []int) {
	for i, l := range x.entries {
		if l.entry["data_file"].(map[string]any)["content"] == contentRows {
			of = append(of, i)
		}
	}
	return of
}

// deletePositions deletes rows of a file. Also of rows that are deleted already, and of a file that is no longer there.
func (x *icebergTable) deletePositions() {
	l := x.entries[x.files()[x.random.IntN(len(x.files()))]]
	type position struct {
		Path string `parquet:"file_path"`
		Row  int64  `parquet:"pos"`
	}
	rows := []position{{"elsewhere.parquet", 0}}
	for i, r := range l.rows {
		if x.random.IntN(3) == 0 {
			rows, r.deleted = append(rows, position{location + "/" + l.path, int64(i)}), true
		}
	}
	d := x.add(contentPositions, 0, int(l.rows[0].Group), len(rows), nil)
	writeParquet(x.t, filepath.Join(x.root, d.path), rows)
}

// deleteEqual deletes rows by values, in one partition or in all, of files of earlier snapshots.
func (x *icebergTable) deleteEqual() {
	type words struct {
		Word *string `parquet:"word,optional,id(3)"`
	}
	type both struct {
		Group  int32   `parquet:"group,id(1)"`  // imported files lack it
		Offset int32   `parquet:"offset,id(2)"` // before the type of the column was widened
		Word   *string `parquet:"word,optional,id(3)"`
	}
	group, spec := x.random.IntN(3), x.random.IntN(3) // the first spec has partitions
	victim := *x.rows[x.random.IntN(len(x.rows))]
	matches := func(r row) bool {
		return (r.Word == nil) == (victim.Word == nil) && (r.Word == nil || *r.Word == *victim.Word)
	}
	if x.random.IntN(2) == 0 {
		d := x.add(contentEqual, spec, group, 1, map[string]any{"equality_ids": []int{3}})
		writeParquet(x.t, filepath.Join(x.root, d.path), []words{{victim.Word}})
	} else {
		d := x.add(contentEqual, spec, group, 1, map[string]any{"equality_ids": []int{1, 2, 3}})
		writeParquet(x.t, filepath.Join(x.root, d.path), []both{{victim.Group, int32(victim.Offset), victim.Word}})
		matches = func(r row) bool { return r.Offset == victim.Offset }
	}
	for _, r := range x.rows {
		r.deleted = r.deleted || matches(r.row) && (spec > 0 || int(r.Group) == group)
	}
}

// remove removes a file.
func (x *icebergTable) remove() {
	l := x.entries[x.files()[x.random.IntN(len(x.files()))]]
	for _, r := range l.rows {
		r.deleted = true
	}
	l.entry["status"] = statusRemoved
}

// commit writes a snapshot: a manifest for each spec, of which some have sequence numbers of their own.
func (x *icebergTable) commit() {
	state := len(x.want)
	var list []map[string]any
	for spec, fields := range []string{groupField, "", voidField} {
		var records []map[string]any
		for _, l := range x.entries {
			if l.spec == spec {
				records = append(records, l.entry)
			}
		}
		name := fmt.Sprintf("metadata/%d-m%d.avro", state, spec)
		x.writeAvro(name, x.schemaOf("entry", fields), records)
		list = append(list, map[string]any{"manifest_path": location + "/" + name, "partition_spec_id": spec, "content": 0, "sequence_number": int64(state)})
	}
	x.entries = slices.DeleteFunc(x.entries, func(l logged) bool { return l.entry["status"] == statusRemoved })
	for _, l := range x.entries { // from the next snapshot on, sequence numbers are no longer those of the manifest
		if l.entry["sequence_number"] == nil {
			l.entry["sequence_number"], l.entry["status"] = int64(state), 0
		}
	}
	name := fmt.Sprintf("metadata/snap-%d.avro", state)
	x.writeAvro(name, x.schemaOf("list", ""), list)
	x.snapshots = append(x.snapshots, map[string]any{"snapshot-id": state, "manifest-list": location + "/" + name, "schema-id": min(state, 1)})
	x.log = append(x.log, map[string]any{"timestamp-ms": clock(state), "snapshot-id": state})
	live := []int64{}
	for _, r := range x.rows {
		if !r.deleted {
			live = append(live, r.Offset)
		}
	}
	x.want = append(x.want, live)
	x.writeMetadata(nil)
}

// writeMetadata writes the metadata of the last snapshot, with some changes.
func (x *icebergTable) writeMetadata(change map[string]any) {
	var m map[string]any
	assert.NoError(x.t, json.Unmarshal(assert.Must(os.ReadFile("testdata/iceberg/metadata.json"))(x.t), &m))
	last := len(x.want) - 1
	m["current-snapshot-id"], m["snapshots"], m["snapshot-log"] = last, x.snapshots, x.log
	m["refs"] = map[string]any{"main": map[string]any{"snapshot-id": last}, "first": map[string]any{"snapshot-id": 0}}
	maps.Copy(m, change)
	writeJSON(x.t, filepath.Join(x.root, fmt.Sprintf("metadata/%05d-a.metadata.json", len(x.want))), m)
}

func newIceberg(t *testing.T, seed uint64) *icebergTable {
	t.Helper()
	return &icebergTable{t: t, root: t.TempDir() + "/clicks", random: rand.New(rand.NewPCG(seed, 1))}
}

// Random tables have the rows that the specification says, at each snapshot, wherever they are moved.
func TestIceberg(t *testing.T) {
	for seed := range uint64(8) {
		x := newIceberg(t, seed)
		x.append()
		x.commit()
		for range 8 {
			for range 1 + x.random.IntN(2) {
				switch x.random.IntN(5) {
				case 0, 1:
					x.append()
				case 2:
					if len(x.files()) > 1 {
						x.remove()
					}
				case 3:
					x.deletePositions()
				}
			}
			x.commit()
			x.deleteEqual() // it does not delete rows of its own snapshot
			x.commit()
		}
		expectStates(t, "iceberg", x.root, 0, x.want, func(state int) string { return fmt.Sprint(state) })
	}
}

// Columns have the names of the schema, partition values those of the columns, and tags and branches name snapshots.
func TestIcebergNames(t *testing.T) {
	x := newIceberg(t, 1)
	for range 2 {
		x.append()
		x.commit()
	}
	for name, want := range map[string]string{"": "offset", "main": "offset", "1": "offset", "first": "place"} {
		files, err := live(t, "iceberg", x.root, snapshotName{ID: name})
		assert.True(t, err == nil && files[0].Names[2] == want && (want != "offset" || files[0].Names[6] == "name"),
			"%s: %+v, %v", name, files, err)
		v := files[0].Values
		assert.True(t, len(v) == 1 && v[0].Column == "group" && v[0].IsWhole && v[0].Text == fmt.Sprint(v[0].Whole),
			"%s: partition values %+v", name, v)
	}
	file := filepath.Join(x.root, "metadata/00001-a.metadata.json")
	assert.Equal(t, offsets(t, "iceberg", file, snapshotName{}), x.want[0], "%s", file)
	writeFile(t, filepath.Join(x.root, "metadata/version-hint.text"), []byte("1\n"))
	assert.Equal(t, offsets(t, "iceberg", x.root, snapshotName{}), x.want[0], "by the hint")
	writeFile(t, filepath.Join(x.root, "metadata/version-hint.text"), []byte("7"))
	expectRefused(t, "iceberg", x.root, snapshotName{}, "no metadata of version 7")
	writeFile(t, filepath.Join(x.root, "metadata/version-hint.text"), []byte("v7"))
	expectRefused(t, "iceberg", x.root, snapshotName{}, "expected the number of the current version")
}

// Names in files without IDs are those of the table's mapping, at any depth. Without a mapping, such a file is an error.
func TestNameMapping(t *testing.T) {
	x := newIceberg(t, 1)
	x.append()
	x.commit()
	files := assert.Must(live(t, "iceberg", x.root, snapshotName{}))(t)
	type item struct {
		Title string `parquet:"title"`
	}
	type nested struct {
		Items []item `parquet:"list,list"`
	}
	name := filepath.Join(t.TempDir(), "a.parquet")
	writeParquet(t, name, []nested{{[]item{{"a"}, {"b"}}}})
	columns := files[0].Columns
	columns.Values = nil
	checkRow(t, name, columns, `{"items":[{"name":"a"},{"name":"b"}]}`)
	columns.IDs = nil
	assert.Fails(t, eachParquet(tableOf(t, name), name, columns, func(arrow.Nested) error { return nil }), nameMapping)
}

// Partition values are words, numbers, booleans and times, of which a date has no hours.
func TestIcebergPartitionValues(t *testing.T) {
	day := time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)
	var f icebergFile
	f.File.Partition = map[string]any{"word": "a", "whole": int32(7), "yes": true, "day": day, "time": day.Add(time.Microsecond), "null": nil,
		"_2_x2Dnumber": float32(0.1), "decimal": big.NewRat(-5, 4)}
	var file dataFile
	var got []string
	file.Names = map[int]string{}
	for i, name := range []string{"word", "whole", "yes", "day", "time", "null", "2-number", "decimal"} {
		f.fields, file.Names[i] = append(f.fields, partitionField{Source: i, Name: name, Transform: unchanged}), name
	}
	err := f.addValues(&file)
	for _, v := range file.Values {
		got = append(got, fmt.Sprint(v.Text, v.Whole, v.Null))
	}
	want := []string{"a0 false", "77 false", "true0 false", "2026-11-010 false", "2026-11-01T00:00:00.000001Z0 false", "0 true", "0.10 false", "-1.250 false"}
	assert.True(t, slices.Equal(got, want), "%q, %v", got, err)
}

// Keys are equal if the values are, in files with the types that a column had before its type was widened, also if it was dropped.
func TestKeys(t *testing.T) {
	type a struct {
		Whole   int32            `parquet:"a,id(1)"`
		Number  float32          `parquet:"b,id(2)"`
		Decimal int32            `parquet:"c,decimal(2:9),id(3)"`
		Time    deprecated.Int96 `parquet:"d,id(4)"`
		Within  struct {
			Name string `parquet:"name,id(6)"`
		} `parquet:"e,id(5)"`
	}
	type b struct {
		Decimal [16]byte  `parquet:"c,decimal(2:38),id(3)"`
		Time    time.Time `parquet:"d,timestamp(microsecond),id(4)"`
		Number  float64   `parquet:"b,id(2)"`
		Whole   int64     `parquet:"a,id(1)"`
		Within  *struct {
			Name *string `parquet:"name,optional,id(6)"`
		} `parquet:"other,optional,id(5)"`
	}
	of := columns{names: map[int]string{1: "a", 5: "e", 6: "name"}, above: map[int]int{6: 5}}
	name, files := filepath.Join(t.TempDir(), "a.parquet"), [][]string{}
	read := func() (keys []string) {
		for id := range 7 {
			keys = append(keys, "")
			if err := tableOf(t, name).eachKey(dataFile{Path: name}, []int{id}, of, func(key string) { keys[id] += key + " " }); err != nil {
				keys[id] = err.Error()
			}
		}
		return keys
	}
	second := time.Unix(1_700_000_000, 123_000).UTC()
	julian := deprecated.Int96{0: 0, 2: uint32(second.Unix()/86400 + 2440588)}
	nanoseconds := second.Sub(second.Truncate(24 * time.Hour)).Nanoseconds()
	julian[0], julian[1] = uint32(nanoseconds), uint32(nanoseconds>>32)
	x := a{Whole: -7, Number: 0.1, Decimal: -1234, Time: julian}
	x.Within.Name = "null"
	writeParquet(t, name, []a{x})
	files = append(files, read())
	y := b{Whole: -7, Number: float64(float32(0.1)), Time: second, Within: &struct {
		Name *string `parquet:"name,optional,id(6)"`
	}{new("null")}}
	for i := range y.Decimal {
		y.Decimal[i] = 0xff
	}
	binary.BigEndian.PutUint16(y.Decimal[14:], 0xffff-1233)
	writeParquet(t, name, []b{y})
	files = append(files, read())
	for id := 1; id < 7; id++ {
		assert.True(t, files[0][id] == files[1][id] && files[0][id] == "null " == (id == 5), "the column %d: %q", id, files)
	}
	z := y
	z.Whole, z.Within, y.Whole = 1<<60, nil, 1<<60+1
	y.Decimal[0], z.Decimal[0], z.Decimal[15] = 1, 1, 0
	writeParquet(t, name, []b{y, z})
	for id, keys := range read() {
		both := strings.Fields(keys)
		assert.True(t, id != 1 && id != 3 && id != 6 || len(both) == 2 && both[0] != both[1], "the column %d: %s", id, keys)
	}
}

// Tables that have more than is supported are refused by name.
func TestIcebergRefuses(t *testing.T) {
	refuse := func(want string, change func(x *icebergTable)) {
		t.Helper()
		x := newIceberg(t, 2)
		x.append()
		change(x)
		expectRefused(t, "iceberg", x.root, snapshotName{}, want)
	}
	file := func(key string, v any) func(x *icebergTable) {
		return func(x *icebergTable) {
			x.entries[0].entry["data_file"].(map[string]any)[key] = v
			x.commit()
		}
	}
	refuse("version 3 of Iceberg", func(x *icebergTable) { x.commit(); x.writeMetadata(map[string]any{"format-version": 3}) })
	refuse("no schema 9", func(x *icebergTable) { x.commit(); x.writeMetadata(map[string]any{"current-schema-id": 9}) })
	refuse("no snapshot 9", func(x *icebergTable) { x.commit(); x.writeMetadata(map[string]any{"current-snapshot-id": 9}) })
	refuse("version 1 has 2 files of metadata", func(x *icebergTable) {
		x.commit()
		writeJSON(t, filepath.Join(x.root, "metadata/00001-b.metadata.json"), map[string]any{})
	})
	refuse("an encrypted file", file("key_metadata", []byte{1}))
	refuse("in the format ORC", file("file_format", "ORC"))
	refuse("files of content 3", file("content", 3))
	refuse("equality deletes without columns", func(x *icebergTable) { x.add(contentEqual, 1, 0, 1, nil); x.commit() })
	refuse("in the format AVRO", func(x *icebergTable) {
		x.add(contentPositions, 1, 0, 1, map[string]any{"file_format": "AVRO"})
		x.commit()
	})
	refuse("no such file", func(x *icebergTable) { x.add(contentPositions, 1, 0, 1, nil); x.commit() })
	x := newIceberg(t, 3)
	x.writeMetadata(map[string]any{"current-snapshot-id": -1})
	assert.Equal(t, len(assert.Must(live(t, "iceberg", x.root, snapshotName{}))(t)), 0, "files of an empty table")
	writeFile(t, filepath.Join(x.root, "metadata/00000-a.metadata.json"), []byte(strings.Repeat("[", 9)))
	expectRefused(t, "iceberg", x.root, snapshotName{}, "00000-a.metadata.json: ")
}
