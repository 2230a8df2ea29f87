package ingest

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	formatarrow "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/format/tabular"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/stream"
	"github.com/stagewise/stagewise/schemas/wire"
)

// writeAll writes files, with their directories, to a directory, and returns it.
func (f folder) writeAll(t *testing.T, name string, files map[string]string) string {
	t.Helper()
	for path, content := range files {
		path = filepath.Join(name, path)
		assert.NoError(t, os.MkdirAll(filepath.Dir(f.path(path)), 0o700))
		f.write(t, path, []byte(content))
	}
	return f.path(name)
}

// expanded returns the files that a pattern is expanded to.
func (f folder) expanded(t *testing.T, pattern string) (files []string) {
	t.Helper()
	for _, file := range assert.Must(Files([]string{f.path(pattern)}))(t) {
		files = append(files, assert.Must(filepath.Rel(string(f), file))(t))
	}
	return files
}

// A directory of tables is expanded to its tables, in order, including subdirectories, without Spark's other files.
func TestFolderOfTables(t *testing.T) {
	f := newFolder(t)
	part := string(pandasFrame(t))
	f.writeAll(t, "", map[string]string{
		"spark/part-00001.snappy.parquet": part + "", "spark/_SUCCESS": "", "spark/.part-00001.snappy.parquet.crc": "x",
		"spark/_metadata": "PAR1", "spark/notes.md": "# notes",
		"csv/2025/b.csv": "a,label\n1,x\n", "csv/2024/a.csv": "a,label\n2,y\n", "csv/c.csv.gz": string(gzipped(t, "a,label\n3,x\n")),
		"json/part-00000.json":     `{"a": 1, "label": "x"}` + "\n",
		"hive/kind=x/part.parquet": part, "hive/_SUCCESS": "", "parts-in-csv/kind=x/part.csv": "a\n1\n",
		"images/notes.csv": "a,b\n", "images/x/1.png": "x",
	})
	for name, want := range map[string][]string{
		"spark":  {"spark/part-00001.snappy.parquet"},
		"csv":    {"csv/2024/a.csv", "csv/2025/b.csv", "csv/c.csv.gz"},
		"json":   {"json/part-00000.json"},
		"images": {"images"},
		"cs*":    {"csv/2024/a.csv", "csv/2025/b.csv", "csv/c.csv.gz"},
	} {
		assert.Equal(t, f.expanded(t, name), want, "%s", name)
	}
	_, err := Files([]string{f.path("parts-in-csv")})
	want := `parts-in-csv: folders such as kind=x hold the values of the column "kind", which only Parquet and Arrow support: write the table without partitions`
	assert.True(t, f.text(err) == want, "%v, expected %s", err, want)
	o := Defaults()
	o.Train, o.Label = []string{f.path("csv")}, "label"
	rows, err := readSources(o)
	assert.True(t, err == nil && len(rows) == 3 && rows[0].Words[0] == "y" && rows[2].Words[0] == "x", "%v: %+v", err, rows)
	o.Train = []string{f.path("json")}
	assert.Equal(t, len(assert.Must(readSources(o))(t)), 1, "")
}

