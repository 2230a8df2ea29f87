package serve

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/apache/arrow/go/v17/arrow"
	"github.com/apache/arrow/go/v17/arrow/ipc"
	"github.com/google/jsonschema-go/jsonschema"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/internal/link"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/examples"
)

// topic is a topic in memory. append is called before each write.
type topic struct {
	partitions int
	append     func(ctx context.Context) error

	mutex    sync.Mutex
	messages map[int][]kafkalog.Message
}

func (l *topic) Partitions(context.Context, string) (int, error) { return l.partitions, nil }

func (l *topic) Append(ctx context.Context, name string, partition int, messages ...kafkalog.Message) (int64, error) {
	if l.append != nil {
		if err := l.append(ctx); err != nil {
			return -1, fmt.Errorf("append to %s[%d]: %w", name, partition, err)
		}
	}
	l.mutex.Lock()
	defer l.mutex.Unlock()
	if l.messages == nil {
		l.messages = map[int][]kafkalog.Message{}
	}
	l.messages[partition] = append(l.messages[partition], messages...)
	return 0, nil
}

// keys returns the keys of a partition, in order.
func (l *topic) keys(partition int) (keys []string) {
	for _, m := range l.messages[partition] {
		keys = append(keys, string(m.Key))
	}
	return keys
}

// openTopic returns a writer, and its reports.
func openTopic(t *testing.T, l *topic) (*answersWriter, func() []string) {
	t.Helper()
	var mutex sync.Mutex
	var notices []string
	w, err := openAnswers(t.Context(), AnswersOptions{Topic: "answers", Sample: 1}, l, promauto.With(prometheus.NewRegistry()), func(text string) {
		mutex.Lock()
		defer mutex.Unlock()
		notices = append(notices, text)
	})
	assert.NoError(t, err)
	return w, func() []string {
		mutex.Lock()
		defer mutex.Unlock()
		return slices.Clone(notices)
	}
}

// trace is a valid header traceparent.
const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

// answerTo passes a request with a number of rows to a writer.
func answerTo(t *testing.T, w *answersWriter, id string, rows int) {
	t.Helper()
	r := w.begin(id, http.Header{"Traceparent": {map[bool]string{true: trace, false: "none"}[id == "b"]}})
	for i := range rows {
		addRow(t, &r, fmt.Sprintf("[%d]", i))
	}
	r.send()
}

// addRow adds a row with these features to a record.
func addRow(t *testing.T, r *record, features string) {
	t.Helper()
	if r.writer == nil {
		return
	}
	v := &version{Model: newModelOf(t, []string{"no", "yes"}, 7, 2, nil, layout.MissingError)}
	v.quoted = v.LabelType().Values(v.Labels())
	of := &answer{version: v, rows: 1, given: []int32{0}, ends: []int32{0, 1}, last: []float32{0.75, 0.25}}
	r.add(of, 0, 1, func(dst []byte) []byte { return append(dst, features...) })
}

// All answers are on the topic once the writer is closed, in the partitions selected by Kafka's Java client for their keys.
func TestAnswersAreWritten(t *testing.T) {
	l := &topic{partitions: 3}
	w, notices := openTopic(t, l)
	answerTo(t, w, "a", 1)
	answerTo(t, w, "b", 2)
	err := w.close(t.Context())
	assert.True(t, err == nil && len(notices()) == 0, "%v %v", err, notices())
	var texts []string
	for p, messages := range l.messages {
		for _, m := range messages {
			assert.True(t, kafkalog.Partitioner(3)(m.Key) == p, "%s is in partition %d", m.Key, p)
			traced := len(m.Headers) == 1 && m.Headers[0].Key == "traceparent" && string(m.Headers[0].Value) == trace
			of := strings.HasPrefix(string(m.Key), "b/")
			assert.True(t, traced == of && (of || len(m.Headers) == 0), "%s has the headers %s", m.Key, m.Headers)
			texts = append(texts, string(m.Key)+" "+string(m.Value))
		}
	}
	slices.Sort(texts)
	const prediction = `"prediction":{"label":"no","probabilities":{"no":0.75,"yes":0.25}}}`
	want := []string{
		`a {"request":"a","row":0,"version":7,"features":[0],` + prediction,
		`b/0 {"request":"b","row":0,"version":7,"features":[0],` + prediction,
		`b/1 {"request":"b","row":1,"version":7,"features":[1],` + prediction,
	}
	assert.True(t, slices.Equal(texts, want), "%s", strings.Join(texts, "\n"))
	n := testutil.ToFloat64(w.written)
	assert.True(t, n == 3, "%v are counted", n)
	answerTo(t, w, "c", 1) // too late
	n = testutil.ToFloat64(w.dropped)
	assert.True(t, n == 1, "%v are dropped", n)
}

