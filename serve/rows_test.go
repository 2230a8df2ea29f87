package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	formatarrow "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// A request with none of the model's columns is refused with their names. An answer tells how many columns rows lack.
func TestMissingColumns(t *testing.T) {
	s := newServer(t, Defaults(), Fixed(newModel(t, 4, 5, people, layout.MissingMean)))
	for _, body := range []string{
		`{"rows": [{"Age": 1, "City": "Oslo", "Height": 2}]}`, `{"columns": ["Age", "City", "Height"], "rows": [[1, 2, 3]]}`,
		`{"rows": [{"features": {"age": 1, "city": "Rome", "height": 2}}]}`, `{"rows": [{}]}`,
		`{"rows": [{}, {"x": [{"age": 1}]}]}`, `{"columns": [], "rows": [[]]}`,
	} {
		checkRefused(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), body, `missing columns that the model needs: "age", "city" and "height"`)
	}
	for body, missing := range map[string]string{
		`{"rows": [[1, "Oslo", 2]]}`: "0", `{"rows": [{"age": 1, "city": null, "height": 2}]}`: "0", `{"rows": [{"age": 1}, {"height": 2}]}`: "3",
		`{"rows": [{"age": 1}, {}]}`: "3", `{"columns": ["age", "x"], "rows": [[1, 2], [3, 4]]}`: "2", `{"columns": ["city"], "rows": [["Oslo"]]}`: "2",
	} {
		w := ask(s, "POST", "/predict", typeJSON, []byte(body))
		assert.True(t, w.Code == http.StatusOK && w.Header().Get(headerMissing) == missing,
			"%s: %d, %s columns, expected %s: %s", body, w.Code, w.Header().Get(headerMissing), missing, w.Body)
	}
	// of each row: 2+2, 2+3, 2+2 and 2
	metrics := ask(s, "GET", "/metrics", "", nil).Body.String()
	assert.True(t, strings.Contains(metrics, "stagewise_missing_columns_total{pipeline=\"p\"} 15\n"), "%v", metrics)
}

// Columns within structs of Arrow are found, too. A null struct is a missing value, and a column with the whole name is preferred.
func TestNestedArrow(t *testing.T) {
	text, number, whole := arrow.BinaryTypes.String, arrow.PrimitiveTypes.Float64, arrow.PrimitiveTypes.Int16
	member := func(name string, of arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: of, Nullable: true}
	}
	user := member("user", arrow.StructOf(member("id", &arrow.FixedSizeBinaryType{ByteWidth: 2}), member("age", whole),
		member("address", arrow.StructOf(member("city", text), member("zip", arrow.ListOf(whole))))))
	n, post, day := member("n", number), member("post", arrow.StructOf(member("text", text))), member("day", arrow.PrimitiveTypes.Date32)
	users := `{"id": "YWI=", "age": 30, "address": {"city": "Rome", "zip": [1]}}`
	rows := `[{"user": ` + users + `, "n": 4, "post": {"text": "to be"}}, {"user": null, "n": 5, "post": null},
		{"user": {"age": null, "address": null}, "n": null, "post": {"text": null}}, {"user": ` + users + `, "n": 6, "post": {"text": "or not"}}]`
	stream := recordStream(t, []arrow.Field{user, day, n, post}, rows)

	columns := examples.Columns{{Name: "n"}, {Name: "user.age"}, {Name: "user.address.city", Categories: []string{"Oslo", "Rome"}}}
	m := newModel(t, 1, 5, columns, layout.MissingMean)
	s := newServer(t, Defaults(), Fixed(m))
	checkArrow(t, ask(s, "POST", "/predict", typeArrow, stream), m, [][]float32{{4, 30, 0, 1, 0}, {5, nan, nan, nan, nan}, {nan, nan, nan, nan, nan}, {6, 30, 0, 1, 0}})
	plain := recordStream(t, []arrow.Field{user, n, member("user.age", number)}, `[{"user": `+users+`, "n": 4, "user.age": 1.5}, {"user": `+users+`, "n": 4}]`)
	checkArrow(t, ask(s, "POST", "/predict", typeArrow, plain), m, [][]float32{{4, 1.5, 0, 1, 0}, {4, nan, 0, 1, 0}})
	for want, stream := range map[string][]byte{
		`"user.age" and "user.address.city"`: recordStream(t, []arrow.Field{n, member("user", number)}, `[{"n": 1}, {"n": 2}]`),
		`type struct<id`:                     recordStream(t, []arrow.Field{n, user, member("user.age", user.Type)}, `[{"n": 1}, {"n": 2}]`),
	} {
		checkRefused(t, ask(s, "POST", "/predict", typeArrow, stream), want, want)
	}

	items := func(of arrow.DataType) arrow.Field { return member("items", arrow.ListOf(of)) }
	priced := newModel(t, 1, 2, examples.Columns{{Name: "n"}, {Name: "items.1.price"}}, layout.MissingMean)
	prices := newServer(t, Defaults(), Fixed(priced))
	checkArrow(t, ask(prices, "POST", "/predict", typeArrow, recordStream(t, []arrow.Field{n, items(arrow.StructOf(member("price", number)))},
		`[{"n": 1, "items": [{"price": 1}, {"price": 2}]}, {"n": 2, "items": null}, {"n": 3, "items": [{"price": 1}]}]`)), priced,
		[][]float32{{1, 2}, {2, nan}, {3, nan}})
	checkRefused(t, ask(prices, "POST", "/predict", typeArrow, recordStream(t, []arrow.Field{items(text), day}, `[{"items": ["a"]}, {"items": []}]`)), "no place",
		`"items.1.price"`)

	texts := newServer(t, Defaults(), Fixed(sparseModel(t, 64, "post.text")))
	answer := ask(texts, "POST", "/predict", typeJSON, []byte(`{"rows": ["to be", "", "", "or not"]}`))
	assert.Equal(t, ask(texts, "POST", "/predict", typeArrow, stream, "Accept", typeJSON).Body.String(), answer.Body.String(), "")

	o := ingest.Defaults().Options
	o.Hash = layout.Hash{Columns: 64}
	o.Missing.Mode, o.Text, o.Words, o.Categorical = layout.MissingMean, "post.text", layout.WordOptions{Columns: 32, Phrases: 1}, []string{"user.address.city"}
	names := examples.Columns{{Name: "user.age"}, {Name: "n"}}
	var got examples.SparseRows
	want := assert.Must(sparseRowsOf([]byte(`{"rows": `+rows+`}`), o, names))(t)
	for batch, err := range (formatarrow.Sent{Stream: stream}).Batches(t.Context(), "the request", nil, o, layout.Features{Columns: names, Sparse: true}) {
		assert.NoError(t, err)
		for i := range batch.Rows {
			indices, values := batch.Sparse.Row(i)
			for j, index := range indices {
				got.Append(index, values[j])
			}
			got.End()
		}
	}
	assert.True(t, len(got.Ends) == 4 && fmt.Sprint(got) == fmt.Sprint(want), "%v, expected %v", got, want) // NaN is equal as text
}