// Directories have partition values, as in Hive: integers if all values are, otherwise texts, or null. The column may be
// the label, a feature, or categorical; equal files in two directories do not have the same rows.
func TestPartitionedTable(t *testing.T) {
	f, part := newFolder(t), string(pandasFrame(t)) // four rows: x, n, yes, label, weight
	f.writeAll(t, "", map[string]string{
		"flowers/kind=iris/year=2024/a.parquet": part, "flowers/kind=iris/year=2025/a.parquet": part,
		"flowers/kind=a%2Fb/year=2025/b.parquet":                     part,
		"flowers/kind=007/year=__HIVE_DEFAULT_PARTITION__/c.parquet": part,
	})
	o := Defaults()
	o.Train, o.Label, o.Missing.Mode, o.Columns.Use = []string{f.path("flowers")}, "kind", layout.MissingMean, []string{"n", "year"}
	rows, err := readSources(o)
	assert.Need(t, err == nil && len(rows) == 4, "%v: %d sources", err, len(rows))
	var got []string
	for _, r := range rows {
		got = append(got, fmt.Sprintf("%s %v %v", r.Words[3], r.Floats[6], r.Floats[7]))
	}
	assert.Equal(t, got, []string{"007 40000 NaN", "a/b 40000 2025", "iris 40000 2024", "iris 40000 2025"}, "the last rows")
	o.Label, o.Columns.Use, o.Categorical = "label", []string{"n", "kind"}, []string{"kind"}
	rows, err = readSources(o)
	assert.True(t, err == nil && rows[2].Cols == 5 && slices.Equal(rows[2].Floats[:5], []float32{1, 0, 0, 1, 0}), "%v: %+v", err, rows)
	want := layout.Features{Width: 2, Columns: examples.Columns{{Name: "year"}, {Name: "n"}}}
	o.Missing.Mode = layout.MissingMean
	predicted, _, err := readRows(File(t.Context(), f.path("flowers"), o, want))
	assert.True(t, err == nil && predicted.Rows == 16 && predicted.Floats[30] == 2025, "%v: %v", err, predicted.Floats)
}

// The folders of sinks say where and when rows were stored: their columns are features only if an option names them. Other
// columns of folders are features.
func TestFoldersOfSinks(t *testing.T) {
	part, line := string(pandasFrame(t)), `{"n": 1, "label": "x"}`+"\n"
	for _, c := range []struct {
		name             string
		first, second    string // files
		use              []string
		features, stored []string
	}{
		{"Kafka Connect", "orders/partition=0/orders+0+0000000000.json", "orders/partition=1/orders+1+0000000000.json", nil, nil,
			[]string{"partition"}},
		{"Kafka Connect by time", "year=2026/month=11/day=28/hour=10/o+0+0000000000.snappy.parquet",
			"year=2026/month=11/day=28/hour=11/o+0+0000000300.snappy.parquet", nil, nil, []string{"year", "month", "day", "hour"}},
		{"Kafka Connect by field and month", "country=1/month=11/o+0+0000000000.parquet", "country=2/month=12/o+0+0000000300.parquet", nil,
			[]string{"country"}, []string{"month"}},
		{"Aiven", "topic=orders/partition=12/orders-12-00000.parquet", "topic=orders/partition=7/orders-7-00000.parquet", nil, nil,
			[]string{"topic", "partition"}},
		{"Flink", "dt=2026-11-27/hour=23/part-0-0.parquet", "dt=2026-11-28/hour=0/part-0-1.parquet", nil, nil, []string{"dt", "hour"}},
		{"Flink, JSON", "dt=2026-11-27/part-0-0.json", "dt=2026-11-28/part-0-0.json", nil, nil, []string{"dt"}},
		{"Hive, whole dates", "event_date=20261127/000000_0.parquet", "event_date=__HIVE_DEFAULT_PARTITION__/000000_0.parquet", nil, nil,
			[]string{"event_date"}},
		{"Firehose", "year=2026/month=11/day=27/a.parquet", "year=2026/month=11/day=28/a.parquet", nil, nil, []string{"year", "month", "day"}},
		{"seasons", "year=2025/month=11/a.parquet", "year=2026/month=12/a.parquet", nil, []string{"year", "month"}, nil},
		{"named", "partition=0/o+0+0000000000.parquet", "partition=1/o+1+0000000000.parquet", []string{"n", "partition"}, nil, nil},
		{"numbers", "size=20261127/a.parquet", "size=7/a.parquet", nil, []string{"size"}, nil},
	} {
		f, content := newFolder(t), part
		if strings.HasSuffix(c.first, ".json") {
			content = line
		}
		f.writeAll(t, "", map[string]string{c.first: content, c.second: content})
		o := Defaults()
		o.Train, o.Label, o.Missing.Mode, o.Columns.Use = []string{string(f)}, "label", layout.MissingMean, c.use
		if c.use == nil && content == part {
			o.Columns.Drop = []string{"x", "yes"}
		}
		sources, err := Sources(t.Context(), o)
		if err != nil || len(sources) != 2 {
			t.Errorf("%s: %d sources, %v", c.name, len(sources), err)
			continue
		}
		features, stored := sources[0].FolderColumns()
		assert.True(t, slices.Equal(features, c.features) && slices.Equal(stored, c.stored),
			"%s: features %q, stored %q, expected %q, %q", c.name, features, stored, c.features, c.stored)
		for _, name := range slices.Concat(c.features, c.stored, c.use) {
			is := slices.ContainsFunc(sources[0].Columns, func(column examples.Column) bool { return column.Name == name })
			assert.True(t, is != slices.Contains(c.stored, name), "%s: %s is a feature: %v", c.name, name, is)
		}
	}
}

