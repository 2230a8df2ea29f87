package ingest

import (
	"bytes"
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/stagewise/stagewise/ingest/input"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/schemas/examples"
)

// fuzzed are the ways in which a fuzzed file is read. Each bit of the flags of a call, from the lowest, makes one of the changes; the bits
// above them choose the rows to predict that are wanted, from 1, or 0 for training.
type fuzzed struct {
	changes []func(*Options)
	want    []layout.Features
}

func fuzzMissing(o *Options) { o.Missing.Mode = layout.MissingMean }

// read reads files with flags. Either the columns of all batches are consistent in length and size, or the error includes the file.
func (f fuzzed) read(t *testing.T, flags byte, files ...string) {
	o := Defaults()
	o.BatchRows, o.Train = 2, files
	for i, change := range f.changes {
		if flags>>i&1 != 0 {
			change(&o)
		}
	}
	if i := int(flags >> len(f.changes)); i > 0 && len(f.want) > 0 {
		for rows, err := range File(t.Context(), files[0], o, f.want[(i-1)%len(f.want)]) {
			checkFuzzed(t, files, rows, err)
		}
		return
	}
	sources, err := Sources(t.Context(), o)
	if err != nil {
		checkFuzzed(t, files, nil, err)
		return
	}
	for rows, err := range sources[0].batches(t.Context(), nil) {
		checkFuzzed(t, files, rows, err)
	}
}

// checkFuzzed requires a batch whose columns are consistent in length and size, or an error with the file and a reason.
func checkFuzzed(t *testing.T, files []string, rows *examples.Rows, err error) {
	t.Helper()
	if err != nil {
		checkFuzzError(t, files, err)
		return
	}
	values := len(rows.Floats) + len(rows.Bytes)
	cols := rows.Cols
	if rows.Sparse != nil {
		values, cols = rows.Rows, 1
		assert.Need(t, len(rows.Sparse.Ends) == rows.Rows && len(rows.Floats) == 0,
			"%d rows, %d of them sparse, and %d values beside", rows.Rows, len(rows.Sparse.Ends), len(rows.Floats))
		for row := range rows.Rows {
			indices, values := rows.Sparse.Row(row)
			for i, v := range values { // ascending indices, finite nonzero values
				assert.Need(t, v != 0 && v-v == 0 && indices[i] >= 0 && (i == 0 || indices[i] > indices[i-1]), "row %d: %v, %v", row, indices, values)
			}
		}
	}
	assert.Need(t, rows.Rows >= 1 && rows.Rows <= 2 && cols >= 1 && values == rows.Rows*cols && (rows.Floats == nil || rows.Bytes == nil),
		"%d × %d: %d values", rows.Rows, cols, values)
	for _, n := range []int{len(rows.Words), len(rows.Numbers), len(rows.Weights), len(rows.LabelLists)} {
		assert.Need(t, n == 0 || n == rows.Rows, "%d rows, %d in a column", rows.Rows, n)
	}
}

// checkFuzzError requires a *input.Error with one of the files, or a file in it, and a reason.
func checkFuzzError(t *testing.T, files []string, err error) {
	t.Helper()
	of, ok := errors.AsType[*input.Error](err)
	assert.Need(t, ok && of.Err != nil && slices.ContainsFunc(files, func(file string) bool { return strings.HasPrefix(of.File, file) }),
		"%T: %v", err, err)
}

// fuzz fuzzes files with a name.
func (f fuzzed) fuzz(fuzz *testing.F, name string, seeds ...[]byte) {
	for _, seed := range seeds {
		for flags := range (len(f.want) + 1) << len(f.changes) {
			fuzz.Add(seed, byte(flags))
		}
	}
	name = filepath.Join(fuzz.TempDir(), name)
	fuzz.Fuzz(func(t *testing.T, content []byte, flags byte) {
		assert.NoError(t, os.WriteFile(name, content, 0o600))
		f.read(t, flags, name)
	})
}

// texts returns texts as seeds.
func texts(all ...string) (seeds [][]byte) {
	for _, text := range all {
		seeds = append(seeds, []byte(text))
	}
	return seeds
}

// flipped returns a content, and n others, each with another bit.
func flipped(content []byte, n int) [][]byte {
	seeds := [][]byte{content}
	for i := range n {
		seeds = append(seeds, bytes.Clone(content))
		seeds[i+1][len(content)*i/n] ^= 1 << (i % 8)
	}
	return seeds
}

func FuzzCSV(f *testing.F) {
	columns := examples.Columns{{Name: "x"}, {Name: "l", Categories: []string{"a"}}}
	fuzzed{
		changes: []func(*Options){fuzzMissing, func(o *Options) { o.Label = "l" }, func(o *Options) { o.Weight = "1" }, func(o *Options) { o.Text = "2" }},
		want:    []layout.Features{{Width: 2}, {Width: 3, Columns: columns}, {Width: 1 << 18, Sparse: true}},
	}.fuzz(f, "a.csv", texts("a,1,2\nb,3,4\n", "1\n\n2\n", "x\n1\n", "buy, now\n", "\r\n\r\n1\r\n", "l,w,x\r\na,1,2\r\n", "\"a\nb\",1\n", "a,1\n\"", "\ufeffl,x\na,\n", "a,1\n,2\n \n")...)
}

