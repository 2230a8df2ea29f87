package serve

import (
	"encoding/json"
	"maps"
	"net/http"
	"strconv"
	"strings"
)

// The parts of a path that name a model and its version.
const (
	pathModels  = "/v2/models/"
	pathModel   = "model"
	pathVersion = "version"
)

// protocols returns the routes of the Open Inference Protocol, version 2, and of MLflow's scoring server.
func (s *Server) protocols() map[string]route {
	routes := map[string]route{
		"/v2":              {method: http.MethodGet, answer: s.serverMetadata},
		"/v2/health/live":  {method: http.MethodGet, public: true, answer: s.liveInference},
		"/v2/health/ready": {method: http.MethodGet, public: true, answer: s.readyInference},
		"/invocations":     {method: http.MethodPost, answer: s.invoke},
		"/ping":            {method: http.MethodGet, public: true, answer: s.ready},
		"/health":          {method: http.MethodGet, public: true, answer: s.ready},
	}
	for _, path := range []string{"{" + pathModel + "}", "{" + pathModel + "}/versions/{" + pathVersion + "}"} {
		maps.Copy(routes, map[string]route{
			pathModels + path:            {method: http.MethodGet, answer: s.modelMetadata},
			pathModels + path + "/ready": {method: http.MethodGet, answer: s.readyModel},
			pathModels + path + "/infer": {method: http.MethodPost, answer: s.infer},
		})
	}
	return routes
}

// pathOf returns the path of a request. It replaces the name of a model and a version by placeholders, and sets them as path values.
func pathOf(r *http.Request) string {
	rest, ok := strings.CutPrefix(r.URL.Path, pathModels)
	if !ok {
		return r.URL.Path
	}
	name, rest, more := strings.Cut(rest, "/")
	r.SetPathValue(pathModel, name)
	path := pathModels + "{" + pathModel + "}"
	if version, ok := strings.CutPrefix(rest, "versions/"); more && ok {
		version, rest, more = strings.Cut(version, "/")
		r.SetPathValue(pathVersion, version)
		path += "/versions/{" + pathVersion + "}"
	}
	if more {
		path += "/" + rest
	}
	return path
}

// infer handles a prediction request of the Open Inference Protocol.
func (s *Server) infer(w http.ResponseWriter, r *http.Request) error {
	if r.Header.Get(headerType) != "" { // Triton's client sends none
		if _, err := contentType(r, typeJSON, typeBytes); err != nil {
			return err
		}
	}
	return s.respond(w, &prediction{request: r, sent: openInference, kind: openInference})
}

// invoke handles a prediction request of MLflow.
func (s *Server) invoke(w http.ResponseWriter, r *http.Request) error {
	if _, err := contentType(r, typeJSON); err != nil {
		return err
	}
	return s.respond(w, &prediction{request: r, sent: mlflow, kind: mlflow})
}

func (s *Server) serverMetadata(w http.ResponseWriter, _ *http.Request) error {
	return answerJSON(w, []byte(`{"name":"stagewise","version":"2","extensions":["binary_tensor_data"]}`))
}

func (s *Server) liveInference(w http.ResponseWriter, _ *http.Request) error {
	return answerJSON(w, []byte(`{"live":true}`))
}

// readyInference reports whether the server is ready.
func (s *Server) readyInference(w http.ResponseWriter, r *http.Request) error {
	if err := s.notReady(r); err != nil {
		return err
	}
	return answerJSON(w, []byte(`{"ready":true}`))
}

// readyModel reports whether the server is ready with a model.
func (s *Server) readyModel(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionFor(r)
	if err == nil {
		err = s.notReady(r)
	}
	if err != nil {
		return err
	}
	content, err := json.Marshal(map[string]any{"name": v.Manifest.Name, "ready": true})
	if err != nil {
		return err
	}
	return answerJSON(w, content)
}

// tensorMetadata describes a tensor. Any number of rows is -1.
type tensorMetadata struct {
	Name       string         `json:"name"`
	Datatype   string         `json:"datatype"`
	Shape      []int          `json:"shape"`
	Parameters map[string]any `json:"parameters,omitempty"`
}

// modelMetadata responds with the inputs and outputs of the version. Probabilities and predictions have the labels in their order.
func (s *Server) modelMetadata(w http.ResponseWriter, r *http.Request) error {
	v, err := s.versionFor(r)
	if err != nil {
		return err
	}
	of, err := v.reader()
	if err != nil {
		return err
	}
	defer v.keep(of)
	inputs, outputs := []tensorMetadata{}, []tensorMetadata{}
	for column, name := range of.layout.List() {
		datatype := "BYTES"
		if of.layout.IsNumber(column) {
			datatype = "FP64"
		}
		inputs = append(inputs, tensorMetadata{Name: name, Datatype: datatype, Shape: []int{-1}})
	}
	if len(inputs) == 0 && !v.Sparse() {
		inputs = append(inputs, tensorMetadata{Name: "features", Datatype: "FP32", Shape: []int{-1, v.Width()}})
	}
	for _, o := range v.outputs() {
		t := tensorMetadata{Name: o.name, Datatype: o.datatype, Shape: []int{-1}}
		if o.width > 0 {
			t.Shape, t.Parameters = append(t.Shape, o.width), map[string]any{"classes": v.quoted}
		}
		outputs = append(outputs, t)
	}
	content, err := json.Marshal(map[string]any{"name": v.Manifest.Name, "versions": []string{strconv.Itoa(v.Manifest.Version)},
		"platform": "stagewise", "inputs": inputs, "outputs": outputs})
	if err != nil {
		return err
	}
	return answerJSON(w, content)
}