// Parts may be empty, as long as some have rows. A directory is predicted part by part.
func TestEmptyParts(t *testing.T) {
	f := newFolder(t)
	f.writeAll(t, "", map[string]string{"csv/0.csv": "", "csv/a.csv": "a,label\n", "csv/b.csv": "a,label\n1,x\n2,y\n", "csv/c.csv": "",
		"csv/d.csv": "a,label\n3,x\n", "none/a.csv": "a,label\n", "none/b.csv": ""})
	o := Defaults()
	o.Train, o.Label = []string{f.path("csv")}, "label"
	rows, err := readSources(o)
	assert.True(t, err == nil && len(rows) == 2 && rows[0].Rows+rows[1].Rows == 3, "%v: %+v", err, rows)
	o.Categorical = []string{"a"}
	assert.Equal(t, len(assert.Must(readSources(o))(t)), 2, "")
	o.Categorical = nil
	o.Train = []string{f.path("none")}
	_, err = readSources(o)
	assert.Equal(t, f.text(err), "none/a.csv: no rows in this part or any other", "")
	o.Train = []string{f.path("csv/*.csv")} // named files must have rows
	_, err = readSources(o)
	assert.True(t, err != nil, "an empty file is passed over")
	predicted, _, err := readRows(File(t.Context(), f.path("csv"), o, layout.Features{Width: 1, Columns: examples.Columns{{Name: "a"}}}))
	assert.True(t, err == nil && slices.Equal(predicted.Floats, []float32{1, 2, 3}), "%v: %v", err, predicted.Floats)
}

// Classes may be links to directories. Cyclic links end.
func TestLinkedClasses(t *testing.T) {
	f := newFolder(t)
	files := map[string]string{}
	for i, name := range []string{"a.png", "b.png", "c.png"} {
		files[name] = encodePNG(t, grayImage(uint8(i), 7))
	}
	elsewhere := f.writeAll(t, "elsewhere", files)
	pets := f.writeAll(t, "pets", map[string]string{"dog/d.png": encodePNG(t, grayImage(9, 9))})
	for link, target := range map[string]string{"cat": elsewhere, "dog/up": pets, ".hidden": elsewhere} {
		assert.NoError(t, os.Symlink(target, filepath.Join(pets, link)))
	}
	o := Defaults()
	o.Train = []string{pets}
	rows := assert.Must(readSources(o))(t)[0]
	slices.Sort(rows.Words)
	assert.Equal(t, rows.Words, []string{"cat", "cat", "cat", "dog"}, "the labels")
	assert.NoError(t, os.Symlink("nowhere.png", filepath.Join(pets, "dog/e.png")))
	_, err := readSources(o)
	assert.Equal(t, f.text(err), "pets/dog/e.png: no such file or directory", "a link to nowhere")
}