// While brokers are unavailable, requests do not wait: messages that exceed the buffer are dropped, counted, and reported
// once a minute. Buffered messages are written afterwards.
func TestBrokersAreAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		away := make(chan struct{})
		l := &topic{partitions: 1, append: func(ctx context.Context) error {
			select {
			case <-away:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		}}
		w, notices := openTopic(t, l)
		w.limit = 4 * (messageBytes + 200)
		began := time.Now()
		for i := range 100 {
			answerTo(t, w, fmt.Sprint(i), 1)
			synctest.Wait()
		}
		took := time.Since(began)
		assert.True(t, took <= 0, "answers waited %v", took)
		dropped := testutil.ToFloat64(w.dropped)
		assert.True(t, dropped >= 90 && dropped <= 97 && len(notices()) == 1 &&
			strings.Contains(notices()[0], "answers to 1 rows were not written to answers: "), "%v are dropped, reported %q", dropped, notices())
		time.Sleep(2 * noticeEvery)
		answerTo(t, w, "later", 1)
		synctest.Wait()
		want := fmt.Sprintf("answers to %v rows", dropped)
		assert.True(t, len(notices()) == 2 && strings.HasPrefix(notices()[1], want), "reported %q, expected %s", notices(), want)
		close(away)
		assert.Fails(t, w.close(t.Context()), nil)
		written := testutil.ToFloat64(w.written)
		assert.True(t, written == 100-dropped && len(l.keys(0)) == int(written) && l.keys(0)[0] == "0" && w.bytes == 0,
			"%v are written: %v; %d bytes wait", written, l.keys(0), w.bytes)
	})
}

// Brokers that reject a message only lose that one; brokers that are unavailable at shutdown delay it no longer than the context.
func TestWhatIsLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := true
		l := &topic{partitions: 1}
		l.append = func(ctx context.Context) error {
			if refusing {
				refusing = false
				return errors.New("not authorized")
			}
			return nil
		}
		w, notices := openTopic(t, l)
		answerTo(t, w, "refused", 1)
		synctest.Wait()
		answerTo(t, w, "written", 1)
		synctest.Wait()
		assert.True(t, len(notices()) == 1 && strings.Contains(notices()[0], "append to answers[0]: not authorized") &&
			slices.Equal(l.keys(0), []string{"written"}), "%q, written %v", notices(), l.keys(0))
		l.append = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
		answerTo(t, w, "late", 3)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		err := w.close(ctx)
		assert.True(t, err != nil && strings.Contains(err.Error(), "answers to 3 rows were not written") && time.Since(began) == time.Second,
			"%v after %v", err, time.Since(began))
		n := testutil.ToFloat64(w.dropped)
		assert.True(t, n == 4, "%v are dropped", n)
	})
}

// A row that is too large for a message is dropped, but not the others of its request.
func TestLargeRow(t *testing.T) {
	l := &topic{partitions: 1}
	w, _ := openTopic(t, l)
	r := w.begin("a", nil)
	for _, size := range []int{1, maxMessage, 1} {
		addRow(t, &r, fmt.Sprintf("%q", strings.Repeat("x", size)))
	}
	r.send()
	err := w.close(t.Context())
	assert.True(t, (err != nil || testutil.ToFloat64(w.dropped) == 1) && slices.Equal(l.keys(0), []string{"a/0", "a/2"}),
		"%v, written %v", err, l.keys(0))
}

// The sampled fraction of requests is the configured one, and a larger sample includes a smaller one.
func TestSample(t *testing.T) {
	const n = 20_000
	for _, fraction := range []float64{0.01, 0.1, 0.5, 0.9} {
		sampled := 0
		for i := range n {
			id := fmt.Sprint("request-", i)
			few, more := AnswersOptions{Sample: fraction}, AnswersOptions{Sample: fraction + 0.1}
			if few.samples(id) {
				sampled++
				assert.Need(t, more.samples(id), "%s is among %v, and not among %v", id, few.Sample, more.Sample)
			}
		}
		deviation := math.Abs(float64(sampled)-n*fraction) / math.Sqrt(n*fraction*(1-fraction))
		assert.True(t, deviation <= 4, "%d of %d are sampled, expected %v", sampled, n, n*fraction)
	}
}

