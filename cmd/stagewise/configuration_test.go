package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/config"
)

// A shell that completes --set offers the keys that begin with what was typed, and a completed key is one that can be set.
func TestSettingsAreCompleted(t *testing.T) {
	for typed, want := range map[string][]string{
		"see":              {"seed="},
		"seed=":            {"seed="},
		"stages.0.stop":    {"stages.0.stop.split=", "stages.0.stop.patience=", "stages.0.stop.stages="},
		"stages.12.method": {"stages.12.method="},
		"stages.1":         nil, // of stage 1, 10 or 11?
		"sede":             nil,
	} {
		var screen bytes.Buffer
		root := newRoot(&screen, io.Discard)
		root.SetArgs([]string{"__complete", "train", "--set", typed})
		noError(t, root.ExecuteContext(t.Context()))
		var got []string
		for line := range strings.Lines(screen.String()) {
			if key, meaning, found := strings.Cut(line, "\t"); found && meaning != "\n" {
				got = append(got, key)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: completed as %q, expected %q", typed, got, want)
		}
	}
	file := filepath.Join(t.TempDir(), "stages.yaml")
	noError(t, os.WriteFile(file, []byte("stages: [{}]"), 0o600))
	offered := completeKeys("")
	if len(offered) != len(config.Keys()) {
		t.Errorf("%d of %d keys are offered", len(offered), len(config.Keys()))
	}
	for _, line := range offered {
		key, _, _ := strings.Cut(line, "=")
		_, err := config.Load(file, []string{key + "={}"}) // the value is wrong, but the key is known
		if err == nil || strings.Contains(err.Error(), "known key") {
			t.Errorf("%s: %v", key, err)
		}
	}
}
