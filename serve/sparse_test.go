package serve

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
	"github.com/stagewise/stagewise/stages/prepare"
)

// sparseModel returns a model with random weights over d sparse columns, the second of which is dropped; for texts if text
// is a column.
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
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: layout.MissingError, Prepare: schemas.Prepare{Scale: prepare.ScaleUnit,
		Values: prepare.ValuesLog},
		Stages: []schemas.Stage{{Features: stages.DefaultsOf(stages.Columns), Link: link.Softmax}}}
	if text != "" {
		plan.Input.Text, plan.Input.WordColumns, plan.Input.WordPhrases = text, d, 2
	}
	manifest := &schemas.Manifest{Name: "p", Version: 1, Run: "run", Plan: plan, Labels: labels, Blocks: []schemas.BlockDigest{{}}}
	m := must(model.New(manifest, wire.Tensors[float32]{wire.Vector(statistics.TensorFactors, factors),
		wire.Words[float32](statistics.TensorLabels, labels)},
		[][]*schemas.Weights{{{Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run"},
			Tensors: wire.Tensors[float32]{wire.Matrix(statistics.TensorW, d-1, len(labels), weights)}}}}))(t)
	manifest.WeightsDigest = m.Digest()
	return m
}

// checkSparse checks the answer to sparse rows.
func checkSparse(t *testing.T, s http.Handler, m *model.Model, body string, rows *examples.SparseRows) {
	t.Helper()
	w := ask(s, "POST", "/predict", typeJSON, []byte(body))
	var got answered
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
		t.Fatalf("%.60s: %d: %s (%v)", body, w.Code, w.Body, err)
	}
	k := len(labels)
	want := make([]float32, rows.Len()*k)
	m.Probabilities(want, &examples.Rows{Rows: rows.Len(), Sparse: rows})
	if len(got.Probabilities) != rows.Len() || len(got.Labels) != rows.Len() {
		t.Fatalf("%.60s: %d rows and %d labels, expected %d", body, len(got.Probabilities), len(got.Labels), rows.Len())
	}
	for i, row := range got.Probabilities {
		for c, v := range row {
			if v != want[i*k+c] {
				t.Errorf("%.60s: row %d, class %d: %v, expected %v", body, i, c, v, want[i*k+c])
			}
		}
	}
}

// Rows may be objects and lists, in any number, with columns that the model does not have.
func TestSparseRowsOfJSON(t *testing.T) {
	m := sparseModel(t, 5, "")
	s := newServer(t, Defaults(), Fixed(m))
	checkSparse(t, s, m, `{"rows": [{"indices": [0, 3, 99], "values": [1, -2.5, 7]}, {"values": [], "id": [7], "indices": []}, [0, 4, 0.5], [], {"indices": [2], "values": [0]}]}`,
		&examples.SparseRows{Ends: []int{3, 3, 5, 5, 5}, Indices: []int32{0, 3, 99, 1, 2}, Values: []float32{1, -2.5, 7, 4, 0.5}})
	for _, n := range []int{63, 64, 65, 200} {
		var rows examples.SparseRows
		var parts []string
		for i := range n {
			parts = append(parts, fmt.Sprintf(`{"indices":[%d],"values":[%d]}`, i%5, i+1))
			rows.Indices, rows.Values = append(rows.Indices, int32(i%5)), append(rows.Values, float32(i+1))
			rows.Ends = append(rows.Ends, i+1)
		}
		checkSparse(t, s, m, `{"rows":[`+strings.Join(parts, ",")+`]}`, &rows)
	}
}

func TestSparseRowsAreRefusedWithAReason(t *testing.T) {
	counts, texts := newServer(t, Defaults(), Fixed(sparseModel(t, 5, ""))), newServer(t, Defaults(), Fixed(sparseModel(t, 5, "message")))
	for body, want := range map[string]string{
		`{"rows": [{"indices": [1, 1], "values": [1, 2]}]}`:           `row 0: index 1 after 1: expected ascending indices, each once`,
		`{"rows": [{"indices": [-1], "values": [1]}]}`:                `index -1: expected a whole number from 0 to 67108863`,
		`{"rows": [{"indices": [67108864], "values": [1]}]}`:          `index 67108864: expected a whole number from 0 to 67108863`,
		`{"rows": [{"indices": [0.5], "values": [1]}]}`:               `index 0.5: expected a whole number`,
		`{"rows": [{"indices": [1], "values": [1e39]}]}`:              `value 1e+39: expected a finite number`,
		`{"rows": [{"indices": [1], "values": []}]}`:                  `1 "indices" and 0 "values", expected as many of both`,
		`{"rows": [{"indices": [1], "indices": [1], "values": [1]}]}`: `duplicate member "indices"`,
		`{"rows": ["a text"]}`:                                        `expected an object with "indices" and "values", or a list of all values`,
		`{"rows": [{"x": }]}`:                                         `not JSON: byte 17: invalid character '}'`,
		`{"columns": ["a"], "rows": [[1]]}`:                           `"columns": the model was trained on sparse rows, which have none`,
		`{"rows": []} 1`:                                              `not JSON: byte 14: invalid character '1' after top-level value`,
	} {
		if w := ask(counts, "POST", "/predict", typeJSON, []byte(body)); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%s: %d: %s, expected %s", body, w.Code, w.Body, want)
		}
	}
	for body, want := range map[string]string{
		`{"rows": [[1, 2]]}`:          `expected a text, or an object with the column "message"`,
		`{"rows": [{"text": "a"}]}`:   `missing columns that the model needs: "message"`,
		`{"rows": [{"message": {}}]}`: `an object: expected a number or a text`,
		"{\"rows\": [\"a\xff\"]}":     `is not UTF-8`,
	} {
		if w := ask(texts, "POST", "/predict", typeJSON, []byte(body)); w.Code != http.StatusBadRequest ||
			!strings.Contains(w.Body.String(), strings.ReplaceAll(want, `"`, `\"`)) {
			t.Errorf("%q: %d: %s, expected %s", body, w.Code, w.Body, want)
		}
	}
}

// FuzzSparseRows compares the reader of sparse rows with encoding/json: it only accepts JSON, its rows are ordered, and
// values are finite.
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
		if err := json.NewDecoder(bytes.NewReader(body)).Decode(&content); err != nil || !json.Valid(body) {
			t.Fatalf("%q was taken, and is no JSON: %v", body, err)
		}
		if rows.Len() != len(content.Rows) {
			t.Fatalf("%q: %d rows, expected %d", body, rows.Len(), len(content.Rows))
		}
		for i := range rows.Len() {
			indices, values := rows.Row(i)
			for at, j := range indices {
				if at > 0 && j <= indices[at-1] || j < 0 || values[at] == 0 || math.IsNaN(float64(values[at]-values[at])) {
					t.Fatalf("%q: row %d has %v at %v", body, i, values, indices)
				}
			}
		}
	})
}