// Rows to predict of one column and without a header are as many as the lines of their file, if they are read.
func FuzzLinesToPredict(f *testing.F) {
	for _, content := range texts("1\n\n2\n", "x\n1\n", "\"1\n\"\n\n", "\xff\n", "\r\n\r\n1\r\n", "1") {
		f.Add(content)
	}
	name, o, header := filepath.Join(f.TempDir(), "rows.csv"), Defaults(), false
	o.Missing.Mode, o.BatchRows, o.Header = layout.MissingMean, 3, &header
	f.Fuzz(func(t *testing.T, content []byte) {
		assert.NoError(t, os.WriteFile(name, content, 0o600))
		rows, _, err := readRows(File(t.Context(), name, o, layout.Features{Width: 1, Columns: examples.Columns{{Name: "x"}}}))
		if err != nil {
			checkFuzzError(t, []string{name}, err)
			return
		}
		plain := !bytes.ContainsAny(content, "\",;\t|\r") && !bytes.HasPrefix(content, []byte("\ufeff"))
		lines := bytes.Count(append(bytes.TrimSuffix(content, []byte("\n")), '\n'), []byte("\n"))
		assert.Need(t, !plain || len(content) == 0 || rows.Rows == lines, "%q: %d rows, expected %d", content, rows.Rows, lines)
	})
}

func FuzzJSONLines(f *testing.F) {
	fuzzed{
		changes: []func(*Options){fuzzMissing, func(o *Options) { o.Labels = layout.LabelsSeveral }, func(o *Options) { o.Text = "t" }},
		want: []layout.Features{{Width: 2}, {Width: 2, Sparse: true},
			{Width: 3, Columns: examples.Columns{{Name: "x"}, {Name: "c", Categories: []string{"a"}}}}},
	}.fuzz(f, "a.jsonl", texts("{\"x\":1}\n{\"x\":null}", `{"label":"a","x":1,"s":null}`+"\n"+`{"x":true,"label":"b"}`, `{"label":["a","b"],"v":[1,2]}`,
		`{"label":1,"f":[{"index":1,"value":2}]}`, `{"label":1,"f":{"7":2}}`, "\ufeff{}", "{\"a\":\"\xff\"}", `{"label":"a","t":"One two"}`,
		`{"a":1,"a":2}`, `{"a":`, `{"a":[[1]],"label":"b"}`)...)
}

func FuzzLIBSVM(f *testing.F) {
	fuzzed{want: []layout.Features{{Width: 4, Sparse: true}}}.fuzz(f, "a.libsvm", texts("1:1 2:2\n\n#\n", "1 1:1\n", "1 1:2 7:-0.5\n-1 0:1e2\n", "# x\n\na\t3:1\r\n", "1 5:1 4:1", "1 1:nan", "1,2 67108864:1", "1 :",
		": 1", "1 1:1:1", "1 qid:7 1:1", "qid:7 1:1", "1 qid:")...)
}

func FuzzArrow(f *testing.F) {
	record := arrowRows(f, `[{"x":1,"v":[1,2],"label":"a"},{"x":null,"v":[3,4],"label":"b"}]`, nullable("x", arrow.PrimitiveTypes.Int32),
		nullable("label", &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}))
	seeds := slices.Concat(flipped(arrowContent(f, record, 1, false), 20), flipped(arrowContent(f, record, 1, true), 20),
		flipped(arrowContent(f, record, 2, false, ipc.WithZstd()), 20))
	hostile, err := filepath.Glob("../schemas/stream/testdata/hostile/*.arrow")
	assert.Need(f, err == nil && len(hostile) >= 40, "%v %v", hostile, err)
	for _, name := range hostile {
		seeds = append(seeds, assert.Must(os.ReadFile(name))(f))
	}
	fuzzed{changes: []func(*Options){func(o *Options) { fuzzMissing(o); o.Categorical, o.Label = []string{"label"}, "x" }}}.fuzz(f, "a.arrow", seeds...)
}

func FuzzParquet(f *testing.F) {
	seeds := flipped(pandasFrame(f), 40)
	for _, name := range []string{"sparse", "durations", "split"} {
		seeds = append(seeds, flipped(assert.Must(os.ReadFile("testdata/"+name+".parquet"))(f), 40)...)
	}
	fuzzed{changes: []func(*Options){fuzzMissing, func(o *Options) { o.Categorical, o.Label = []string{"label"}, "yes" }}}.fuzz(f, "a.parquet", seeds...)
}

func FuzzImages(f *testing.F) {
	image := encodePNG(f, grayImage(1, 2))
	whole := tarOf(f, map[string]string{"cat/a.png": image, "dog/b.png": image, "dog/c.jpg": "\xff\xd8"},
		"cat/a.png", "dog/b.png", "dog/c.jpg")
	fuzzed{}.fuzz(f, "images.tar", flipped(whole, 40)...)
}

func FuzzIDX(f *testing.F) {
	bytesFile := idxFile(8, []uint32{3, 1, 2}, []uint8{1, 2, 3, 4, 5, 255})
	labels := idxFile(8, []uint32{3}, []uint8{7, 0, 255})
	for _, images := range [][]byte{
		bytesFile, labels, bytesFile[:12], bytesFile[:20],
		idxFile(11, []uint32{3, 2}, []int16{1, 2, 3, 4, 5, 6}),
		idxFile(13, []uint32{3, 1}, []float32{1, 2, 3}),
		idxFile(14, []uint32{3, 1}, []float64{1, math.Inf(1), 3}),
		idxFile(8, []uint32{math.MaxUint32, math.MaxUint32, math.MaxUint32}),
	} {
		f.Add(images, labels)
		f.Add(images, idxFile(12, []uint32{3}, []int32{1, 2, 3}))
	}
	folder := f.TempDir()
	f.Fuzz(func(t *testing.T, images, labels []byte) {
		files := []string{filepath.Join(folder, "images.idx"), filepath.Join(folder, "labels.idx")}
		assert.NoError(t, os.WriteFile(files[0], images, 0o600))
		assert.NoError(t, os.WriteFile(files[1], labels, 0o600))
		for flags := range byte(2) {
			fuzzed{want: []layout.Features{{Width: 2}}}.read(t, flags, files...)
		}
	})
}
