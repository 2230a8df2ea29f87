package serve

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/client"
	"github.com/stagewise/stagewise/ingest"
	formatarrow "github.com/stagewise/stagewise/ingest/format/arrow"
	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/value"
	"github.com/stagewise/stagewise/schemas/wire"
	"github.com/stagewise/stagewise/stages"
)

// labels are the classes of all models in these tests. One needs an escape in JSON.
var labels = []string{"no", `"yes"`, "é"}

// newModel returns a model with random weights over d features, with a version number. columns may be nil.
func newModel(t testing.TB, version, d int, columns examples.Columns, missing string) *model.Model {
	t.Helper()
	return newModelOf(t, labels, version, d, columns, missing)
}

// newModelOf is newModel with other classes. edits modify the manifest and its plan.
func newModelOf(t testing.TB, labels []string, version, d int, columns examples.Columns, missing string,
	edits ...func(*schemas.Manifest)) *model.Model {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(version), 1))
	draw := func(n int) []float32 {
		values := make([]float32, n)
		for i := range values {
			values[i] = float32(random.NormFloat64())
		}
		return values
	}
	features := stages.DefaultsOf(stages.RFF)
	features.Size = 8
	plan := &schemas.Plan{Name: "p", Segment: 16, Missing: missing, Prepare: schemas.Prepare{Scale: stages.ScaleNone}, Seed: 3,
		Stages: []schemas.Stage{{Features: features, Link: link.Softmax}}}
	manifest := &schemas.Manifest{Name: "p", Version: version, Run: fmt.Sprint("run", version), Plan: plan, Labels: labels,
		Columns: columns, Blocks: []schemas.BlockDigest{{}}}
	for _, edit := range edits {
		edit(manifest)
	}
	preparation := wire.Tensors[float32]{
		wire.Vector(statistics.TensorCenter, make([]float32, d)), wire.Vector(statistics.TensorScale, slices.Repeat([]float32{1}, d)),
		wire.Vector(statistics.TensorSpread, []float32{1}), wire.Words[float32](statistics.TensorLabels, labels),
	}
	if plan.Task() == examples.Numbers { // about 1.7 billion, where float32 only has multiples of 128; the last one is not finite
		scale := slices.Repeat([]float32{1}, len(labels))
		scale[len(labels)-1] = float32(math.Inf(1))
		preparation = append(preparation, wire.Vector(statistics.TensorTargetCenter, slices.Repeat([]float32{1.7e9}, len(labels))),
			wire.Vector(statistics.TensorTargetScale, scale))
	}
	m := assert.Must(model.New(manifest, preparation, [][]*schemas.Weights{{{
		Identity: wire.Identity{Kind: schemas.KindWeights, Run: "run"},
		Tensors:  wire.Tensors[float32]{wire.Matrix(statistics.TensorW, 8, len(labels), draw(8*len(labels)))},
	}}}))(t)
	manifest.WeightsDigest = m.Digest()
	return m
}

// people are table columns: two numbers and a word, which are five features.
var people = examples.Columns{{Name: "age"}, {Name: "city", Categories: []string{"Oslo", "Rome"}}, {Name: "height"}}

// switched has the model that a test stores in it.
type switched struct {
	atomic.Pointer[model.Model]
	stale error
}

func (s *switched) Model() *model.Model { return s.Load() }
func (s *switched) Stale() error        { return s.stale }
func (s *switched) Status() client.Status {
	if m := s.Load(); m != nil {
		return client.Status{Version: m.Manifest.Version}
	}
	return client.Status{}
}

func newServer(t testing.TB, o Options, versions Versions) *Server {
	t.Helper()
	if o.Timeout == Defaults().Timeout {
		o.Timeout = 5 * time.Minute // of the race detector on a busy machine
	}
	problems := o.Check()
	assert.Need(t, len(problems) == 0, "%v", problems)
	return assert.Must(New(o, versions, prometheus.NewRegistry(), "p", func(string) {}))(t)
}

// listening starts a server with a listener, until the test ends.
func listening(t testing.TB, o Options, versions Versions) (address string) {
	t.Helper()
	_, address = serving(t, o, versions)
	return address
}

