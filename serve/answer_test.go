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
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/apache/arrow/go/v17/arrow/array"
	"github.com/apache/arrow/go/v17/arrow/ipc"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
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

// checkFree fails the test if memory for requests, or a core, is held.
func checkFree(t *testing.T, s *Server) {
	t.Helper()
	assert.True(t, allFree(s) && len(s.cores) == 0, "memory or a core is still held")
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
	all := slices.Concat(rows...)
	return &examples.Rows{Rows: len(rows), Cols: len(all) / max(len(rows), 1), Floats: all}
}

// someRows returns n rows of two features, and the request with them.
func someRows(t testing.TB, n int) (rows [][]float32, body []byte) {
	t.Helper()
	for i := range n {
		rows = append(rows, []float32{float32(i), float32(i % 7)})
	}
	body = assert.Must(json.Marshal(map[string]any{"rows": rows}))(t)
	return rows, body
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
			for _, accept := range []string{typeJSON, typeArrow} {
				got := answerOf(t, ask(s, "POST", "/predict", sent, content, "Accept", accept))
				assert.Need(t, got.Version == 3 && near(slices.Concat(got.Probabilities...), want) && len(got.Labels) == n,
					"%d rows as %s: version %d, %d labels, %d lists", n, sent, got.Version, len(got.Labels), len(got.Probabilities))
				for i, label := range got.Labels {
					p := got.Probabilities[i]
					assert.Need(t, label == m.Labels()[link.Largest(p)], "row %d is %q, expected %q", i, label, m.Labels()[link.Largest(p)])
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
	r := assert.Must(ipc.NewReader(content))(t)
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
	assert.NoError(t, r.Err())
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
		"header": ask(s, "POST", "/predict", typeJSON, body, headerTop, "5"),
	} {
		var got struct {
			Labels []string
			Top    [][]struct {
				Label       string
				Probability float32
			}
			Probabilities []float32
		}
		err := json.Unmarshal(w.Body.Bytes(), &got)
		assert.Need(t, err == nil && len(got.Top) == 3 && got.Probabilities == nil, "%s: %v: %d: %s", name, err, w.Code, w.Body)
		for i, top := range got.Top {
			all := make([]float32, 40)
			m.Predict(rows[i], all)
			order := make([]int, 40)
			for c := range order {
				order[c] = c
			}
			slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(all[b], all[a]) })
			assert.Need(t, len(top) == 5 && top[0].Label == got.Labels[i], "%s: row %d: %+v, label %s", name, i, top, got.Labels[i])
			for j := range top {
				assert.True(t, top[j].Label == m.Labels()[order[j]] && math.Abs(float64(top[j].Probability-all[order[j]])) <= 1e-6,
					"%s: row %d: %+v at %d, expected %s with %v", name, i, top[j], j, m.Labels()[order[j]], all[order[j]])
			}
		}
	}
	r, err := ipc.NewReader(ask(s, "POST", "/predict", typeArrow, listsOf(t, rows, 3), headerTop, "50", headerClasses, "true").Body)
	assert.Need(t, err == nil && r.Next(), "%v", err)
	defer r.Release()
	top := r.Record().Column(1).(*array.List)
	assert.True(t, top.Len() == 3 && top.ListValues().Len() == 3*40, "%v", top)
	text, _ := r.Schema().Metadata().GetValue(metadataClasses)
	assert.True(t, strings.HasPrefix(text, `["class 0","class 1",`), "classes %s", text)
	for _, headers := range [][]string{{headerTop, "0"}, {headerTop, "x"}, {headerClasses, "perhaps"}} {
		w := ask(s, "POST", "/predict", typeJSON, body, headers...)
		assert.True(t, w.Code == http.StatusBadRequest, "%v: %d: %s", headers, w.Code, w.Body)
	}
}

