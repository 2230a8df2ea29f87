package serve

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/ingest/layout"
	"github.com/stagewise/stagewise/internal/assert"
	"github.com/stagewise/stagewise/model"
	"github.com/stagewise/stagewise/schemas/examples"
)

const inferPath = "/v2/models/p/infer"

// infer sends a request of the Open Inference Protocol, with binary data behind its JSON.
func infer(s http.Handler, text string, data ...byte) *httptest.ResponseRecorder {
	r := httptest.NewRequest("POST", inferPath, bytes.NewReader(append([]byte(text), data...)))
	if len(data) > 0 {
		r.Header.Set(headerLength, strconv.Itoa(len(text)))
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// inferred is the JSON of an answer.
type inferred struct {
	ModelName    string `json:"model_name"`
	ModelVersion string `json:"model_version"`
	ID           string
	Outputs      []struct {
		Name, Datatype string
		Shape          []int
		Data           any
		Parameters     struct {
			Size int `json:"binary_data_size"`
		}
	}
}

// outputsOf returns the values of the outputs in an answer, from JSON or from binary data.
func outputsOf(t *testing.T, w *httptest.ResponseRecorder) map[string]any {
	t.Helper()
	text, rest := w.Body.Bytes(), []byte(nil)
	if length := w.Header().Get(headerLength); length != "" {
		n, err := strconv.Atoi(length)
		assert.Need(t, err == nil && n <= len(text) && w.Header().Get("Content-Type") == typeBytes, "%v %v", w.Header(), err)
		text, rest = text[:n], text[n:]
	}
	var answer inferred
	err := json.Unmarshal(text, &answer)
	assert.Need(t, err == nil && w.Code == http.StatusOK && answer.ModelName == "p" && answer.ModelVersion == w.Header().Get(headerVersion),
		"%d: %s: %v", w.Code, w.Body, err)
	values := map[string]any{"id": answer.ID}
	for _, o := range answer.Outputs {
		n := 1
		for _, length := range o.Shape {
			n *= length
		}
		list, _ := o.Data.([]any)
		data := rest[:o.Parameters.Size]
		rest = rest[len(data):]
		list = append(list, valuesOf(o.Datatype, data)...)
		assert.True(t, len(list) == n, "%s: %d values of shape %v", o.Name, len(list), o.Shape)
		values[o.Name] = list
	}
	assert.True(t, len(rest) == 0, "%d bytes follow the answer", len(rest))
	return values
}

// valuesOf returns the values in binary data of a tensor.
func valuesOf(datatype string, data []byte) (list []any) {
	for len(data) > 0 {
		var v any
		size := 8
		switch datatype {
		case "BYTES":
			size = 4 + int(binary.LittleEndian.Uint32(data))
			v = string(data[4:size])
		case "BOOL":
			size, v = 1, data[0] == 1
		case "FP32":
			size, v = 4, number(math.Float32frombits(binary.LittleEndian.Uint32(data)))
		case "FP64":
			v = number(math.Float64frombits(binary.LittleEndian.Uint64(data)))
		case "INT64":
			v = float64(int64(binary.LittleEndian.Uint64(data)))
		}
		list, data = append(list, v), data[size:]
	}
	return list
}

// number returns the JSON value of a number: null if it is not finite.
func number[T float32 | float64](v T) any {
	text, err := json.Marshal(v)
	if err != nil {
		return nil
	}
	var of any
	_ = json.Unmarshal(text, &of) // which is JSON
	return of
}

// predicted returns the outputs that an answer to the same rows has at /predict.
func predictedOutputs(t *testing.T, s *Server, m *model.Model, rows string) map[string]any {
	t.Helper()
	var of map[string]any
	w := ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":`+rows+`}`))
	err := json.Unmarshal(w.Body.Bytes(), &of)
	assert.Need(t, err == nil && w.Code == http.StatusOK, "%d: %s: %v", w.Code, w.Body, err)
	flat := func(lists any) (all []any) {
		for _, list := range lists.([]any) {
			all = append(all, list.([]any)...)
		}
		return all
	}
	v := version{Model: m}
	switch {
	case v.predictsNumbers():
		return map[string]any{"id": "", "predictions": flat(of["predictions"])}
	case v.givesSeveral():
		var has []any
		for _, row := range of["labels"].([]any) {
			for _, label := range m.Labels() {
				has = append(has, slices.ContainsFunc(row.([]any), func(v any) bool { return fmt.Sprint(v) == label }))
			}
		}
		return map[string]any{"id": "", "labels": has, "probabilities": flat(of["probabilities"])}
	}
	return map[string]any{"id": "", "label": of["labels"], "probabilities": flat(of["probabilities"])}
}

// Requests of the Open Inference Protocol and of MLflow have the predictions of the same rows at /predict: of each kind of model, as
// columns, as a matrix, and in binary.
func TestProtocolsPredictTheSame(t *testing.T) {
	float32s := func(values ...float32) (data []byte) {
		for _, v := range values {
			data = binary.LittleEndian.AppendUint32(data, math.Float32bits(v))
		}
		return data
	}
	texts := func(values ...string) (data []byte) {
		for _, v := range values {
			data = append(binary.LittleEndian.AppendUint32(data, uint32(len(v))), v...)
		}
		return data
	}
	plain, named := newModel(t, 3, 2, nil, layout.MissingError), newModel(t, 4, 5, people, layout.MissingMean)
	for _, c := range []struct {
		m      *model.Model
		rows   string
		inputs string
		data   []byte
	}{
		{plain, `[[1,2],[3,4]]`, `{"name":"predict","shape":[2,2],"datatype":"FP32","data":[1,2,3,4]}`, nil},
		{plain, `[[1,2],[3,4]]`, `{"name":"predict","shape":[2,2],"datatype":"INT8","data":[[1,2],[3,4]]}`, nil},
		{plain, `[[1,2],[3,4]]`, `{"name":"x","shape":[2,2,1],"datatype":"FP32","parameters":{"binary_data_size":16}}`, float32s(1, 2, 3, 4)},
		{wholeModel(t, 5), `[[1,-2]]`, `{"name":"x","shape":[1,2],"datatype":"FP64","data":[1,-2]}`, nil},
		{wholeModel(t, 5, severalLabels), `[[1,-2],[0,7]]`, `{"name":"x","shape":[2,2],"datatype":"FP64","data":[1,-2,0,7]}`, nil},
		{numbersModel(t, 3), `[[1,-2],[0,7]]`, `{"name":"x","shape":[2,2],"datatype":"FP64","data":[1,-2,0,7]}`, nil},
		{named, `[[30,"Rome",1.5],[31,"Lima",null]]`, `{"name":"height","shape":[2],"datatype":"FP64","data":[1.5,null]},
			{"name":"city","shape":[2,1],"datatype":"BYTES","data":[["Rome"],["Lima"]]},{"name":"shoes","shape":[2],"datatype":"BOOL","data":[true,false]},
			{"name":"age","shape":[2],"datatype":"UINT16","data":[30,31]}`, nil},
		{named, `[[30,"Rome",1.5],[31,null,true]]`, `{"name":"height","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},
			{"name":"city","shape":[2],"datatype":"BYTES","data":["R\u006fme",null]},
			{"name":"age","shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":12}}`, append(float32s(1.5, 1), texts("30", "31")...)},
		{plain, `[[1,2],[0,4]]`, `{"name":"a","shape":[2],"datatype":"BOOL","data":[1,0]},{"name":"b","shape":[2],"datatype":"INT8","data":[2,4]}`, nil},
		{named, `[[30,"Rome",1.5],[31,"Oslo",2]]`, `{"name":"all","shape":[2,3],"datatype":"BYTES","parameters":{"binary_data_size":40}}`,
			texts("30", "Rome", "1.5", "31", "Oslo", "2")},
	} {
		s := newServer(t, Defaults(), Fixed(c.m))
		want := predictedOutputs(t, s, c.m, c.rows)
		for _, rest := range []string{``, `,"parameters":{"binary_data_output":true}`, `,"parameters":{"binary_data_output":false},"outputs":[]`} {
			assert.Equal(t, outputsOf(t, infer(s, `{"inputs":[`+c.inputs+`]`+rest+`}`, c.data...)), want, "%s%s", c.inputs, rest)
		}
		checkFree(t, s)
	}
	// Tensors that need more memory than their bytes are read again, with more of it, and have the same outputs.
	o := Defaults()
	o.MaxRows = 1 << 20
	w := infer(newServer(t, o, Fixed(plain)), `{"inputs":[{"name":"x","shape":[40000,2],"datatype":"INT8","data":[1`+
		strings.Repeat(",1", 79_999)+`]}],"outputs":[{"name":"label"}]}`)
	assert.Equal(t, len(outputsOf(t, w)["label"].([]any)), 40_000, "labels")
	assert.Equal(t, strings.Count(w.Body.String(), `"datatype"`), 1, "outputs")
	const most = 5000 // more named columns than an Arrow stream may have
	var many examples.Columns
	for i := range most {
		many = append(many, examples.Column{Name: fmt.Sprint("c", i)})
	}
	wide := newModel(t, 3, most, many, layout.MissingError)
	frame, ones := newServer(t, Defaults(), Fixed(wide)), "[1"+strings.Repeat(",1", most-1)+"]"
	got := outputsOf(t, infer(frame, fmt.Sprintf(`{"inputs":[{"name":"x","shape":[1,%d],"datatype":"INT8","data":%s}]}`, most, ones)))
	assert.Equal(t, got, predictedOutputs(t, frame, wide, "["+ones+"]"), "")
	words := slices.Clone(people) // a number that float64 does not have
	words[1].Categories = []string{"9007199254740993", "Rome"}
	long := newModel(t, 4, 5, words, layout.MissingMean)
	for _, c := range []struct {
		m          *model.Model
		rows, body string
	}{
		{plain, `[[1,2],[3,4]]`, `{"inputs":[[1,2],[3,4]]}`},
		{plain, `[[1,2],[3,4]]`, `{"inputs":{"pixels":[[1,2],[3,4]]},"params":{"x":1}}`},
		{plain, `[[1,2],[3,4]]`, `{"inputs":{"first":[1,3],"second":[2,4]}}`},
		{sparseModel(t, 64, "message"), `["one two","three"]`, `{"inputs":{"id":[1,2],"message":["one two","three"]}}`},
		{sparseModel(t, 64, "message"), `["one two","three"]`, `{"inputs":{"message":[["one","two"],["three"]]}}`},
		{plain, `[[1,2],[3,4]]`, `{"dataframe_split":{"columns":[0,1],"index":[0,1],"data":[[1,2],[3,4]]}}`},
		{numbersModel(t, 3), `[[1,-2],[0,7]]`, `{"instances":[[1,-2],[0,7]]}`},
		{numbersModel(t, 1), `[[1,-2],[0,7]]`, `{"instances":[[1,-2],[0,7]]}`},
		{wholeModel(t, 5, severalLabels), `[[1,-2],[0,7]]`, `{"instances":[[1,-2],[0,7]]}`},
		{named, `[[30,"Rome",1.5],[31,null,true]]`, `{"dataframe_split":{"columns":["city","age","height"],"data":[["Rome",30,1.5],[null,31,true]]}}`},
		{named, `[[30,"Rome",1.5],[31,null,true]]`, `{"dataframe_records":[{"city":"Rome","age":30,"height":1.5},{"city":null,"age":31,"height":true}]}`},
		{long, `[[1,9007199254740993,1],[2,9007199254740993,0],[3,9007199254740993,2]]`,
			`{"inputs":{"age":[1,2,3],"city":[9007199254740993,9007199254740993,9007199254740993],"height":[1,0,2]}}`},
		{named, `[[30,"Rome",1.5],[31,null,2]]`, `{"inputs":{"city":[["Rome"],[null]],"age":[[30],[31]],"height":[[1.5],[2]]}}`},
		{named, `[[30,"Rome",1.5],[31,null,2]]`, `{"inputs":{"shoes":[true,false],"city":["Rome",null],"age":[30,31],"height":[1.5,2]}}`},
	} {
		s := newServer(t, Defaults(), Fixed(c.m))
		var want, got map[string]any
		w, answer := ask(s, "POST", "/invocations", typeJSON, []byte(c.body)), ask(s, "POST", "/predict", typeJSON, []byte(`{"rows":`+c.rows+`}`))
		err := json.Unmarshal(answer.Body.Bytes(), &want)
		assert.Need(t, err == nil && w.Header().Get(headerVersion) == answer.Header().Get(headerVersion), "%v %v", answer.Body, err)
		predictions := want["labels"]
		if predictions == nil {
			rows := want["predictions"].([]any)
			for i, row := range rows {
				if one := row.([]any); len(one) == 1 {
					rows[i] = one[0]
				}
			}
			predictions = rows
		}
		err = json.Unmarshal(w.Body.Bytes(), &got)
		assert.True(t, err == nil && reflect.DeepEqual(got, map[string]any{"predictions": predictions}),
			"%s: %d: %s, expected %v", c.body, w.Code, w.Body, predictions)
		checkFree(t, s)
	}
}

// The examples of the specification and of MLServer's pages, for models of their columns, and the answers.
func TestInferenceGoldens(t *testing.T) {
	m := newModelOf(t, []string{"a", "b"}, 7, 2, nil, layout.MissingError)
	s := newServer(t, Defaults(), Fixed(m))
	for _, c := range []struct{ method, path, body, want string }{
		{"GET", "/v2", "", `{"name":"stagewise","version":"2","extensions":["binary_tensor_data"]}`},
		{"GET", "/v2/health/live", "", `{"live":true}`},
		{"GET", "/v2/health/ready", "", `{"ready":true}`},
		{"GET", "/v2/models/p/ready", "", `{"name":"p","ready":true}`},
		{"GET", "/v2/models/p/versions/7/ready", "", `{"name":"p","ready":true}`},
		{"GET", "/v2/models/p", "", `{"inputs":[{"name":"features","datatype":"FP32","shape":[-1,2]}],"name":"p","outputs":[` +
			`{"name":"label","datatype":"BYTES","shape":[-1]},{"name":"probabilities","datatype":"FP32","shape":[-1,2],"parameters":{"classes":["a","b"]}}],` +
			`"platform":"stagewise","versions":["7"]}`},
		{"POST", "/v2/models/p/infer", `{"id":"42","inputs":[{"name":"input0","shape":[2,2],"datatype":"UINT32","data":[1,2,3,4]}],"outputs":[{"name":"label"}]}`,
			`{"model_name":"p","model_version":"7","id":"42","outputs":[{"name":"label","datatype":"BYTES","shape":[2],"data":[LABELS]}]}`},
		{"POST", "/v2/models/p/versions/7/infer", `{"inputs":[{"name":"predict","shape":[1,2],"datatype":"FP32","data":[[0.0,0.0]]}]}`,
			`{"model_name":"p","model_version":"7","outputs":[{"name":"label","datatype":"BYTES","shape":[1],"data":[LABEL]},` +
				`{"name":"probabilities","datatype":"FP32","shape":[1,2],"data":[PROBABILITIES]}]}`},
		{"POST", "/invocations", `{"inputs":[[1,2],[3,4]]}`, `{"predictions":[LABELS]}` + "\n"},
	} {
		kind := ""
		if c.body != "" {
			kind = typeJSON
		}
		w := ask(s, c.method, c.path, kind, []byte(c.body))
		probabilities := make([]float32, 2)
		want := strings.NewReplacer("LABELS", fmt.Sprintf("%q,%q", m.Predict([]float32{1, 2}, nil), m.Predict([]float32{3, 4}, nil)),
			"LABEL", strconv.Quote(m.Predict([]float32{0, 0}, probabilities)),
			"PROBABILITIES", string(appendNumbers(nil, probabilities, 32, false))).Replace(c.want)
		got := w.Body.String()
		assert.True(t, w.Code == http.StatusOK && got == want, "%s %s: %d: %s, expected %s", c.method, c.path, w.Code, got, want)
	}
	// A column for each name, as MLServer writes a data frame, and outputs of which one is binary.
	frame := newServer(t, Defaults(), Fixed(newModel(t, 4, 5, people, layout.MissingMean)))
	answer := outputsOf(t, infer(frame, `{"parameters":{"content_type":"pd"},"inputs":[{"name":"age","datatype":"INT32","shape":[1],"data":[30]},
		{"name":"city","datatype":"BYTES","shape":[1],"data":["Rome"],"parameters":{"content_type":"str"}},{"name":"height","datatype":"FP64","shape":[1],"data":[1]}],
		"outputs":[{"name":"probabilities","parameters":{"binary_data":true}},{"name":"label"}]}`))
	assert.Equal(t, answer, predictedOutputs(t, frame, frame.versions.Model(), `[[30,"Rome",1]]`), "")
}

// Invalid and hostile requests of the protocols are rejected, and hold nothing: shapes whose values overflow or do not fit the body,
// lengths beyond it, other models and versions.
func TestProtocolRefusals(t *testing.T) {
	named, plain := newServer(t, Defaults(), Fixed(newModel(t, 4, 5, people, layout.MissingMean))),
		newServer(t, Defaults(), Fixed(newModel(t, 3, 2, nil, layout.MissingError)))
	one := func(members string) string { return `{"inputs":[{"name":"x",` + members + `}]}` }
	for _, c := range []struct {
		s          *Server
		text, data string
		want       string
	}{
		{plain, `{`, "", "not JSON"},
		{plain, `[]`, "", "is not an object"},
		{plain, `{}`, "", "no inputs"},
		{plain, `{"inputs":{}}`, "", "no inputs"},
		{plain, `{"inputs":[7]}`, "", "7 is not an object"},
		{plain, `{"id":7,"inputs":[]}`, "", `"id": 7: expected a text`},
		{plain, `{"inputs":[],"inputs":[]}`, "", "duplicate member"},
		{plain, `{"inputs":[],"outputs":[{"name":"output0"}]}`, "", `"outputs": there is no "output0": expected label`},
		{plain, `{"inputs":[],"parameters":{"binary_data_output":1.5}}`, "", "expected true or false"},
		{plain, one(`"shape":[1,2],"datatype":"FP32"`), "", `no "data"`},
		{plain, one(`"shape":[1,2],"data":[1,2]`), "", `datatype "": expected BYTES`},
		{plain, one(`"datatype":"FP32","data":[1,2]`), "", "no shape"},
		{plain, one(`"shape":[1,2],"datatype":"FP032","data":[1,2]`), "", "FP032"},
		{plain, one(`"shape":[1,-2],"datatype":"FP32","data":[1,2]`), "", "lengths of at least 1"},
		{plain, one(`"shape":[0],"datatype":"FP32","data":[]`), "", "lengths of at least 1"},
		{plain, one(`"shape":[2.5,"2"],"datatype":"FP32","data":[1,2]`), "", `"shape": [2.5,"2"]: expected up to 8 lengths of at least 1`},
		{plain, one(`"shape":[1,1,1,1,1,1,1,1,2],"datatype":"FP32","data":[1,2]`), "", "up to 8 lengths"},
		{plain, one(`"shape":[4294967296,4294967296],"datatype":"FP32","data":[1,2]`), "", "no more than the"},
		{plain, one(`"shape":[9223372036854775807,2],"datatype":"FP32","data":[1,2]`), "", "no more than the"},
		{plain, one(`"shape":[18446744073709551617],"datatype":"FP32","data":[1,2]`), "", "lengths of at least 1"},
		{plain, one(`"shape":[5,2],"datatype":"FP32","data":[1,2]`), "", "expected the 10 of shape"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","data":[1,2,3]`), "", "more values than"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","data":[[[1,2]]]`), "", "value 0: an array of 2: expected FP32"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","data":[1,"2"]`), "", `value 1: "2": expected FP32`},
		{plain, one(`"shape":[1,2],"datatype":"FP32","data":[1,1e39]`), "", "value 1: 1e39: expected FP32"},
		{plain, one(`"shape":[1,2],"datatype":"INT8","data":[1,200]`), "", "value 1: 200: expected INT8"},
		{plain, one(`"shape":[1,2],"datatype":"UINT8","data":[1,-1]`), "", "value 1: -1: expected UINT8"},
		{plain, one(`"shape":[1,2],"datatype":"INT64","data":[1,1.5]`), "", "value 1: 1.5: expected INT64"},
		{plain, one(`"shape":[1,3],"datatype":"FP32","data":[1,2,3]`), "", "expected 2 features"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","data":[1,null]`), "", "a missing value"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":8}`), "", "binary_data_size 8: the body has 0 more bytes"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":4}`), "1234", "shape [1 2] of FP32 has 8 bytes"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","parameters":{"binary_data_size":-1}`), "1234", "binary_data_size -1"},
		{plain, one(`"shape":[1,1],"datatype":"FP32","parameters":{"binary_data_size":4}`), "1234", "expected 2 features"},
		{named, one(`"shape":[1],"datatype":"BYTES","data":["T3Nsbw=="],"parameters":{"content_type":"base64"}`), "", "expected texts as they are"},
		{plain, one(`"shape":[1,2],"datatype":"FP16","parameters":{"binary_data_size":4}`), "12345", "1 bytes follow"},
		{plain, one(`"shape":[1,2],"datatype":"FP32","data":[1,2],"parameters":{"binary_data_size":4}`), "1234", "expected one of them"},
		{named, one(`"shape":[1,2],"datatype":"FP32","data":[1,2]`), "", "one with all 3 values"},
		{named, `{"inputs":[{"name":"Age","shape":[1],"datatype":"INT8","data":[1]},{"name":"City","shape":[1],"datatype":"BYTES","data":["a"]}]}`, "",
			`no inputs that are columns of the model: "age", "city" and "height"`},
		{named, one(`"shape":[1,3],"datatype":"BYTES","data":["1",7,"2"]`), "", "value 1: 7: expected BYTES"},
		{named, one(`"shape":[1,3],"datatype":"BYTES","parameters":{"binary_data_size":6}`), "\xff\xff\xff\xffab", "end within a text"},
		{named, one(`"shape":[1,3],"datatype":"BYTES","parameters":{"binary_data_size":5}`), "\x01\x00\x00\x00\xff", "UTF-8"},
		{named, `{"inputs":[{"name":"age","shape":[1],"datatype":"INT8","data":[1]},{"name":"city","shape":[2],"datatype":"BYTES","data":["a","b"]}]}`, "",
			"another input has 1 rows"},
		{named, `{"inputs":[{"name":"age","shape":[1],"datatype":"INT8","data":[1]},{"name":"age","shape":[1],"datatype":"INT8","data":[1]}]}`, "", "age"},
		{named, `{"inputs":[{"name":"age","shape":[1],"datatype":"INT8","data":[1]}]}`, "", "columns that the model needs"},
	} {
		w := infer(c.s, c.text, []byte(c.data)...)
		got := reason(t, w)
		assert.True(t, w.Code == http.StatusBadRequest && strings.Contains(got, c.want), "%s: %d: %s, expected %s", c.text, w.Code, got, c.want)
	}
	for _, length := range []string{"-1", "1e3", "99999999999999999999", "3"} {
		r := httptest.NewRequest("POST", inferPath, strings.NewReader("{}"))
		r.Header.Set(headerLength, length)
		w := httptest.NewRecorder()
		plain.ServeHTTP(w, r)
		assert.True(t, w.Code == http.StatusBadRequest && strings.Contains(reason(t, w), headerLength), "%s: %d: %s", length, w.Code, w.Body)
	}
	o := Defaults()
	o.MaxRows = 3
	few := newServer(t, o, Fixed(plain.versions.Model()))
	o.MaxRows, o.MaxBody, o.Memory = 1<<20, 1<<20, 1<<20
	small := newServer(t, o, Fixed(plain.versions.Model()))
	for _, c := range []struct {
		s                        *Server
		method, path, sent, body string
		status                   int
		want                     string
	}{
		{plain, "GET", "/v2/models/q", "", "", 404, `there is no model "q": expected p`},
		{plain, "GET", "/v2/models/p/versions/2", "", "", 404, `version "2" is not served, only version 3`},
		{plain, "POST", "/v2/models/p/versions/03/infer", typeJSON, `{}`, 404, `version "03" is not served`},
		{plain, "GET", "/v2/models/p/versions", "", "", 404, "see /openapi.json"},
		{plain, "GET", "/v2/models/p/infer/x", "", "", 404, "see /openapi.json"},
		{plain, "GET", inferPath, "", "", 405, "expected POST"},
		{plain, "POST", inferPath, "text/csv", `{}`, 415, "expected application/json or application/octet-stream"},
		{plain, "POST", "/invocations", "text/csv", `a,b`, 415, "expected application/json"},
		{few, "POST", inferPath, typeJSON, one(`"shape":[4,2],"datatype":"INT8","data":[1,2,3,4,5,6,7,8]`), 413, "more than 3 rows"},
		{few, "POST", "/invocations", typeJSON, `{"inputs":{"a":[[1,2],[1,2],[1,2],[1,2]]}}`, 413, "more than 3 rows"},
		{small, "POST", "/invocations", typeJSON, `{"inputs":{"a":[0` + strings.Repeat(",0", 1<<19-20) + `]}}`, 413, "the rows take"},
		{plain, "POST", "/invocations", typeJSON, `{"rows":[]}`, 400, "expected one"},
		{plain, "POST", "/invocations", typeJSON, `{"inputs":[[1,2]],"instances":[[1,2]]}`, 400, "expected one"},
		{plain, "POST", "/invocations", typeJSON, `{"dataframe_split":[]}`, 400, "is not an object"},
		{plain, "POST", "/invocations", typeJSON, `{"dataframe_split":{}}`, 400, `no "rows"`},
		{plain, "POST", "/invocations", typeJSON, `{"inputs":{"a":7}}`, 400, "expected a list of values"},
		{plain, "POST", "/invocations", typeJSON, `{"inputs":{"a":[]}}`, 400, "expected a list of values"},
		{plain, "POST", "/invocations", typeJSON, `{"inputs":{}}`, 400, "no inputs"},
		{named, "POST", "/invocations", typeJSON, `{"inputs":{"age":[1,2],"city":["a"]}}`, 400, "1 values, another has 2"},
	} {
		w := ask(c.s, c.method, c.path, c.sent, []byte(c.body))
		got := reason(t, w)
		assert.True(t, w.Code == c.status && strings.Contains(got, c.want),
			"%s %s %s: %d: %s, expected %d: %s", c.method, c.path, c.body, w.Code, got, c.status, c.want)
	}
	for _, s := range []*Server{plain, named, few} {
		checkFree(t, s)
	}
}

