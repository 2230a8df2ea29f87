package main

import (
	"bufio"
	"bytes"
	"io"
	"os/exec"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// program returns a command line that runs as a process of its own, and what it will have written.
func program(t *testing.T, args ...string) (cmd *exec.Cmd, stdout, stderr *bytes.Buffer) {
	t.Helper()
	stdout, stderr = &bytes.Buffer{}, &bytes.Buffer{}
	cmd = exec.CommandContext(t.Context(), "stagewise", args...)
	cmd.Stdout, cmd.Stderr = stdout, stderr
	return cmd, stdout, stderr
}

// started starts a program, and returns the lines that it writes to its standard error. wait waits until it has ended,
// and all of them are read.
func started(t *testing.T, cmd *exec.Cmd) (lines *bufio.Scanner, wait func()) {
	t.Helper()
	read, write := io.Pipe()
	cmd.Stderr = write
	noError(t, cmd.Start())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = cmd.Wait() // who has started it looks at how it ended
		write.Close()
	}()
	return bufio.NewScanner(read), func() { <-ended }
}

// startBroker starts an embedded broker in the folder broker, which other processes reach.
func startBroker(t *testing.T) *kafkalog.Log {
	t.Helper()
	broker := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: "broker", Listen: "127.0.0.1:0"}))(t)
	t.Cleanup(func() { broker.Close() })
	return broker
}
