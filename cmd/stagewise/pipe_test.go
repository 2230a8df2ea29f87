package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stagewise/stagewise/serve"
)

// A process on the other end of a pipe has the responses in the order of its requests, also of those that are refused, and the
// server ends with the input. Cut off at any byte, the input is an error or an end.
func TestPipe(t *testing.T) {
	m, err := readModel("../../model/testdata/example.arrow")
	noError(t, err)
	var of pipe
	of.versions, of.waits = serve.Fixed(m), &waits{}
	of.serve = func(versions serve.Versions) (*serve.Server, error) {
		return serve.New(serve.Defaults(), versions, prometheus.NewRegistry(), "p")
	}
	if of.server, err = of.serve(of.versions); err != nil {
		t.Fatal(err)
	}
	var requests strings.Builder
	rows := `{"rows": [[3, 1]]}`
	cases := []struct {
		method, path, body string
		status             int
		want               string
	}{
		{"GET", "/status", "", http.StatusOK, `"version":1`},
		{"GET", "/version", "", http.StatusOK, `"width":2`},
		{"POST", "/predict", rows, http.StatusOK, `"labels":["yes"]`},
		{"POST", "/predict", `{"rows": [[3]]}`, http.StatusBadRequest, `{"error":`},
		{"POST", "/stages/1/predict", rows, http.StatusOK, `"labels":["yes"]`},
		{"POST", "/stages/2/predict", rows, http.StatusOK, `"labels":["yes"]`},
		{"POST", "/stages/3/predict", rows, http.StatusNotFound, ""},
		{"GET", "/nothing", "", http.StatusNotFound, `{"error":`},
		{"GET", "/file", "", http.StatusOK, "stagewise.manifest"},
	}
	for _, c := range cases {
		fmt.Fprintf(&requests, "%s %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.method, c.path,
			len(c.body), c.body)
	}
	var responses bytes.Buffer
	noError(t, of.answer(t.Context(), strings.NewReader(requests.String()), &responses))
	for _, c := range cases {
		var status, length int
		valueOf(fmt.Fscanf(&responses, "%d %d\n", &status, &length))(t)
		content := string(responses.Next(length))
		if status != c.status || len(content) != length || !strings.Contains(content, c.want) {
			t.Errorf("%s %s %s: %d: %.200s; expected %d: %s", c.method, c.path, c.body, status, content, c.status, c.want)
		}
	}
	for end := range requests.Len() {
		_ = of.answer(t.Context(), strings.NewReader(requests.String()[:end]), io.Discard)
	}
}
