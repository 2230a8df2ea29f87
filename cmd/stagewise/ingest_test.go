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

// A topic of which no message can be used is no success: ingest and train say why, and what helps. One message that can
// be used makes it one.
func TestTopicThatCannotBeUsed(t *testing.T) {
	long(t)
	const event = `{"kind":"tall","length":1,"width":2}`
	for name, test := range map[string]struct{ value, want string }{
		"framed": {"\x00\x00\x00\x00\x07" + event, "begins with the prefix of schema registry serializers (a zero byte and the schema ID 7)"},
		"CloudEvent": {`{"specversion":"1.0","id":"1","source":"/x","type":"t","data":` + event + `}`,
			`no column "kind": the object has "data", "id", "source", "specversion" and "type". The column is in "data"`},
		"Debezium": {`{"schema":{},"payload":{"before":null,"after":` + event + `,"op":"c"}}`, `The column is in "payload.after"`},
		"no label": {`{"length":1,"width":2}`,
			`no column "kind": the object has "length" and "width": examples.label names the label column`},
		"no JSON": {"kind=tall", "not JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			inFolder(t, map[string]string{"clicks.yaml": clicked})
			write := func(values ...string) {
				t.Helper()
				log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
				if err != nil {
					t.Fatal(err)
				}
				err = log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1})
				for _, value := range values {
					if err == nil {
						_, err = log.Append(t.Context(), "events", 0, kafkalog.Message{Value: []byte(value)})
					}
				}
				if err := errors.Join(err, log.Close()); err != nil {
					t.Fatal(err)
				}
			}
			write()
			if code, _, stderr := stagewise("ingest", "-c", "clicks.yaml", "--until", "end"); code != exitDone { // nobody has written yet
				t.Fatalf("exit code %d: %s", code, stderr)
			}
			code, _, stderr := stagewise("train", "-c", "clicks.yaml")
			if code != exitFailed || !strings.Contains(stderr, "`stagewise ingest` writes those of events there") {
				t.Errorf("train: exit code %d: %s", code, stderr)
			}
			write(test.value, test.value)
			code, _, stderr = stagewise("ingest", "-c", "clicks.yaml", "--until", "end")
			if code != exitFailed || !strings.Contains(stderr, "stagewise: 2 messages of events: none could be used. events[0]@0: ") ||
				!strings.Contains(stderr, test.want) {
				t.Errorf("ingest: exit code %d: %s, expected %s", code, stderr, test.want)
			}
			code, _, stderr = stagewise("train", "-c", "clicks.yaml")
			if code != exitFailed || !strings.Contains(stderr, "2 messages of events: none could be used. events[0]@0: ") ||
				!strings.Contains(stderr, test.want) {
				t.Errorf("train: exit code %d: %s, expected %s", code, stderr, test.want)
			}
			write(event)
			if code, _, stderr := stagewise("ingest", "-c", "clicks.yaml", "--until", "end"); code != exitDone {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			write(test.value)
			if code, _, stderr := stagewise("ingest", "-c", "clicks.yaml", "--until", "end"); code != exitDone {
				t.Errorf("after a message that was used: exit code %d: %s", code, stderr)
			}
		})
	}
}

// Ingest follows a topic until it is interrupted, and says that it goes on when it is run again.
func TestIngestIsInterrupted(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}), log.Close()); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ flags, follows, interrupted string }{
		{"", "following topic events until interrupted\n", "stagewise: interrupted; to resume, run the same command again\n"},
		{"--log text", "msg=follows pipeline=clicks topic=events\n", "to resume, run the same command again"},
	} {
		cmd, _, _ := program(t, strings.Fields("ingest -c clicks.yaml --set metrics.listen= "+test.flags)...)
		cmd.Stderr = nil // a pipe instead
		stderr, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewReader(stderr)
		first, err := lines.ReadString('\n')
		if err != nil || !strings.HasSuffix(first, test.follows) {
			t.Errorf("%v: %q, expected %q", err, first, test.follows)
		}
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		rest, err := io.ReadAll(lines)
		if err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit code is checked below
		if code := cmd.ProcessState.ExitCode(); code != exitInterrupted || !strings.Contains(string(rest), test.interrupted) {
			t.Errorf("exit code %d: %s", code, rest)
		}
	}
}