// Of pyarrow 26: numbers with column_encoding BYTE_STREAM_SPLIT, durations[ns] in seconds, booleans and UUIDs in data pages v2 are read. Of
// DuckDB 2.0: whole numbers in deltas of more than 32 bits (deltas.parquet).
func TestParquetOfOtherWriters(t *testing.T) {
	for file, want := range map[string]string{"split.parquet": "[1.5 2.5 3.5]", "durations.parquet": "[1.5 0 2.5 1 3.5 2]",
		"booleans.parquet": "[1 1 1 1 1 1 1 1 1 1 1 NaN 0 0 0 0 0 0 0 0 0 1 0]",
		"deltas.parquet":   "[2.1474835e+09 1 -2.1474836e+09 4.294967e+09 5 7 NaN 4.294967e+09 2.1474835e+09 0]"} {
		o := Defaults()
		o.Train, o.Missing.Mode = []string{filepath.Join("testdata", file)}, layout.MissingMean
		rows, err := readSources(o)
		assert.True(t, err == nil && fmt.Sprint(rows[0].Floats) == want, "%s: %v, expected %s: %v", file, rows, want, err)
	}
}

// A directory of a format that keeps files of earlier states is an error, however it is named, unless its files are named.
func TestFoldersOfTableFormats(t *testing.T) {
	f, part := newFolder(t), string(pandasFrame(t))
	f.writeAll(t, "", map[string]string{
		"delta/a.parquet": part, "delta/_delta_log/00000000000000000000.json": "{}\n", "delta/_delta_log/00000000000000000010.checkpoint.parquet": part,
		"hudi/2025/a.parquet": part, "hudi/2025/.hoodie_partition_metadata": "", "hudi/.hoodie/hoodie.properties": "",
		"house/flowers/data/kind=iris/a.parquet": part, "house/flowers/metadata/v1.metadata.json": "{}", "house/flowers/metadata/snap-1.avro": "",
		"paimon/bucket-0/a.parquet": part, "paimon/snapshot/snapshot-1": "{}",
		"plain/metadata/notes.json": "{}\n", "plain/a.parquet": part,
	})
	for names, want := range map[string]string{
		"delta delta/*.parquet delta/_delta_log del*":                                                  "delta: a table of Delta Lake,",
		"hudi hudi/2025 hudi/*/*.parquet hudi/2025/*":                                                  "hudi: a table of Apache Hudi,",
		"house house/flowers house/flowers/data house/flowers/data/kind=iris house/*/data/*/*.parquet": "house/flowers: a table of Apache Iceberg,",
		"paimon paimon/bucket-0":                                                                       "paimon: a table of Apache Paimon,",
		"plain plain/*.parquet delta/a.parquet house/flowers/data/kind=iris/a.parquet":                 "",
	} {
		for name := range strings.FieldsSeq(names) {
			_, err := Files([]string{f.path(name)})
			_, _, predicted := readRows(File(t.Context(), f.path(name), Defaults(), layout.Features{Width: 1}))
			if strings.Contains(name, "*") {
				predicted = err // predict names a file or a directory
			}
			for _, err := range []error{err, predicted} {
				text := f.text(err)
				assert.True(t, strings.HasPrefix(text, want) && (want != "" || !strings.Contains(text, "a table of")), "%s: %s; %s", name, text, want)
			}
		}
	}
}