// Unknown members are ignored, also beside sparse rows. The classes are in the answer if requested.
func TestMembers(t *testing.T) {
	s := newServer(t, Defaults(), Fixed(newModel(t, 4, 5, people, layout.MissingMean)))
	for _, w := range []*httptest.ResponseRecorder{
		ask(s, "POST", "/predict", typeJSON, []byte(`{"classes": true, "rows": [{"age": 1}]}`)),
		ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": [{"age": 1}], "classes": true}`)),
		ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": [{"age": 1}]}`), headerClasses, "true"),
	} {
		var got struct{ Classes []string }
		err := json.Unmarshal(w.Body.Bytes(), &got)
		assert.True(t, err == nil && slices.Equal(got.Classes, labels), "%v: %s", err, w.Body)
	}
	counts := newServer(t, Defaults(), Fixed(sparseModel(t, 5, "")))
	plain := ask(counts, "POST", "/predict", typeJSON, []byte(`{"rows": [[1, 2]]}`))
	w := ask(counts, "POST", "/predict", typeJSON, []byte(`{"id": 3, "rows": [[1, 2]], "x": []}`))
	assert.True(t, w.Body.String() == plain.Body.String() && w.Code == http.StatusOK, "%d: %s, expected %s", w.Code, w.Body, plain.Body)
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

// A handler that panics releases its core and its memory, and is counted and reported with the shape of the request.
func TestHandlerThatPanics(t *testing.T) {
	m := newModel(t, 3, 2, nil, layout.MissingError)
	versions := &failing{Versions: Fixed(m)}
	var mutex sync.Mutex
	var notices []string
	s := newServer(t, Defaults(), versions)
	s.notice = func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		notices = append(notices, text)
	}
	versions.left = 3 * cap(s.cores)
	for range 3 * cap(s.cores) {
		w := ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`))
		got := reason(t, w)
		assert.Need(t, w.Code == http.StatusInternalServerError && strings.Contains(got, "see the server's log"), "%d: %s", w.Code, got)
	}
	checkAnswer(t, ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":[[1,2]]}`)), m, []float32{1, 2})
	checkFree(t, s)
	freeAll(s)
	assert.Need(t, len(notices) == 3*cap(s.cores), "%d notices", len(notices))
	for _, want := range []string{"index out of range", `POST "/predict" of 16 bytes`, `Content-Type "application/json"`, "at serve/"} {
		assert.True(t, strings.Contains(notices[0], want), "%s, expected %s", notices[0], want)
	}
	metrics := ask(s, "GET", "/metrics", "", nil).Body.String()
	assert.True(t, strings.Contains(metrics, fmt.Sprintf("stagewise_request_panics_total{pipeline=\"p\"} %d\n", 3*cap(s.cores))),
		"%v", metrics)
}

