//go:build kafka || python

package python

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// follower is a process that follows a pipeline in Python. tests/follower.py says what it can be told.
type follower struct {
	*python
	in  io.Writer
	out *bufio.Scanner
}

// answer is what a follower says.
type answer struct {
	Version    int
	Difference float64
	SameModel  bool `json:"same_model"`
	Error      string
}

// follow starts a follower, which ends with the test.
func (p *python) follow(brokers, name string) *follower {
	p.Helper()
	command := exec.Command(p.interpreter, "tests/follower.py", brokers, name)
	command.Env = p.environment()
	command.Stderr = os.Stderr
	in, err := command.StdinPipe()
	if err != nil {
		p.Fatal(err)
	}
	out, err := command.StdoutPipe()
	if err != nil {
		p.Fatal(err)
	}
	if err := command.Start(); err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() {
		_ = in.Close() // ends the follower
		if err := command.Wait(); err != nil {
			p.Errorf("the follower ended: %v", err)
		}
	})
	return &follower{p, in, bufio.NewScanner(out)}
}

// ask tells the follower to wait for something, and returns what it says then.
func (f *follower) ask(what ...any) (a answer) {
	f.Helper()
	if _, err := fmt.Fprintln(f.in, what...); err != nil {
		f.Fatal(err)
	}
	if !f.out.Scan() {
		f.Fatalf("the follower has ended, before %v", what)
	}
	if err := json.Unmarshal(f.out.Bytes(), &a); err != nil {
		f.Fatal(err)
	}
	return a
}

// awaitModel waits until the follower predicts as a version does that is written to a file.
func (f *follower) awaitModel(version int, configuration string) {
	f.Helper()
	file := filepath.Join(f.folder, fmt.Sprint(version, ".model"))
	f.stagewise("weights", "export", "-c", configuration, "--version", fmt.Sprint(version), "-o", file)
	if a := f.ask("version", version, file); a.Difference != 0 || !a.SameModel {
		f.Errorf("version %d: probabilities differ by %g from those of its file; it is the same model: %v", version, a.Difference, a.SameModel)
	}
}

// pipeline returns a function that writes configurations of a pipeline, with some keys.
func (p *python) pipeline(brokers, name string) func(file string, o options) string {
	p.Helper()
	digits, err := filepath.Abs("../examples/digits/digits-train.csv.gz")
	if err != nil {
		p.Fatal(err)
	}
	return func(file string, o options) string {
		p.Helper()
		whole := options{
			"name": name, "brokers": strings.Split(brokers, ","),
			"examples": options{"train": []string{digits}, "format": "csv", "label": 0, "batch_rows": 64, "partitions": 2},
		}
		for key, value := range o {
			whole[key] = value
		}
		content, err := json.Marshal(whole)
		if err != nil {
			p.Fatal(err)
		}
		p.write(file, string(content))
		return file
	}
}
