package main

import (
	"net"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/kafkalog"
)

// A broker that listens has the followed topic before another program could create it.
func TestFollowedTopicOfAListeningBroker(t *testing.T) {
	long(t)
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
