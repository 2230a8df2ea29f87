package kafkalog

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stagewise/stagewise/internal/assert"
)

// Without a listen address, the process with an embedded broker has no open TCP port. With one, it has one.
func TestListensOnlyIfToldTo(t *testing.T) {
	before := listening(t)
	for address, want := range map[string]int{"": 0, "127.0.0.1:0": 1} {
		l := assert.Must(Open(testContext(t), Options{DataDir: t.TempDir(), Listen: address}))(t)
		assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
		assert.Must(l.Append(testContext(t), "t", 0, numbered(0, 10)))(t)
		assert.Equal(t, listening(t)-before, want, "open ports after listening on %q", address)
		assert.NoError(t, l.Close())
		assert.Equal(t, listening(t)-before, 0, "open ports after Close, which had listened on %q", address)
	}
}

// listening returns the number of TCP ports on which this process listens, from the tables of proc(5).
func listening(t *testing.T) int {
	t.Helper()
	const listen = "0A" // TCP_LISTEN in the kernel's include/net/tcp_states.h
	sockets := map[string]bool{}
	for _, table := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		content, err := os.ReadFile(table)
		if os.IsNotExist(err) && strings.HasSuffix(table, "6") {
			continue // a kernel without IPv6
		}
		assert.NoError(t, err)
		for line := range strings.Lines(string(content)) {
			if fields := strings.Fields(line); len(fields) > 9 && fields[3] == listen {
				sockets["socket:["+fields[9]+"]"] = true
			}
		}
	}
	files := assert.Must(filepath.Glob("/proc/self/fd/*"))(t)
	n := 0
	for _, file := range files {
		if target, err := os.Readlink(file); err == nil && sockets[target] { // the directory's own handle is already closed
			n++
		}
	}
	return n
}
