package main

import (
	"bytes"
	"context"
	"os"
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

// write600 writes a file of the working directory.
func write600(t *testing.T, name string, content []byte) {
	t.Helper()
	noError(t, os.WriteFile(name, content, 0o600))
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
