package serve

import (
	"encoding/json"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/stagewise/stagewise/ingest/layout"
)

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
	content := must(json.Marshal(map[string]any{"allOf": []any{schema}, "$defs": o.Components.Schemas}))(t)
	content = []byte(strings.ReplaceAll(string(content), "#/components/schemas/", "#/$defs/"))
	var s jsonschema.Schema
	noError(t, json.Unmarshal(content, &s))
	return must(s.Resolve(nil))(t)
}

// The description has exactly the paths and methods of the server; the status and body of each response match it.
func TestDescription(t *testing.T) {
	var described openapi
	noError(t, json.Unmarshal(description, &described))
	m := newModel(t, 3, 3, nil, layout.MissingError)
	s, none, broken := newServer(t, Defaults(), Fixed(m)), newServer(t, Defaults(), &switched{}), newServer(t, Defaults(),
		&failing{Versions: Fixed(m), left: 1})
	whole, numbers := newServer(t, Defaults(), Fixed(wholeModel(t, 5))), newServer(t, Defaults(), Fixed(numbersModel(t, 3)))
	several := newServer(t, Defaults(), Fixed(wholeModel(t, 5, severalLabels)))
	for path, to := range s.routes {
		operation, ok := described.Paths[path][strings.ToLower(to.method)]
		if !ok || len(described.Paths[path]) != 1 {
			t.Errorf("%s %s is not described, or more is", to.method, path)
		}
		if public := slices.ContainsFunc(operation.Security,
			func(needs map[string][]string) bool { return len(needs) == 0 }); public != to.public {
			t.Errorf("%s: described as public: %v", path, public)
		}
	}
	if len(described.Paths) != len(s.routes) {
		t.Errorf("%d paths are described, the server has %d", len(described.Paths), len(s.routes))
	}
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
	for path := range s.routes {
		requests = append(requests, struct {
			s                        *Server
			method, path, sent, body string
		}{s, "GET", strings.NewReplacer("{model}", "p", "{version}", "3").Replace(path), "", ""})
	}
	for _, r := range requests {
		w := ask(r.s, r.method, r.path, r.sent, []byte(r.body))
		_, path := r.s.mux.Handler(httptest.NewRequest(r.method, r.path, nil))
		method := strings.ToLower(r.s.routes[path].method)
		answer, ok := described.Paths[path][method].Responses[strconv.Itoa(w.Code)]
		if !ok {
			t.Errorf("%s %s: %d is not described", r.method, r.path, w.Code)
			continue
		}
		if name, isRef := strings.CutPrefix(answer.Ref, "#/components/responses/"); isRef {
			answer = described.Components.Responses[name]
		}
		for name := range w.Header() {
			if _, described := answer.Headers[name]; strings.HasPrefix(name, "Stagewise-") && !described {
				t.Errorf("%s %s: %d: the header %s is not described", r.method, r.path, w.Code, name)
			}
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
		noError(t, json.Unmarshal(w.Body.Bytes(), &value))
		if err := described.schemaOf(t, content.Schema).Validate(value); err != nil {
			t.Errorf("%s %s: %d: %s: %v", r.method, r.path, w.Code, w.Body, err)
		}
	}
}
