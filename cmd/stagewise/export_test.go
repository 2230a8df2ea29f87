package main

import (
	"os"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/export"
)

// A version and the model file that train wrote of it have the same exports, in every format. An exported model file is a model file.
func TestExport(t *testing.T) {
	w := openWeights(t)
	w.train()
	exported := func(arguments string) string {
		t.Helper()
		if stdout, stderr := typed(t, exitDone, strings.Fields("weights export -o exported "+arguments)...); stdout != "" || stderr != "" {
			t.Errorf("weights export %s: %q, %q", arguments, stdout, stderr)
		}
		content, err := os.ReadFile("exported")
		if err != nil {
			t.Fatal(err)
		}
		return string(content)
	}
	seen := map[string]string{}
	for _, format := range export.Names() {
		file := exported("--model model --format " + format)
		if file != exported(strings.Join(w.on, " ")+" --version 1 --format "+format) {
			t.Errorf("%s: the version and its model file have other exports", format)
		}
		if other, ok := seen[file]; ok {
			t.Errorf("%s and %s are the same file", format, other)
		}
		seen[file] = format
		if stdout, stderr := typed(t, exitDone, "weights", "export", "--model", "model", "--format", format, "-o", "-"); stdout != file ||
			stderr != "" {
			t.Errorf("%s: on the standard output are %d other bytes, %q", format, len(stdout), stderr)
		}
	}
	model, err := os.ReadFile("model")
	if err != nil {
		t.Fatal(err)
	}
	if seen[string(model)] != export.Names()[0] || exported("--model model") != string(model) {
		t.Error("without a format, the export is not a model file")
	}
	for _, format := range export.Names() { // the extension of the file names the format
		if typed(t, exitDone, "weights", "export", "--model", "model", "-o", "named."+format); seen[readFile(t, "named."+format)] != format {
			t.Errorf("named.%s has another format", format)
		}
	}
	_, stderr := typed(t, exitFailed, "weights", "export", "--model", "good.yaml", "-o", "exported")
	if !strings.HasPrefix(stderr, "stagewise: read model good.yaml: ") {
		t.Errorf("a file that is no model: %q", stderr)
	}
	if content, err := os.ReadFile("exported"); err != nil || string(content) != string(model) {
		t.Errorf("an export that was not done changed the file: %v", err)
	}
}
