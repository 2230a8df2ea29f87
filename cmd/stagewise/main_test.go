package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
)

// inFolder makes a new folder with these files the working directory of the test, and selects the BLAS that is always there.
func inFolder(t *testing.T, files map[string]string) {
	t.Helper()
	t.Chdir(t.TempDir())
	t.Setenv("STAGEWISE_BLAS", "gonum")
	for name, content := range files {
		noError(t, os.WriteFile(name, []byte(content), 0o644))
	}
}

// long skips a test in short mode: one that trains a while, or that waits for processes.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("a long test")
	}
}

// stagewise runs a command line.
func stagewise(args ...string) (code int, stdout, stderr string) {
	var out, err bytes.Buffer
	code = execute(context.Background(), args, &out, &err)
	return code, out.String(), err.String()
}

// typed types a command line, and expects this exit code. It returns what the command has written.
func typed(t *testing.T, code int, args ...string) (stdout, stderr string) {
	t.Helper()
	got, stdout, stderr := stagewise(args...)
	if got != code {
		t.Fatalf("%v: exit code %d, expected %d: %s", args, got, code, stderr)
	}
	return stdout, stderr
}

// good is a configuration of three stages for the files of [blobs].
const good = `name: blobs
examples: {train: [train.csv], test: [test.csv]}
stages:
  - features: {kind: rff, size: 40}
    passes: 4
    repeat: 2
  - features: {kind: columns}
    link: calibrated
    stop: {split: test}
`