// A row that is not sampled has no cost.
func TestNotSampled(t *testing.T) {
	var w *answersWriter
	answerTo(t, w, "a", 1)
	w = &answersWriter{options: AnswersOptions{Sample: 1e-300}}
	answerTo(t, w, "a", 1)
}

func TestIDs(t *testing.T) {
	for id, valid := range map[string]bool{rand.Text(): true, "a/b:1": true, "": false, "a b": false, "é": false, "a\n": false,
		strings.Repeat("x", 200): true, strings.Repeat("x", 201): false} {
		assert.True(t, isID(id) == valid, "%q: %v", id, !valid)
	}
}

// Lists are split like those of encoding/json.
func FuzzAppendNamed(f *testing.F) {
	for _, seed := range []string{`[]`, `[ ]`, `[1]`, `[1, "a,]\"\\", [2, {"b": [3, "}"]}], {}, null ]`, `[[],[[]]]`} {
		f.Add([]byte(seed))
	}
	names := []json.RawMessage{[]byte(`"a"`), []byte(`"b"`), []byte(`"c"`), []byte(`"d"`), []byte(`"e"`)}
	f.Fuzz(func(t *testing.T, list []byte) {
		var want []json.RawMessage
		if !json.Valid(list) || list[0] != '[' || list[len(list)-1] != ']' || json.Unmarshal(list, &want) != nil {
			return
		}
		var got map[string]json.RawMessage
		text := appendNamed(nil, list, names)
		assert.Need(t, json.Unmarshal(text, &got) == nil, "%s became %s", list, text)
		for i, name := range []string{"a", "b", "c", "d", "e"} {
			found, ok := got[name]
			assert.True(t, ok == (i < len(want)) && (!ok || string(found) == string(want[i])), "%s: value %d is %s", list, i, found)
		}
	})
}

// recorded returns the response of a server of a model to a request, and the messages that it writes.
func recorded(t *testing.T, m *model.Model, kind, id string, body []byte) (*httptest.ResponseRecorder, []kafkalog.Message) {
	t.Helper()
	log := &topic{partitions: 1}
	o := Defaults()
	o.Answers.Topic = "answers"
	s := newServer(t, o, Fixed(m))
	assert.NoError(t, s.WriteAnswers(t.Context(), log))
	path := "/predict"
	if kind == typeBytes {
		path = inferPath
	}
	var headers []string
	if id != "" {
		headers = []string{headerID, id}
	}
	w := ask(s, "POST", path, kind, body, headers...)
	s.closeAnswers(t.Context())
	return w, log.messages[0]
}

