package serve

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/apache/arrow/go/v17/arrow/memory"

	"github.com/stagewise/stagewise/ingest"
	formatarrow "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// Columns with paths are found in nested values, as in training.
func TestNestedRows(t *testing.T) {
	columns := examples.Columns{{Name: "user.age"}, {Name: "user.address.city", Categories: []string{"Oslo", "Rome"}}, {Name: "items.1.price"}, {Name: "n"}}
	m := newModel(t, 1, 6, columns, layout.MissingMean)
	s := newServer(t, Defaults(), Fixed(m))
	for body, row := range map[string][]float32{
		`{"rows": [{"user": {"age": 30, "address": {"city": "Rome", "zip": [1]}, "id": {"age": 1}}, "items": [{"price": 1}, {"price": 2, "n": 9}, 3], "n": 4}]}`: {30, 0, 1, 0, 2, 4},
		`{"rows": [{"n": 4, "user.age": 30, "user": {"age": 31, "address": {"city": "Rome"}}, "items.1.price": 2, "other": {"age": 7}}]}`:                        {30, 0, 1, 0, 2, 4},
		`{"rows": [{"user": null, "items": [], "n": 4}]}`:             {nan, nan, nan, nan, nan, 4},
		`{"rows": [{"user": [{"age": 1}], "items": "none", "n": 4}]}`: {nan, nan, nan, nan, nan, 4},
	} {
		checkAnswer(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), m, row)
	}
	for body, want := range map[string]string{
		`{"rows": [{"user": {"age": {}}}]}`:          `column "user.age"`,
		`{"rows": [{"user": {"age": 1, "age": 1}}]}`: `duplicate member "age"`,
		`{"rows": [{"user": {"x": 1, "x": 1}}]}`:     `duplicate member "x"`,
	} {
		checkRefused(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), body, want)
	}
}

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
		if w := ask(s, "POST", "/predict", typeJSON, []byte(body)); w.Code != http.StatusOK || w.Header().Get(headerMissing) != missing {
			t.Errorf("%s: %d, %s columns, expected %s: %s", body, w.Code, w.Header().Get(headerMissing), missing, w.Body)
		}
	}
	// of each row: 2+2, 2+3, 2+2 and 2
	if metrics := ask(s, "GET", "/metrics", "", nil).Body.String(); !strings.Contains(metrics, "stagewise_missing_columns_total{pipeline=\"p\"} 15\n") {
		t.Error(metrics)
	}
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
	r := httptest.NewRequest("POST", "/predict", bytes.NewReader(stream))
	r.Header.Set("Content-Type", typeArrow)
	r.Header.Set("Accept", typeJSON)
	w := httptest.NewRecorder()
	if texts.ServeHTTP(w, r); w.Body.String() != answer.Body.String() {
		t.Errorf("%s, expected %s", w.Body, answer.Body)
	}

	o := ingest.Defaults().Options
	o.Hash = layout.Hash{Columns: 64}
	o.Missing.Mode, o.Text, o.Words, o.Categorical = layout.MissingMean, "post.text", layout.WordOptions{Columns: 32, Phrases: 1}, []string{"user.address.city"}
	names := examples.Columns{{Name: "user.age"}, {Name: "n"}}
	var got examples.SparseRows
	want := must(sparseRowsOf([]byte(`{"rows": `+rows+`}`), o, names))(t)
	for batch, err := range formatarrow.Stream(t.Context(), "the request", stream, nil, o, layout.Features{Columns: names, Sparse: true}) {
		noError(t, err)
		for i := range batch.Rows {
			indices, values := batch.Sparse.Row(i)
			for j, index := range indices {
				got.Append(index, values[j])
			}
			got.End()
		}
	}
	if len(got.Ends) != 4 || fmt.Sprint(got) != fmt.Sprint(want) { // NaN is equal as text
		t.Errorf("%v, expected %v", got, want)
	}
}

// recordStream writes rows in JSON as two batches, of the first row and of the others.
func recordStream(t *testing.T, fields []arrow.Field, rows string) []byte {
	t.Helper()
	schema := arrow.NewSchema(fields, nil)
	record, _, err := array.RecordFromJSON(memory.DefaultAllocator, schema, strings.NewReader(rows))
	noError(t, err)
	var stream bytes.Buffer
	w := ipc.NewWriter(&stream, ipc.WithSchema(schema))
	for _, part := range []arrow.Record{record.NewSlice(0, 1), record.NewSlice(1, record.NumRows())} {
		noError(t, w.Write(part))
	}
	noError(t, w.Close())
	return stream.Bytes()
}