func TestWrongCommandLinesAndConfigurations(t *testing.T) {
	files := map[string]string{
		"good.yaml":   good,
		"empty.yaml":  "name: a\n",
		"topic.yaml":  "name: a\nexamples: {from_topic: clicks, format: csv}\n",
		"bad.yaml":    "name: a\nstages: [{pases: 3, link: probit}]\nseed: x\n",
		"syntax.yaml": "name: a\nstages: [\n",
		"secure.yaml": "name: a\nbrokers: [127.0.0.1:1]\nsecurity: {tls: {enabled: true, ca: none.pem}}\nstages: [{}]\n",
	}
	for _, test := range []struct {
		args   string
		stderr string // how each line begins, after "stagewise: "
	}{
		{"", "no command; see stagewise --help"},
		{"trian", `unknown command "trian" for stagewise; did you mean train?`},
		{"work", `required flag(s) "config" not set`},
		{"work -c good.yaml", "brokers: not set: expected the addresses of a Kafka cluster: the embedded broker serves a single process"},
		{"solve -c good.yaml --log xml", "--log: xml: expected text or json"},
		{"train -c good.yaml --detach", "brokers: not set: expected the addresses of a Kafka cluster: the embedded broker serves a single process"},
		{"train -c good.yaml --detach --attach 0123", "--detach and --attach: expected only one of them"},
		{"train -c good.yaml --report - --model -", "--report and --model: expected - for only one of them"},
		{"weights", "no command; see stagewise weights --help"},
		{"weights follow", `unknown command "follow" for stagewise weights; see stagewise weights --help`},
		{"train", `required flag(s) "config" not set`},
		{"train -c good.yaml extra", `unknown command "extra" for "stagewise train"`},
		{"train -c good.yaml --colour", "unknown flag: --colour"},
		{"train -c none.yaml", "read configuration: open none.yaml: no such file or directory"},
		{"search -c empty.yaml --over seed=[1]", "examples.holdout: 0: expected a fraction of the training rows to rank runs by"},
		{"runs compare -c good.yaml 1 2 --by size", "--by: size: expected error, loss, auc"},
		{"ingest -c empty.yaml", "nothing to ingest: set examples.train, examples.test or examples.from_topic"},
		{"ingest -c good.yaml --until end", "--until: expected examples.from_topic: only a topic can be followed"},
		{"ingest -c topic.yaml --until now", "--until: now: expected end"},
		{"ingest -c topic.yaml --set examples.train=[a.csv]", "topic.yaml:2: examples.from_topic: clicks: expected no files under examples.train and examples.test with it: ingest files first, or follow the topic"},
		{"train -c syntax.yaml", "syntax.yaml:2: YAML: a missing value: expected a value, brackets in pairs, and quotes around a text that begins with : or a bracket"},
		{"train -c bad.yaml", "bad.yaml:2: stages.0.pases: 3: expected a known key; did you mean passes?\n" +
			"bad.yaml:2: stages.0.link: probit: expected identity, softmax, logistic or calibrated\n" +
			"bad.yaml:3: seed: x: expected a whole number from 0 to 2^64-1"},
		{"check -c good.yaml --set stages.2.passes=3", "--set: stages.2.passes: 3: expected the number of a stage: the list has 0 to 1"},
		{"check -c good.yaml --set stages.0.passes=0", "--set: stages.0.passes: 0: expected a whole number from 1 to 10000"},
		{"train -c secure.yaml", "secure.yaml:3: security.tls.ca: none.pem: expected a PEM file that can be read: no such file or directory"},
		{"topics list -c secure.yaml --set security.sasl.password=hunter2", "secure.yaml:3: security.tls.ca: none.pem: expected a PEM file that can be read: no such file or directory\n" +
			"--set: security.sasl.password: (not shown): expected the password in the environment"},
		{"train -c good.yaml --log xml", "--log: xml: expected text or json"},
		{"train -c good.yaml --log text --log-level all", "--log-level: all: expected debug, info, warn or error"},
		{"train -c good.yaml --log-level warn", "--log-level: warn: expected --log too: only logs have levels"},
		{"train -c good.yaml --report none/report.json", "write none/report.json: stat none: no such file or directory"},
		{"train -c good.yaml --model .", "write .: it is a directory"},
		{"weights export -c good.yaml", `required flag(s) "output" not set`},
		{"weights export -o model", "expected -c FILE, or --model FILE"},
		{"weights export -c good.yaml --model model -o other", "expected either -c FILE or --model FILE, not both"},
		{"weights export --model model --version 3 -o other", "--version: 3: expected no value: --model selects the version"},
		{"weights export --model model --set seed=2 -o other", "--set: expected -c FILE: --set overrides its keys"},
		{"weights export -c good.yaml -o model --format pickle", "--format: pickle: expected arrow, safetensors or onnx"},
		{"weights export -c good.yaml -o none/model --format safetensors", "write none/model: stat none: no such file or directory"},
		{"weights pin -c good.yaml", "expected a version or --off; see weights list"},
		{"weights pin -c good.yaml 1 --off", "expected a version or --off; see weights list"},
		{"weights pin -c good.yaml 1 2", "accepts at most 1 arg(s), received 2"},
		{"weights remove -c good.yaml", "expected versions; see weights list"},
		{"forget -c good.yaml", "expected rows, --source, --key or --lost"},
		{"forget -c good.yaml blobs.examples/0/5-3", `"blobs.examples/0/5-3": expected blobs.examples/PARTITION/OFFSET/ROW, or without /ROW`},
		{"forget -c good.yaml other.examples/0/3", `"other.examples/0/3": expected blobs.examples/PARTITION/OFFSET/ROW, or without /ROW`},
		{"verify -c good.yaml", "expected a version: a version number, a run id, or latest; see weights list"},
		{"verify -c good.yaml 1 2", "accepts at most 1 arg(s), received 2"},
		{"repair -c good.yaml x", `unknown command "x" for "stagewise repair"`},
		{"repair -c good.yaml --set brokers=[localhost:9092]", "brokers: localhost:9092: expected no value: repair is for the files of the embedded broker"},
		{"verify -c good.yaml 1 --log xml", "--log: xml: expected text or json"},
		{"runs list", `required flag(s) "config" not set`},
		{"runs cancel -c good.yaml", "expected a run id or --all; see runs list"},
		{"runs cancel -c good.yaml 0123 --all", "expected a run id or --all; see runs list"},
		{"runs show -c good.yaml", "expected one argument, RUN, found 0; see stagewise runs show --help"},
		{"search -c good.yaml --over stages.0.rige=[1]", "--over: stages.0.rige: 1: expected a known key; did you mean ridge?"},
		{"health", "expected one argument, URL, found 0; see stagewise health --help"},
		{"sources", "no command; see stagewise sources --help"},
		{"quarantine list -c good.yaml extra", `unknown command "extra" for "stagewise quarantine list"`},
		{"sources list -c good.yaml extra", `unknown command "extra" for "stagewise sources list"`},
		{"sources remove -c good.yaml", "expected source ids, or their first digits; see sources list"},
		{"predict", `required flag(s) "input", "model" not set`},
	} {
		t.Run(test.args, func(t *testing.T) {
			inFolder(t, files)
			code, stdout, stderr := stagewise(strings.Fields(test.args)...)
			if code != exitWrong || stdout != "" {
				t.Errorf("exit code %d, output %q", code, stdout)
			}
			got := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
			want := strings.Split(test.stderr, "\n")
			if len(got) != len(want) {
				t.Fatalf("got\n%s", stderr)
			}
			for i := range want {
				if !strings.HasPrefix(got[i], "stagewise: "+want[i]) {
					t.Errorf("got\n%s\nexpected\n%s", got[i], want[i])
				}
			}
			if _, err := os.Stat(".stagewise"); err == nil {
				t.Error("a data directory was created")
			}
		})
	}
}

