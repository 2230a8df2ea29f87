package kafkalog

import (
	"net"
	"strings"
	"testing"
)

// An unusable or non-loopback address is rejected, and the directory is released.
func TestListenRefuses(t *testing.T) {
	taken := must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	dir := t.TempDir()
	for _, address := range []string{"localhost", ":9092", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1:70000",
		taken.Addr().String()} {
		if l, err := Open(testContext(t), Options{DataDir: dir, Listen: address}); err == nil || !strings.Contains(err.Error(), address) {
			t.Errorf("listen on %s: %v, %v", address, l, err)
		}
	}
	openDir(t, dir)
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:9092": true, "127.8.0.1:0": true, "[::1]:9092": true, "localhost:9092": true,
		"127.0.0.1": false, "localhost:kafka": false, "::1:9092": false, ":9092": false, "0.0.0.0:9092": false,
		"localhost.example.com:9092": false, "10.0.0.1:9092": false, "": false,
	} {
		if IsLoopback(address) != want {
			t.Errorf("%q: %v", address, !want)
		}
	}
}
