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
	free := valueOf(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := free.Addr().String()
	noError(t, free.Close())
	typed(t, exitDone, append(ingest, "--set", "listen="+address)...)
	log := valueOf(kafkalog.Open(t.Context(), kafkalog.Options{DataDir: ".stagewise"}))(t)
	if n, err := log.Partitions(t.Context(), "events"); err != nil || n < 1 {
		t.Errorf("events has %d partitions, %v", n, err)
	}
	noError(t, log.Close())
}
