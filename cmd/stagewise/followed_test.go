package main

import (
	"fmt"
	"net"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// writeEvents makes the topic of clicked anew, and writes events of the users u0 to u9 to it.
func writeEvents(t *testing.T, events int) {
	t.Helper()
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Delete(t.Context(), "events"); err != nil {
		t.Fatal(err)
	}
	if err := log.Create(t.Context(), kafkalog.Topic{Name: "events", Partitions: 1}); err != nil {
		t.Fatal(err)
	}
	var messages []kafkalog.Message
	for i := range events {
		value := fmt.Sprintf(`{"kind":"tall","length":%d,"width":1}`, 5+i%3)
		if i%2 == 0 {
			value = fmt.Sprintf(`[{"kind":"wide","length":null,"width":%d},{"kind":"wide","length":1,"width":5}]`, 5+i%3)
		}
		messages = append(messages, kafkalog.Message{Key: fmt.Append(nil, "u", i%10), Value: []byte(value)})
	}
	if _, err := log.Append(t.Context(), "events", 0, messages...); err != nil {
		t.Fatal(err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}

// Events that ingest has read are forgotten by their keys, and by their places on the topic.
func TestForgetEvents(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	writeEvents(t, 40)
	typed(t, exitDone, "ingest", "-c", "clicks.yaml", "--until", "end")
	stdout, _ := typed(t, exitDone, "forget", "-c", "clicks.yaml", "--key", "u4", "--key", "u7", "events/0/7-10")
	// u4 has 8 rows, u7 has 4; 8 to 10 have 5, 7 is of u7
	if want := "forgot 17 rows of 1 message\n"; !strings.HasPrefix(stdout, want) {
		t.Errorf("%s, expected %s", stdout, want)
	}
	_, stderr := typed(t, exitDone, "train", "-c", "clicks.yaml")
	if want := "passed over: 17 rows that were forgotten"; !strings.Contains(stderr, want) {
		t.Errorf("%s, expected %s", stderr, want)
	}
	_, stderr = typed(t, exitFailed, "forget", "-c", "clicks.yaml", "--key", "u42", "events/0/40")
	if want := `no message on clicks.examples has the key "u42"; no row on clicks.examples was read from events[0]@40–41. Nothing is forgotten`; !strings.Contains(stderr, want) {
		t.Errorf("%s, expected %s", stderr, want)
	}
}

// A topic that was made anew is not ingested again until a person says what it is.
func TestIngestTopicThatHasChanged(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	writeEvents(t, 40)
	ingest := []string{"ingest", "-c", "clicks.yaml", "--until", "end"}
	typed(t, exitDone, ingest...)
	writeEvents(t, 30)
	_, stderr := typed(t, exitFailed, ingest...)
	for _, want := range []string{"events[0] no longer has the message read last, at offset 39: it ends at offset 30",
		"Set examples.on_changed_topic to behind", "or to anew"} {
		if !strings.Contains(stderr, want) {
			t.Errorf("%s, expected %s", stderr, want)
		}
	}
	if stdout, stderr := typed(t, exitDone, "train", "-c", "clicks.yaml", "--report", "-"); !strings.Contains(stderr,
		"no longer has the message read last") || !strings.Contains(stdout, `"rows": 60,`) {
		t.Errorf("train says %s and learns %.200s, expected the choice, and the 60 rows that were read", stderr, stdout)
	}
	if _, stderr := typed(t, exitFailed, "run", "-c", "clicks.yaml", "--until", "end"); !strings.Contains(stderr,
		"Set examples.on_changed_topic to behind") {
		t.Errorf("run: %s, expected an error that names the choice", stderr)
	}
	if _, stderr = typed(t, exitDone, append(ingest, "--set", "examples.on_changed_topic=behind")...); !strings.Contains(stderr,
		"topic events: 0 train rows") {
		t.Errorf("behind: %s, expected no rows", stderr)
	}
	if _, stderr = typed(t, exitDone, append(ingest, "--set", "examples.on_changed_topic=anew")...); !strings.Contains(stderr,
		"topic events: 45 train rows") {
		t.Errorf("anew: %s, expected 45 rows", stderr)
	}
	if _, stderr = typed(t, exitDone, ingest...); !strings.Contains(stderr, "topic events: 0 train rows") {
		t.Errorf("once more: %s, expected no rows", stderr)
	}
}

// A broker that listens has the followed topic before another program could create it.
func TestFollowedTopicOfAListeningBroker(t *testing.T) {
	inFolder(t, map[string]string{"clicks.yaml": clicked})
	ingest := []string{"ingest", "-c", "clicks.yaml", "--until", "end"}
	if _, stderr := typed(t, exitFailed, ingest...); !strings.Contains(stderr, "create it first") {
		t.Errorf("without a listener: %s, expected an error", stderr)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	typed(t, exitDone, append(ingest, "--set", "listen="+address)...)
	log, err := kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"})
	if err != nil {
		t.Fatal(err)
	}
	if n, err := log.Partitions(t.Context(), "events"); err != nil || n < 1 {
		t.Errorf("events has %d partitions, %v", n, err)
	}
	if err := log.Close(); err != nil {
		t.Fatal(err)
	}
}
