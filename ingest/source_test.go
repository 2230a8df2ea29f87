package ingest

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/format"
	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/pipeline/protocol"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/coverage"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// folder is a directory with the files of a test.
type folder string

func newFolder(t *testing.T) folder { return folder(t.TempDir()) }

func (f folder) path(name string) string { return filepath.Join(string(f), name) }

func (f folder) write(t *testing.T, name string, content []byte) string {
	t.Helper()
	assert.NoError(t, os.WriteFile(f.path(name), content, 0o600))
	return f.path(name)
}

// text is an error's text without the path of the directory.
func (f folder) text(err error) string {
	if err == nil {
		return ""
	}
	return strings.ReplaceAll(err.Error(), string(f)+string(filepath.Separator), "")
}

// readRows reads everything into one batch.
func readRows(batches iter.Seq2[*examples.Rows, error]) (whole examples.Rows, sizes []int, err error) {
	for rows, err := range batches {
		if err != nil {
			return whole, sizes, err
		}
		sizes = append(sizes, rows.Rows)
		whole.Rows += rows.Rows
		whole.Cols, whole.Image = rows.Cols, rows.Image
		whole.Floats = append(whole.Floats, rows.Floats...)
		whole.Bytes = append(whole.Bytes, rows.Bytes...)
		if rows.Sparse != nil {
			whole.Sparse = joined(whole.Sparse, rows.Sparse)
		}
		whole.Words = append(whole.Words, rows.Words...)
		whole.LabelLists = append(whole.LabelLists, rows.LabelLists...)
		whole.Numbers = append(whole.Numbers, rows.Numbers...)
		whole.Targets = append(whole.Targets, rows.Targets...)
		whole.Weights = append(whole.Weights, rows.Weights...)
		whole.Splits = append(whole.Splits, rows.Splits...)
	}
	return whole, sizes, nil
}

// joined appends sparse rows to others. whole may be nil.
func joined(whole, next *examples.SparseRows) *examples.SparseRows {
	if whole == nil {
		whole = &examples.SparseRows{}
	}
	for i := range next.Len() {
		indices, values := next.Row(i)
		whole.Indices, whole.Values = append(whole.Indices, indices...), append(whole.Values, values...)
		whole.Ends = append(whole.Ends, len(whole.Values))
	}
	return whole
}

// readSources reads all batches of all sources.
func readSources(o Options) (rows []examples.Rows, err error) {
	found, err := Sources(context.Background(), o)
	if err != nil {
		return nil, err
	}
	for _, s := range found {
		whole, _, err := readRows(s.batches(context.Background(), nil))
		if err != nil {
			return nil, err
		}
		rows = append(rows, whole)
	}
	return rows, nil
}

// first reads all sources, and returns the first as show formats it, or the error, which must be of a file.
func (f folder) first(t *testing.T, o Options) string {
	t.Helper()
	rows, err := readSources(o)
	if err == nil {
		return show(rows[0])
	}
	assert.Need(t, isFileError(err), "%T: %v", err, err)
	return f.text(err)
}

// show formats a batch in one line, without missing columns.
func show(r examples.Rows) string {
	text := fmt.Sprintf("%d × %d", r.Rows, r.Cols)
	column := func(format string, has bool, values any) {
		if has {
			text += fmt.Sprintf(format, values)
		}
	}
	column(" floats %v", r.Floats != nil, r.Floats)
	column(" bytes %v", r.Bytes != nil, r.Bytes)
	for i := range r.Rows {
		if r.Sparse != nil {
			indices, values := r.Sparse.Row(i)
			text += fmt.Sprintf(" %v:%v", indices, values)
		}
	}
	column(" words %q", r.Words != nil, r.Words)
	column(" lists %q", r.LabelLists != nil, r.LabelLists)
	column(" numbers %v", r.Numbers != nil, r.Numbers)
	column(" targets %v", r.Targets != nil, r.Targets)
	column(" weights %v", r.Weights != nil, r.Weights)
	column(" splits %v", r.Splits != nil, r.Splits)
	return text
}

// idxFile creates an idx file with dimensions and values, which need not match.
func idxFile(kind byte, dims []uint32, values ...any) []byte {
	file := []byte{0, 0, kind, byte(len(dims))}
	for _, d := range dims {
		file = binary.BigEndian.AppendUint32(file, d)
	}
	for _, v := range values {
		var err error
		if file, err = binary.Append(file, binary.BigEndian, v); err != nil {
			panic(err)
		}
	}
	return file
}