// A message has the features as sent, by column name if there are names, and the contents of the answer.
func TestAnswersOnATopic(t *testing.T) {
	nested := newModel(t, 3, 2, examples.Columns{{Name: "user.age"}, {Name: "height"}}, layout.MissingMean)
	table := []arrow.Field{{Name: "city", Type: arrow.BinaryTypes.String}, {Name: "age", Type: arrow.PrimitiveTypes.Float64},
		{Name: "height", Type: arrow.PrimitiveTypes.Float32}}
	for name, c := range map[string]struct {
		model *model.Model
		kind  string
		body  []byte
		want  []string // features
	}{
		"objects, with columns that the model does not have": {newModel(t, 3, 5, people, layout.MissingMean), typeJSON,
			[]byte(`{"rows": [ {"city": "Rome", "age":  3, "height": null, "id": [1, {"a": "]"}]} , {"age": 4.50}]}`),
			[]string{`{"city": "Rome", "age":  3, "height": null, "id": [1, {"a": "]"}]}`, `{"age": 4.50}`}},
		"lists": {newModel(t, 3, 5, people, layout.MissingMean), typeJSON, []byte(`{"rows": [[3, "Oslo", null], ["4", "x,]", 1e2]]}`),
			[]string{`{"age":3,"city":"Oslo","height":null}`, `{"age":"4","city":"x,]","height":1e2}`}},
		"lists with columns": {newModel(t, 3, 5, people, layout.MissingMean), typeJSON,
			[]byte(`{"columns": ["city", "id", "age"], "rows": [["Rome", 5, 1]]}`), []string{`{"city":"Rome","id":5,"age":1}`}},
		"values within others": {nested, typeJSON, []byte(`{"rows": [{"user": {"age": 3}}, [1, 2]]}`),
			[]string{`{"user": {"age": 3}}`, `{"user.age":1,"height":2}`}},
		"features without names": {newModel(t, 3, 2, nil, layout.MissingError), typeJSON, []byte(`{"rows": [[1, 2], [3, 4]]}`),
			[]string{`[1, 2]`, `[3, 4]`}},
		"sparse rows": {sparseModel(t, 4, ""), typeJSON, []byte(`{"rows": [{"indices": [0, 3], "values": [1.5, 2]}, [0, 1, 2, 0], {"values": [], "indices": []},
			{"indices": [1], "values": [3], "Values": null}]}`), []string{`{"0":1.5,"3":2}`, `[0, 1, 2, 0]`, `{}`, `{"1":3}`}},
		"texts": {sparseModel(t, 64, "message"), typeJSON, []byte(`{"rows": ["a \"text\"", {"message": "another", "id": 1}]}`),
			[]string{`{"message":"a \"text\""}`, `{"message": "another", "id": 1}`}},
		"Arrow": {newModel(t, 3, 5, people, layout.MissingMean), typeArrow, recordStream(t, table, `[{"city":"Rome","age":0,"height":0.1},
			{"city":"Oslo","age":2.5,"height":4},{"city":"Rome","age":1,"height":0.1},{"city":"Oslo","age":null,"height":4}]`),
			[]string{`{"city":"Rome","age":0,"height":0.1}`, `{"city":"Oslo","age":2.5,"height":4}`,
				`{"city":"Rome","age":1,"height":0.1}`, `{"city":"Oslo","age":null,"height":4}`}},
		"tensors": {newModel(t, 3, 5, people, layout.MissingMean), typeBytes, []byte(`{"inputs":[{"name":"age","shape":[2],"datatype":"INT32",
			"data":[16777217,1000000]},{"name":"city","shape":[2],"datatype":"BYTES","data":["Rome","Oslo"]},
			{"name":"height","shape":[2],"datatype":"FP32","data":[0.1,null]}]}`),
			[]string{`{"age":16777217,"city":"Rome","height":0.1}`, `{"age":1000000,"city":"Oslo","height":null}`}},
	} {
		t.Run(name, func(t *testing.T) {
			w, messages := recorded(t, c.model, c.kind, "r-1", c.body)
			assert.Need(t, w.Code == http.StatusOK && len(messages) == len(c.want) && w.Header().Get(headerID) == "r-1",
				"%d: %s; %d messages", w.Code, w.Body, len(messages))
			again, _ := recorded(t, c.model, typeJSON, "", []byte("{}")) // another request, without an id and rows
			id := again.Header().Get(headerID)
			assert.True(t, len(id) >= 16, "id %q", id)
			for i, message := range messages {
				var got struct {
					Request      string
					Row, Version int
					Features     json.RawMessage
					Prediction   struct {
						Label         string
						Probabilities map[string]float32
					}
				}
				err := json.Unmarshal(message.Value, &got)
				assert.Need(t, err == nil, "%s: %v", message.Value, err)
				key := fmt.Sprint("r-1/", i)
				if len(c.want) == 1 {
					key = "r-1"
				}
				assert.True(t, string(got.Features) == c.want[i] && got.Request == "r-1" && got.Row == i && got.Version == c.model.Manifest.Version &&
					string(message.Key) == key, "%s: %s, expected features %s", message.Key, message.Value, c.want[i])
				best, sum := float32(0), float32(0)
				for _, p := range got.Prediction.Probabilities {
					best, sum = max(best, p), sum+p
				}
				assert.True(t, len(got.Prediction.Probabilities) == len(labels) && got.Prediction.Probabilities[got.Prediction.Label] == best &&
					sum >= 0.999 && sum <= 1.001, "%s", message.Value)
				if c.kind == typeJSON {
					checkAgrees(t, w, i, got.Prediction.Label, got.Prediction.Probabilities)
				}
			}
		})
	}
}

