package main

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// health says with its exit code what a process answers.
func TestHealth(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/ready" {
			http.Error(w, "brokers fail", http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	if code, stdout, stderr := stagewise("health", server.URL+"/live"); code != 0 || stdout+stderr != "" {
		t.Errorf("/live: exit code %d: %s%s", code, stdout, stderr)
	}
	if code, _, stderr := stagewise("health", server.URL+"/ready"); code != 1 || !strings.Contains(stderr,
		"503 Service Unavailable: brokers fail") {
		t.Errorf("/ready: exit code %d: %s", code, stderr)
	}
	if code, _, stderr := stagewise("health", "localhost:9464"); code != 2 || !strings.Contains(stderr, "expected a URL") {
		t.Errorf("no URL: exit code %d: %s", code, stderr)
	}
	server.Close()
	if code, _, stderr := stagewise("health", server.URL+"/live"); code != 1 || stderr == "" {
		t.Errorf("nobody answers: exit code %d: %s", code, stderr)
	}
}
