package serve

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
	"github.com/stagewise/stagewise/schemas/wire"
)

// parts returns the parts of the memory for requests.
func parts(s *Server) []*budget {
	return append(s.memory.bodies[:], s.memory.rows[0], s.memory.rows[1], s.memory.answers[1])
}

// allFree acquires all memory for requests, and returns false if some is held.
func allFree(s *Server) bool {
	for _, part := range parts(s) {
		if !part.TryAcquire(part.size) {
			return false
		}
	}
	return true
}

// checkFree fails the test if memory for requests, or a workspace, is held.
func checkFree(t *testing.T, s *Server) {
	t.Helper()
	if !allFree(s) || len(s.cores) != cap(s.cores) {
		t.Error("memory or a workspace is still held")
	}
}

// freeAll releases what allFree has acquired.
func freeAll(s *Server) {
	for _, part := range parts(s) {
		part.Release(part.size)
	}
}

// manyClasses returns n class names.
func manyClasses(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("class %d", i)
	}
	return names
}

// denseOf returns rows of features.
func denseOf(rows ...[]float32) *examples.Rows {
	return &examples.Rows{Rows: len(rows), Floats: slices.Concat(rows...)}
}

// someRows returns n rows of two features, and the request with them.
func someRows(t testing.TB, n int) (rows [][]float32, body []byte) {
	t.Helper()
	for i := range n {
		rows = append(rows, []float32{float32(i), float32(i % 7)})
	}
	body = must(json.Marshal(map[string]any{"rows": rows}))(t)
	return rows, body
}

// askWith is ask with headers.
func askWith(s http.Handler, contentType string, body []byte, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", "/predict", bytes.NewReader(body))
	r.Header.Set("Content-Type", contentType)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// A long answer equals the short answers of its rows, in JSON and in Arrow, and releases all of its memory.
func TestLongAnswers(t *testing.T) {
	const classes = 700
	m := newModelOf(t, manyClasses(classes), 3, 2, nil, layout.MissingError)
	for _, n := range []int{1, 50, 64, 65, 400} {
		rows, body := someRows(t, n)
		want := make([]float32, n*classes)
		m.Probabilities(want, denseOf(rows...))
		for sent, content := range map[string][]byte{typeJSON: body, typeArrow: listsOf(t, rows, 100)} {
			s := newServer(t, Defaults(), Fixed(m))
			var got answered
			noError(t, json.Unmarshal(askWith(s, sent, content, "Accept", typeJSON).Body.Bytes(), &got))
			fromArrow := readArrow(t, askWith(s, sent, content, "Accept", typeArrow).Body)
			for _, got := range []answered{got, fromArrow} {
				if got.Version != 3 || !near(slices.Concat(got.Probabilities...), want) || len(got.Labels) != n {
					t.Fatalf("%d rows as %s: version %d, %d labels, %d lists", n, sent, got.Version, len(got.Labels), len(got.Probabilities))
				}
				for i, label := range got.Labels {
					if p := got.Probabilities[i]; label != m.Labels()[link.Largest(p)] {
						t.Fatalf("row %d is %q, expected %q", i, label, m.Labels()[link.Largest(p)])
					}
				}
			}
			checkFree(t, s)
		}
	}
}

// near reports whether two lists of numbers agree up to the rounding between batches.
func near(a, b []float32) bool {
	return slices.EqualFunc(a, b, func(x, y float32) bool { return math.Abs(float64(x-y)) < 1e-5 })
}

// readArrow decodes an answer in Arrow.
func readArrow(t *testing.T, content io.Reader) (got answered) {
	t.Helper()
	r := must(ipc.NewReader(content))(t)
	defer r.Release()
	version, _ := r.Schema().Metadata().GetValue(metadataVersion)
	_, _ = fmt.Sscan(version, &got.Version) // otherwise it is 0
	for r.Next() {
		names, lists := r.Record().Column(0).(*array.String), r.Record().Column(1).(*array.FixedSizeList)
		all, k := lists.ListValues().(*array.Float32).Float32Values(), lists.Len()
		for i := range lists.Len() {
			got.Labels = append(got.Labels, strings.Clone(names.Value(i)))
			got.Probabilities = append(got.Probabilities, slices.Clone(all[i*len(all)/k:(i+1)*len(all)/k]))
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return got
}

// The most probable labels are requested by a member, or by a header.
func TestMostProbableLabels(t *testing.T) {
	m := newModelOf(t, manyClasses(40), 3, 2, nil, layout.MissingError)
	s := newServer(t, Defaults(), Fixed(m))
	rows, body := someRows(t, 3)
	list := strings.TrimSuffix(strings.TrimPrefix(string(body), `{"rows":`), "}")
	for name, w := range map[string]*httptest.ResponseRecorder{
		"before": ask(s, "POST", "/predict", typeJSON, []byte(`{"top": 5, "rows": `+list+`}`)),
		"after":  ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": `+list+`, "top": 5}`)),
		"header": askWith(s, typeJSON, body, headerTop, "5"),
	} {
		var got struct {
			Labels []string
			Top    [][]struct {
				Label       string
				Probability float32
			}
			Probabilities []float32
		}
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || len(got.Top) != 3 || got.Probabilities != nil {
			t.Fatalf("%s: %v: %d: %s", name, err, w.Code, w.Body)
		}
		for i, top := range got.Top {
			all := make([]float32, 40)
			m.Predict(rows[i], all)
			order := make([]int, 40)
			for c := range order {
				order[c] = c
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b], all[a]) })
			if len(top) != 5 || top[0].Label != got.Labels[i] {
				t.Fatalf("%s: row %d: %+v, label %s", name, i, top, got.Labels[i])
			}
			for j := range top {
				if top[j].Label != m.Labels()[order[j]] || math.Abs(float64(top[j].Probability-all[order[j]])) > 1e-6 {
					t.Errorf("%s: row %d: %+v at %d, expected %s with %v", name, i, top[j], j, m.Labels()[order[j]], all[order[j]])
				}
			}
		}
	}
	r, err := ipc.NewReader(askWith(s, typeArrow, listsOf(t, rows, 3), headerTop, "50", headerClasses, "true").Body)
	if err != nil || !r.Next() {
		t.Fatal(err)
	}
	defer r.Release()
	if top := r.Record().Column(1).(*array.List); top.Len() != 3 || top.ListValues().Len() != 3*40 {
		t.Errorf("%v", top)
	}
	if text, _ := r.Schema().Metadata().GetValue(metadataClasses); !strings.HasPrefix(text, `["class 0","class 1",`) {
		t.Errorf("classes %s", text)
	}
	for _, headers := range [][]string{{headerTop, "0"}, {headerTop, "x"}, {headerClasses, "perhaps"}} {
		if w := askWith(s, typeJSON, body, headers...); w.Code != http.StatusBadRequest {
			t.Errorf("%v: %d: %s", headers, w.Code, w.Body)
		}
	}
}

