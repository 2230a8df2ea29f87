package kafkalog

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"
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

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// must returns v, or ends the test if err is not nil.
func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return v
	}
}

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