// Parts without bytes are empty parts in each format. Parts that differ, and partition values that are null, say what to do.
func TestPartsThatDiffer(t *testing.T) {
	numbers, words := arrow.PrimitiveTypes.Float64, arrow.BinaryTypes.String
	part := func(rows string, columns ...arrow.Field) string {
		return string(arrowContent(t, arrowRows(t, rows, append(columns, nullable("label", words))...), 1, true))
	}
	x := part(`[{"x":1,"label":"a"},{"x":2,"label":"b"}]`, nullable("x", numbers))
	y := part(`[{"y":1,"label":"a"}]`, nullable("y", numbers))
	both := part(`[{"x":1,"z":3,"label":"a"}]`, nullable("x", numbers), nullable("z", numbers))
	turned := part(`[{"x":1,"z":3,"label":"a"}]`, nullable("z", numbers), nullable("x", numbers))
	const use = "all files need the same columns in the same order: list those that all have under examples.columns.use"
	const dot = ": start the folder's name with a dot to leave its rows out"
	for name, test := range map[string]struct {
		files  map[string]string
		change func(*Options)
		want   string
	}{
		"Arrow without bytes":        {map[string]string{"a.arrow": "", "b.arrow": x}, nil, ""},
		"Parquet without bytes":      {map[string]string{"a.parquet": "", "b.parquet": string(pandasFrame(t))}, func(o *Options) { o.Columns.Use = []string{"n"} }, ""},
		"JSON Lines without bytes":   {map[string]string{"a.json": "", "b.json": "{\"x\":1,\"label\":\"a\"}\n"}, nil, ""},
		"CSV without bytes, gzipped": {map[string]string{"a.csv.gz": string(gzipped(t, "")), "b.csv": "x,label\n1,a\n"}, nil, ""},
		"nothing":                    {map[string]string{"a.arrow": "", "b.parquet": ""}, nil, "t/a.arrow: no rows in this part or any other"},
		"another column":             {map[string]string{"a.arrow": x, "b.arrow": y}, nil, `t/b.arrow: the file lacks the column "x" and has "y", unlike t/a.arrow: ` + use},
		"a column fewer":             {map[string]string{"a.arrow": both, "b.arrow": x}, nil, `t/b.arrow: the file lacks the column "z", unlike t/a.arrow: ` + use},
		"a column more":              {map[string]string{"a.arrow": x, "b.arrow": both}, nil, `t/b.arrow: the file also has the column "z", unlike t/a.arrow: ` + use},
		"a column more, not used":    {map[string]string{"a.arrow": x, "b.arrow": both}, func(o *Options) { o.Columns.Use = []string{"x"} }, ""},
		"a column more in CSV": {map[string]string{"a.csv": "x,label\n1,a\n", "b.csv": "x,z,label\n1,2,a\n"}, nil,
			`t/b.csv: line 1: the file also has the column "z", unlike t/a.csv: ` + use},
		"another order": {map[string]string{"a.arrow": both, "b.arrow": turned}, nil,
			`t/b.arrow: column 0 is "z", not "x", unlike t/a.arrow: ` + use},
		"a partition less": {map[string]string{"a.arrow": x, "k=1/a.arrow": x}, nil, `t/k=1/a.arrow: the file also has the column "k", unlike t/a.arrow: ` + use},
		"a null partition": {map[string]string{"n=1/a.arrow": x, "n=__HIVE_DEFAULT_PARTITION__/a.arrow": x}, nil,
			`t/n=__HIVE_DEFAULT_PARTITION__/a.arrow, column 2 ("n"): row 0, counted from 0: a missing value: examples.missing: mean uses the mean ` +
				`of the column. The column n is null in the folder n=__HIVE_DEFAULT_PARTITION__` + dot},
		"a null partition, with means": {map[string]string{"n=1/a.arrow": x, "n=__HIVE_DEFAULT_PARTITION__/a.arrow": x},
			func(o *Options) { o.Missing.Mode = layout.MissingMean }, ""},
		"a null partition is the label": {map[string]string{"k=1/a.arrow": x, "k=__HIVE_DEFAULT_PARTITION__/a.arrow": x},
			func(o *Options) { o.Label, o.Columns.Use = "k", []string{"x"} },
			"t/k=__HIVE_DEFAULT_PARTITION__/a.arrow: no row has a label. The column k is null in the folder k=__HIVE_DEFAULT_PARTITION__" + dot},
	} {
		f := newFolder(t)
		o := Defaults()
		o.Train, o.Label = []string{f.writeAll(t, "t", test.files)}, "label"
		if test.change != nil {
			test.change(&o)
		}
		_, err := readSources(o)
		assert.True(t, f.text(err) == test.want, "%s: %s\nexpected %s", name, f.text(err), test.want)
	}
}

