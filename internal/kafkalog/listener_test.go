package kafkalog

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
)

// The broker's own process connects through a pipe, other programs through the port. Both see each other's messages.
func TestPipeAndPort(t *testing.T) {
	ctx := testContext(t)
	for _, host := range []string{"127.0.0.1", "localhost"} {
		inside := open(t, Options{DataDir: t.TempDir(), Listen: host + ":0"})
		outside := connect(t, inside.Addr())
		for l, want := range map[*Log]bool{inside: true, outside: false} {
			conn, err := l.dialPlain(ctx, "tcp", inside.Addr()[0])
			noError(t, err)
			if _, socket := conn.(*connection).Conn.(*net.TCPConn); socket == want {
				t.Errorf("embedded %v: a %T", l.Embedded(), conn.(*connection).Conn)
			}
			if got := conn.RemoteAddr().String(); got != inside.Addr()[0] {
				t.Errorf("embedded %v: connected with %s, expected %s", l.Embedded(), got, inside.Addr()[0])
			}
			noError(t, conn.Close())
		}
		noError(t, inside.Create(ctx, Topic{Name: "t", Partitions: 1}))
		for n, l := range []*Log{inside, outside, inside} {
			if base, err := l.Append(ctx, "t", 0, numbered(n, 64<<10+1)); base != int64(n) || err != nil {
				t.Fatalf("append %d: %d, %v", n, base, err)
			}
		}
		for _, l := range []*Log{inside, outside} {
			if got, err := read(t, l, "t", 0, 3); err != io.EOF || !slices.Equal(texts(got), numbers(0, 3)) {
				t.Errorf("embedded %v: %v, %v", l.Embedded(), texts(got), err)
			}
		}
	}
}

// An unusable or non-loopback address is rejected, and the directory is released.
func TestListenRefuses(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	noError(t, err)
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