// serving is listening that also returns the server.
func serving(t testing.TB, o Options, versions Versions) (s *Server, address string) {
	t.Helper()
	o.Drain = 0 // tests end at once
	s, listener, stop, ended := begun(t, o, versions)
	t.Cleanup(func() {
		stop()
		assert.Fails(t, <-ended, nil)
	})
	return s, listener.Addr().String()
}

// begun starts a server with a listener, until stop is called. Then ended has the error of the server.
func begun(t testing.TB, o Options, versions Versions) (s *Server, listener net.Listener, stop func(), ended <-chan error) {
	t.Helper()
	listener = assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	s = newServer(t, o, versions)
	ctx, stop := context.WithCancel(context.Background())
	serves := make(chan error, 1)
	go func() { serves <- s.Serve(ctx, listener) }()
	return s, listener, stop, serves
}

// ask sends a request to a server without a listener. headers are names, each followed by its value.
func ask(s http.Handler, method, path, contentType string, body []byte, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, bytes.NewReader(body))
	if contentType != "" {
		r.Header.Set("Content-Type", contentType)
	}
	for header := range slices.Chunk(headers, 2) {
		r.Header.Set(header[0], header[1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// answered is an answer with probabilities.
type answered struct {
	Version       int         `json:"version"`
	Labels        []string    `json:"labels"`
	Probabilities [][]float32 `json:"probabilities"`
}

// answerOf decodes an answer in JSON or in Arrow.
func answerOf(t *testing.T, w *httptest.ResponseRecorder) (got answered) {
	t.Helper()
	if w.Code == http.StatusOK && w.Header().Get("Content-Type") == typeArrow {
		return readArrow(t, w.Body)
	}
	err := json.Unmarshal(w.Body.Bytes(), &got)
	assert.Need(t, err == nil && w.Code == http.StatusOK, "%d: %s (%v)", w.Code, w.Body, err)
	return got
}

// checkPredicted checks the answer to rows, in JSON or in Arrow.
func checkPredicted(t *testing.T, w *httptest.ResponseRecorder, m *model.Model, rows *examples.Rows) {
	t.Helper()
	got := answerOf(t, w)
	version := fmt.Sprint(m.Manifest.Version)
	assert.True(t, w.Header().Get(headerVersion) == version && fmt.Sprint(got.Version) == version,
		"the header says version %s, the answer %d, expected %s", w.Header().Get(headerVersion), got.Version, version)
	want := make([]float32, rows.Rows*len(m.Labels()))
	m.Probabilities(want, rows)
	assert.Need(t, len(got.Labels) == rows.Rows && len(got.Probabilities) == rows.Rows &&
		slices.Equal(slices.Concat(got.Probabilities...), want),
		"%d labels with %v, expected %d with %v", len(got.Labels), got.Probabilities, rows.Rows, want)
	for i, p := range got.Probabilities {
		label := m.Labels()[link.Largest(p)]
		assert.True(t, got.Labels[i] == label, "row %d: %q with %v, expected %q", i, got.Labels[i], p, label)
	}
}

// checkAnswer checks the answer to rows of features.
func checkAnswer(t *testing.T, w *httptest.ResponseRecorder, m *model.Model, rows ...[]float32) {
	t.Helper()
	checkPredicted(t, w, m, denseOf(rows...))
}

var nan = float32(math.NaN())

// Rows may be lists in the model's order or in a given one, and objects, also with nested values. Words, missing values and unknown columns
// are handled as in prediction: booleans and numbers are the words of their columns, in any order of columns, and in many rows.
func TestRowsOfJSON(t *testing.T) {
	plain, named := newModel(t, 3, 3, nil, layout.MissingError), newModel(t, 4, 5, people, layout.MissingMean)
	words := newModel(t, 4, purchases.Features(), purchases, layout.MissingMean)
	nested := newModel(t, 1, 6, examples.Columns{{Name: "user.age"}, {Name: "user.address.city", Categories: []string{"Oslo", "Rome"}},
		{Name: "items.1.price"}, {Name: "n"}}, layout.MissingMean)
	among := func(columns, rows string) string { // other members
		return fmt.Sprintf(`{"id": 1, "columns": %s, "trace": [true], "rows": [%s], "time": "12:00"}`, columns, rows)
	}
	for _, c := range []struct {
		m    *model.Model
		body string
		want [][]float32
	}{
		{plain, `{"rows": [[1, -2.5, 3e2], [0, 0.125, 1234567890]]}`, [][]float32{{1, -2.5, 300}, {0, 0.125, 1234567890}}},
		{plain, "\t{ \"rows\" :\n[\r\n[ 1 , 2 , 3 ] ] } ", [][]float32{{1, 2, 3}}},
		{plain, `{"rows": [["1", " 2 ", "3"]]}`, [][]float32{{1, 2, 3}}},
		{named, `{"rows": [[30, "Rome", 1.5], [31, "Lima", 1.6]]}`, [][]float32{{30, 0, 1, 0, 1.5}, {31, 0, 0, 1, 1.6}}},
		{named, `{"rows": [{"height": 1.5, "age": 30, "city": "Oslo"}]}`, [][]float32{{30, 1, 0, 0, 1.5}}},
		{named, `{"columns": ["height", "shoes", "city", "age"], "rows": [[1.5, {"a": [1]}, "Oslo", "30"]]}`, [][]float32{{30, 1, 0, 0, 1.5}}},
		{named, `{"rows": [[null, null, "NA"]]}`, [][]float32{{nan, nan, nan, nan, nan}}},
		{named, `{"rows": [{"height": 1.5, "age": 30, "c\u0069ty": "R\u006fme", "shoes": [[]]}]}`, [][]float32{{30, 0, 1, 0, 1.5}}},
		{named, `{"columns": ["height", "age"], "rows": [[1.5, 30]]}`, [][]float32{{30, nan, nan, nan, 1.5}}},
		{named, `{"id": 7, "columns": ["age"], "trace": {"a": [1, {"rows": 3}]}, "rows": [[30]], "x": "]}"}`, [][]float32{{30, nan, nan, nan, nan}}},
		{named, `{"rows": [[1.5, 30]], "x": [1, "]"], "columns": ["height", "age"]}`, [][]float32{{30, nan, nan, nan, 1.5}}},
		{named, `{"rows": [{"height": 1.5, "shoes": 3}, {}], "user": null}`, [][]float32{{nan, nan, nan, nan, 1.5}, {nan, nan, nan, nan, nan}}},
		{words, among(`["size", "member", "age", "shoes"]`, strings.TrimSuffix(strings.Repeat(`[2.50, true, true, "x"],`, 3*tileRows), ",")),
			slices.Repeat([][]float32{{1, 0, 1, 0, 0, 1, 0}}, 3*tileRows)},
		{words, among(`["size", "age", "member"]`, `[1.0, true, false], ["1.0", false, true]`), [][]float32{{1, 1, 0, 0, 1, 0, 0}, {0, 0, 1, 0, 1, 0, 0}}},
		{words, among(`["member", "size", "age"]`, `["true", 2.5, "TRUE"], ["red", null, 30]`), // "red" is no member
			[][]float32{{1, 0, 1, 0, 0, 1, 0}, {30, 0, 0, 1, nan, nan, nan}}},
		{words, among(`["age"]`, `[true]`), [][]float32{{1, nan, nan, nan, nan, nan, nan}}},
		{words, `{"columns": ["size"], "rows": [{"size": 2.50, "age": false, "member": true, "shoes": true}]}`, [][]float32{{0, 0, 1, 0, 0, 1, 0}}},
		{nested, `{"rows": [{"user": {"age": 30, "address": {"city": "Rome", "zip": [1]}, "id": {"age": 1}}, "items": [{"price": 1}, {"price": 2, "n": 9}, 3], "n": 4}]}`,
			[][]float32{{30, 0, 1, 0, 2, 4}}},
		{nested, `{"rows": [{"n": 4, "user.age": 30, "user": {"age": 31, "address": {"city": "Rome"}}, "items.1.price": 2, "other": {"age": 7}}]}`,
			[][]float32{{30, 0, 1, 0, 2, 4}}},
		{nested, `{"rows": [{"user": null, "items": [], "n": 4}]}`, [][]float32{{nan, nan, nan, nan, nan, 4}}},
		{nested, `{"rows": [{"user": [{"age": 1}], "items": "none", "n": 4}]}`, [][]float32{{nan, nan, nan, nan, nan, 4}}},
	} {
		checkAnswer(t, ask(newServer(t, Defaults(), Fixed(c.m)), "POST", "/predict", typeJSON, []byte(c.body)), c.m, c.want...)
	}
}

// reason returns the reason of an error response.
func reason(t *testing.T, w *httptest.ResponseRecorder) string {
	t.Helper()
	var refused struct{ Error string }
	err := json.Unmarshal(w.Body.Bytes(), &refused)
	assert.Need(t, err == nil && refused.Error != "" && w.Header().Get("Content-Type") == typeJSON,
		"%d: %q is no refusal (%v)", w.Code, w.Body, err)
	return refused.Error
}

// Invalid requests, of each kind of rows, are rejected with a reason.
func TestRefusals(t *testing.T) {
	plain := newServer(t, Defaults(), Fixed(newModel(t, 3, 3, nil, layout.MissingError)))
	named := newServer(t, Defaults(), Fixed(newModel(t, 4, 5, people, layout.MissingError)))
	words := newServer(t, Defaults(), Fixed(newModel(t, 4, purchases.Features(), purchases, layout.MissingMean)))
	nested := newServer(t, Defaults(), Fixed(newModel(t, 1, 2, examples.Columns{{Name: "user.age"}, {Name: "n"}}, layout.MissingMean)))
	counts, texts := newServer(t, Defaults(), Fixed(sparseModel(t, 5, ""))), newServer(t, Defaults(), Fixed(sparseModel(t, 5, "message")))
	var others strings.Builder
	for i := range 65536 {
		fmt.Fprintf(&others, `,"%d":0`, i)
	}
	for _, c := range []struct {
		s          *Server
		body, want string
	}{
		{plain, ``, "not JSON: it ends too early"},
		{plain, `[]`, "an array of 0 is not an object"},
		{plain, `{}`, `no "rows"`},
		{plain, `{"row": []}`, `no "rows"`},
		{plain, `{"top": 0, "rows": []}`, `"top": 0: expected a number of labels, at least 1`},
		{plain, `{"classes": 1, "rows": []}`, `"classes": 1: expected true or false`},
		{plain, `{"rows": []}`, "no rows"},
		{plain, `{"rows": 7}`, `"rows": 7: expected a list of rows`},
		{plain, `{"rows": [7]}`, "row 0: 7: expected a row"},
		{plain, `{"rows": [[1,2,3],[1,2]]}`, "row 1: 2 values, expected 3"},
		{plain, `{"rows": [[1,2,3,4]]}`, "row 0: more than 3 values"},
		{plain, `{"rows":[[0,10,007e0]]}`, "not JSON: byte 17"},
		{plain, `{"rows": [[1,2,NaN]]}`, "not JSON: byte 16: invalid character 'N' looking for beginning of value"},
		{plain, `{"rows": [[1,2,"NaN"]]}`, "row 0: value 2: a missing value"},
		{plain, `{"rows": [[1,2,"Infinity"]]}`, `row 0: value 2: "Infinity" is not a finite number`},
		{plain, `{"rows": [[1,2,null]]}`, "row 0: value 2: a missing value: the model was trained with examples.missing: error"},
		{plain, `{"rows": [[1,2,1e99]]}`, "row 0: value 2: 1e+99 is not a finite float32"},
		{plain, `{"rows": [[1,2,"x"]]}`, `row 0: value 2: "x" is not a number`},
		{plain, `{"rows": [[1,2,3]]`, "not JSON: it ends too early"},
		{plain, `{"rows": [[1,2,3]]} {`, "not JSON: byte 21: invalid character '{' after top-level value"},
		{plain, `{"rows": [[1,2,3]], "rows": []}`, `duplicate member "rows"`},
		{plain, `{"rows": [{"age": 3}]}`, "the model has no column names"},
		{plain, `{"columns": ["a"], "rows": []}`, "the model has no column names"},
		{plain, "{\"rows\": [[\x01", "not JSON: byte 12: invalid character '\\x01' looking for beginning of value"},
		{named, `{"rows": [{"age": 3, "city": "Oslo"}]}`, `row 0: missing columns that the model needs: "height"`},
		{named, `{"rows": [{"age": 3, "age": 3}]}`, `duplicate member "age"`},
		{named, `{"columns": ["age", "city"], "rows": []}`, `missing columns that the model needs: "height"`},
		{named, `{"columns": ["age", "age"], "rows": []}`, `duplicate column "age"`},
		{named, `{"rows": [{"age": [1], "city": "Oslo", "height": 1}]}`, `row 0: column "age": an array of 1: expected a number`},
		{named, `{"rows": [[1, null, 3]]}`, `row 0: column "city": an empty field: the model was trained with examples.missing: error`},
		// names twice, and wrong strings, anywhere: also in ignored members and after the rows
		{words, `{"columns": ["age"], "columns": ["age"], "rows": []}`, `duplicate member "columns"`},
		{words, `{"rows": [{"age": true}], "rows": [[true]]}`, `duplicate member "rows"`},
		{words, `{"top": 1, "t\u006fp": 1, "rows": []}`, `duplicate member "top"`},
		{words, `{"id": 1, "id": 1, "rows": []}`, `duplicate member "id"`},
		{words, `{"id": 1, "rows": [], "id": 1}`, `duplicate member "id"`},
		{words, `{"columns": ["shoes", "age", "shoes"], "rows": [[1, true, 2]]}`, `duplicate column "shoes"`},
		{words, `{"rows": [{"age": true, "shoes": 1, "shoes": 1}]}`, `duplicate member "shoes"`},
		{words, `{"columns": ["age"], "rows": [[1]], "id": "\ud800"}`, `an unpaired surrogate`},
		{words, `{"rows": [{"age": 1, "shoes": ["\udc00"]}]}`, `an unpaired surrogate`},
		{words, `{"rows": [], "\ud800": 1}`, `an unpaired surrogate`},
		{words, "{\"rows\": [[1]], \"id\": \"\xff\"}", `is not UTF-8`},
		{words, `{"rows": []` + others.String() + `, "7": 0}`, `duplicate member "7"`},
		{words, `{"rows": [{"age": 1` + others.String() + `, "7": 1}]}`, `duplicate member "7"`},
		{words, `{"rows": [{"age": 1, "size": 2` + others.String() + `, "age": true}]}`, `duplicate member "age"`},
		{nested, `{"rows": [{"user": {"age": {}}}]}`, `column "user.age"`},
		{nested, `{"rows": [{"user": {"age": 1, "age": 1}}]}`, `duplicate member "age"`},
		{nested, `{"rows": [{"user": {"x": 1, "x": 1}}]}`, `duplicate member "x"`},
		{counts, `{"rows": [], "id": 1, "id": 1}`, `duplicate member "id"`},
		{counts, `{"rows": [], "rows": []}`, `duplicate member "rows"`},
		{counts, `{"rows": [{"indices": [], "id": 1, "values": [], "id": 1}]}`, `duplicate member "id"`},
		{counts, `{"rows": [{"indices": [], "values": []` + others.String() + `, "7": 0}]}`, `duplicate member "7"`},
		{counts, `{"rows": [{"indices": [], "id": {"a": "\ud800\ud800"}, "values": []}]}`, `an unpaired surrogate`},
		{counts, `{"rows": [{"indices": [1, 1], "values": [1, 2]}]}`, `row 0: index 1 after 1: expected ascending indices, each once`},
		{counts, `{"rows": [{"indices": [-1], "values": [1]}]}`, `index -1: expected a whole number from 0 to 67108863`},
		{counts, `{"rows": [{"indices": [67108864], "values": [1]}]}`, `index 67108864: expected a whole number from 0 to 67108863`},
		{counts, `{"rows": [{"indices": [0.5], "values": [1]}]}`, `index 0.5: expected a whole number`},
		{counts, `{"rows": [{"indices": [1], "values": [1e39]}]}`, `value 1e+39: expected a finite number`},
		{counts, `{"rows": [{"indices": [1], "values": []}]}`, `1 "indices" and 0 "values", expected as many of both`},
		{counts, `{"rows": [{"indices": [1], "indices": [1], "values": [1]}]}`, `duplicate member "indices"`},
		{counts, `{"rows": ["a text"]}`, `expected an object with "indices" and "values", or a list of all values`},
		{counts, `{"rows": [{"x": }]}`, `not JSON: byte 17: invalid character '}'`},
		{counts, `{"columns": ["a"], "rows": [[1]]}`, `"columns": the model was trained on sparse rows, which have none`},
		{counts, `{"rows": []} 1`, `not JSON: byte 14: invalid character '1' after top-level value`},
		{texts, `{"rows": [[1, 2]]}`, `expected a text, or an object with the column "message"`},
		{texts, `{"rows": [{"text": "a"}]}`, `missing columns that the model needs: "message"`},
		{texts, `{"rows": [{"message": {}}]}`, `an object: expected a number or a text`},
		{texts, "{\"rows\": [\"a\xff\"]}", `is not UTF-8`},
	} {
		checkRefused(t, ask(c.s, "POST", "/predict", typeJSON, []byte(c.body)), c.body, c.want)
	}
	for _, c := range []struct {
		method, path, contentType string
		status                    int
		want                      string
	}{
		{"POST", "/predict", "", http.StatusUnsupportedMediaType, "no Content-Type: expected application/json or application/vnd"},
		{"POST", "/predict", "application/json; charset=UTF-16", http.StatusUnsupportedMediaType, `charset "UTF-16": expected utf-8`},
		{"POST", "/predict", "application/json; charset=latin1", http.StatusUnsupportedMediaType, `charset "latin1": expected utf-8`},
		{"POST", "/predict", "application/json; charset=\"UTF-8\"", http.StatusBadRequest, "not JSON: it ends too early"},
		{"POST", "/predict", "text/csv", http.StatusUnsupportedMediaType, `Content-Type "text/csv": expected`},
		{"GET", "/predict", "", http.StatusMethodNotAllowed, "GET: expected POST"},
		{"POST", "/model", "", http.StatusMethodNotAllowed, "POST: expected GET"},
		{"GET", "/", "", http.StatusNotFound, `there is no "/"`},
	} {
		w := ask(plain, c.method, c.path, c.contentType, nil)
		got := reason(t, w)
		assert.True(t, w.Code == c.status && strings.Contains(got, c.want),
			"%s %s: %d: %s, expected %d: %s", c.method, c.path, w.Code, got, c.status, c.want)
	}
	o := Defaults()
	o.MaxBody = 100
	for _, length := range []int{-1, 101} { // announced or not
		r := httptest.NewRequest("POST", "/predict", strings.NewReader(strings.Repeat(" ", 101)))
		r.Header.Set("Content-Type", typeJSON)
		r.ContentLength = int64(length)
		w := httptest.NewRecorder()
		newServer(t, o, Fixed(newModel(t, 3, 3, nil, layout.MissingError))).ServeHTTP(w, r)
		got := reason(t, w)
		assert.True(t, w.Code == http.StatusRequestEntityTooLarge && got == "more than 100 bytes: send fewer rows at a time",
			"%d: %s", w.Code, got)
	}
	none := newServer(t, Defaults(), &switched{stale: errors.New("there is no version yet")})
	for _, path := range []string{"/ready", "/model"} {
		w := ask(none, "GET", path, "", nil)
		assert.True(t, w.Code == http.StatusServiceUnavailable && strings.Contains(reason(t, w), "there is no version"),
			"%s without a version: %d: %s", path, w.Code, w.Body)
	}
	w := ask(none, "POST", "/predict", typeJSON, []byte(`{"rows":[]}`))
	assert.True(t, w.Code == http.StatusServiceUnavailable, "/predict without a version: %d: %s", w.Code, w.Body)
	assert.Equal(t, ask(none, "GET", "/live", "", nil).Code, http.StatusOK, "/live")
}

// The operator is told once why a server is no longer ready, as probes without a token are not.
func TestNoLongerReady(t *testing.T) {
	versions, told := &switched{}, ""
	versions.Store(newModel(t, 3, 3, nil, layout.MissingError))
	s := newServer(t, Defaults(), versions)
	s.notice = func(text string) { told += text + "\n" }
	for _, versions.stale = range []error{errors.New("there is no version yet"), nil, errors.New("the brokers are away"), errors.New("so are these")} {
		ask(s, "GET", "/ready", "", nil)
	}
	assert.Equal(t, told, "not ready: the brokers are away\n", "notices")
}

// While versions are replaced, each answer is from one of them, and none fails.
func TestSwap(t *testing.T) {
	models := map[int]*model.Model{}
	for version := range 10 {
		models[version] = newModel(t, version, 2, nil, layout.MissingError)
	}
	versions := &switched{}
	versions.Store(models[0])
	s := newServer(t, Defaults(), versions)
	ctx, stop := context.WithCancel(t.Context())
	var begun, asking sync.WaitGroup
	for range 4 {
		begun.Add(1)
		asking.Go(func() {
			begin := sync.OnceFunc(begun.Done)
			defer begin()
			for ctx.Err() == nil {
				w := ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2],[3,4]]}`))
				var got answered
				want := make([]float32, len(labels))
				if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusOK {
					t.Errorf("%d: %s", w.Code, w.Body)
					return
				}
				if models[got.Version].Predict([]float32{3, 4}, want); !slices.Equal(got.Probabilities[1], want) {
					t.Errorf("%v is not of version %d", got.Probabilities[1], got.Version)
					return
				}
				begin()
			}
		})
	}
	begun.Wait()
	for i := range 200 {
		versions.Store(models[i%10])
		for range 20 {
			ask(s, "GET", "/ready", "", nil)
		}
	}
	stop()
	asking.Wait()
}

// A stopped server completes requests in progress.
func TestStop(t *testing.T) {
	o := Defaults()
	o.Drain = 0
	s, listener, stop, ended := begun(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	body, sent := io.Pipe()
	answers := make(chan string, 1)
	request := assert.Must(http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String()+"/predict", body))(t)
	request.Header.Set("Content-Type", typeJSON)
	request.Header.Set("Expect", "100-continue") // the body is sent once the server reads it
	asking := &http.Client{Transport: &http.Transport{ExpectContinueTimeout: time.Minute}}
	go func() {
		response, err := asking.Do(request)
		if err != nil {
			answers <- err.Error()
			return
		}
		defer response.Body.Close()
		content, _ := io.ReadAll(response.Body)
		answers <- string(content)
	}()
	assert.Must(sent.Write([]byte(`{"rows":[[1,`)))(t) // the request is in progress
	stop()
	for !s.ending.Load() {
		runtime.Gosched() // until the shutdown has started
	}
	assert.Equal(t, ask(s, "GET", "/ready", "", nil).Code, http.StatusServiceUnavailable, "/ready")
	assert.Must(sent.Write([]byte(`2]]}`)))(t)
	sent.Close()
	got := <-answers
	assert.True(t, strings.HasPrefix(got, `{"version":3,`), "got %s", got)
	assert.Fails(t, <-ended, nil)
}

// A server that ends is not ready, and answers requests, on new connections too, until the time of serve.drain is over.
func TestDrain(t *testing.T) {
	o := Defaults()
	o.Drain = time.Hour
	_, listener, stop, ended := begun(t, o, Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	address := listener.Addr().String()
	served(t, address)
	stop()
	for status := 0; status != http.StatusServiceUnavailable; {
		response := assert.Must(http.Get("http://" + address + "/ready"))(t)
		response.Body.Close()
		status = response.StatusCode
	}
	for range 3 {
		served(t, address)
	}
	listener.Close()
	assert.Fails(t, <-ended, net.ErrClosed)
}

// Package config tests options that are wrong.
func TestOptions(t *testing.T) {
	o := Defaults()
	o.Listen, o.Open = ":1", true
	assert.True(t, o.Check() == nil, "open: %v", o.Check())
	o.Open, o.Certificate, o.Key, o.TokenFile = false, "a", "b", "c"
	assert.True(t, o.Check() == nil, "with TLS and a token: %v", o.Check())
	for want, set := range map[string]func(*Options){
		"serve.certificate_file: a": func(o *Options) { o.Certificate, o.Key = "a", "b" },
		"serve.token_file: a":       func(o *Options) { o.TokenFile = "a" },
	} {
		o := Defaults()
		set(&o)
		_, err := New(o, &switched{}, prometheus.NewRegistry(), "p", func(string) {})
		assert.True(t, err != nil && strings.HasPrefix(err.Error(), want), "got %v, expected %s", err, want)
	}
}

// purchases are table columns with words that look like numbers and booleans: a number and two words, which are seven features.
var purchases = examples.Columns{{Name: "age"}, {Name: "member", Categories: []string{"false", "true"}},
	{Name: "size", Categories: []string{"1", "2.5"}}}

func checkRefused(t *testing.T, w *httptest.ResponseRecorder, body, want string) {
	t.Helper()
	got := reason(t, w)
	assert.True(t, w.Code == http.StatusBadRequest && strings.Contains(got, want), "%.100s: %d: %s, expected %s", body, w.Code, got, want)
}

// Rows of requests have the same numbers, words and times as the rows of files and topics in TestValuesAreTheSameInEveryWay of
// package ingest, in JSON and in Arrow.
func TestValuesAreTheSameInRequests(t *testing.T) {
	const rows = `[{"d":"0.3","at":"2026-07-01T01:30:00+02:00","user":{"age":30},"items":[{"price":9},{"price":1.5}]},
		{"d":"16777217.000000001","at":"2026-12-31T23:59:59.5+01:00","user":{"age":-7},"items":[{"price":9},{"price":0.1}]}]`
	nullable := func(name string, of arrow.DataType) arrow.Field {
		return arrow.Field{Name: name, Type: of, Nullable: true}
	}
	stream := recordStream(t, []arrow.Field{nullable("d", &arrow.Decimal128Type{Precision: 20, Scale: 10}), nullable("at", arrow.BinaryTypes.String),
		nullable("user", arrow.StructOf(nullable("age", arrow.PrimitiveTypes.Int16))),
		nullable("items", arrow.ListOf(arrow.StructOf(nullable("price", arrow.PrimitiveTypes.Float64))))}, rows)
	for name, c := range map[string]struct {
		columns examples.Columns
		want    string
	}{
		"numbers": {examples.Columns{{Name: "d"}, {Name: "user.age"}, {Name: "items.1.price"}}, "[0.3 30 1.5 1.6777216e+07 -7 0.1]"},
		"words": {examples.Columns{{Name: "user.age", Categories: []string{"-7", "30"}}, {Name: "items.1.price", Categories: []string{"0.1", "1.5"}}},
			"[0 1 0 0 1 0 1 0 0 1 0 0]"},
		"times": {examples.Columns{examples.PartOf("at", value.TimeHour, ""), examples.PartOf("at", value.TimeMonth, "")}, "[1.5 7 23.99986 12]"},
	} {
		o := ingest.Defaults().Options
		o.Missing.Mode = layout.MissingMean
		want := layout.Features{Width: c.columns.Features(), Columns: c.columns}
		request := assert.Must(layout.NewRequest(o, want))(t)
		inJSON, err := allRows([]byte(`{"rows":`+rows+`}`), request)
		got := fmt.Sprint(inJSON)
		assert.True(t, err == nil && got == c.want, "%s in JSON: %s, %v, expected %s", name, got, err, c.want)
		var inArrow []float32
		for batch, err := range (formatarrow.Sent{Stream: stream}).Batches(t.Context(), "the request", nil, o, want) {
			assert.NoError(t, err)
			inArrow = append(inArrow, batch.Floats...)
		}
		assert.Equal(t, fmt.Sprint(inArrow), c.want, "%s in Arrow", name)
	}
}