// Compressed rows of Arrow are written also if the limit of decompressed bytes would not allow them twice.
func TestCompressedRowsOnATopic(t *testing.T) {
	const n, d = 1000, 2500
	w, messages := recorded(t, newModel(t, 3, d, nil, layout.MissingError), typeArrow, "a", listsOf(t, zeros(n, d), n, ipc.WithZstd()))
	assert.Need(t, w.Code == http.StatusOK && len(messages) == n, "%d: %.200s; %d messages", w.Code, w.Body, len(messages))
	for _, m := range messages {
		assert.Need(t, strings.Contains(string(m.Value), `"features":{"features":[0,`), "%.200s", m.Value)
	}
}

// checkAgrees compares the message of a row with the answer.
func checkAgrees(t *testing.T, w *httptest.ResponseRecorder, row int, label string, probabilities map[string]float32) {
	t.Helper()
	var answer struct {
		Labels        []string
		Probabilities [][]float32
	}
	assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer))
	want := map[string]float32{}
	for c, p := range answer.Probabilities[row] {
		want[labels[c]] = p
	}
	assert.True(t, answer.Labels[row] == label && reflect.DeepEqual(want, probabilities),
		"row %d: %s %v, the answer is %s", row, label, probabilities, w.Body)
}

// Targets and several labels are written as such, and an invalid id is rejected before the prediction.
func TestAnswersOfOtherTasks(t *testing.T) {
	numbers := newModelOf(t, labels, 1, 2, nil, layout.MissingError, func(m *schemas.Manifest) { m.Plan.Targets, m.Plan.Stages[0].Link = labels, link.Identity })
	w, messages := recorded(t, numbers, typeJSON, "a", []byte(`{"rows": [[1, 2]]}`))
	assert.True(t, w.Code == http.StatusOK && len(messages) == 1 &&
		strings.Contains(string(messages[0].Value), `"prediction":{"values":{"no":`) &&
		strings.HasSuffix(string(messages[0].Value), `"é":null}}}`) && json.Valid(messages[0].Value), "%d: %v", w.Code, messages)
	w, messages = recorded(t, numbers, typeJSON, "a b", []byte(`{"rows": [[1, 2]]}`))
	assert.True(t, w.Code == http.StatusBadRequest && len(messages) == 0 && strings.Contains(w.Body.String(), headerID),
		"%d: %s", w.Code, w.Body)
	w, messages = recorded(t, numbers, typeJSON, "a", []byte(`{"rows": [[1, 2], [1]]}`))
	assert.True(t, w.Code == http.StatusBadRequest && len(messages) == 0, "%d: %v", w.Code, messages)
}

// openapi is the part of the description that is compared with the server.
type openapi struct {
	Paths map[string]map[string]struct {
		Security  []map[string][]string
		Responses map[string]response
	}
	Components struct {
		Schemas   map[string]any
		Responses map[string]response
	}
}

// response is a response, or a reference to one of the components.
type response struct {
	Ref     string `json:"$ref"`
	Headers map[string]any
	Content map[string]struct{ Schema map[string]any }
}

// schemaOf returns a validator of a JSON response, from its schema in the description.
func (o *openapi) schemaOf(t *testing.T, schema map[string]any) *jsonschema.Resolved {
	t.Helper()
	content := assert.Must(json.Marshal(map[string]any{"allOf": []any{schema}, "$defs": o.Components.Schemas}))(t)
	content = []byte(strings.ReplaceAll(string(content), "#/components/schemas/", "#/$defs/"))
	var s jsonschema.Schema
	assert.NoError(t, json.Unmarshal(content, &s))
	return assert.Must(s.Resolve(nil))(t)
}

