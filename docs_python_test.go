//go:build python

package stagewise

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// All blocks of the page about exports work as they are written, also those in Python, which check what they read.
func TestPythonExports(t *testing.T) { runPage(t, read(t, "docs/exports.md"), interpreter(t)) }

// All blocks of the page about people's own data work as they are written.
func TestPythonYourOwnData(t *testing.T) {
	folder := runPage(t, read(t, "docs/your-own-data.md"), interpreter(t))
	checkKinds(t, filepath.Join(folder, "answers.csv"), 4, "label", "rose", "iris")
	checkKinds(t, filepath.Join(folder, "predictions.csv"), 0, "label", "rose", "iris")
}

// All blocks of the page about training in Python work as they are written, with the package of this repository.
func TestPythonTraining(t *testing.T) {
	t.Setenv("PYTHONPATH", assert.Must(filepath.Abs("python/src"))(t))
	t.Setenv("PYTHONDONTWRITEBYTECODE", "1")
	runPage(t, read(t, "docs/python.md"), interpreter(t))
}

// interpreter returns the path of Python.
func interpreter(t *testing.T) string {
	t.Helper()
	python := os.Getenv("STAGEWISE_PYTHON")
	assert.Need(t, python != "", "STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	return python
}
