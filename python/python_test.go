//go:build python

package python

import (
	"bytes"
	"encoding/csv"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// python runs the package in Python, as it is installed, and the program that it is compared with.
type python struct {
	testing.TB
	interpreter, program, packages string
	folder                         string // of configurations, models and predictions
}

// options are keys of a configuration. JSON is YAML.
type options map[string]any

// newPython returns the package and the program, which the first test installs and builds.
func newPython(t testing.TB) *python {
	t.Helper()
	p := &python{TB: t, interpreter: os.Getenv("STAGEWISE_PYTHON"), folder: t.TempDir()}
	assert.Need(t, p.interpreter != "", "STAGEWISE_PYTHON is not set: run scripts/python.sh, which prints the value")
	assert.NoError(t, install())
	p.program, p.packages = filepath.Join(installed(), "stagewise"), filepath.Join(installed(), "packages")
	return p
}

// TestMain removes what the tests have installed.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := os.RemoveAll(installed()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// installed is the folder of the program and the package: to link the one takes seconds, and pip takes as long for the other.
func installed() string {
	return filepath.Join(os.TempDir(), fmt.Sprintf("stagewise-python-%d", os.Getpid()))
}

var install = sync.OnceValue(func() error {
	source := filepath.Join(installed(), "source") // as building leaves files beside the source
	if err := os.CopyFS(source, os.DirFS(".")); err != nil {
		return err
	}
	for _, command := range [][]string{
		{"go", "build", "-ldflags=-s -w", "-o", filepath.Join(installed(), "stagewise"), "../cmd/stagewise"},
		{os.Getenv("STAGEWISE_PYTHON"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--no-build-isolation",
			"--target", filepath.Join(installed(), "packages"), source},
	} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			return fmt.Errorf("%v: %w\n%s", command, err, out)
		}
	}
	return nil
})

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

// environment returns the environment of processes, which have the program and the package.
func (p *python) environment() []string {
	own := slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "STAGEWISE_") }) // they would set keys
	return append(own, "PYTHONPATH="+p.packages, "PYTHONDONTWRITEBYTECODE=1",
		"PATH="+filepath.Dir(p.program)+string(os.PathListSeparator)+os.Getenv("PATH"))
}

func (p *python) execute(folder, program string, arguments ...string) []byte {
	p.Helper()
	command := exec.CommandContext(p.Context(), program, arguments...)
	command.Dir, command.Env = folder, p.environment()
	var problems bytes.Buffer
	command.Stderr = &problems
	out, err := command.Output()
	assert.Need(p, err == nil, "%s %v: %v\n%s%s", filepath.Base(program), arguments, err, out, problems.String())
	return out
}

// write writes a file to the folder of the models.
func (p *python) write(file, text string) {
	p.Helper()
	assert.NoError(p, os.WriteFile(filepath.Join(p.folder, file), []byte(text), 0o644))
}

// writeRows writes a CSV with columns of numbers and of words, some of which are missing. The last two never are.
func (p *python) writeRows(file string, rows int) {
	p.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	kinds, colours := []string{"iris", "rose", "tulip"}, []string{"red", "blue", "yellow", "NA"}
	var text strings.Builder
	w := csv.NewWriter(&text)
	record := slices.Concat([]string{"kind", "colour"}, strings.Split("abcdefghi", ""))
	for i := range rows + 1 {
		assert.NoError(p, w.Write(record))
		kind := i % len(kinds)
		colour := r.IntN(len(colours))
		if r.IntN(2) == 0 {
			colour = kind
		}
		record = []string{kinds[kind], colours[colour]}
		for j := range 9 {
			value := fmt.Sprint(float32(float64(10*j) + r.NormFloat64()*float64(1+j) + float64((kind+j)%3)))
			if j < 7 && r.IntN(20) == 0 {
				value = ""
			}
			record = append(record, value)
		}
	}
	w.Flush()
	p.write(file, text.String())
}