// Names that start with a dot or an underscore are hidden at every level, as in Hive and Spark, but for partition values.
func TestHiddenNames(t *testing.T) {
	f, part := newFolder(t), string(pandasFrame(t))
	hidden := []string{"_SUCCESS", ".a.parquet.crc", "_committed_1.json", "_temporary/0/a.parquet", "_spark_metadata/0.json",
		".ipynb_checkpoints/a.parquet", "2025/_temporary/0/a.parquet", "2025/.b/c/a.parquet", "2025/_started.json"}
	files := map[string]string{"t/a.parquet": part, "t/2025/a.parquet": part, "t/_y=1/a.parquet": part}
	for _, name := range hidden {
		files["t/"+name] = part
	}
	f.writeAll(t, "", files)
	for pattern, want := range map[string][]string{
		"t":             {"t/2025/a.parquet", "t/_y=1/a.parquet", "t/a.parquet"},
		"t*":            {"t/2025/a.parquet", "t/_y=1/a.parquet", "t/a.parquet"},
		"t/*":           {"t/2025/a.parquet", "t/_y=1/a.parquet", "t/a.parquet"},
		"t/*/*.parquet": {"t/2025/a.parquet", "t/_y=1/a.parquet"},
		"t/2025/*":      {"t/2025/a.parquet"},
		"t/_com*":       {"t/_committed_1.json"},
	} {
		assert.Equal(t, f.expanded(t, pattern), want, "%s", pattern)
	}
}

