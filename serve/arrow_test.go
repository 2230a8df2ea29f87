package serve

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/model"
)

// streamOf writes records with one schema as a stream.
func streamOf(t testing.TB, records []arrow.Record, options ...ipc.Option) []byte {
	t.Helper()
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(records[0].Schema()))...)
	for _, record := range records {
		noError(t, w.Write(record))
	}
	noError(t, w.Close())
	return stream.Bytes()
}

// recordStream writes rows in JSON as two batches, of the first row and of the others.
func recordStream(t *testing.T, fields []arrow.Field, rows string) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	noError(t, err)
	return streamOf(t, []arrow.Record{record.NewSlice(0, 1), record.NewSlice(1, record.NumRows())})
}

// listsOf writes rows of features as lists, n in each batch.
func listsOf(t testing.TB, rows [][]float32, n int, options ...ipc.Option) []byte {
	t.Helper()
	b := array.NewFixedSizeListBuilder(memory.DefaultAllocator, int32(len(rows[0])), arrow.PrimitiveTypes.Float32)
	defer b.Release()
	var records []arrow.Record
	for batch := range slices.Chunk(rows, n) {
		for _, row := range batch {
			b.Append(true)
			b.ValueBuilder().(*array.Float32Builder).AppendValues(row, nil)
		}
		lists := b.NewArray()
		schema := arrow.NewSchema([]arrow.Field{{Name: "features", Type: lists.DataType()}}, nil)
		records = append(records, array.NewRecord(schema, []arrow.Array{lists}, int64(len(batch))))
	}
	return streamOf(t, records, options...)
}

// zeros returns n rows of d features, which compress well.
func zeros(n, d int) [][]float32 { return slices.Repeat([][]float32{make([]float32, d)}, n) }

// checkArrow checks an answer in Arrow.
func checkArrow(t *testing.T, w *httptest.ResponseRecorder, m *model.Model, rows [][]float32) {
	t.Helper()
	if w.Header().Get("Content-Type") != typeArrow {
		t.Fatalf("%d: %s", w.Code, w.Body)
	}
	checkAnswer(t, w, m, rows...)
}

// Rows in Arrow may be lists or named columns, in any number of batches, and words may be dictionary-encoded. The answer
// is in Arrow, unless the request specifies otherwise.
func TestRowsOfArrow(t *testing.T) {
	plain, named := newModel(t, 3, 2, nil, layout.MissingError), newModel(t, 4, 5, people, layout.MissingMean)
	rows := [][]float32{{1, 2}, {-3, 0.5}, {4, 1e9}, {0, 0}, {5, 6}}
	for _, n := range []int{1, 2, 5} {
		checkArrow(t, ask(newServer(t, Defaults(), Fixed(plain)), "POST", "/predict", typeArrow, listsOf(t, rows, n)), plain, rows)
	}
	checkAnswer(t, ask(newServer(t, Defaults(), Fixed(plain)), "POST", "/predict", typeArrow, listsOf(t, rows, 5), "Accept", "text/html, Application/JSON;q=0.9"),
		plain, rows...)

	dictionary := &arrow.DictionaryType{IndexType: arrow.PrimitiveTypes.Int8, ValueType: arrow.BinaryTypes.String}
	body := recordStream(t, []arrow.Field{{Name: "city", Type: dictionary}, {Name: "name", Type: arrow.BinaryTypes.Binary},
		{Name: "height", Type: arrow.PrimitiveTypes.Float64, Nullable: true}, {Name: "age", Type: arrow.PrimitiveTypes.Uint8}},
		`[{"city":"Rome","name":"AQ==","height":1.5,"age":30},{"city":"Oslo","name":"Ag==","height":null,"age":31},
		{"city":"Lima","name":"Aw==","height":1.75,"age":32}]`)
	checkArrow(t, ask(newServer(t, Defaults(), Fixed(named)), "POST", "/predict", typeArrow, body), named,
		[][]float32{{30, 0, 1, 0, 1.5}, {31, 1, 0, 0, nan}, {32, 0, 0, 1, 1.75}})
}

// Unusable Arrow is rejected with a reason, and a small body with a large declared size uses no memory.
func TestRefusalsOfArrow(t *testing.T) {
	m := newModel(t, 3, 2, nil, layout.MissingError)
	named := newModel(t, 4, 5, people, layout.MissingError)
	rows := [][]float32{{1, 2}, {3, 4}}
	good := listsOf(t, rows, 2)
	for _, c := range []struct {
		name string
		m    *model.Model
		body []byte
		want string
	}{
		{"empty", m, nil, "the request: "},
		{"JSON", m, []byte(`{"rows": [[1, 2]]}`), "the request: "},
		{"cut off", m, good[:len(good)-20], "the request: "},
		{"two streams", m, slices.Concat(good, good), "bytes after the end of the stream"},
		{"other width", m, listsOf(t, [][]float32{{1, 2, 3}}, 1), "expected 2 features"},
		{"NaN", m, listsOf(t, [][]float32{{1, nan}}, 1), "row 0, counted from 0: a missing value: the model was trained with examples.missing: error"},
		{"names", named, good, `columns that the model needs: "age", "city" and "height"`},
		{"a bomb", newModel(t, 3, 1<<16, nil, layout.MissingError), listsOf(t, zeros(64, 1<<16), 64, ipc.WithZstd()),
			"the rows have more than 1048576 bytes when unpacked"},
	} {
		o := Defaults()
		o.MaxBody = 1 << 20
		w := ask(newServer(t, o, Fixed(c.m)), "POST", "/predict", typeArrow, c.body)
		status := http.StatusBadRequest
		if c.name == "a bomb" {
			status = http.StatusRequestEntityTooLarge
		}
		if got := reason(t, w); w.Code != status || !strings.Contains(got, c.want) {
			t.Errorf("%s: %d: %s, expected %s", c.name, w.Code, got, c.want)
		}
	}
	for at := range good { // with any damage, the answer is one or the other
		damaged := slices.Clone(good)
		damaged[at] ^= 0xff
		if w := ask(newServer(t, Defaults(), Fixed(m)), "POST", "/predict", typeArrow, damaged); w.Code != http.StatusOK &&
			w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge { // with another length
			t.Errorf("byte %d: %d: %s", at, w.Code, w.Body)
		}
	}
	o := Defaults()
	o.MaxRows = 1
	if w := ask(newServer(t, o, Fixed(m)), "POST", "/predict", typeArrow, good); w.Code != http.StatusRequestEntityTooLarge {
		t.Errorf("too many rows: %d: %s", w.Code, w.Body)
	}
}

// FuzzArrow predicts rows in Arrow, or rejects them with a reason.
func FuzzArrow(f *testing.F) {
	named := newModel(f, 4, 5, people, layout.MissingMean)
	server := newServer(f, Defaults(), Fixed(named))
	whole := listsOf(f, [][]float32{{30, 0, 1, 0, 1.5}, {31, 1, 0, 0, 1}}, 1)
	f.Add(whole)
	for i := range 40 {
		flipped := bytes.Clone(whole)
		flipped[len(whole)*i/40] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := ask(server, "POST", "/predict", typeArrow, body)
		if w.Code != http.StatusOK && (w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge || reason(t, w) == "") {
			t.Errorf("%d: %s", w.Code, w.Body)
		}
	})
}