// Unknown members are ignored. An absent column is missing, if the model was trained with missing values. The classes are in the
// answer if requested. A member after the rows that would change their meaning, or the answer, is refused.
func TestMembers(t *testing.T) {
	m := newModel(t, 4, 5, people, layout.MissingMean)
	s := newServer(t, Defaults(), Fixed(m))
	for body, want := range map[string][][]float32{
		`{"columns": ["height", "age"], "rows": [[1.5, 30]]}`:                                        {{30, nan, nan, nan, 1.5}},
		`{"id": 7, "columns": ["age"], "trace": {"a": [1, {"rows": 3}]}, "rows": [[30]], "x": "]}"}`: {{30, nan, nan, nan, nan}},
		`{"rows": [[1.5, 30]], "x": [1, "]"], "columns": ["height", "age"]}`:                         {{30, nan, nan, nan, 1.5}},
		`{"rows": [{"height": 1.5, "shoes": 3}, {}], "user": null}`: {{nan, nan, nan, nan, 1.5},
			{nan, nan, nan, nan, nan}},
	} {
		checkAnswer(t, ask(s, "POST", "/predict", typeJSON, []byte(body)), m, want...)
	}
	for _, w := range []*httptest.ResponseRecorder{
		ask(s, "POST", "/predict", typeJSON, []byte(`{"classes": true, "rows": [{"age": 1}]}`)),
		ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": [{"age": 1}], "classes": true}`)),
		askWith(s, typeJSON, []byte(`{"rows": [{"age": 1}]}`), headerClasses, "true"),
	} {
		var got struct{ Classes []string }
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !slices.Equal(got.Classes, labels) {
			t.Errorf("%v: %s", err, w.Body)
		}
	}
	counts := newServer(t, Defaults(), Fixed(sparseModel(t, 5, "")))
	plain := ask(counts, "POST", "/predict", typeJSON, []byte(`{"rows": [[1, 2]]}`))
	if w := ask(counts, "POST", "/predict", typeJSON,
		[]byte(`{"id": 3, "rows": [[1, 2]], "x": []}`)); w.Body.String() != plain.Body.String() || w.Code != http.StatusOK {
		t.Errorf("%d: %s, expected %s", w.Code, w.Body, plain.Body)
	}
}

// failing has a model, and panics as often as configured.
type failing struct {
	Versions
	mutex sync.Mutex
	left  int
}

func (f *failing) Model() *model.Model {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.left--; f.left >= 0 {
		var none []int
		_ = none[f.left]
	}
	return f.Versions.Model()
}