// A pattern is expanded to the matching files, sorted, unless a file has exactly this name.
func TestFiles(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"b.csv", "a.csv", ".hidden.csv", "c[1].csv", "c1.csv", "[x]/2.csv", "[x]/1.csv", "y/1.csv", "q*.csv",
		"qq.csv"} {
		assert.NoError(t, os.MkdirAll(filepath.Dir(name), 0o755))
		assert.NoError(t, os.WriteFile(name, nil, 0o644))
	}
	for names, want := range map[string]string{
		"none.csv":      "none.csv", // reported when it is opened
		"-":             "-",
		"b.csv a.csv":   "b.csv a.csv",
		"[ab].csv":      "a.csv b.csv",
		"y/1.csv ?.csv": "y/1.csv a.csv b.csv",
		".h*.csv":       ".hidden.csv",
		"c[1].csv":      "c[1].csv",
		"[x]/*.csv":     "[x]/1.csv [x]/2.csv",
		"*/1.csv":       "[x]/1.csv y/1.csv",
		"q*.csv":        "q*.csv",
		"./[y]/*":       "y/1.csv",
	} {
		got, err := Files(strings.Fields(names))
		assert.True(t, err == nil && slices.Equal(got, strings.Fields(want)), "%s: %q, %v; expected %s", names, got, err, want)
	}
	for name, want := range map[string]string{
		"*.txt":  "*.txt: no file matches this pattern",
		"no/*":   "no/*: no file matches this pattern",
		"a.csv*": "",
		"[a.csv": "[a.csv: no such file, nor a valid pattern: [ without ]",
	} {
		_, err := Files([]string{name})
		assert.Equal(t, errorText(err), want, "%s", name)
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// A column of a file that most rows lack from some row on, unlike those before, is named with the number of these rows, however
// short the file is. One that rows lack now and then, or always, is not.
func TestColumnsThatLaterRowsOfFilesLack(t *testing.T) {
	dense := func(o *Options) { o.Columns.Use = []string{"a", "b"} }
	hashed := func(o *Options) {
		o.Columns.Use, o.Categorical = []string{"a", "w"}, []string{"w"}
		o.Hash = layout.Hash{Columns: 64}
	}
	text := func(o *Options) { o.Text, o.Missing.Mode = "w", layout.MissingError }
	for name, test := range map[string]struct {
		change      func(*Options)
		early, late []string // members of two thirds of the rows, in turn, and of the others
		want        string
	}{
		"dense":        {dense, []string{`"a":1,"b":1`}, []string{`"A":1,"b":1`}, "a"},
		"null":         {dense, []string{`"a":1,"b":1`}, []string{`"a":1,"b":null`}, "b"},
		"now and then": {dense, []string{`"a":1`, `"a":1,"b":1`, `"a":1,"b":1`}, []string{`"a":1`, `"a":1,"b":1`, `"a":1,"b":1`}, ""},
		"always":       {dense, []string{`"a":1,"b":null`}, []string{`"a":1,"b":null`}, ""},
		"hashed words": {hashed, []string{`"a":1,"w":"k0"`, `"a":1,"w":"k1"`}, []string{`"a":1`}, "w"},
		"texts":        {text, []string{`"w":"some words"`}, []string{`"W":"some words"`}, "w"},
	} {
		for _, n := range []int{150, 3000} {
			f, want := newFolder(t), map[string]int64{test.want: int64(n) / 3}
			var content bytes.Buffer
			for i := range n {
				rows := [][]string{test.early, test.late}[i/(n*2/3)]
				fmt.Fprintf(&content, "{\"label\":%d,%s}\n", i%2, rows[i%len(rows)])
			}
			o := Defaults()
			o.Missing.Mode = layout.MissingMean
			test.change(&o)
			o.Train = []string{f.write(t, "rows.jsonl", content.Bytes())}
			found := assert.Must(Sources(t.Context(), o))(t)
			topic, lost := &memoryTopic{partitions: make([][]wire.Message, 1), capacity: -1}, map[string]int64(nil)
			_, err := Publish(context.Background(), found[0], Attempt{Spans: topic.spans()}, topic.write, memory.DefaultAllocator,
				func(int64) {}, func(columns map[string]int64) { lost = columns })
			assert.True(t, err == nil && (maps.Equal(lost, want) || test.want == "" && lost == nil), "%s: lost are %v, %v", name, lost, err)
		}
	}
}

// A row of a topic or a file without its list, or without its sparse row, is an error that names the column: it never counts as zeros.
func TestRowsWithoutTheirList(t *testing.T) {
	for first, later := range map[string]string{
		`{"label":"a","v":[1,2]}`:     `{"label":"b","V":[1,2]}`,
		`{"label":"a","v":{"3":1.5}}`: `{"label":"b","V":{"3":1.5}}`,
	} {
		o := ofTopic("json", func(o *Options) { o.Columns.Use, o.Missing.Mode = []string{"v"}, layout.MissingMean })
		v := valuesOf(t, o)
		_, err := v.Add(t.Context(), TopicMessage{Value: []byte(first)})
		assert.Need(t, err == nil, "%s: %v", first, err)
		assert.MustFail(v.Add(t.Context(), TopicMessage{Value: []byte(later)}))(t, `column "v"`)
		f := newFolder(t)
		o = Defaults()
		o.Columns.Use, o.Missing.Mode = []string{"v"}, layout.MissingMean
		o.Train = []string{f.write(t, "rows.jsonl", []byte(strings.Repeat(first+"\n", 2000)+later+"\n"))}
		_, err = readSources(o)
		assert.True(t, err != nil && strings.Contains(err.Error(), `("v")`) && strings.Contains(err.Error(), "line 2001"),
			"%s in a file: %v", later, err)
	}
}

// decodedRows are messages of an archive.
type decodedRows struct {
	all  *stream.Values
	from int
	key  string
}

func (r decodedRows) Len() int { return r.all.Column.Len() - r.from }

func (r decodedRows) Key(int) string { return r.key }

func (r decodedRows) Value(row int) (value []byte, decoded *tabular.Cell) {
	cell := formatarrow.Nested{Of: r.all, Row: r.from + row}.Cell()
	return nil, &cell
}

func (r decodedRows) All() (all *stream.Values, from int) { return r.all, r.from }

// Messages of an archive that are added together are in the batches in which they are one by one, also if some are invalid, or batches are
// full.
func TestRowsTogether(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 1))
	var b strings.Builder
	for range 700 {
		label, x := `"a"`, strconv.Itoa(random.IntN(100))
		switch random.IntN(30) {
		case 0:
			label = "null"
		case 1:
			x = "null"
		case 2:
			label = strconv.Quote(strings.Repeat("b", random.IntN(100)))
		}
		fmt.Fprintf(&b, `%s{"label":%s,"x":%s,"w":{"y":%v}}`, cmp.Or(strings.Repeat(",", min(b.Len(), 1)), "["), label, x, random.Float32())
	}
	nested := arrow.StructOf(nullable("y", arrow.PrimitiveTypes.Float32))
	all := formatarrow.RowsOf(arrowRows(t, b.String()+"]", nullable("label", arrow.BinaryTypes.String),
		nullable("x", arrow.PrimitiveTypes.Int64), nullable("w", nested)))
	for _, missing := range []string{layout.MissingError, layout.MissingMean} {
		for _, most := range []int{1, 7, 64, 1000} {
			o := ofTopic("json", func(o *Options) { o.Columns.Use, o.BatchRows, o.Missing.Mode = []string{"x", "w.y"}, most, missing })
			var results [2][]string
			for together := range results {
				v := valuesOf(t, o)
				take := func() {
					if rows := v.Take(); rows != nil {
						results[together] = append(results[together], fmt.Sprint(show(*rows), rows.Origins, len(rows.SourceKeys)))
					}
				}
				for rows := (decodedRows{all, 0, strings.Repeat("k", 9*most)}); rows.Len() > 0; {
					n := 0
					if together == 1 {
						n = v.AddRows(1, int64(rows.from), rows)
					}
					if n == 0 {
						_, decoded := rows.Value(0)
						full, err := v.Add(t.Context(), TopicMessage{Partition: 1, Offset: int64(rows.from), Key: rows.key, Row: decoded})
						if n = 1; err != nil {
							results[together] = append(results[together], err.Error())
						} else if full {
							n = 0
							take()
						}
					}
					if rows.from += n; v.Full() {
						take()
					}
				}
				take()
			}
			assert.Equal(t, results[0], results[1], "%s, batches of %d", missing, most)
		}
	}
}

