package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Each command has a manual page, the same at every call.
func TestMan(t *testing.T) {
	t.Setenv("SOURCE_DATE_EPOCH", "1790000000")
	pages := map[string]string{}
	for range 2 {
		folder := filepath.Join(t.TempDir(), "man1")
		if code, stdout, stderr := stagewise("man", folder); code != 0 || stdout+stderr != "" {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		files, err := os.ReadDir(folder)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			content, err := os.ReadFile(filepath.Join(folder, f.Name()))
			if err != nil {
				t.Fatal(err)
			}
			if before, any := pages[f.Name()]; any && before != string(content) {
				t.Errorf("%s is another the second time", f.Name())
			}
			pages[f.Name()] = string(content)
		}
	}
	for _, name := range []string{"stagewise.1", "stagewise-train.1", "stagewise-weights-export.1"} {
		if !strings.Contains(pages[name], ".SH SYNOPSIS") || !strings.Contains(pages[name], "Sep 2026") {
			t.Errorf("%s: %q", name, pages[name])
		}
	}
}

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