// FuzzInfer checks that any body of the Open Inference Protocol has an answer, or is rejected with a reason, and that memory is released.
func FuzzInfer(f *testing.F) {
	named, plain := newModel(f, 4, 5, people, layout.MissingMean), newModel(f, 3, 2, nil, layout.MissingError)
	servers := []*Server{newServer(f, Defaults(), Fixed(plain)), newServer(f, Defaults(), Fixed(named))}
	for _, seed := range []struct{ text, data string }{
		{`{"inputs":[{"name":"x","shape":[2,2],"datatype":"FP32","data":[[1,2],[3,null]]}],"id":"1"}`, ""},
		{`{"inputs":[{"name":"x","shape":[1,2],"datatype":"INT16","parameters":{"binary_data_size":4}}],"parameters":{"binary_data_output":true}}`, "1234"},
		{`{"inputs":[{"name":"x","shape":[1,3],"datatype":"BYTES","parameters":{"binary_data_size":15}}]}`, "\x01\x00\x00\x001\x01\x00\x00\x002\x01\x00\x00\x003"},
		{`{"inputs":[{"name":"age","shape":[1],"datatype":"BOOL","data":[true]},{"name":"city","shape":[1],"datatype":"BYTES","data":["Oslo"]},
			{"name":"height","shape":[1,1],"datatype":"UINT64","data":[[7]]}],"outputs":[{"name":"label","parameters":{"binary_data":true}}]}`, ""},
		{`{"inputs":[{"name":"x","shape":[4294967296,4294967296],"datatype":"FP64","data":[]}]}`, ""},
	} {
		f.Add([]byte(seed.text), []byte(seed.data))
	}
	f.Fuzz(func(t *testing.T, text, data []byte) {
		for _, s := range servers {
			w := infer(s, string(text), data...)
			if w.Code == http.StatusOK {
				outputsOf(t, w)
			} else if (w.Code != http.StatusBadRequest && w.Code != http.StatusRequestEntityTooLarge) || reason(t, w) == "" {
				t.Errorf("%d: %s", w.Code, w.Body)
			}
			checkFree(t, s)
			freeAll(s)
		}
	})
}
