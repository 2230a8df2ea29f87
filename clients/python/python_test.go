//go:build kafka || python

package python

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// python runs the package in Python, as it is installed, and the program that it is compared with.
type python struct {
	testing.TB
	interpreter, program, packages string
	folder                         string   // of configurations, models and predictions
	cases                          []string // names of models in the folder
}

// newPython installs the package, and builds the program.
func newPython(t testing.TB) *python {
	t.Helper()
	p := &python{TB: t, interpreter: os.Getenv("STAGEWISE_PYTHON"), folder: t.TempDir(), packages: t.TempDir()}
	if p.interpreter == "" {
		t.Fatal("STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	}
	p.program = filepath.Join(t.TempDir(), "stagewise")
	if out, err := exec.Command("go", "build", "-o", p.program, "../../cmd/stagewise").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	source := t.TempDir() // as building leaves files beside the source
	if err := os.CopyFS(source, os.DirFS(".")); err != nil {
		t.Fatal(err)
	}
	p.run("-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation", "--target", p.packages, source)
	return p
}

// run runs Python in the folder of the package's source, and returns what it writes to its standard output.
func (p *python) run(arguments ...string) []byte {
	p.Helper()
	return p.execute("", p.interpreter, arguments...)
}

// stagewise runs a command in the folder of the models.
func (p *python) stagewise(arguments ...string) {
	p.Helper()
	p.execute(p.folder, p.program, arguments...)
}

func (p *python) execute(folder, program string, arguments ...string) []byte {
	p.Helper()
	command := exec.CommandContext(p.Context(), program, arguments...)
	command.Dir = folder
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STAGEWISE_") }) // they would set keys
	command.Env = append(command.Env, "PYTHONPATH="+p.packages, "PYTHONDONTWRITEBYTECODE=1")
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	if err != nil {
		p.Fatalf("%s %v: %v\n%s%s", filepath.Base(program), arguments, err, out, problems.String())
	}
	return out
}