func TestSourcesIdentity(t *testing.T) {
	f := newFolder(t)
	base := Defaults()
	base.Train = []string{f.write(t, "a.csv", []byte("0,1\n1,2\n"))}
	id := func(o Options) string {
		t.Helper()
		found := assert.Must(Sources(context.Background(), o))(t)
		assert.Need(t, len(found) == 1 && found[0].Width == 1, "sources %+v", found)
		return found[0].ID
	}
	want := id(base)
	yes, no := true, false

	t.Run("same", func(t *testing.T) {
		for name, change := range map[string]func(*Options){
			"another name":          func(o *Options) { o.Train = []string{f.write(t, "b.csv", []byte("0,1\n1,2\n"))} },
			"format given":          func(o *Options) { o.Format = "csv" },
			"label given":           func(o *Options) { o.Label = "0" },
			"split":                 func(o *Options) { o.Train, o.Test = nil, o.Train },
			"classes":               func(o *Options) { o.Classes = []string{"0", "1"} },
			"missing":               func(o *Options) { o.Missing.Mode = layout.MissingMean },
			"partitions":            func(o *Options) { o.Partitions = 5 },
			"batch rows":            func(o *Options) { o.BatchRows = 5 },
			"no header given":       func(o *Options) { o.Header = &no },
			"holdout is for visits": func(o *Options) { o.Holdout = 0.5 },
		} {
			o := base
			change(&o)
			assert.Equal(t, id(o), want, "%s: another identity", name)
		}
	})
	t.Run("different", func(t *testing.T) {
		seen := map[string]string{want: "base"}
		for name, change := range map[string]func(*Options){
			"bytes":  func(o *Options) { o.Train = []string{f.write(t, "c.csv", []byte("0,1\n1,3\n"))} },
			"label":  func(o *Options) { o.Label = "1" },
			"header": func(o *Options) { o.Header = &yes },
		} {
			o := base
			change(&o)
			got := id(o)
			other, same := seen[got]
			assert.True(t, !same, "%s: the identity of %s", name, other)
			seen[got] = name
		}
	})
	t.Run("what rows are made of", func(t *testing.T) {
		o, seen := base, map[string]string{}
		o.Train = []string{f.write(t, "rows.csv", []byte("label,at\nNA,2026-11-01\nEU,2026-11-02\n"))}
		hours := func(parts ...string) func(*Options) {
			return func(o *Options) { o.Times = layout.PartsOfTimes(map[string][]string{"at": parts}) }
		}
		for name, change := range map[string]func(*Options){
			"hour": hours("hour"), "age": hours("age"), "hour, age": hours("hour", "age"), "age, hour": hours("age", "hour"),
			"NA is a class":                     func(o *Options) { hours("hour")(o); o.Classes = []string{"EU", "NA"} },
			"NA is no word for a missing value": func(o *Options) { hours("hour")(o); o.MissingValues = []string{"nan"} },
		} {
			o := o
			change(&o)
			found := assert.Must(Sources(t.Context(), o))(t)
			other, same := seen[found[0].ID]
			assert.True(t, !same, "%s: the identity of %s", name, other)
			seen[found[0].ID] = name
		}
	})
	t.Run("a column has a name and a number", func(t *testing.T) {
		o := base
		o.Train = []string{f.write(t, "named.csv", []byte("y,w,x\n0,1,2\n"))}
		o.Label, o.Weight = "y", "w"
		named := id(o)
		o.Header, o.Label, o.Weight = &yes, "0", "1"
		assert.Equal(t, id(o), named, "another identity")
	})
	t.Run("idx has no columns", func(t *testing.T) {
		o := base
		o.Train = []string{
			f.write(t, "images.idx", idxFile(8, []uint32{1, 1}, uint8(7))),
			f.write(t, "labels.idx", idxFile(8, []uint32{1}, uint8(1))),
		}
		want := id(o)
		o.Missing.Mode, o.Header, o.Label, o.Weight = layout.MissingMean, &yes, "5", "w"
		assert.Equal(t, id(o), want, "another identity")
	})
}