// sparseModel returns a model with random weights over d sparse columns, the second of which is dropped; for texts if text is a column.
func sparseModel(t testing.TB, d int, text string) *model.Model {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 1))
	weights := make([]float32, (d-1)*len(labels))
	for i := range weights {
		weights[i] = float32(random.NormFloat64())
	}
	factors := make([]float32, d)
	for j := range factors {
		factors[j] = float32(1 + j)
	}
	factors[1] = 0
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: stages.ScaleUnit,
		Values: stages.ValuesLog},
		Stages: []schemas.Stage{{Features: stages.DefaultsOf(stages.Columns), Link: link.Softmax}}}
	if text != "" {
		plan.Input.Text, plan.Input.WordColumns, plan.Input.WordPhrases = text, d, 2
	}
	manifest := &schemas.Manifest{Name: "p", Version: 1, Run: "run", Plan: plan, Labels: labels, Blocks: []schemas.BlockDigest{{}}}
	m := assert.Must(model.New(manifest, wire.Tensors[float32]{wire.Vector(statistics.TensorFactors, factors),
		wire.Words[float32](statistics.TensorLabels, labels)},
		[][]*schemas.Weights{{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run"},
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, d-1, len(labels), weights)}}}}))(t)
	manifest.WeightsDigest = m.Digest()
	return m
}

// Rows may be objects and lists, in any number, with columns that the model does not have.
func TestSparseRowsOfJSON(t *testing.T) {
	m := sparseModel(t, 5, "")
	s := newServer(t, Defaults(), Fixed(m))
	check := func(body string, rows *examples.SparseRows) {
		t.Helper()
		checkPredicted(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), m, &examples.Rows{Rows: rows.Len(), Sparse: rows})
	}
	check(`{"rows": [{"indices": [0, 3, 99], "values": [1, -2.5, 7]}, {"values": [], "id": [7], "indices": []}, [0, 4, 0.5], [], {"indices": [2], "values": [0]}]}`,
		&examples.SparseRows{Ends: []int{3, 3, 5, 5, 5}, Indices: []int32{0, 3, 99, 1, 2}, Values: []float32{1, -2.5, 7, 4, 0.5}})
	for _, n := range []int{63, 64, 65, 200} {
		var rows examples.SparseRows
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`{"indices":[%d],"values":[%d]}`, i%5, i+1))
			rows.Indices, rows.Values = append(rows.Indices, int32(i%5)), append(rows.Values, float32(i+1))
			rows.Ends = append(rows.Ends, i+1)
		}
		check(`{"rows":[`+strings.Join(parts, ",")+`]}`, &rows)
	}
}