// check says what a chain keeps on the state topic: two p × k matrices an increment and a triangle of a p × p matrix, for each stage, of
// float64. It refuses more than topics.state, if the configuration says anything about a chain.
func TestCheckOfState(t *testing.T) {
	const (
		stages = "stages=[{features: {size: 1024}, repeat: 10}]; intercept=false; retrain.window.increments=100"
		large  = "stages=[{features: {size: 4096}, repeat: 10}]; intercept=false"
	)
	classes := "; examples.classes=[blue, green, red"
	for i := range 97 {
		classes += fmt.Sprintf(", %d", i)
	}
	classes += "]"
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(30, 1), "test.csv": blobs(9, 2)})
	for settings, want := range map[string]string{
		stages: "164 kB for each increment and class, and 42 MB for a snapshot, on blobs.state; at most 100 increments\n",
		stages + "; examples.classes=[blue, green, red, 3, 4, 5, 6, 7, 8, 9]": "1.6 MB for each increment, and 42 MB for a " +
			"snapshot, on blobs.state; 206 MB with 100 increments\n",
		large + classes: "66 MB for each increment, and 671 MB for a snapshot, on blobs.state; retrain.window does not limit " +
			"increments: adjacent ones are merged when topics.state is full\n",
		large + classes + "; retrain.window.rows=40000; retrain.rows=1000": "; 3.4 GB with 41 increments\n",
		large + classes + "; retrain.window.rows=90000; retrain.rows=1000": "stagewise: topics.state: 4.0 GiB: expected " +
			"at least 6.6 GB, for a snapshot",
		large + "; topics.state=100MB": "stagewise: topics.state: 95 MiB: expected " +
			"at least 673 MB, for a snapshot",
		"stages=[{features: {size: 20000}, repeat: 10}]": ": more than topics.state, which limits only " +
			"stagewise run\n",
		"stages=[{features: {kind: columns}}]; examples.classes=[blue, green, red]": "192 B for each increment, and 80 B for a snapshot",
		"stages=[{features: {kind: columns}}]; examples.train=; examples.test=": "depends on the number of features, which is " +
			"not known yet\n",
		stages + "; examples.holdout=0.1": "an update compares versions on about 5,000 holdout rows\n",
		stages + "; examples.holdout=0.1; retrain.rows=1000; retrain.refresh=2": "on about 300 holdout rows; with fewer than " +
			"1,000, the gate withholds less than 90 % of the versions",
		"seed=1": "every version of a chain is full, as stage 2 has the link calibrated: updates are not possible\n",
		"stages=[{features: {size: 20}}, {features: {size: 20}, scores: true}]": "every version of a chain is full, as stage 1 " +
			"has scores: true: ",
	} {
		args := []string{"check", "-c", "good.yaml"}
		for setting := range strings.SplitSeq(settings, "; ") {
			args = append(args, "--set", setting)
		}
		code, stdout, stderr := stagewise(args...)
		if refused := strings.HasPrefix(want, "stagewise: "); !strings.Contains(stdout+stderr, want) || refused != (code == exitWrong) ||
			refused != (stderr != "") {
			t.Errorf("%s: exit code %d: %s%s\nexpected %s", settings, code, stdout, stderr, want)
		}
	}
}

// noError ends the test if err is not nil.
func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// valueOf returns a value, or ends the test if the error with it is not nil.
func valueOf[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return value
	}
}
