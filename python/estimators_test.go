//go:build python

package python

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// The tests of the package in Python pass, and mypy finds no fault in its types.
func TestPythonPackage(t *testing.T) {
	p := newPython(t)
	p.run("-m", "unittest", "discover", "--top-level-directory", ".", "--start-directory", "tests")
	p.run("-m", "mypy", "--cache-dir", t.TempDir(), "src")
}

// The estimators pass scikit-learn's checks of estimators, but for those that tests/check_estimators.py names.
func TestPythonEstimatorsPassTheChecks(t *testing.T) {
	p := newPython(t)
	for _, name := range []string{"StagewiseClassifier", "StagewiseMultiLabelClassifier", "StagewiseRegressor"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // each mostly waits for a process
			own := *p
			own.TB = t
			assert.Equal(t, strings.TrimSpace(string(own.run("tests/check_estimators.py", name))), "", "")
		})
	}
}

// With brokers the rows are put on the topic of a pipeline, and its followers have the version that fit returns, and those of updates.
func TestPythonEstimatorsTrainOnBrokers(t *testing.T) {
	newPython(t).run("-c", `import sys
import numpy as np
from sklearn.datasets import load_iris
import stagewise
X, y = load_iris(return_X_y=True)
brokers = sys.argv[1].split(",")
model = stagewise.StagewiseClassifier(name="flowers", brokers=brokers, stages=[{"features": {"size": 64}}]).fit(X[::2], y[::2])
with stagewise.follow(brokers, "flowers") as follower:
    np.testing.assert_array_equal(follower.predict_proba(X), model.model_.predict_proba(X))
    model.partial_fit(X[1::2], y[1::2])
    assert follower.wait(other_than=1, timeout=60)
    np.testing.assert_array_equal(follower.predict_proba(X), model.model_.predict_proba(X))
    assert model.version_ == follower.version == 2 and model.model_.manifest["window_rows"] == 150`, strings.Join(cluster(t).ListenAddrs(), ","))
}

// largestWheel is the most bytes that a wheel may have.
const largestWheel = 45 << 20

// A wheel that is installed into an empty environment trains, runs all examples of its page, and has the command, without Go, a
// compiler or a BLAS of the system. Its version is the program's, and it has the licences of what that links.
func TestPythonWheel(t *testing.T) {
	p := newPython(t)
	p.execute("..", "scripts/release.sh", "--wheels", p.folder)
	wheels, err := filepath.Glob(filepath.Join(p.folder, "*.whl"))
	assert.Need(t, err == nil && len(wheels) == 1, "wheels %v, %v", wheels, err)
	info, err := os.Stat(wheels[0])
	assert.True(t, err == nil && info.Size() <= largestWheel, "%s has %d bytes, expected at most %d", wheels[0], info.Size(), largestWheel)
	empty := t.TempDir()
	p.run("-m", "venv", empty)
	// -I, as the package is on PYTHONPATH already.
	p.execute("", filepath.Join(empty, "bin", "python"), "-I", "-m", "pip", "install", "--no-compile", "--quiet",
		"--disable-pip-version-check", wheels[0])
	bare := func(program string, arguments ...string) string {
		t.Helper()
		command := exec.CommandContext(t.Context(), filepath.Join(empty, "bin", program), arguments...)
		command.Dir, command.Env = t.TempDir(), []string{"PATH=" + filepath.Join(empty, "bin")}
		out, err := command.CombinedOutput()
		assert.Need(t, err == nil, "%s: %v\n%s", program, err, out)
		return string(out)
	}
	said := bare("python", "-c", `from sklearn.datasets import load_iris
from stagewise import StagewiseClassifier
X, y = load_iris(return_X_y=True)
model = StagewiseClassifier(verbose=1).fit(X, y)
print(model.predict_proba(X[:2]), model.score(X, y) > 0.95)`)
	assert.True(t, strings.Contains(said, "OpenBLAS") && strings.HasSuffix(said, "True\n"), "the example wrote\n%s", said)
	page := assert.Must(os.ReadFile("../docs/python.md"))(t)
	for _, example := range regexp.MustCompile("(?s)```python\n(.*?)```").FindAllSubmatch(page, -1) {
		bare("python", "-c", string(example[1]))
	}
	program := strings.Fields(bare("stagewise", "version"))
	version := bare("python", "-c", `import importlib.metadata; print(importlib.metadata.version("stagewise"), end="")`)
	revision := program[1][strings.LastIndex(program[1], "-")+1:] // of a commit without a tag, otherwise the tag
	letters := strings.NewReplacer("(devel)", "000dev0", "+", "", ".", "")
	assert.True(t, strings.Contains(letters.Replace(version), letters.Replace(strings.TrimPrefix(revision, "v"))),
		"the version of the wheel is %s, that of its program %s", version, program[1])
	said = bare("python", "-c", `import importlib.metadata
print([file.read_text() for file in importlib.metadata.files("stagewise") if file.name == "LICENCES"])`)
	assert.True(t, strings.Contains(said, "github.com/spf13/cobra v"), "the licences of the wheel are\n%.400s", said)
}