// FuzzSparseRows compares the reader of sparse rows with encoding/json: it only accepts JSON, its rows are ordered, and values are finite.
func FuzzSparseRows(f *testing.F) {
	for _, seed := range []string{
		`{"rows":[{"indices":[0,3],"values":[1,-2.5]},[0,1]]}`, `{"rows":[]}`, `{"rows":["a text",{"message":"b"}]}`,
		`{"rows":[{"values":[1],"indices":[9],"x":{"y":[null]}}]}`,
		`{"rows":[{"indices":[1,0],"values":[1,1]}]}`, `{"rows":[[1e39]]}`, `{"rows":[{}]}`, "{\"rows\":[\"\xff\"]}",
	} {
		f.Add([]byte(seed), false)
		f.Add([]byte(seed), true)
	}
	f.Fuzz(func(t *testing.T, body []byte, texts bool) {
		o := ingest.Defaults()
		if texts {
			o.Text, o.Words = "message", layout.WordOptions{Columns: 100, Phrases: 2}
		}
		rows, err := sparseRowsOf(body, o.Options, nil)
		if err != nil {
			return
		}
		var content struct{ Rows []json.RawMessage }
		err = json.NewDecoder(bytes.NewReader(body)).Decode(&content)
		assert.Need(t, err == nil && json.Valid(body), "%q was taken, and is no JSON: %v", body, err)
		assert.Need(t, rows.Len() == len(content.Rows), "%q: %d rows, expected %d", body, rows.Len(), len(content.Rows))
		for i := range rows.Len() {
			indices, values := rows.Row(i)
			for at, j := range indices {
				assert.Need(t, (at <= 0 || j > indices[at-1]) && j >= 0 && values[at] != 0 && !math.IsNaN(float64(values[at]-values[at])),
					"%q: row %d has %v at %v", body, i, values, indices)
			}
		}
	})
}

// streamOf writes records with one schema as a stream.
func streamOf(t testing.TB, records []arrow.Record, options ...ipc.Option) []byte {
	t.Helper()
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, append(options, ipc.WithSchema(records[0].Schema()))...)
	for _, record := range records {
		assert.NoError(t, w.Write(record))
	}
	assert.NoError(t, w.Close())
	return stream.Bytes()
}

// recordStream writes rows in JSON as two batches, of the first row and of the others.
func recordStream(t *testing.T, fields []arrow.Field, rows string) []byte {
	t.Helper()
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, arrow.NewSchema(fields, nil), strings.NewReader(rows))
	assert.NoError(t, err)
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
	assert.Need(t, w.Header().Get("Content-Type") == typeArrow, "%d: %s", w.Code, w.Body)
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
		got := reason(t, w)
		assert.True(t, w.Code == status && strings.Contains(got, c.want), "%s: %d: %s, expected %s", c.name, w.Code, got, c.want)
	}
	for at := range good { // with any damage, the answer is one or the other
		damaged := slices.Clone(good)
		damaged[at] ^= 0xff
		w := ask(newServer(t, Defaults(), Fixed(m)), "POST", "/predict", typeArrow, damaged)
		assert.True(t, w.Code == http.StatusOK || w.Code == http.StatusBadRequest || w.Code == http.StatusRequestEntityTooLarge,
			"byte %d: %d: %s", at, w.Code, w.Body) // with another length
	}
	o := Defaults()
	o.MaxRows = 1
	w := ask(newServer(t, o, Fixed(m)), "POST", "/predict", typeArrow, good)
	assert.True(t, w.Code == http.StatusRequestEntityTooLarge, "too many rows: %d: %s", w.Code, w.Body)
}

// FuzzArrow predicts rows in Arrow, or rejects them with a reason.
func FuzzArrow(f *testing.F) {
	server := newServer(f, Defaults(), Fixed(newModel(f, 4, 5, people, layout.MissingMean)))
	whole := listsOf(f, [][]float32{{30, 0, 1, 0, 1.5}, {31, 1, 0, 0, 1}}, 1)
	f.Add(whole)
	for i := range 40 {
		flipped := bytes.Clone(whole)
		flipped[len(whole)*i/40] ^= 1 << (i % 8)
		f.Add(flipped)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := ask(server, "POST", "/predict", typeArrow, body)
		assert.True(t, w.Code == http.StatusOK || (w.Code == http.StatusBadRequest || w.Code == http.StatusRequestEntityTooLarge) &&
			reason(t, w) != "", "%d: %s", w.Code, w.Body)
	})
}
