package serve

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/schemas/examples"
)

// purchases are table columns with words that look like numbers and booleans: a number and two words, which are seven
// features.
var purchases = examples.Columns{{Name: "age"}, {Name: "member", Categories: []string{"false", "true"}},
	{Name: "size", Categories: []string{"1", "2.5"}}}

// Booleans and numbers are the words of their columns, in any order of columns, and in many rows.
func TestValuesWithColumns(t *testing.T) {
	m := newModel(t, 4, purchases.Features(), purchases, layout.MissingMean)
	s := newServer(t, Defaults(), Fixed(m))
	many := strings.TrimSuffix(strings.Repeat(`[2.50, true, true, "x"],`, 3*tileRows), ",")
	var wants [][]float32
	for range 3 * tileRows {
		wants = append(wants, []float32{1, 0, 1, 0, 0, 1, 0})
	}
	for _, c := range []struct {
		columns, rows string
		want          [][]float32
	}{
		{`["size", "member", "age", "shoes"]`, many, wants},
		{`["size", "age", "member"]`, `[1.0, true, false], ["1.0", false, true]`, [][]float32{{1, 1, 0, 0, 1, 0, 0}, {0, 0, 1, 0, 1, 0, 0}}},
		{`["member", "size", "age"]`, `["true", 2.5, "TRUE"], ["red", null, 30]`, [][]float32{{1, 0, 1, 0, 0, 1, 0}, {30, 0, 0, 1, nan, nan, nan}}}, // "red" is no age
		{`["age"]`, `[true]`, [][]float32{{1, nan, nan, nan, nan, nan, nan}}},
	} {
		body := fmt.Sprintf(`{"id": 1, "columns": %s, "trace": [true], "rows": [%s], "time": "12:00"}`, c.columns, c.rows)
		checkAnswer(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), m, c.want...)
	}
	checkAnswer(t, ask(s, "POST", "/predict", typeJSON,
		[]byte(`{"columns": ["size"], "rows": [{"size": 2.50, "age": false, "member": true, "shoes": true}]}`)), m, []float32{0, 0, 1, 0,
		0, 1, 0})
}

// Duplicate names, and invalid strings, are rejected anywhere, also in ignored members and after the rows.
func TestNamesThatComeTwice(t *testing.T) {
	dense := newServer(t, Defaults(), Fixed(newModel(t, 4, purchases.Features(), purchases, layout.MissingMean)))
	sparse := newServer(t, Defaults(), Fixed(sparseModel(t, 5, "")))
	var others strings.Builder
	for i := range 65536 {
		fmt.Fprintf(&others, `,"%d":0`, i)
	}
	for body, want := range map[string]string{
		`{"columns": ["age"], "columns": ["age"], "rows": []}`:                  `duplicate member "columns"`,
		`{"rows": [{"age": true}], "rows": [[true]]}`:                           `duplicate member "rows"`,
		`{"top": 1, "t\u006fp": 1, "rows": []}`:                                 `duplicate member "top"`,
		`{"id": 1, "id": 1, "rows": []}`:                                        `duplicate member "id"`,
		`{"id": 1, "rows": [], "id": 1}`:                                        `duplicate member "id"`,
		`{"columns": ["shoes", "age", "shoes"], "rows": [[1, true, 2]]}`:        `duplicate column "shoes"`,
		`{"rows": [{"age": true, "shoes": 1, "shoes": 1}]}`:                     `duplicate member "shoes"`,
		`{"columns": ["age"], "rows": [[1]], "id": "\ud800"}`:                   `an unpaired surrogate`,
		`{"rows": [{"age": 1, "shoes": ["\udc00"]}]}`:                           `an unpaired surrogate`,
		`{"rows": [], "\ud800": 1}`:                                             `an unpaired surrogate`,
		"{\"rows\": [[1]], \"id\": \"\xff\"}":                                   `is not UTF-8`,
		`{"rows": []` + others.String() + `, "7": 0}`:                           `duplicate member "7"`,
		`{"rows": [{"age": 1` + others.String() + `, "7": 1}]}`:                 `duplicate member "7"`,
		`{"rows": [{"age": 1, "size": 2` + others.String() + `, "age": true}]}`: `duplicate member "age"`,
	} {
		checkRefused(t, ask(dense, "POST", "/predict", typeJSON, []byte(body)), body, want)
	}
	for body, want := range map[string]string{
		`{"rows": [], "id": 1, "id": 1}`:                                           `duplicate member "id"`,
		`{"rows": [], "rows": []}`:                                                 `duplicate member "rows"`,
		`{"rows": [{"indices": [], "id": 1, "values": [], "id": 1}]}`:              `duplicate member "id"`,
		`{"rows": [{"indices": [], "values": []` + others.String() + `, "7": 0}]}`: `duplicate member "7"`,
		`{"rows": [{"indices": [], "id": {"a": "\ud800\ud800"}, "values": []}]}`:   `an unpaired surrogate`,
	} {
		checkRefused(t, ask(sparse, "POST", "/predict", typeJSON, []byte(body)), body, want)
	}
}

func checkRefused(t *testing.T, w *httptest.ResponseRecorder, body, want string) {
	t.Helper()
	if got := reason(t, w); w.Code != http.StatusBadRequest || !strings.Contains(got, want) {
		t.Errorf("%.100s: %d: %s, expected %s", body, w.Code, got, want)
	}
}
