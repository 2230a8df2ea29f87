package main

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// clicked is a configuration of a run on what a topic has in JSON.
const clicked = `name: clicks
examples:
  from_topic: events
  format: json
  label: kind
  columns: {use: [length, width]}
  missing: mean
stages: [{features: {kind: columns}, passes: 3}]
`

// Ingest follows a topic until it is interrupted, and says that it goes on when it is run again.
func TestIngestIsInterrupted(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	noError(t, errors.Join(log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}), log.Close()))
	for _, test := range []struct{ flags, follows, interrupted string }{
		{"", "following topic events until interrupted\n", "stagewise: interrupted; to resume, run the same command again\n"},
		{"--log text", "msg=follows pipeline=clicks topic=events\n", "to resume, run the same command again"},
	} {
		cmd, _, _ := program(t, strings.Fields("ingest -c clicks.yaml --set metrics.listen= "+test.flags)...)
		cmd.Stderr = nil // a pipe instead
		stderr := valueOf(cmd.StderrPipe())(t)
		noError(t, cmd.Start())
		lines := bufio.NewReader(stderr)
		first, err := lines.ReadString('\n')
		if err != nil || !strings.HasSuffix(first, test.follows) {
			t.Errorf("%v: %q, expected %q", err, first, test.follows)
		}
		noError(t, cmd.Process.Signal(syscall.SIGINT))
		rest := valueOf(io.ReadAll(lines))(t)
		_ = cmd.Wait() // the exit code is checked below
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(string(rest), test.interrupted) {
			t.Errorf("exit code %d: %s", code, rest)
		}
	}
}
