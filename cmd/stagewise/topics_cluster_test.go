//go:build cluster

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/stagewise/stagewise/internal/assert"
)

// threeBrokers starts a cluster of three brokers, and returns their addresses and a function that calls scripts/kafka.sh for it.
func threeBrokers(t *testing.T) (brokers string, script func(args ...string) string) {
	t.Helper()
	path := assert.Must(filepath.Abs("../../scripts/kafka.sh"))(t)
	dir := filepath.Join(t.TempDir(), "kafka")
	script = func(args ...string) string {
		t.Helper()
		cmd := exec.Command(path, append(args, "--dir", dir)...)
		cmd.Stderr = os.Stderr
		out, err := cmd.Output()
		assert.Need(t, err == nil, "kafka.sh %v: %v", args, err)
		return strings.TrimSpace(string(out))
	}
	t.Cleanup(func() { script("wipe") })
	return strings.TrimPrefix(script("start", "--nodes", "3", "--port", "free", "--heap", "256m", "--wait", "300"), "BOOTSTRAP="), script
}

// up waits until so many brokers are up, as they say themselves.
func up(t *testing.T, brokers string, n int) {
	t.Helper()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		transport := &kafka.Transport{} // others answer from a copy
		client := &kafka.Client{Addr: kafka.TCP(strings.Split(brokers, ",")...), Transport: transport}
		found, err := client.Metadata(t.Context(), &kafka.MetadataRequest{Topics: []string{}})
		transport.CloseIdleConnections()
		if err == nil && len(found.Brokers) == n {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatalf("%v, %v", found, err)
		}
	}
}

// With one of three brokers down no topic is made with fewer replicas than the cluster calls for. The brokers that are up name the one
// that is down even if there is no topic at all.
func TestClusterTopicsNeedTheirReplicas(t *testing.T) {
	brokers, script := threeBrokers(t)
	inFolder(t, map[string]string{"good.yaml": good, "train.csv": blobs(90, 1), "test.csv": blobs(30, 2)})
	on := []string{"-c", "good.yaml", "--set", "brokers=" + brokers}
	script("kill", "--node", "3")
	up(t, brokers, 2)
	const refused = "blobs.examples and 8 more would get 3 replicas, because the cluster has 3 brokers and topics.replication is 0, " +
		"but only 2 of 3 brokers can be reached: start the others, or set topics.replication to 2 or fewer"
	refuses(t, exitFailed, refused, append([]string{"topics", "create"}, on...)...)
	refuses(t, exitFailed, "would get 3 replicas, as topics.replication says, but only 2 of 3 brokers",
		append([]string{"topics", "create", "--set", "topics.replication=3"}, on...)...)
	refuses(t, exitFailed, "blobs.examples would get 3 replicas", append([]string{"train", "--quiet"}, on...)...)
	replicas := func(n string, args ...string) {
		t.Helper()
		code, stdout, stderr := stagewise(append([]string{"topics", "list"}, args...)...)
		assert.True(t, code == exitDone && stderr == "" && strings.Count(stdout, "\n") >= 10,
			"topics list: exit code %d: %s%s", code, stdout, stderr)
		for line := range strings.Lines(stdout) {
			row := strings.Fields(line)
			assert.True(t, len(row) <= 2 || !strings.HasPrefix(row[0], "b") || row[2] == n, "%v, want %s replicas", row, n)
		}
	}
	other := append(on, "--set", "name=b", "--set", "topics.replication=2")
	typed(t, exitDone, append([]string{"topics", "create"}, other...)...)
	replicas("2", other...)

	script("revive", "--node", "3")
	up(t, brokers, 3)
	typed(t, exitDone, append([]string{"topics", "create"}, on...)...)
	replicas("3", on...)

	// Topics that exist are used while a broker is down, and their settings can be changed.
	script("kill", "--node", "1")
	up(t, brokers, 2)
	typed(t, exitDone, append([]string{"train", "--quiet"}, on...)...) // with one broker down
	shorter := append(on, "--set", "topics.retention.examples=48h")
	code, stdout, stderr := stagewise(append([]string{"topics", "apply"}, shorter...)...)
	assert.True(t, code == exitDone && stdout == "blobs.examples: retention.ms is 172800000 now, it was -1\n",
		"topics apply: exit code %d: %s%s", code, stdout, stderr)
	tick := time.NewTicker(200 * time.Millisecond) // brokers learn of settings one by one
	defer tick.Stop()
	for {
		if code, stdout, _ := stagewise(append([]string{"check"}, shorter...)...); code == exitDone && !strings.Contains(stdout, "retention.ms") {
			return
		}
		select {
		case <-tick.C:
		case <-t.Context().Done():
			t.Fatal("check still lists what topics apply has changed")
		}
	}
}
