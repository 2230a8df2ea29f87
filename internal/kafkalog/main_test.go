package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// cleanForever is the environment variable with the data directory of the processes killed by TestKilledWhileCleaning.
// TestKilledOnAFullDisk has its own.
const cleanForever = "KAFKALOG_TEST_CLEAN_FOREVER"

func TestMain(m *testing.M) {
	if dir := os.Getenv(cleanForever); dir != "" {
		runCleanForever(dir)
	}
	if dir := os.Getenv(fullDisk); dir != "" {
		runOnFullDisk(dir)
	}
	goleak.VerifyTestMain(m)
}

// numbered returns message i, whose value has at least size bytes.
func numbered(i, size int) Message {
	value := fmt.Sprintf("%d;", i)
	return Message{Value: []byte(value + strings.Repeat("x", max(0, size-len(value))))}
}

func number(m Message) string {
	n, _, _ := strings.Cut(string(m.Value), ";")
	return n
}

func numberedUpTo(n, size int) []Message {
	messages := make([]Message, n)
	for i := range messages {
		messages[i] = numbered(i, size)
	}
	return messages
}

// numbers returns "from", …, "to−1".
func numbers(from, to int) []string {
	list := []string{}
	for i := from; i < to; i++ {
		list = append(list, fmt.Sprint(i))
	}
	return list
}

func testContext(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func openEmbedded(t testing.TB) *Log { return openDir(t, t.TempDir()) }

func openDir(t testing.TB, dir string) *Log { return open(t, Options{DataDir: dir}) }

// openListening opens an embedded broker with a listener.
func openListening(t testing.TB) *Log {
	return open(t, Options{DataDir: t.TempDir(), Listen: "127.0.0.1:0"})
}

func open(t testing.TB, o Options) *Log {
	t.Helper()
	l := must(Open(testContext(t), o))(t)
	t.Cleanup(func() { noError(t, l.Close()) })
	return l
}

var noError = arrowtest.NoError

// must returns v, or ends the test if err is not nil.
func must[T any](v T, err error) func(testing.TB) T { return arrowtest.Must(v, err) }

var errTooMany = errors.New("more messages than offsets")

// read returns the messages of a range.
func read(t testing.TB, l *Log, topic string, from, to int64) ([]Message, error) {
	t.Helper()
	r := l.Range(topic, 0, from, to)
	defer r.Close()
	var messages []Message
	for {
		m, err := r.Next(testContext(t))
		if err != nil {
			return messages, err
		}
		if messages = append(messages, m); int64(len(messages)) > to-from {
			return messages, errTooMany
		}
	}
}

// foreign returns a client of another library, for transactions, compression and administration.
func foreign(t testing.TB, l *Log, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(l.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	client := must(kgo.NewClient(options...))(t)
	t.Cleanup(client.Close)
	return client
}

func upTo(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

func TestLogSurvivesClose(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	for n := range 3 {
		l := must(Open(ctx, Options{DataDir: dir}))(t)
		if !l.Embedded() || len(l.Addr()) != 0 {
			t.Errorf("embedded %v at %v", l.Embedded(), l.Addr())
		}
		noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 2, Config: map[string]string{"retention.ms": "-1"}}))
		if base, err := l.Append(ctx, "t", 0, numbered(n, 1000)); base != int64(n) || err != nil {
			t.Fatalf("append %d: %d, %v", n, base, err)
		}
		if got, err := read(t, l, "t", 0, int64(n+1)); err != io.EOF || !slices.Equal(texts(got), numbers(0, n+1)) {
			t.Fatalf("%v, %v", texts(got), err)
		}
		if config, err := l.Configs(ctx, "t"); err != nil || config["t"]["retention.ms"] != "-1" {
			t.Errorf("configuration %v, %v", config, err)
		}
		noError(t, l.Close())
		noError(t, l.Close())
	}
}

// A second process gets an error with the id of the first after five seconds, or the directory if the first one ends
// sooner.
func TestDataDirHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	l := openDir(t, dir)
	synctest.Test(t, func(t *testing.T) {
		began, said := time.Now(), []Wait(nil)
		_, err := Open(t.Context(), Options{DataDir: dir, Waiting: func(w Wait) { said = append(said, w) }})
		if locked, ok := errors.AsType[*LockedError](err); !ok || locked.PID != os.Getpid() || locked.Dir != dir {
			t.Fatalf("second owner: %v", err)
		}
		if !strings.Contains(err.Error(), strconv.Itoa(os.Getpid())) {
			t.Errorf("%q does not name the owner", err)
		}
		if waited := time.Since(began); waited != 5*time.Second || len(said) < 2 || said[0].Over || !said[len(said)-1].Over {
			t.Errorf("after %v, with the reports %+v", waited, said)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := Repair(ctx, dir); !errors.As(err, new(*LockedError)) || time.Since(began) != 6*time.Second {
			t.Errorf("a repair that is cancelled: %v after %v", err, time.Since(began))
		}
	})
	next := must(Open(testContext(t), Options{DataDir: dir, Waiting: func(w Wait) {
		if !w.Over {
			noError(t, l.Close())
		}
	}}))(t)
	noError(t, next.Close())
}

func TestOpenWithoutBrokersOrDirectory(t *testing.T) {
	if _, err := Open(testContext(t), Options{}); err == nil {
		t.Error("a log without brokers and directory was opened")
	}
	file := filepath.Join(t.TempDir(), "file")
	noError(t, os.WriteFile(file, nil, 0o644))
	if _, err := Open(testContext(t), Options{DataDir: file}); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("data directory that is a file: %v", err)
	}
}

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