func TestSourcesFormats(t *testing.T) {
	images, labels := idxFile(8, []uint32{1, 1}, uint8(7)), idxFile(8, []uint32{1}, uint8(1))
	const asIDX, asCSV = "1 × 1 bytes [7] numbers [1]", "1 × 1 floats [3] words [\"5\"]"
	for _, test := range []struct {
		files  []string
		format string
		want   string
	}{
		{[]string{"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}, "", asIDX},
		{[]string{"train-images.idx3-ubyte", "train-labels.idx1-ubyte"}, "", asIDX},
		{[]string{"train-images.idx3", "train-labels.idx1"}, "", asIDX},
		{[]string{"IMAGES.IDX", "LABELS.IDX"}, "", asIDX},
		{[]string{"images", "labels"}, "", asIDX},         // by their first bytes
		{[]string{"images.bin", "labels.csv"}, "", asIDX}, // the name of the second file of a pair is irrelevant
		{[]string{"images.csv", "labels.csv"}, "idx", asIDX},
		{[]string{"rows.csv"}, "", asCSV},
		{[]string{"rows.CSV.gz"}, "", asCSV}, // not compressed, despite its name
		{[]string{"rows.txt"}, "csv", asCSV},
	} {
		f := newFolder(t)
		o := Defaults()
		o.Format = test.format
		for i, name := range test.files {
			content := []byte("5,3\n")
			if len(test.files) == 2 {
				content = [][]byte{images, labels}[i]
			}
			o.Train = append(o.Train, f.write(t, name, content))
		}
		assert.Equal(t, f.first(t, o), test.want, "%v", test.files)
	}
}

func TestSourcesRefuse(t *testing.T) {
	f := newFolder(t)
	f.write(t, "one.csv", []byte("0,1\n"))
	f.write(t, "copy.csv", []byte("0,1\n"))
	f.write(t, "two.csv", []byte("0,1,2\n"))
	f.write(t, "what", []byte("0,1\n"))
	f.write(t, "rows", idxFile(8, []uint32{1}, uint8(1)))
	f.write(t, "rows.libsvm", []byte("# no row\n"))
	f.write(t, "images", idxFile(8, []uint32{1, 1}, uint8(7)))
	assert.NoError(t, os.Mkdir(f.path("folder.csv"), 0o700))
	for _, test := range []struct {
		train, test []string
		want        string
	}{
		{[]string{"none.csv"}, nil, "none.csv: no such file or directory"},
		{[]string{"folder.csv"}, nil, "folder.csv: an empty folder: expected PNG or JPEG files, in a folder for each class"},
		{[]string{"one.csv"}, []string{"two.csv"}, "two.csv: 2 features, not 1, unlike one.csv: all files need the same columns in the same order: list those that all have " +
			"under examples.columns.use"},
		{[]string{"one.csv", "copy.csv"}, nil, "copy.csv: the same bytes as one.csv: an example can't count twice"},
		{[]string{"what"}, nil, "what: neither name nor content identifies the format: set examples.format"},
		{[]string{"what", "rows.libsvm"}, nil, "what: neither name nor content identifies the format: set examples.format"},
		{[]string{"images", "rows", "rows.libsvm"}, nil, "rows.libsvm: an empty file"},
		{[]string{"images"}, nil, "images: no file follows it: expected idx files in pairs, images first, then their labels"},
	} {
		o := Defaults()
		for _, name := range test.train {
			o.Train = append(o.Train, f.path(name))
		}
		for _, name := range test.test {
			o.Test = append(o.Test, f.path(name))
		}
		_, err := Sources(context.Background(), o)
		var file *input.Error
		assert.True(t, errors.As(err, &file) && f.text(err) == test.want, "%v %v: %q, expected %q", test.train, test.test, f.text(err), test.want)
	}
	o := Defaults()
	o.Train = []string{f.path("none.csv")}
	assert.MustFail(Sources(context.Background(), o))(t, fs.ErrNotExist)
	o.BatchRows = 0
	_, err := Sources(context.Background(), o)
	want := (option.Problem{Key: "batch_rows", Value: "0", Want: "a whole number ≥ 1"})
	assert.True(t, err == want, "error %v, expected %v", err, want)
	// an example belongs to one split only
	o = Defaults()
	o.Train, o.Test = []string{f.path("one.csv")}, []string{f.path("one.csv")}
	assert.MustFail(Sources(context.Background(), o))(t, "can't count twice")
}

// All batches except the last have batch_rows rows, and each continues where the previous one ended.
func TestBatchSizes(t *testing.T) {
	for _, rows := range []int{1, 63, 64, 65, 127, 128, 129} {
		var sizes []int
		for left := rows; left > 0; left -= 64 {
			sizes = append(sizes, min(64, left))
		}
		images, labels := idxFile(8, []uint32{uint32(rows), 3}), idxFile(11, []uint32{uint32(rows)})
		var table bytes.Buffer
		var words []string
		var numbers []int64
		for i := range rows {
			images = append(images, byte(i), byte(i+1), byte(i+2))
			labels = binary.BigEndian.AppendUint16(labels, uint16(i))
			numbers = append(numbers, int64(i))
			words = append(words, strconv.Itoa(i))
			fmt.Fprintf(&table, "%d,%d,%d\n", i, i, i+1)
		}
		f := newFolder(t)
		o := Defaults()
		o.BatchRows = 64
		o.Test = []string{f.write(t, "a.idx", images), f.write(t, "b.idx", labels)}
		found := assert.Must(Sources(context.Background(), o))(t)
		for range 2 { // reading twice gives the same batches
			whole, got, err := readRows(found[0].batches(context.Background(), nil))
			assert.Need(t, err == nil && slices.Equal(got, sizes), "%d rows: batches of %v, expected %v; %v", rows, got, sizes, err)
			assert.Need(t, bytes.Equal(whole.Bytes, images[12:]) && slices.Equal(whole.Numbers, numbers), "%d rows: other values", rows)
			assert.Need(t, slices.Equal(whole.Splits, slices.Repeat([]examples.Split{examples.Test}, rows)),
				"%d rows: splits %v", rows, whole.Splits)
		}

		o.Label, o.Train, o.Test = "0", []string{f.write(t, "a.csv", table.Bytes())}, nil
		found = assert.Must(Sources(context.Background(), o))(t)
		whole, got, err := readRows(found[0].batches(context.Background(), nil))
		assert.Need(t, err == nil && slices.Equal(got, sizes), "%d rows: batches of %v, expected %v; %v", rows, got, sizes, err)
		assert.Need(t, len(whole.Floats) == 2*rows && whole.Floats[2*rows-1] == float32(rows) && slices.Equal(whole.Words, words) &&
			whole.Splits == nil, "%d rows: other values", rows)
	}
}

// Batches fit into a message, for any row width and label length.
func TestBatchesFitMessages(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	encodedSize := func(rows *examples.Rows) int {
		t.Helper()
		mem := assert.Allocator(t)
		record := rows.Record(mem)
		defer record.Release()
		return len(assert.Must(examples.Encode(record, mem))(t))
	}
	f := newFolder(t)
	check := func(name string, rows, fullest int, o Options) {
		t.Helper()
		o.BatchRows = math.MaxInt
		found := assert.Must(Sources(context.Background(), o))(t)
		total, largest := 0, 0
		for batch, err := range found[0].batches(context.Background(), nil) {
			assert.NoError(t, err)
			total += batch.Rows
			largest = max(largest, encodedSize(batch))
		}
		assert.Equal(t, total, rows, "%s", name)
		assert.True(t, largest <= wire.MaxMessage && largest >= fullest, "%s: the largest message has %d bytes", name, largest)
	}

	for _, cols := range []int{1, 784, 100_000, 890000 - 24} {
		rows := 2_000_000/cols + 1
		o := Defaults()
		o.Test = []string{
			f.write(t, "a.idx", append(idxFile(8, []uint32{uint32(rows), uint32(cols)}), make([]byte, rows*cols)...)),
			f.write(t, "b.idx", append(idxFile(8, []uint32{uint32(rows)}), make([]byte, rows)...)),
		}
		check(fmt.Sprintf("idx of %d", cols), rows, 550_000, o)
	}
	for _, cols := range []int{1, 784, 890000*8/33 - 20} {
		rows := 2_000_000/cols/4 + 1
		o := Defaults()
		o.Weight, o.Missing.Mode = "1", layout.MissingMean
		line := "a label of some length,0.5" + strings.Repeat(",", cols) + "\n"
		o.Test = []string{f.write(t, "a.csv", bytes.Repeat([]byte(line), rows))}
		check(fmt.Sprintf("csv of %d", cols), rows, 500_000, o)
	}
	// 1024 images of 28 × 28, as in MNIST, are one message
	fit := 890000 / layout.ByteRowBytes(28*28)
	assert.True(t, fit >= Defaults().BatchRows, "%d images fit a message", fit)
	o := Defaults()
	o.Train = []string{f.write(t, "long.csv", bytes.Repeat([]byte(strings.Repeat("l", examples.MaxLabel)+",1\n"), 2000))}
	check("long labels", 2000, 850_000, o)
}

// A row that does not fit beside the column names, which every message has, is an error rather than an endless series of empty batches.
func TestLongNamesAndALongLabel(t *testing.T) {
	f, o := newFolder(t), Defaults()
	name := strings.Repeat("n", 890000-layout.FloatRowBytes(1)-1000)
	for length, want := range map[int]string{
		900: "",
		999: "a.csv: line 2, column 0 (\"label\"): the example does not fit a message of 900000 bytes: its label is too long",
	} {
		o.Label, o.Train = "label", []string{f.write(t, "a.csv", []byte("label,"+name+"\n"+strings.Repeat("l", length)+",1\n"))}
		sources, err := Sources(t.Context(), o)
		assert.Need(t, err == nil, "%v", f.text(err))
		for rows, err := range sources[0].batches(t.Context(), nil) {
			assert.Need(t, f.text(err) == want && (err != nil || rows.Rows == 1), "a label of %d bytes: %s\nexpected %s", length, f.text(err), want)
		}
	}
}

func TestBatchesEndWithContext(t *testing.T) {
	f := newFolder(t)
	o := Defaults()
	o.BatchRows = 1
	o.Train = []string{f.write(t, "a.csv", []byte("0,1\n1,2\n"))}
	found, err := Sources(context.Background(), o)
	assert.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	batches := 0
	for _, err = range found[0].batches(ctx, nil) {
		batches++
		cancel()
	}
	assert.True(t, batches == 2 && errors.Is(err, context.Canceled), "%d batches, %v", batches, err)
	assert.MustFail(Sources(ctx, o))(t, context.Canceled)
}

func TestFile(t *testing.T) {
	images := idxFile(8, []uint32{2, 1, 2}, []uint8{1, 2, 3, 4})
	yes := true
	for _, test := range []struct {
		name, Content string
		options       Options
		want          string
	}{
		{"features alone", "1,2\n3,4\n", Options{}, "2 × 2 floats [1 2 3 4]"},
		{"with the label", "a,1,2\nb,3,4\n", Options{}, "2 × 2 floats [1 2 3 4]"},
		{"with an empty label", ",1,2\n,3,4\n", Options{}, "2 × 2 floats [1 2 3 4]"},
		{"label last", "1,2,a\n3,4,b\n", Options{Options: layout.Options{Label: "2"}}, "2 × 2 floats [1 2 3 4]"},
		{"label last, left out", "1,2\n3,4\n", Options{Options: layout.Options{Label: "2"}}, "2 × 2 floats [1 2 3 4]"},
		{"label and weight", "1,a,2,0.5\n3,b,4,x\n", Options{Options: layout.Options{Label: "1", Weight: "3"}}, "2 × 2 floats [1 2 3 4]"},
		{"label and weight by name", "x,label,y,w\n1,a,2,0.5\n", Options{Options: layout.Options{Label: "label", Weight: "w"}}, "1 × 2 floats [1 2]"},
		{"by name, left out", "x,y,w\n1,2,0.5\n", Options{Options: layout.Options{Label: "label", Weight: "w"}}, "1 × 2 floats [1 2]"},
		{"header", "x,y\n1,2\n", Options{Options: layout.Options{Header: &yes}}, "1 × 2 floats [1 2]"},
		{"missing", "1,\n", Options{Options: layout.Options{Missing: layout.Missing{Mode: layout.MissingMean}}}, "1 × 2 floats [1 NaN]"},
		{"too many", "a,1,2,3\n", Options{}, "file: line 1: 4 columns: expected 2 features, with or without the label"},
		{"too few", "1\n", Options{}, "file: line 1: 1 columns: expected 2 features, with or without the label"},
		{"a feature short, with the label", "x,label\n1,a\n", Options{Options: layout.Options{Label: "label"}}, "file: line 1: 2 columns: expected 2 features, with or without the label"},
		{"weight but no label", "1,2,0.5\n", Options{Options: layout.Options{Weight: "2"}}, "file: line 1: 3 columns: expected 2 features, with or without the label"},
		{"a word", "1,2\n1,a\n", Options{}, `file: line 2, column 1: "a" is not a number`},
		{"images", string(images), Options{Format: "idx"}, "2 × 2 bytes [1 2 3 4]"},
		{"wide images", string(idxFile(8, []uint32{1, 3}, []uint8{1, 2, 3})), Options{Format: "idx"}, "file: offset 0: 1 × 3 values, as images are: expected 2 features"},
		{"labels for images", string(idxFile(8, []uint32{2}, []uint8{1, 2})), Options{Format: "idx"}, "file: offset 0: 2 numbers, as labels are: expected images"},
	} {
		t.Run(test.name, func(t *testing.T) {
			f := newFolder(t)
			o := test.options
			o.Partitions, o.BatchRows = 4, 1
			if o.Missing.Mode == "" {
				o.Missing.Mode = layout.MissingError
			}
			if o.Format == "" {
				o.Format = "csv"
			}
			whole, _, err := readRows(File(context.Background(), f.write(t, "file", []byte(test.Content)), o, layout.Features{Width: 2}))
			got := show(whole)
			if err != nil {
				got = f.text(err)
			}
			assert.Equal(t, got, test.want, "got")
		})
	}
	f := newFolder(t)
	_, _, err := readRows(File(context.Background(), f.path("none.csv"), Defaults(), layout.Features{Width: 2}))
	assert.Fails(t, err, fs.ErrNotExist)
	_, _, err = readRows(File(context.Background(), f.path("none.csv"), Options{}, layout.Features{Width: 2}))
	assert.True(t, err != nil, "unchecked options are used")
}

// The standard input has the ID and the rows of a file with the same bytes, in every format recognised by its first bytes or its end.
func TestStandardInputIsAFile(t *testing.T) {
	f := folder(t.TempDir())
	for format, content := range map[string][]byte{
		"csv":     []byte("0,1,2\n1,3,4\n"),
		"parquet": pandasFrame(t),
	} {
		read := func(o Options) (id string, rows int) {
			t.Helper()
			o.Format = format
			if format == "parquet" {
				o.Missing.Mode = layout.MissingMean
			}
			sources := assert.Must(Sources(context.Background(), o))(t)
			whole, _, err := readRows(sources[0].batches(context.Background(), nil))
			assert.NoError(t, err)
			return sources[0].ID, whole.Rows
		}
		named, input := Defaults(), Defaults()
		named.Train, input.Train = []string{f.write(t, "a", content)}, []string{StandardInput}
		remove := assert.Must(input.Spool(context.Background(), bytes.NewReader(content)))(t)
		id, rows := read(input)
		wantID, wantRows := read(named)
		assert.True(t, id == wantID && rows == wantRows && rows != 0, "%s: %d rows of %s, expected %d of %s", format, rows, id, wantRows, wantID)
		assert.Fails(t, remove(), nil)
	}
}

// The IDs of sources never change: a source on a topic must be recognised by later versions.
func TestSourceIDGolden(t *testing.T) {
	f := newFolder(t)
	table := f.write(t, "a.csv", []byte("y,x,w\nb,1,2\n"))
	images := f.write(t, "images.idx", idxFile(8, []uint32{1, 1}, uint8(7)))
	labels := f.write(t, "labels.idx", idxFile(8, []uint32{1}, uint8(1)))
	rows := f.write(t, "rows.libsvm", []byte("1 3:2\n"))
	record := arrowRows(t, `[{"x":1,"label":"a"}]`, nullable("x", arrow.PrimitiveTypes.Int32), nullable("label", arrow.BinaryTypes.String))
	stream := f.write(t, "a.arrow", arrowContent(t, record, 1, false))
	lines := f.write(t, "a.jsonl", []byte(`{"x":1,"label":"a"}`))
	yes, frame := true, f.write(t, "frame.parquet", pandasFrame(t))
	for _, test := range []struct {
		name   string
		change func(*Options)
		want   string
	}{
		{"csv", func(o *Options) { o.Train, o.Header, o.Weight = []string{table}, &yes, "2" },
			"da520de4d3a2460a62b99cfe8034d9f5589c3104eafc908a13dcf1f7f12a20c6"},
		{"csv, all options", func(o *Options) {
			o.Test, o.Label, o.Weight, o.Missing.Mode, o.Classes = []string{table}, "y", "w", layout.MissingMean, []string{"b", "a"}
		}, "da520de4d3a2460a62b99cfe8034d9f5589c3104eafc908a13dcf1f7f12a20c6"},
		{"idx, all options", func(o *Options) {
			o.Test, o.Label, o.Weight, o.Missing.Mode, o.Classes = []string{images, labels}, "y", "w", layout.MissingMean, []string{"1", "0"}
		}, "bf6f2e737435ad644e95860252ee07b446ca533db937ceb413fffc926c165361"},
		{"libsvm, all options", func(o *Options) {
			o.Test, o.Missing.Mode, o.Classes = []string{rows}, layout.MissingMean, []string{"1", "0"}
		},
			"c710e85ba501e9a5c9f3d9febcb6f09d68e9c691f09dae671f1f1e717070bcaa"},
		{"arrow", func(o *Options) { o.Train = []string{stream} }, "3393ee86ba66ea2e0f2f269dc14761f036bb52682ffd18f36c29eea692ec30b3"},
		{"jsonl", func(o *Options) { o.Train = []string{lines} }, "cd19835908cbafb660ae440b1f8c5dce4c552a8c01e71f2d58495f14b33b119f"},
		{"parquet, all options", func(o *Options) {
			o.Train, o.Label, o.Weight, o.Missing.Mode, o.Classes = []string{frame}, "3", "weight", layout.MissingMean, []string{"b", "a"}
		}, "71507d4e3936f5c758b899f64a1b8bc9186f5e035db20c0c7c0103437f728657"},
	} {
		o := Defaults()
		test.change(&o) // both csv cases read the same columns
		assert.Equal(t, assert.Must(Sources(context.Background(), o))(t)[0].ID, test.want, "%s", test.name)
	}
}

// Each format of the table is complete, and no file name matches two formats.
func TestFormats(t *testing.T) {
	names := map[string]bool{}
	for _, f := range formatsThat(format.Format.IsOfFiles) {
		assert.True(t, f.Name != "" && !names[f.Name] && len(f.Patterns) != 0, "%q: expected a name of its own, and patterns", f.Name)
		names[f.Name] = true
		assert.True(t, (f.Table == nil) != (f.Rows == nil) && f.Meaning != "" && f.Files >= 1 && (f.Files <= 1 || f.WantFiles != ""),
			"%s: incomplete: %+v", f.Name, f)
	}
	for _, name := range []string{"a-ubyte", "a.idx", "a.idx3", "a.csv", "a.libsvm", "a.svm", "a.svmlight", "a.arrow", "a.arrows",
		"a.feather", "a.parquet", "a.pq", "a.jsonl", "a.ndjson"} {
		claims := 0
		for _, f := range formats() {
			if f.Claims(name) {
				claims++
			}
		}
		assert.True(t, claims == 1, "%s: %d formats", name, claims)
	}
}

// One reading finds the first error of each column, wherever it is, and missing values once. A column without errors has none.
func TestTroubles(t *testing.T) {
	var b strings.Builder
	b.WriteString("y,weight,kind,a,b,c,when,fine\n")
	for i := range 3000 {
		row := []string{fmt.Sprint(i % 2), "1", fmt.Sprint("k", i%3), fmt.Sprint(i), fmt.Sprint(i), fmt.Sprint(i), "2026-01-02", "7"}
		for at, wrong := range map[[2]int]string{{1, 2000}: "heavy", {2, 0}: fmt.Sprint("k", i), {3, 50}: "oops", {3, 60}: "late", {4, 20}: "",
			{4, 2500}: "word", {5, 30}: "", {6, 5}: "soon"} {
			if at[1] == i || at == [2]int{2, 0} {
				row[at[0]] = wrong
			}
		}
		b.WriteString(strings.Join(row, ",") + "\n")
	}
	f := newFolder(t)
	o := Defaults()
	o.Label, o.Weight, o.Categorical = "y", "weight", []string{"kind"}
	o.Times = layout.Times{"when": {Parts: []string{"hour"}}}
	o.Train = []string{f.write(t, "rows.csv", []byte(b.String()))}
	_, _, troubles := Troubles(t.Context(), o)
	want := []string{
		`rows.csv: line 1002, column 2 ("kind"): more than 1000 different words`,
		`rows.csv: line 7, column 6 ("when"): "soon" is not`,
		`rows.csv: line 22, column 4 ("b"): an empty field: examples.missing`,
		`rows.csv: line 52, column 3 ("a"): "oops" is not a number: examples.categorical`,
		`rows.csv: line 2002, column 1 ("weight"): "heavy" is not a number: examples.weight names`,
		`rows.csv: line 2502, column 4 ("b"): "word" is not a number`,
	}
	assert.True(t, len(troubles) == len(want) && !slices.ContainsFunc(want, func(text string) bool {
		return !slices.ContainsFunc(troubles, func(err error) bool { return strings.HasPrefix(f.text(err), text) })
	}), "%v, expected %v", troubles, want)
}

// memoryTopic is an examples topic whose partitions start at different offsets.
type memoryTopic struct {
	mutex      sync.Mutex
	partitions [][]wire.Message
	capacity   int // number of messages that may still be written; negative: unlimited
}

var errFull = errors.New("the topic is full")

func (m *memoryTopic) first(partition int) int64 { return int64(100 * partition) }

// write appends messages.
func (m *memoryTopic) write(_ context.Context, partition int, messages ...wire.Message) (int64, error) {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.capacity == 0 {
		return 0, errFull
	}
	m.capacity--
	offset := m.first(partition) + int64(len(m.partitions[partition]))
	m.partitions[partition] = append(m.partitions[partition], messages...)
	return offset, nil
}

// spans returns the spans of all messages on the topic.
func (m *memoryTopic) spans() []coverage.Span {
	spans := make([]coverage.Span, len(m.partitions))
	for p, messages := range m.partitions {
		spans[p] = coverage.Span{Partition: p, From: m.first(p), To: m.first(p) + int64(len(messages))}
	}
	return spans
}

// A Publish interrupted after any number of messages, and then continued, writes the same messages and the same seal as an
// uninterrupted one. All of them count.
func TestInterruptedPublishContinues(t *testing.T) {
	const rows, partitions = 8, 3
	f := newFolder(t)
	o := Defaults()
	o.BatchRows, o.Partitions = 1, partitions
	var table strings.Builder
	for i := range rows {
		fmt.Fprintf(&table, "a,%d\n", i)
	}
	o.Train = []string{f.write(t, "a.csv", []byte(table.String()))}
	found := assert.Must(Sources(context.Background(), o))(t)
	publish := func(topic *memoryTopic) (*schemas.SourceSeal, error) {
		spans := topic.spans()
		before := slices.Clone(spans)
		seen := int64(0)
		seal, err := Publish(context.Background(), found[0], Attempt{ID: "x", Spans: spans}, topic.write, memory.DefaultAllocator,
			func(rows int64) {
				assert.True(t, rows == seen+1, "progress: %d rows after %d", rows, seen)
				seen = rows
			}, func(map[string]int64) {})
		assert.True(t, slices.Equal(spans, before), "spans of the caller: %v, were %v", spans, before)
		return seal, err
	}
	whole := &memoryTopic{partitions: make([][]wire.Message, partitions), capacity: -1}
	want := assert.Must(publish(whole))(t)
	assert.True(t, want.Rows == rows && want.Messages == rows && want.ID == found[0].ID && want.Attempt == "x", "seal %+v", want)
	for capacity := range rows {
		topic := &memoryTopic{partitions: make([][]wire.Message, partitions), capacity: capacity}
		_, err := publish(topic)
		assert.Need(t, errors.Is(err, errFull), "capacity for %d messages: %v", capacity, err)
		topic.capacity = -1
		seal, err := publish(topic)
		assert.True(t, err == nil && reflect.DeepEqual(seal, want) && reflect.DeepEqual(topic.partitions, whole.partitions),
			"interrupted after %d messages: seal %+v, expected %+v; %v", capacity, seal, want, err)
	}
	for p, messages := range whole.partitions {
		replay := protocol.NewCounting(&schemas.Plan{Sources: []schemas.SourceSeal{*want}}).Replay(coverage.Span{Partition: p})
		for _, m := range messages {
			_, err := replay.Complete()
			assert.True(t, errors.As(err, new(*protocol.IncompleteSourceError)), "partition %d: complete before its end", p)
			assert.True(t, replay.Accept(m) == "" && replay.Accept(m) == coverage.Repeated, "partition %d, %s: expected to count once", p, m.Key)
		}
		missing, err := replay.Complete()
		assert.True(t, err == nil && missing == nil, "missing %v, %v", missing, err)
	}
}

// A file that changed after Sources digested it ends Publish, and there is no seal.
func TestPublishOfChangedFile(t *testing.T) {
	f := newFolder(t)
	o := Defaults()
	o.Train = []string{f.write(t, "a.csv", []byte("0,1\n1,2\n"))}
	found := assert.Must(Sources(context.Background(), o))(t)
	f.write(t, "a.csv", []byte("0,1\n1,3\n"))
	topic := &memoryTopic{partitions: make([][]wire.Message, 1), capacity: -1}
	seal, err := Publish(context.Background(), found[0], Attempt{Spans: topic.spans()}, topic.write, memory.DefaultAllocator,
		func(int64) {}, func(map[string]int64) {})
	want := "a.csv: the file changed while it was ingested"
	assert.True(t, seal == nil && f.text(err) == want, "seal %v, %v, expected %s", seal, err, want)
}

// The defaults are valid, and all problems are reported at once. Package config tests each invalid combination of keys.
func TestCheck(t *testing.T) {
	o := Defaults()
	assert.Equal(t, o.Check(), nil, "the defaults")
	o.Holdout = math.NaN()
	assert.Equal(t, len(o.Check()), 1, "a holdout that is no number")
	no := false
	// Options that are invalid for CSV are valid for a table with names, and for a file whose name does not determine its format.
	for _, name := range []string{"a.parquet", "a.arrow", "a"} {
		o := Defaults()
		o.Train, o.Weight, o.Columns.Use = []string{name}, "0", []string{"1", "2"}
		named := o
		named.Label, named.Header = "y", &no
		for _, o := range []Options{o, named} {
			assert.Equal(t, o.Check(), nil, "%s", name)
		}
	}
	csv := ofTopic("csv", func(o *Options) {
		o.Train, o.Header, o.Rows, o.Schema, o.OnChangedTopic, o.Topic = []string{"a.csv"}, &no, "a", "e.avsc", "go", "a"
		o.Label, o.Offsets, o.Registry.CA = "kind", layout.Offsets{"a": 1}, "ca"
	})
	json := ofTopic("json", func(o *Options) { o.Rows, o.Categorical, o.Columns.Drop = "dense", []string{"c"}, []string{"y"} })
	idx := Defaults()
	idx.Train, idx.Targets, idx.Schema = []string{"a.idx", "b.csv"}, []string{"1"}, "a.avsc"
	avro := ofTopic("avro", func(o *Options) { o.Message = "E" })
	for want, o := range map[string]Options{
		"missing batch_rows partitions":                                            {},
		"from_topic on_changed_topic topic registry.ca offsets schema rows format": csv,
		"columns.use rows": json, "schema message columns.use": avro, "schema train targets": idx,
	} {
		var keys []string
		for _, problem := range o.Check() {
			keys = append(keys, problem.Key)
		}
		assert.Equal(t, strings.Join(keys, " "), want, "problems of")
	}
}
