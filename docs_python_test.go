//go:build python

package stagewise

import (
	"os"
	"testing"
)

// All blocks of the page about exports work as they are written, also those in Python, which check what they read.
func TestPythonExports(t *testing.T) {
	python := os.Getenv("STAGEWISE_PYTHON")
	if python == "" {
		t.Fatal("STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	}
	runPage(t, read(t, "docs/exports.md"), python)
}