// Decoded messages that are packed until their outcomes come have the rows that they have otherwise, also if those are read in blocks.
func TestPack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Options)
		blocks bool
	}{
		"words": {func(o *Options) { o.Label, o.Text = "kind", "tags" }, false},
		"paths": {func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"w", "user.age", "user.at", "items.0.price"}, layout.MissingMean
		}, false},
		"numbers": {func(o *Options) {
			o.Label, o.Columns.Use, o.Missing.Mode = "kind", []string{"user.age", "w"}, layout.MissingMean
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			batch := arrowRows(t, nestedEvents, nestedFields()...)
			o := ofTopic("json", test.change)
			o.BatchRows = 100
			o = withWords(t, o, nestedEvents)
			plain, packed := valuesOf(t, o), valuesOf(t, o)
			blocks := false
			for offset := int64(0); offset < layout.OffsetRows+600; {
				rows := decodedRows{all: formatarrow.RowsOf(batch), key: "k"}
				added := 0
				for ; rows.Len() > 0; rows.from++ {
					_, decoded := rows.Value(0)
					m := TopicMessage{Partition: 2, Offset: offset, Key: rows.Key(0), Time: 7, Row: decoded}
					again, err := packed.Pack(t.Context(), m)
					if err == nil {
						_, err = packed.Add(t.Context(), Unpack(2, offset, again))
					}
					if added == 0 {
						added = plain.AddRows(2, offset, rows)
						blocks = blocks || added > 0
					}
					if added > 0 {
						added--
					} else if err == nil {
						_, err = plain.Add(t.Context(), m)
					}
					assert.NoError(t, err)
					offset++
				}
				if plain.Full() {
					got, want := plain.Take(), packed.Take()
					assert.Need(t, show(*got) == show(*want) && got.SourceKeys[0] == "k", "%s, expected %s", show(*got), show(*want))
				}
			}
			assert.True(t, blocks == test.blocks, "read in blocks: %t", blocks)
		})
	}
}