// A handler that panics releases its workspace and its memory, and is counted and reported with the shape of the request.
func TestHandlerThatPanics(t *testing.T) {
	m := newModel(t, 3, 2, nil, layout.MissingError)
	versions := &failing{Versions: Fixed(m)}
	var mutex sync.Mutex
	var notices []string
	s := newServer(t, Defaults(), versions)
	s.Notify(func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		notices = append(notices, text)
	})
	versions.left = 3 * cap(s.cores)
	for range 3 * cap(s.cores) {
		w := ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`))
		if got := reason(t, w); w.Code != http.StatusInternalServerError || !strings.Contains(got, "see the server's log") {
			t.Fatalf("%d: %s", w.Code, got)
		}
	}
	checkAnswer(t, ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`)), m, []float32{1, 2})
	checkFree(t, s)
	freeAll(s)
	if len(notices) != 3*cap(s.cores) {
		t.Fatalf("%d notices", len(notices))
	}
	for _, want := range []string{"index out of range", `POST "/predict" of 16 bytes`, `Content-Type "application/json"`, "at serve/"} {
		if !strings.Contains(notices[0], want) {
			t.Errorf("%s, expected %s", notices[0], want)
		}
	}
	if metrics := ask(s, "GET", "/metrics", "", nil).Body.String(); !strings.Contains(metrics,
		fmt.Sprintf("stagewise_request_panics_total{pipeline=\"p\"} %d\n", 3*cap(s.cores))) {
		t.Error(metrics)
	}
}

// An answer whose client has disconnected, or that fails after its start, is incomplete, and releases everything.
func TestAnswersThatBreak(t *testing.T) {
	m := newModelOf(t, manyClasses(700), 3, 2, nil, layout.MissingError)
	s := newServer(t, Defaults(), Fixed(m))
	_, body := someRows(t, 400)
	r := httptest.NewRequestWithContext(context.Background(), "POST", "/predict", bytes.NewReader(body))
	r.Header.Set("Content-Type", typeJSON)
	func() {
		defer func() {
			if cause := recover(); cause != http.ErrAbortHandler {
				t.Errorf("%v", cause)
			}
		}()
		s.ServeHTTP(&broken{ResponseRecorder: httptest.NewRecorder(), left: 3}, r)
	}()
	checkFree(t, s)
}

// broken is a connection that fails after some writes.
type broken struct {
	*httptest.ResponseRecorder
	left int
}

func (b *broken) Write(p []byte) (int, error) {
	if b.left--; b.left < 0 {
		return 0, errors.New("broken pipe")
	}
	return len(p), nil
}

// Answers have the contributions of the model, with the labels as in the rest of the answer, in JSON and in Arrow. What does not fit in an
// answer, or has none, is refused before it is computed.
func TestContributions(t *testing.T) {
	for _, m := range []*model.Model{wholeModel(t, 5), newModel(t, 1, 2, nil, layout.MissingError)} {
		s := newServer(t, Defaults(), Fixed(m))
		var rows [][]float32
		var want []json.RawMessage
		for i := range 2*tileRows + 1 {
			rows = append(rows, []float32{float32(i) / 64, 1})
		}
		noError(t, m.Contributions(denseOf(rows...), 1, func(_ int, scores []model.Contributions) {
			var row []contributed
			for out, score := range scores {
				row = append(row, contributed{m.LabelType().Values(m.Labels())[out], score})
			}
			want = append(want, wire.JSON(row))
		}))
		body := must(json.Marshal(map[string]any{"rows": rows, "contributions": 1}))(t)
		var got struct{ Contributions []json.RawMessage }
		w := ask(s, "POST", "/predict", typeJSON, body)
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || !reflect.DeepEqual(got.Contributions, want) {
			t.Errorf("%d: %.300s (%v), expected %s", w.Code, w.Body, err, want[0])
		}
		r := must(ipc.NewReader(askWith(s, typeJSON, body, "Accept", typeArrow, headerContributions, "1").Body))(t)
		defer r.Release()
		n := 0
		for r.Next() {
			for i := range int(r.Record().NumRows()) {
				text := r.Record().Column(int(r.Record().NumCols()) - 1).(*array.String).Value(i)
				if text != string(want[n]) {
					t.Errorf("row %d: %s, expected %s", n, text, want[n])
				}
				n++
			}
		}
		if n != len(rows) || r.Err() != nil {
			t.Errorf("%d rows, error %v", n, r.Err())
		}
		for text, want := range map[string]string{"0": "a number of columns, at least 1", "1000000000000": "expected at most"} {
			checkRefused(t, ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": [[1, 2]], "contributions": `+text+`}`)), text, want)
		}
	}
	infinite := newServer(t, Defaults(), Fixed(numbersModel(t, 3)))
	checkRefused(t, ask(infinite, "POST", "/predict", typeJSON, []byte(`{"rows": [[1, 2]], "contributions": 1}`)), "numbers", "contributions need")
}