// The description has exactly the paths and methods of the server; the status and body of each response match it.
func TestDescription(t *testing.T) {
	var described openapi
	assert.NoError(t, json.Unmarshal([]byte(description), &described))
	m := newModel(t, 3, 3, nil, layout.MissingError)
	s, none, broken := newServer(t, Defaults(), Fixed(m)), newServer(t, Defaults(), &switched{}), newServer(t, Defaults(),
		&failing{Versions: Fixed(m), left: 1})
	whole, numbers := newServer(t, Defaults(), Fixed(wholeModel(t, 5))), newServer(t, Defaults(), Fixed(numbersModel(t, 3)))
	several := newServer(t, Defaults(), Fixed(wholeModel(t, 5, severalLabels)))
	rest := maps.Clone(s.routes)
	maps.DeleteFunc(rest, func(path string, _ route) bool { return strings.HasPrefix(path, service) }) // gRPC has no description
	for path, to := range rest {
		operation, ok := described.Paths[path][strings.ToLower(to.method)]
		assert.True(t, ok && len(described.Paths[path]) == 1, "%s %s is not described, or more is", to.method, path)
		public := slices.ContainsFunc(operation.Security, func(needs map[string][]string) bool { return len(needs) == 0 })
		assert.True(t, public == to.public, "%s: described as public: %v", path, public)
	}
	assert.True(t, len(described.Paths) == len(rest), "%d paths are described, the server has %d", len(described.Paths), len(rest))
	requests := []struct {
		s                        *Server
		method, path, sent, body string
	}{
		{s, "POST", "/predict", typeJSON, `{"rows":[[1,2,3]]}`}, {s, "POST", "/predict", typeJSON, `{"rows":[]}`}, {s, "POST", "/predict", typeJSON, `{"rows":[[1]]}`},
		{s, "POST", "/predict", typeJSON, `{"rows":[[1,2,3]],"top":2,"classes":true}`}, {broken, "POST", "/predict", typeJSON, `{"rows":[]}`},
		{whole, "POST", "/predict", typeJSON, `{"rows":[[1,2]],"classes":true,"top":2,"contributions":2}`}, {several, "POST", "/predict", typeJSON, `{"rows":[[1,2]],"classes":true}`},
		{numbers, "POST", "/predict", typeJSON, `{"rows":[[1,2]],"classes":true}`}, {whole, "GET", "/model", "", ""},
		{s, "POST", "/predict", "text/csv", ``}, {s, "PUT", "/predict", typeJSON, ``}, {none, "POST", "/predict", typeJSON, `{"rows":[]}`}, {none, "GET", "/model", "", ""},
		{s, "POST", "/invocations", typeJSON, `{"inputs":[[1,2,3]]}`}, {numbers, "POST", "/invocations", typeJSON, `{"inputs":[[1,2]]}`},
		{s, "POST", "/invocations", "text/csv", ``}, {s, "POST", "/v2/models/p/infer", typeJSON, `{}`},
		{s, "POST", "/v2/models/p/infer", typeJSON, `{"id":"1","inputs":[{"name":"x","shape":[1,3],"datatype":"FP32","data":[1,2,3]}]}`},
		{several, "POST", "/v2/models/p/infer", typeJSON, `{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[1,2]}]}`},
		{s, "POST", "/v2/models/p/versions/4/infer", typeJSON, `{}`}, {s, "GET", "/v2/models/q", "", ""}, {none, "GET", "/v2/models/q/ready", "", ""},
	}
	for path := range rest {
		requests = append(requests, struct {
			s                        *Server
			method, path, sent, body string
		}{s, "GET", strings.NewReplacer("{model}", "p", "{version}", "3").Replace(path), "", ""})
	}
	for _, r := range requests {
		w := ask(r.s, r.method, r.path, r.sent, []byte(r.body))
		_, path := r.s.mux.Handler(httptest.NewRequest(r.method, r.path, nil))
		answer, ok := described.Paths[path][strings.ToLower(r.s.routes[path].method)].Responses[strconv.Itoa(w.Code)]
		if !ok {
			t.Errorf("%s %s: %d is not described", r.method, r.path, w.Code)
			continue
		}
		if name, isRef := strings.CutPrefix(answer.Ref, "#/components/responses/"); isRef {
			answer = described.Components.Responses[name]
		}
		for name := range w.Header() {
			_, described := answer.Headers[name]
			assert.True(t, !strings.HasPrefix(name, "Stagewise-") || described,
				"%s %s: %d: the header %s is not described", r.method, r.path, w.Code, name)
		}
		kind, _, _ := strings.Cut(w.Header().Get("Content-Type"), ";")
		content, ok := answer.Content[kind]
		if !ok {
			t.Errorf("%s %s: %d as %s is not described", r.method, r.path, w.Code, kind)
			continue
		}
		if kind != typeJSON {
			continue
		}
		var value any
		assert.NoError(t, json.Unmarshal(w.Body.Bytes(), &value))
		err := described.schemaOf(t, content.Schema).Validate(value)
		assert.True(t, err == nil, "%s %s: %d: %s: %v", r.method, r.path, w.Code, w.Body, err)
	}
}
