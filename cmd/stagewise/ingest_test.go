package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
	"github.com/stagewise/stagewise/schemas"
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

// Examples that are on a topic as JSON are ingested, trained on, and predicted by the names of their columns.
func TestIngestTopic(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked, "new.csv": "width,length\n5,1\n1,5\n"})
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	var messages []kafkalog.Message
	for i := range 40 {
		value := fmt.Sprintf(`{"kind":"tall","length":%d,"width":1,"id":"x"}`, 5+i%3)
		if i%2 == 0 {
			value = fmt.Sprintf(`[{"kind":"wide","length":null,"width":%d},{"kind":"wide","length":1,"width":5}]`, 5+i%3)
		}
		messages = append(messages, kafkalog.Message{Value: []byte(value)})
	}
	messages = append(messages, kafkalog.Message{Value: []byte(`{"kind":"tall","length":"long","width":1}`)})
	if _, err := log.Append(t.Context(), "events", 0, messages...); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
	if code, stdout, _ := stagewise("check", "-c", "clicks.yaml"); code != exitDone || !strings.Contains(stdout,
		" the topic events is ingested\n") {
		t.Errorf("exit code %d: check does not name the topic:\n%s", code, stdout)
	}
	for _, want := range []string{
		"quarantined events[0]@40: column \"length\": … is not a number: examples.categorical accepts columns of words, examples.columns.drop " +
			"excludes a column, examples.missing_values lists the words for a missing value\ntopic events: 60 train rows\n",
		"topic events: 0 train rows\n",
	} {
		if code, _, stderr := stagewise("ingest", "-c", "clicks.yaml", "--until", "end"); code != exitDone || stderr != want {
			t.Fatalf("exit code %d: %s\nexpected %s", code, stderr, want)
		}
	}
	bad := listed(t, "quarantine", "list", "-c", "clicks.yaml")
	if len(bad) != 1 || strings.Join(bad[0][:4], " ") != "1 events[0]@40 events[0]@40 column" {
		t.Errorf("quarantine %v, expected one message, its place and its reason", bad)
	}
	if shown := listed(t, "quarantine", "list", "-c", "clicks.yaml", "--set", "log.values=true"); len(shown) != 1 ||
		!strings.Contains(strings.Join(shown[0], " "), `"long" is not a number`) {
		t.Errorf("quarantine %v, expected the reason with its value", shown)
	}
	rows := listed(t, "sources", "list", "-c", "clicks.yaml")
	if len(rows) != 1 || strings.Join(slices.Delete(rows[0], 2, 3), " ") != "topic:events followed train - - - read to [0]@41" {
		t.Errorf("sources %v, expected the topic, and how far it was read", rows)
	}
	if _, stderr := typed(t, exitFailed, "sources", "remove", "-c", "clicks.yaml", "topic:events"); !strings.Contains(stderr,
		"topic:events is a topic that ingest follows: expected files") {
		t.Errorf("remove a topic: %s", stderr)
	}
	code, stdout, stderr := stagewise("train", "-c", "clicks.yaml", "--quiet", "--report", "-", "--model", "clicks.model")
	var report schemas.Report
	if err := json.Unmarshal([]byte(stdout), &report); code != exitDone || err != nil || report.Rows != 60 || report.TrainError != 0 {
		t.Fatalf("exit code %d, %s, %d rows, train error %v", code, stderr, report.Rows, report.TrainError)
	}
	if code, _, stderr := stagewise("predict", "--model", "clicks.model", "-i", "new.csv", "-o", "predictions.csv"); code != exitDone {
		t.Fatal(stderr)
	}
	text, err := os.ReadFile("predictions.csv")
	if lines := strings.Split(string(text), "\n"); err != nil || len(lines) < 3 || !strings.HasPrefix(lines[1], "wide,") ||
		!strings.HasPrefix(lines[2], "tall,") {
		t.Errorf("%v\n%s", err, text)
	}
}

// A topic of which no message can be used is no success: ingest and train say why, and what helps. One message that can
// be used makes it one.
func TestTopicThatCannotBeUsed(t *testing.T) {
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

// Who names a topic that is not there learns its name, and the key.
func TestIngestMissingTopic(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	code, _, stderr := stagewise("ingest", "-c", "clicks.yaml", "--quiet")
	if want := "stagewise: examples.from_topic: read events: unknown topic or partition; create it first"; code != exitFailed ||
		!strings.HasPrefix(stderr, want) {
		t.Errorf("exit code %d: %s\nexpected %s", code, stderr, want)
	}
}