// An answer whose client has disconnected, or that fails after its start, is incomplete, and releases everything.
func TestAnswersThatBreak(t *testing.T) {
	s := newServer(t, Defaults(), Fixed(newModelOf(t, manyClasses(700), 3, 2, nil, layout.MissingError)))
	_, body := someRows(t, 400)
	r := httptest.NewRequestWithContext(context.Background(), "POST", "/predict", bytes.NewReader(body))
	r.Header.Set("Content-Type", typeJSON)
	func() {
		defer func() {
			cause := recover()
			assert.True(t, cause == http.ErrAbortHandler, "%v", cause)
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
		assert.NoError(t, m.Contributions(denseOf(rows...), 1, func(_ int, scores []model.Contributions) {
			var row []contributed
			for out, score := range scores {
				row = append(row, contributed{m.LabelType().Values(m.Labels())[out], score})
			}
			want = append(want, wire.JSON(row))
		}))
		body := assert.Must(json.Marshal(map[string]any{"rows": rows, "contributions": 1}))(t)
		var got struct{ Contributions []json.RawMessage }
		w := ask(s, "POST", "/predict", typeJSON, body)
		err := json.Unmarshal(w.Body.Bytes(), &got)
		assert.True(t, err == nil && reflect.DeepEqual(got.Contributions, want), "%d: %.300s (%v), expected %s", w.Code, w.Body, err, want[0])
		r := assert.Must(ipc.NewReader(ask(s, "POST", "/predict", typeJSON, body, "Accept", typeArrow, headerContributions, "1").Body))(t)
		defer r.Release()
		n := 0
		for r.Next() {
			for i := range int(r.Record().NumRows()) {
				text := r.Record().Column(int(r.Record().NumCols()) - 1).(*array.String).Value(i)
				assert.Equal(t, text, string(want[n]), "row %d", n)
				n++
			}
		}
		assert.True(t, n == len(rows) && r.Err() == nil, "%d rows, error %v", n, r.Err())
		for text, want := range map[string]string{"0": "a number of columns, at least 1", "1000000000000": "expected at most"} {
			checkRefused(t, ask(s, "POST", "/predict", typeJSON, []byte(`{"rows": [[1, 2]], "contributions": `+text+`}`)), text, want)
		}
	}
	infinite := newServer(t, Defaults(), Fixed(numbersModel(t, 3)))
	checkRefused(t, ask(infinite, "POST", "/predict", typeJSON, []byte(`{"rows": [[1, 2]], "contributions": 1}`)), "numbers", "contributions need")
}

// wholeModel returns a model with two features and a number of integer classes.
func wholeModel(t testing.TB, classes int, edits ...func(*schemas.Manifest)) *model.Model {
	t.Helper()
	names := make([]string, classes)
	for i := range names {
		names[i] = strconv.Itoa(10*i - 5)
	}
	edits = append(edits, func(m *schemas.Manifest) { m.LabelType = examples.WholeLabels })
	return newModelOf(t, names, 3, 2, nil, layout.MissingError, edits...)
}

// severalLabels makes a model multi-label.
func severalLabels(m *schemas.Manifest) {
	m.Plan.Labels, m.Plan.Stages[0].Link = schemas.LabelsSeveral, link.Logistic
}

// In a multi-label task, the labels of a row are also integers, beside its most probable ones.
func TestSeveralWholeLabels(t *testing.T) {
	m := wholeModel(t, 40, severalLabels)
	s := newServer(t, Defaults(), Fixed(m))
	rows, body := someRows(t, 20)
	var given, top [][]int64
	for _, row := range rows {
		all := make([]float32, len(m.Labels()))
		m.Probabilities(all, denseOf(row))
		numbersOf := func(classes []int32) []int64 {
			numbers := []int64{}
			for _, class := range classes {
				numbers = append(numbers, examples.WholeNumbers(m.Labels())[class])
			}
			return numbers
		}
		given, top = append(given, numbersOf(m.Given(nil, all))), append(top, numbersOf(mostProbable(nil, all, 2)))
	}
	var got struct {
		Labels [][]int64
		Top    [][]struct{ Label int64 }
	}
	w := ask(s, "POST", "/predict", typeJSON, body, headerTop, "2")
	err := json.Unmarshal(w.Body.Bytes(), &got)
	assert.True(t, err == nil && w.Code == http.StatusOK &&
		slices.EqualFunc(got.Labels, given, slices.Equal) && slices.EqualFunc(got.Top, top, func(a []struct{ Label int64 }, b []int64) bool {
		return len(a) == 2 && a[0].Label == b[0] && a[1].Label == b[1]
	}), "%v: %d: %.300s", err, w.Code, w.Body)
	r, err := ipc.NewReader(ask(s, "POST", "/predict", typeArrow, listsOf(t, rows, 20), headerTop, "2").Body)
	assert.Need(t, err == nil && r.Next(), "%v", err)
	defer r.Release()
	lists := r.Record().Column(0).(*array.List)
	for i := range rows {
		from, end := lists.ValueOffsets(i)
		assert.Equal(t, lists.ListValues().(*array.Int64).Int64Values()[from:end], given[i], "row %d as Arrow", i)
	}
}

// numbersModel returns a model with two features and a number of targets.
func numbersModel(t testing.TB, targets int) *model.Model {
	t.Helper()
	names := manyClasses(targets)
	return newModelOf(t, names, 3, 2, nil, layout.MissingError, func(m *schemas.Manifest) {
		m.Plan.Targets, m.Plan.Stages[0].Link = names, link.Identity
	})
}

// Predicted targets are float64, and null if not finite, in JSON and in Arrow.
func TestPredictedNumbers(t *testing.T) {
	const targets = 300
	m := numbersModel(t, targets)
	for _, n := range []int{2, 64, 65, 500} {
		s := newServer(t, Defaults(), Fixed(m))
		rows, body := someRows(t, n)
		want := make([]float64, n*targets)
		m.Numbers(want, denseOf(rows...))
		last := want[targets-1]
		assert.Need(t, last-last != 0 && want[0] != float64(float32(want[0])),
			"%v and %v: expected a number that float32 does not have, and one that is not finite", want[0], last)
		for sent, content := range map[string][]byte{typeJSON: body, typeArrow: listsOf(t, rows, 100)} {
			w := ask(s, "POST", "/predict", sent, content, "Accept", typeJSON)
			var got struct {
				Targets               []string
				Predictions           [][]*float64
				Labels, Probabilities []any
			}
			err := json.Unmarshal(w.Body.Bytes(), &got)
			assert.Need(t, err == nil && slices.Equal(got.Targets, m.Labels()) && got.Labels == nil && got.Probabilities == nil,
				"%d rows as %s: %v: %.300s", n, sent, err, w.Body)
			var numbers []float64
			for _, v := range slices.Concat(got.Predictions...) {
				if v == nil {
					numbers = append(numbers, math.NaN())
				} else {
					numbers = append(numbers, *v)
				}
			}
			checkNumbers(t, numbers, want)
			checkNumbers(t, arrowNumbers(t, ask(s, "POST", "/predict", sent, content, "Accept", typeArrow).Body), want)
		}
		checkFree(t, s)
	}
	s := newServer(t, Defaults(), Fixed(m))
	w := ask(s, "POST", "/predict", typeJSON, []byte(`{"top": 1, "rows": []}`))
	assert.True(t, w.Code == http.StatusBadRequest && strings.Contains(reason(t, w), "the model predicts numbers"), "%d: %s", w.Code, w.Body)
}

// checkNumbers checks numbers of about 1.7 billion to a thousandth; others must match in not being finite.
func checkNumbers(t *testing.T, got, want []float64) {
	t.Helper()
	assert.Need(t, len(got) == len(want), "%d numbers, expected %d", len(got), len(want))
	for i, v := range got {
		if v-v != want[i]-want[i] && (v-v == 0 || want[i]-want[i] == 0) || math.Abs(v-want[i]) > 1e-3 {
			t.Fatalf("number %d is %v, expected %v", i, v, want[i])
		}
	}
}

// arrowNumbers returns the predicted targets of an answer in Arrow.
func arrowNumbers(t *testing.T, content io.Reader) (numbers []float64) {
	t.Helper()
	r := assert.Must(ipc.NewReader(content))(t)
	defer r.Release()
	for r.Next() {
		numbers = append(numbers, r.Record().Column(0).(*array.FixedSizeList).ListValues().(*array.Float64).Float64Values()...)
	}
	assert.NoError(t, r.Err())
	return numbers
}
