package kafkalog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"math/rand/v2"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/segmentio/kafka-go"
	"github.com/segmentio/kafka-go/protocol"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/stagewise/stagewise/internal/assert"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

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
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
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
	l := assert.Must(Open(testContext(t), o))(t)
	t.Cleanup(func() { assert.NoError(t, l.Close()) })
	return l
}

var errTooMany = errors.New("more messages than offsets")

// read returns the messages of a range.
func read(t testing.TB, l *Log, topic string, from, to int64) ([]Message, error) {
	t.Helper()
	var messages []Message
	for m, err := range l.Range(testContext(t), topic, 0, from, to) {
		if err != nil {
			return messages, err
		}
		if messages = append(messages, m); int64(len(messages)) > to-from {
			return messages, errTooMany
		}
	}
	return messages, nil
}

// mustHold returns the messages of a range, which must have these numbers.
func mustHold(t testing.TB, l *Log, topic string, from, to int64, want []string) []Message {
	t.Helper()
	got, err := read(t, l, topic, from, to)
	assert.Need(t, err == nil && slices.Equal(texts(got), want), "%s, [%d, %d): %v, %v, want %v", topic, from, to, texts(got), err, want)
	return got
}

// bounds returns the bounds of a partition.
func bounds(t testing.TB, l *Log, topic string, partition int) Bounds {
	t.Helper()
	first, end, err := l.Bounds(testContext(t), topic, partition)
	assert.NoError(t, err)
	return Bounds{first, end}
}

// foreign returns a client of another library, for transactions, compression and administration.
func foreign(t testing.TB, l *Log, options ...kgo.Opt) *kgo.Client {
	t.Helper()
	options = append(options, kgo.SeedBrokers(l.Addr()...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	client := assert.Must(kgo.NewClient(options...))(t)
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
		l := assert.Must(Open(ctx, Options{DataDir: dir}))(t)
		assert.True(t, l.Embedded() && len(l.Addr()) == 0, "embedded %v at %v", l.Embedded(), l.Addr())
		assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 2, Config: map[string]string{"retention.ms": "-1"}}))
		assert.Equal(t, assert.Must(l.Append(ctx, "t", 0, numbered(n, 1000)))(t), int64(n), "the offset of message %d", n)
		mustHold(t, l, "t", 0, int64(n+1), numbers(0, n+1))
		assert.Equal(t, assert.Must(l.Configs(ctx, "t"))(t)["t"]["retention.ms"], "-1", "retention.ms")
		assert.NoError(t, l.Close())
		assert.NoError(t, l.Close())
	}
}

// A second process gets an error with the id of the first after five seconds, or the directory if the first one ends sooner.
func TestDataDirHasOneOwner(t *testing.T) {
	dir := t.TempDir()
	l := openDir(t, dir)
	synctest.Test(t, func(t *testing.T) {
		began, said := time.Now(), []Wait(nil)
		_, err := Open(t.Context(), Options{DataDir: dir, Waiting: func(w Wait) { said = append(said, w) }})
		locked, ok := errors.AsType[*LockedError](err)
		assert.Need(t, ok && locked.PID == os.Getpid() && locked.Dir == dir, "second owner: %v", err)
		assert.Fails(t, err, strconv.Itoa(os.Getpid()))
		waited := time.Since(began)
		assert.True(t, waited == 5*time.Second && len(said) >= 2 && !said[0].Over && said[len(said)-1].Over, "after %v: %+v", waited, said)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.MustFail(Repair(ctx, dir))(t, new(*LockedError))
		assert.Equal(t, time.Since(began), 6*time.Second, "the time of a repair that is cancelled")
	})
	next := assert.Must(Open(testContext(t), Options{DataDir: dir, Waiting: func(w Wait) {
		if !w.Over {
			assert.NoError(t, l.Close())
		}
	}}))(t)
	assert.NoError(t, next.Close())
}

func TestOpenWithoutBrokersOrDirectory(t *testing.T) {
	_, err := Open(testContext(t), Options{})
	assert.True(t, err != nil, "a log without brokers and directory was opened")
	file := filepath.Join(t.TempDir(), "file")
	assert.NoError(t, os.WriteFile(file, nil, 0o644))
	assert.MustFail(Open(testContext(t), Options{DataDir: file}))(t, file)
}

// An unusable or non-loopback address is rejected, and the directory is released.
func TestListenRefuses(t *testing.T) {
	taken := assert.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer taken.Close()
	dir := t.TempDir()
	for _, address := range []string{"localhost", ":9092", "0.0.0.0:0", "[::]:0", "192.0.2.1:0", "example.com:0", "127.0.0.1:70000",
		taken.Addr().String()} {
		l, err := Open(testContext(t), Options{DataDir: dir, Listen: address})
		assert.True(t, err != nil && strings.Contains(err.Error(), address), "listen on %s: %v, %v", address, l, err)
	}
	openDir(t, dir)
}

func TestIsLoopback(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1:9092": true, "127.8.0.1:0": true, "[::1]:9092": true, "localhost:9092": true,
		"127.0.0.1": false, "localhost:kafka": false, "::1:9092": false, ":9092": false, "0.0.0.0:9092": false,
		"localhost.example.com:9092": false, "10.0.0.1:9092": false, "": false,
	} {
		assert.Equal(t, IsLoopback(address), want, "%q is a loopback address", address)
	}
}

func TestEmbedded(t *testing.T) {
	testLog(t, openListening, func(t *testing.T, l *Log, topic string) { assert.NoError(t, l.Compact(testContext(t), topic)) })
}

// testLog runs the tests that must pass on every broker. compact makes the broker compact a topic except its last message.
func testLog(t *testing.T, open func(testing.TB) *Log, compact func(t *testing.T, l *Log, topic string)) {
	for name, test := range map[string]func(*testing.T, *Log, string){
		"messages come back as they were":          testRoundTrip,
		"a range is exact":                         testRangeIsExact,
		"large messages keep their order":          testLarge,
		"a message may be larger than a request":   testLarger,
		"every compression is read":                testCompression,
		"aborted transactions are not seen":        testTransactions,
		"a transaction may be longer than a fetch": testLongTransaction,
		"deleted offsets are an error":             testDeleted,
		"what is before an offset can be deleted":  testDeleteBefore,
		"a topic deleted and created is an error":  testRecreated,
		"a follower sees what is appended":         testFollow,
		"partitions do not disturb each other":     testPartitions,
		"topics":                                   testTopics,
		"partitions are added":                     testAddPartitions,
		"bounds of all partitions":                 testAllBounds,
		"offsets at a time":                        testOffsetsAt,
		"messages have the times of producers":     testTimes,
		"gaps cost nothing":                        testGaps,
		"a group divides the partitions":           testGroup,
		"compacted offsets are skipped":            func(t *testing.T, l *Log, topic string) { testCompacted(t, l, topic, compact) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := open(t)
			topic := fmt.Sprintf("test-%x", rand.Uint64())
			t.Cleanup(func() { assert.NoError(t, l.Delete(testContext(t), topic)) })
			test(t, l, topic)
		})
	}
}

// sameContent reports whether two messages have the same key, value and headers. No key and no value are other than empty ones.
func sameContent(a, b Message) bool {
	same := func(a, b Header) bool { return a.Key == b.Key && bytes.Equal(a.Value, b.Value) }
	return bytes.Equal(a.Key, b.Key) && (a.Key == nil) == (b.Key == nil) && bytes.Equal(a.Value, b.Value) &&
		(a.Value == nil) == (b.Value == nil) && slices.EqualFunc(a.Headers, b.Headers, same)
}

func testRoundTrip(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 3}))
	sent := []Message{
		{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", []byte("1")}, {"b", nil}, {"a", []byte("2")}}},
		{Value: []byte{}},
		{Key: []byte("tombstone")},
		{Key: []byte{}, Value: []byte{0, 255}},
	}
	base := assert.Must(l.Append(ctx, topic, 2, sent...))(t)
	second := assert.Must(l.Append(ctx, topic, 2, sent...))(t)
	assert.Need(t, base == 0 && second == 4, "offsets %d and %d, want 0 and 4", base, second)
	n := 0
	for got, err := range l.Range(ctx, topic, 2, 0, 8) {
		assert.NoError(t, err)
		want := sent[n%4]
		assert.Equal(t, got.Partition, 2, "the partition of message %d", n)
		assert.Equal(t, got.Offset, int64(n), "the offset of message %d", n)
		assert.True(t, sameContent(got, want), "message %d: %+v, want %+v", n, got, want)
		n++
	}
	assert.Equal(t, n, 8, "messages")
	assert.Equal(t, assert.Must(l.Append(ctx, topic, 0))(t), -1, "append of nothing")
}

func testDeleteBefore(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 2}))
	assert.Must(l.Append(ctx, topic, 0, numberedUpTo(65, 0)...))(t)
	assert.Must(l.Append(ctx, topic, 1, numberedUpTo(3, 0)...))(t)
	for _, before := range []int64{63, 64, 1, 64} { // an offset that is already deleted is no error
		assert.NoError(t, l.DeleteBefore(ctx, topic, 0, before))
	}
	assert.NoError(t, l.DeleteBefore(ctx, topic, 1, 0))
	assert.Equal(t, assert.Must(l.AllBounds(ctx, topic))(t), []Bounds{{64, 65}, {0, 3}}, "bounds")
	assert.MustFail(read(t, l, topic, 63, 65))(t, new(*DeletedError))
	assert.True(t, l.DeleteBefore(ctx, topic, 0, 66) != nil, "what is not written yet was deleted")
}

func testRangeIsExact(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	const n = 129
	messages := numberedUpTo(n, 0)
	for rest := messages; len(rest) > 0; { // in batches of various lengths
		k := min(1+rand.IntN(40), len(rest))
		assert.Must(l.Append(ctx, topic, 0, rest[:k]...))(t)
		rest = rest[k:]
	}
	assert.Equal(t, bounds(t, l, topic, 0), Bounds{0, n}, "bounds")
	for range 50 {
		from := rand.IntN(n + 1)
		to := from + rand.IntN(n+1-from)
		for i, m := range mustHold(t, l, topic, int64(from), int64(to), numbers(from, to)) {
			assert.Equal(t, m.Offset, int64(from+i), "the offset of message %d of [%d, %d)", i, from, to)
		}
	}
}

func testLarge(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1, Config: map[string]string{"segment.bytes": "4194304"}}))
	var sent []Message
	for i := range 60 { // sizes that fill requests completely, and more than one fetch
		sent = append(sent, numbered(i, []int{900 << 10, 3, 400 << 10, 499_000, 1}[i%5]))
	}
	base := assert.Must(l.Append(ctx, topic, 0, sent...))(t)
	assert.Equal(t, base, 0, "base offset")
	for i, m := range mustHold(t, l, topic, 0, 60, numbers(0, 60)) {
		assert.Need(t, bytes.Equal(m.Value, sent[i].Value), "message %d is %s with %d bytes", i, number(m), len(m.Value))
	}
}

func testLarger(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1, Config: map[string]string{"max.message.bytes": "16000000"}}))
	assert.Must(l.Append(ctx, topic, 0, numbered(0, 10), numbered(1, fetchBytes+1), numbered(2, 10)))(t)
	assert.Equal(t, len(mustHold(t, l, topic, 0, 3, numbers(0, 3))[1].Value), fetchBytes+1, "the size of the message that is larger")
	// A topic with a smaller limit than a request takes the messages in smaller batches.
	small := topic + "-small"
	assert.NoError(t, l.Create(ctx, Topic{Name: small, Partitions: 1, Config: map[string]string{"max.message.bytes": "20000"}}))
	t.Cleanup(func() { assert.NoError(t, l.Delete(testContext(t), small)) })
	assert.Must(l.Append(ctx, small, 0, numberedUpTo(50, 5000)...))(t)
	mustHold(t, l, small, 0, 50, numbers(0, 50))
	assert.MustFail(l.Append(ctx, small, 0, numbered(0, 30_000)))(t, small+"[0]")
}

func texts(messages []Message) []string {
	list := []string{}
	for _, m := range messages {
		list = append(list, number(m))
	}
	return list
}

func testCompression(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	codecs := []kgo.CompressionCodec{kgo.GzipCompression(), kgo.SnappyCompression(), kgo.Lz4Compression(), kgo.ZstdCompression()}
	for i, codec := range codecs {
		assert.NoError(t, foreign(t, l, kgo.ProducerBatchCompression(codec)).ProduceSync(ctx, record(topic, i)).FirstErr())
	}
	mustHold(t, l, topic, 0, 4, numbers(0, 4))
}

func record(topic string, i int) *kgo.Record {
	return &kgo.Record{Topic: topic, Value: numbered(i, 200).Value}
}

func testTransactions(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	a := foreign(t, l, kgo.TransactionalID(topic+"-a"))
	b := foreign(t, l, kgo.TransactionalID(topic+"-b"))
	produce := func(client *kgo.Client, from, to int) {
		for i := from; i < to; i++ {
			assert.NoError(t, client.ProduceSync(ctx, record(topic, i)).FirstErr())
		}
	}
	begin := func(client *kgo.Client) { assert.NoError(t, client.BeginTransaction()) }
	end := func(client *kgo.Client, commit kgo.TransactionEndTry) {
		assert.NoError(t, client.EndTransaction(ctx, commit))
	}
	check := func(stable int64, want []string) {
		t.Helper()
		waitForEnd(t, l, topic, stable)
		got := mustHold(t, l, topic, 0, stable, want)
		for from := int64(0); from < stable; from++ { // from any offset, also a marker or an aborted record
			mustHold(t, l, topic, from, stable, texts(slices.DeleteFunc(slices.Clone(got), func(m Message) bool { return m.Offset < from })))
		}
	}

	// Two producers interleave with plain messages. One aborts, one commits; the first then commits another transaction.
	begin(a)
	begin(b)
	produce(a, 100, 103)
	produce(b, 0, 2)
	assert.Must(l.Append(ctx, topic, 0, numbered(2, 10)))(t)
	produce(a, 103, 105)
	assert.Equal(t, bounds(t, l, topic, 0).End, 0, "the end before an open transaction")
	end(a, kgo.TryAbort)
	produce(b, 3, 4)
	end(b, kgo.TryCommit)
	begin(a)
	produce(a, 4, 6)
	end(a, kgo.TryCommit)
	check(14, numbers(0, 6))

	// The log ends with aborted records and their marker.
	begin(b)
	produce(b, 200, 205)
	end(b, kgo.TryAbort)
	check(20, numbers(0, 6))

	// A follower returns a transaction's messages after the commit.
	f := l.Follow(topic, 0, 20)
	defer f.Close()
	begin(a)
	produce(a, 6, 8)
	soon, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
	defer cancel()
	m, err := f.Next(soon)
	assert.Need(t, errors.Is(err, context.DeadlineExceeded), "a message of an open transaction: %v, %v", number(m), err)
	end(a, kgo.TryCommit)
	for _, want := range numbers(6, 8) {
		assert.Equal(t, number(assert.Must(f.Next(ctx))(t)), want, "the next message")
	}
}

// waitForEnd waits for a transaction's marker. A broker may write it after it has confirmed the end of the transaction.
func waitForEnd(t *testing.T, l *Log, topic string, want int64) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		end := bounds(t, l, topic, 0).End
		if end == want {
			return
		}
		assert.Need(t, end <= want, "the log ends at %d, want %d", end, want)
		<-tick.C
	}
}

func testLongTransaction(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	client := foreign(t, l, kgo.TransactionalID(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	const n = 3 * fetchBytes / 900_000
	for i, result := range []kgo.TransactionEndTry{kgo.TryAbort, kgo.TryCommit} {
		assert.NoError(t, client.BeginTransaction())
		for j := range n {
			assert.NoError(t, client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: numbered(i*n+j, 900_000).Value}).FirstErr())
		}
		assert.NoError(t, client.EndTransaction(ctx, result))
	}
	waitForEnd(t, l, topic, 2*n+2)
	mustHold(t, l, topic, 0, 2*n+2, numbers(n, 2*n))
	for last := range n { // a range whose context ends meanwhile is not taken for a whole one
		ended, cancel := context.WithCancel(ctx)
		seen, err := 0, error(nil)
		for _, err = range l.Range(ended, topic, 0, n+1, 2*n+2) {
			if seen++; seen == last+1 {
				mustHold(t, l, topic, 0, 2*n+2, numbers(n, 2*n)) // meanwhile the next fetch ends
				cancel()
			}
		}
		cancel()
		assert.True(t, err != nil || seen == n, "%d of %d messages without an error", seen, n)
	}
}

func testDeleted(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	for i := range 10 {
		assert.Must(l.Append(ctx, topic, 0, numbered(i, 10)))(t)
	}
	assert.NoError(t, l.DeleteBefore(ctx, topic, 0, 4))
	want := DeletedError{Topic: topic, Wanted: 2, First: 4, End: 10}
	_, err := read(t, l, topic, 2, 10)
	assert.True(t, isDeleted(err, want), "range: %v", err)
	mustHold(t, l, topic, 4, 10, numbers(4, 10))
	mustHold(t, l, topic, 2, 2, nil)
	lenient := l.follower(Start{Topic: topic, Offset: 2, SkipDeleted: true})
	defer lenient.Close()
	m, err := lenient.Next(ctx)
	assert.True(t, err == nil && number(m) == "4" && m.Offset == 4, "follower that skips: %s@%d, %v", number(m), m.Offset, err)
}

func isDeleted(err error, want DeletedError) bool {
	got, ok := errors.AsType[*DeletedError](err)
	return ok && *got == want
}

func testRecreated(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	l.stall = 0
	for n := range 2 {
		assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
		assert.Must(l.Append(ctx, topic, 0, numberedUpTo(10-5*n, 10)...))(t)
		if n == 0 {
			assert.NoError(t, l.Delete(ctx, topic))
		}
	}
	_, err := read(t, l, topic, 7, 10)
	assert.True(t, isDeleted(err, DeletedError{Topic: topic, Wanted: 7, First: 0, End: 5}), "range after the end: %v", err)
	got, err := read(t, l, topic, 3, 10)
	assert.True(t, isDeleted(err, DeletedError{Topic: topic, Wanted: 5, First: 0, End: 5}) && len(got) == 2, "range: %v, %v", texts(got), err)
}

func testFollow(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	f := l.Follow(topic, 0, 0)
	defer f.Close()
	for i := range 100 {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		m, err := f.Next(ended)
		assert.Need(t, err != nil, "before message %d: %v", i, number(m))
		assert.Must(l.Append(ctx, topic, 0, numbered(i, 10)))(t)
		m, err = f.Next(ctx)
		assert.Need(t, err == nil && m.Offset == int64(i) && number(m) == fmt.Sprint(i), "message %d: %s@%d, %v", i, number(m), m.Offset, err)
	}
}

func testPartitions(t *testing.T, l *Log, topic string) {
	const partitions, n = 8, 40
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: partitions}))
	var wg sync.WaitGroup
	for p := range partitions {
		wg.Go(func() {
			f := l.Follow(topic, p, 0)
			defer f.Close()
			for i := range n {
				if m, err := f.Next(ctx); err != nil || m.Partition != p || number(m) != fmt.Sprint(i*partitions+p) {
					t.Errorf("partition %d, message %d: %s, %v", p, i, number(m), err)
					return
				}
			}
		})
		wg.Go(func() {
			for i := range n {
				assert.Equal(t, assert.Must(l.Append(ctx, topic, p, numbered(i*partitions+p, 1000)))(t), int64(i), "append %d to partition %d", i, p)
			}
		})
	}
	wg.Wait()
}

func testTopics(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	plain := Topic{Name: topic + ".a", Partitions: 4, Config: map[string]string{"retention.ms": "3600000"}}
	compacted := Topic{Name: topic + ".b", Partitions: 1, Compact: true}
	t.Cleanup(func() { assert.NoError(t, l.Delete(testContext(t), plain.Name, compacted.Name)) })

	l.unknownTimeout = 0
	assert.Equal(t, assert.Must(l.Exists(ctx, plain.Name))(t), false, "the topic exists before it is created")
	assert.MustFail(l.Partitions(ctx, plain.Name))(t, ErrUnknownTopic)
	l.unknownTimeout = unknownTimeout
	assert.MustFail(l.Configs(ctx, plain.Name))(t, ErrUnknownTopic)
	assert.NoError(t, l.Create(ctx, compacted, plain))
	assert.NoError(t, l.Create(ctx, Topic{Name: plain.Name, Partitions: 7})) // does not change the topic
	assert.Equal(t, assert.Must(l.Exists(ctx, plain.Name))(t), true, "the topic exists")
	assert.Equal(t, assert.Must(l.Partitions(ctx, plain.Name))(t), 4, "partitions")
	config := assert.Must(l.Configs(ctx, plain.Name))(t)[plain.Name]
	assert.True(t, config["retention.ms"] == "3600000" && config["cleanup.policy"] == "delete" && config["max.message.bytes"] != "",
		"configuration %v", config)
	topics := assert.Must(l.Topics(ctx, topic+"."))(t)
	assert.True(t, len(topics) == 2 && topics[0].Name == plain.Name && topics[0].Partitions == 4 && !topics[0].Compact &&
		topics[0].Config["retention.ms"] == "3600000" && topics[1].Name == compacted.Name && topics[1].Compact,
		"topics %+v", topics)

	assert.Must(l.Append(ctx, plain.Name, 3, numbered(0, 10)))(t)
	assert.NoError(t, l.Delete(ctx, plain.Name, topic+".never"))
	l.unknownTimeout = 0
	assert.MustFail(l.Partitions(ctx, plain.Name))(t, ErrUnknownTopic)
	assert.MustFail(l.Append(ctx, plain.Name, 3, numbered(0, 10)))(t, ErrUnknownTopic)
	_, _, err := l.Bounds(ctx, compacted.Name, 1)
	assert.Need(t, errors.Is(err, ErrUnknownTopic), "bounds of an unknown partition: %v", err)
	assert.MustFail(read(t, l, plain.Name, 0, 1))(t, ErrUnknownTopic)
	l.unknownTimeout = unknownTimeout
	assert.NoError(t, l.Create(ctx, plain))
	assert.Equal(t, bounds(t, l, plain.Name, 3), Bounds{}, "bounds of a topic created again")
}

// Several processes may add partitions at once, or ask for fewer than there are; what is written to those that are added can be read.
func testAddPartitions(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 2}))
	assert.Must(l.Append(ctx, topic, 1, Message{Value: []byte("before")}))(t)
	errs := make(chan error)
	for range 3 {
		go func() { errs <- l.AddPartitions(ctx, topic, 5) }()
	}
	for range 3 {
		assert.NoError(t, <-errs)
	}
	assert.NoError(t, l.AddPartitions(ctx, topic, 3))
	n := assert.Must(l.Partitions(ctx, topic))(t)
	assert.Need(t, n == 5, "%d partitions, expected 5", n)
	assert.Must(l.Append(ctx, topic, 4, Message{Value: []byte("after")}))(t)
	for partition, want := range map[int]string{1: "before", 4: "after"} {
		for m, err := range l.Range(ctx, topic, partition, 0, 1) {
			assert.NoError(t, err)
			assert.Equal(t, string(m.Value), want, "the message of partition %d", partition)
		}
	}
	assert.Fails(t, l.AddPartitions(ctx, topic+"-missing", 2), ErrUnknownTopic)
}

func testCompacted(t *testing.T, l *Log, topic string, compact func(*testing.T, *Log, string)) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1, Compact: true, Config: map[string]string{
		"min.cleanable.dirty.ratio": "0.01", "segment.ms": "200", "min.compaction.lag.ms": "0",
	}}))
	// Compaction removes the first, middle or last records of some batches, and all records of others. Kafka keeps the last batch of
	// an idempotent producer, empty, for its sequence number.
	keyed := func(keys string) (messages []Message) {
		for _, k := range keys {
			messages = append(messages, Message{Key: []byte(string(k)), Value: []byte(string(k) + ";")})
		}
		return messages
	}
	for _, keys := range []string{"0abcdefgh", "xbcdy", "abyz", "qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqr", "ab"} {
		assert.Must(l.Append(ctx, topic, 0, keyed(keys)...))(t)
	}
	client := foreign(t, l, kgo.ProducerBatchCompression(kgo.NoCompression()))
	var records []*kgo.Record
	for _, m := range keyed("efghqefghefgh") {
		records = append(records, &kgo.Record{Topic: topic, Key: m.Key, Value: m.Value})
	}
	assert.NoError(t, client.ProduceSync(ctx, records...).FirstErr())
	assert.Must(l.Append(ctx, topic, 0, keyed("efghq")...))(t)
	assert.Must(l.Append(ctx, topic, 0, keyed("!")...))(t)
	compact(t, l, topic)

	end := bounds(t, l, topic, 0).End
	all := assert.Must(read(t, l, topic, 0, end))(t)
	last := map[string]int{}
	for i, m := range all {
		last[string(m.Key)] = i
	}
	want := "0xcdyzrabefghq!"
	var got []byte
	for i, m := range all {
		if last[string(m.Key)] == i {
			got = append(got, m.Key...)
		}
	}
	assert.Need(t, strings.HasPrefix(string(got), "0") && len(last) == len(want) && len(all) < 60,
		"%d messages of %q, want %q", len(all), got, want)
	for from := int64(0); from <= end; from++ { // any range ends and holds the same records as the whole
		to := from + rand.Int64N(end-from+1)
		part, err := read(t, l, topic, from, to)
		want := slices.DeleteFunc(slices.Clone(all), func(m Message) bool { return m.Offset < from || m.Offset >= to })
		if err == nil && slices.Equal(texts(part), texts(want)) {
			continue
		}
		// The broker's cleaner may have removed more records since the whole was read. Then read the whole again.
		now, again := read(t, l, topic, 0, end)
		assert.Need(t, again == nil && len(now) < len(all), "[%d, %d): %v, %v, want %v", from, to, texts(part), err, texts(want))
		all, from = now, -1
	}
	f := l.Follow(topic, 0, 0)
	defer f.Close()
	// The cleaner never removes the newest message, so a follower ends there.
	newest, m := all[len(all)-1].Offset, Message{Offset: -1}
	for m.Offset < newest {
		m = assert.Must(f.Next(ctx))(t)
	}
	assert.Equal(t, m.Offset, newest, "the last message of the follower, and the newest")
}

const gapRecords = 200_000

// testGaps reads over 200,000 records of aborted transactions in the middle of a partition, and as many at its end, where
// markers come last. A range ends at its end.
func testGaps(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 1}))
	assert.Must(l.Append(ctx, topic, 0, numberedUpTo(2, 0)...))(t)
	client := foreign(t, l, kgo.TransactionalID(topic), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ManualFlushing(),
		kgo.MaxBufferedRecords(gapRecords))
	abort := func(records int) {
		t.Helper()
		assert.NoError(t, client.BeginTransaction())
		var failure error
		for range records {
			client.Produce(ctx, &kgo.Record{Topic: topic, Value: []byte("aborted")}, func(_ *kgo.Record, err error) {
				failure = errors.Join(failure, err)
			})
		}
		assert.NoError(t, client.Flush(ctx))
		assert.NoError(t, failure)
		assert.NoError(t, client.EndTransaction(ctx, kgo.TryAbort))
	}
	abort(gapRecords)
	middle := assert.Must(l.Append(ctx, topic, 0, numbered(2, 0)))(t)
	abort(gapRecords)
	for range 100 { // consecutive markers
		abort(1)
	}
	assert.NoError(t, client.BeginTransaction())
	assert.NoError(t, client.EndTransaction(ctx, kgo.TryCommit))
	end := bounds(t, l, topic, 0).End
	assert.Need(t, middle >= gapRecords && end >= middle+gapRecords, "the message in the middle is at %d of %d", middle, end)
	for _, c := range []struct {
		from, to int64
		want     []string
	}{{0, end, numbers(0, 3)}, {2, middle, nil}, {2, middle + 1, numbers(2, 3)}, {middle + 1, end, nil}, {middle - 1, middle, nil},
		{end - 1, end, nil}, {end - 2, end, nil}, {end - gapRecords/2, end - 1, nil}} {
		mustHold(t, l, topic, c.from, c.to, c.want)
	}
	f := l.Follow(topic, 0, 2)
	defer f.Close()
	assert.Equal(t, number(assert.Must(f.Next(ctx))(t)), "2", "what a follower gets")
	assert.Must(l.Append(ctx, topic, 0, numbered(3, 0)))(t)
	assert.Equal(t, number(assert.Must(f.Next(ctx))(t)), "3", "what a follower gets")
}

// AllBounds matches the bounds of the individual partitions: of an empty one, of one whose first messages are deleted, and
// of one with an open transaction.
func testAllBounds(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	l.unknownTimeout = 0
	assert.MustFail(l.AllBounds(ctx, topic))(t, ErrUnknownTopic)
	l.unknownTimeout = unknownTimeout
	want := []Bounds{{4, 10}, {0, 1}, {0, 0}, {0, 3}, {0, 4}, {0, 5}, {0, 6}}
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: len(want)}))
	for p, b := range want {
		assert.Must(l.Append(ctx, topic, p, numberedUpTo(int(b.End), 10)...))(t)
	}
	assert.NoError(t, l.DeleteBefore(ctx, topic, 0, 4))
	open := foreign(t, l, kgo.TransactionalID(topic))
	assert.NoError(t, open.BeginTransaction())
	assert.NoError(t, open.ProduceSync(ctx, &kgo.Record{Topic: topic, Partition: 5, Value: []byte("uncommitted")}).FirstErr())
	assert.Equal(t, assert.Must(l.AllBounds(ctx, topic))(t), want, "bounds of all partitions")
	for p, b := range want {
		assert.Equal(t, bounds(t, l, topic, p), b, "bounds of partition %d", p)
	}
	assert.Equal(t, assert.Must(l.Uncommitted(ctx, topic))(t)[4:6], []Bounds{{4, 4}, {5, 6}}, "the offsets of uncommitted messages")
	assert.NoError(t, open.EndTransaction(ctx, kgo.TryAbort))
}

// The offset at a time is that of the first message with that timestamp or a later one, or the end.
func testOffsetsAt(t *testing.T, l *Log, topic string) {
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: topic, Partitions: 3}))
	writer := foreign(t, l)
	start := time.Now().Add(-time.Hour).Truncate(time.Second)
	at := func(seconds float64) time.Time { return start.Add(time.Duration(seconds * float64(time.Second))) }
	for p, seconds := range [][]float64{{0, 1, 1, 2, 10}, {}, {5, 3, 7}} { // timestamps of the messages of each partition
		for i, s := range seconds {
			r := record(topic, i)
			r.Partition, r.Timestamp = int32(p), at(s)
			assert.NoError(t, writer.ProduceSync(ctx, r).FirstErr())
		}
	}
	for _, c := range []struct {
		at   time.Time
		want []int64
	}{
		{time.Time{}, []int64{0, 0, 0}},
		{at(-1), []int64{0, 0, 0}},
		{at(0), []int64{0, 0, 0}},
		{at(0).Add(time.Microsecond), []int64{1, 0, 0}},
		{at(1), []int64{1, 0, 0}},
		{at(1.5), []int64{3, 0, 0}},
		{at(4), []int64{4, 0, 0}},
		{at(6), []int64{4, 0, 2}},
		{at(7), []int64{4, 0, 2}},
		{at(8), []int64{4, 0, 3}},
		{at(10), []int64{4, 0, 3}},
		{at(10.001), []int64{5, 0, 3}},
		{time.Now().Add(time.Hour), []int64{5, 0, 3}},
	} {
		assert.Equal(t, assert.Must(l.OffsetsAt(ctx, topic, c.at))(t), c.want, "%v after the first message", c.at.Sub(start))
	}
}

// The number of requests for offsets grows with the number of leaders, not of partitions.
func TestOffsetsOfManyPartitions(t *testing.T) {
	const partitions = 100
	cluster, addresses := startCluster(t, kfake.NumBrokers(3))
	l, ctx := connect(t, addresses), testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: partitions}))
	for p := range partitions { // each broker leads some
		assert.NoError(t, cluster.MoveTopicPartition("t", int32(p), int32(p%3)))
	}
	for _, p := range []int{0, 98, 99} {
		assert.Must(l.Append(ctx, "t", p, numberedUpTo(p+1, 10)...))(t)
	}
	var asked atomic.Int32
	cluster.ControlKey(int16(kmsg.ListOffsets), func(kmsg.Request) (kmsg.Response, error, bool) {
		asked.Add(1)
		return nil, nil, false
	})
	all := assert.Must(l.AllBounds(ctx, "t"))(t)
	for p, b := range all {
		want := Bounds{}
		if p == 0 || p >= 98 {
			want.End = int64(p + 1)
		}
		assert.Equal(t, b, want, "bounds of partition %d", p)
	}
	n := asked.Load()
	assert.True(t, n == 6 && len(all) == partitions, "%d requests for %d bounds, want 6 for %d", n, len(all), partitions)
	asked.Store(0)
	offsets, err := l.OffsetsAt(ctx, "t", time.Now().Add(time.Hour))
	assert.True(t, err == nil && len(offsets) == partitions && offsets[98] == 99 && asked.Load() == 6,
		"%d requests for %v, %v", asked.Load(), offsets, err)
}

// produceRaw writes messages with the given timestamps, in milliseconds, as one batch with these attributes.
func produceRaw(t *testing.T, l *Log, topic string, attributes int16, times ...int64) {
	t.Helper()
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(len(times) - 1), FirstTimestamp: times[0],
		MaxTimestamp: times[0],
		ProducerID:   -1, ProducerEpoch: -1, FirstSequence: -1, NumRecords: int32(len(times)),
	}
	for i, at := range times {
		b.MaxTimestamp = max(b.MaxTimestamp, at)
		r := kmsg.Record{TimestampDelta64: at - times[0], TimestampDelta: int32(at - times[0]), OffsetDelta: int32(i), Value: []byte("v")}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	produceBatch(t, l, topic, encodeBatch(b))
}

// produceBatch writes an encoded batch.
func produceBatch(t *testing.T, l *Log, topic string, raw []byte) {
	t.Helper()
	request := kmsg.NewPtrProduceRequest()
	request.Acks, request.TimeoutMillis = -1, 10_000
	request.Topics = []kmsg.ProduceRequestTopic{{Topic: topic, Partitions: []kmsg.ProduceRequestTopicPartition{{Records: raw}}}}
	assert.NoError(t, l.retry(testContext(t), "", "produce a batch", func(ctx context.Context) error { // a topic that was just created may have no leader
		leader, err := l.leader(ctx, topic, 0)
		if err != nil {
			return err
		}
		answer, err := l.write(ctx, leader, request)
		if err == nil {
			err = failure(answer.Topics[0].Partitions[0].ErrorCode)
		}
		return err
	}))
}

// times returns the timestamps of the messages of a partition.
func times(t *testing.T, l *Log, topic string, n int) (all []time.Time) {
	t.Helper()
	got, err := read(t, l, topic, 0, int64(n))
	assert.Need(t, err == nil && len(got) == n, "%d messages, %v, want %d", len(got), err, n)
	for _, m := range got {
		all = append(all, m.Time)
	}
	return all
}

// Each message has the timestamp of its producer, or none.
func testTimes(t *testing.T, l *Log, topic string) {
	now := time.Now().UnixMilli()
	assert.NoError(t, l.Create(testContext(t), Topic{Name: topic, Partitions: 1}))
	produceRaw(t, l, topic, 0, now-1000, now-3000, now)
	produceRaw(t, l, topic, 0, -1, -1)
	produceRaw(t, l, topic, 0, now-500)
	got := times(t, l, topic, 6)
	for i, want := range []int64{now - 1000, now - 3000, now, -1, -1, now - 500} {
		assert.True(t, (want >= 0 || got[i].IsZero()) && (want < 0 || got[i].UnixMilli() == want),
			"message %d is of %v, want %d", i, got[i], want)
	}
	assert.Must(l.Append(testContext(t), topic, 0, numbered(6, 1)))(t)
	last := times(t, l, topic, 7)[6]
	assert.True(t, time.Since(last) <= time.Minute && !last.After(time.Now()), "what was appended now is of %v", last)
}

// encodedSet returns a record set encoded by kafka-go, after its length.
func encodedSet(t testing.TB, version int8, codec kafka.Compression, messages ...Message) []byte {
	t.Helper()
	list := make([]protocol.Record, len(messages))
	for i, m := range messages {
		list[i] = protocol.Record{Time: time.UnixMilli(5000), Key: protocol.NewBytes(m.Key), Value: protocol.NewBytes(m.Value)}
		for _, h := range m.Headers {
			list[i].Headers = append(list[i].Headers, protocol.Header{Key: h.Key, Value: h.Value})
		}
	}
	var b bytes.Buffer
	set := protocol.RecordSet{Version: version, Attributes: protocol.Attributes(codec), Records: protocol.NewRecordReader(list...)}
	assert.Must(set.WriteTo(&b))(t)
	return b.Bytes()
}

func fetched(batches []byte) *kmsg.FetchResponseTopicPartition {
	return &kmsg.FetchResponseTopicPartition{Partition: 3, RecordBatches: batches}
}

// Sets of each format and compression are decoded from any offset. A truncated or damaged batch is omitted, and is an error
// if it is the first.
func TestRecordSets(t *testing.T) {
	sent := []Message{{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", nil}}}, {Value: []byte{}}, {Key: []byte{}},
		{Value: make([]byte, 3000)}}
	sets := map[string][]byte{"ours": encode(sent, time.UnixMilli(5000))}
	for _, codec := range []kafka.Compression{0, kafka.Gzip, kafka.Snappy, kafka.Lz4, kafka.Zstd} {
		if sets["2 "+codec.String()] = encodedSet(t, 2, codec, sent...)[4:]; codec != kafka.Zstd { // which is newer than version 1
			sets["1 "+codec.String()] = encodedSet(t, 1, codec, sent...)[4:]
		}
	}
	for name, raw := range sets {
		for from := range int64(len(sent)) {
			got, next, err := decode(fetched(raw), from)
			assert.Need(t, err == nil && len(got) == len(sent)-int(from) && next == int64(len(sent)),
				"%s: %d messages from %d on, then %d, %v", name, len(got), from, next, err)
			for i, m := range got {
				want := sent[from+int64(i)]
				if name[0] == '1' {
					want.Headers = nil // which that version does not have
				}
				assert.True(t, m.Partition == 3 && m.Offset == from+int64(i) && m.Time.UnixMilli() == 5000 && sameContent(m, want),
					"%s: %+v, want %+v", name, m, want)
			}
		}
		for _, second := range [][]byte{raw[:len(raw)-1], raw[:len(raw)/2], raw[:5]} {
			got, _, err := decode(fetched(slices.Concat(raw, second)), 0)
			assert.True(t, len(got) >= len(sent) && err == nil, "%s, and %d bytes: %d messages, %v", name, len(second), len(got), err)
		}
		for at := 16; name[0] != '1' && at < len(raw); at++ {
			damaged := slices.Clone(raw)
			damaged[at] ^= 1
			got, next, err := decode(fetched(damaged), 0)
			assert.Need(t, err != nil, "%s: byte %d is wrong, and there are %d messages, up to %d", name, at, len(got), next)
		}
	}
	got, next, err := decode(fetched(nil), 7)
	assert.True(t, len(got) == 0 && next == 7 && err == nil, "nothing: %d messages, %d, %v", len(got), next, err)
}

// For any input, decoding ends with an error, or at a later offset, with messages before it in ascending order.
func FuzzRecordSet(f *testing.F) {
	f.Add(encodedSet(f, 2, 0, Message{Key: []byte("k"), Value: []byte("v"), Headers: []Header{{"a", nil}}})[4:], int64(0))
	f.Add(encodedSet(f, 2, 0, Message{Value: []byte("v")}, Message{Key: []byte{}})[4:], int64(1))
	f.Add(encodedSet(f, 1, 0, Message{Value: []byte("v")}, Message{Key: []byte{}})[4:], int64(1))
	f.Fuzz(func(t *testing.T, sent []byte, from int64) {
		from = max(from, 0)
		if len(sent) > 22 && sent[16] == 2 { // a valid checksum, so that damage is not always detected by it
			sent[22] &^= 0b111
			binary.BigEndian.PutUint32(sent[8:], uint32(len(sent)-12))
			binary.BigEndian.PutUint32(sent[17:], crc32.Checksum(sent[21:], crc32.MakeTable(crc32.Castagnoli)))
		}
		messages, next, err := decode(fetched(sent), from)
		if err != nil {
			return
		}
		assert.True(t, len(sent) == 0 || next > from, "%d bytes do not move from %d: %d", len(sent), from, next)
		for _, m := range messages {
			assert.True(t, m.Offset >= from && m.Offset < next, "offset %d in [%d, %d)", m.Offset, from, next)
			from = m.Offset + 1
		}
	})
}

// Batches before a decompression bomb are read. The bomb is an error that names its offset, and decompression stops at the limit.
func TestDecompressionBombs(t *testing.T) {
	if testing.Short() {
		t.Skip("long: with -short, shorter tests start the same goroutines")
	}
	l := openEmbedded(t)
	zeros := make([]byte, 1<<20)
	for _, codec := range []kafka.Compression{kafka.Lz4, kafka.Zstd} {
		t.Run(codec.String(), func(t *testing.T) {
			topic := "bombs." + codec.String()
			assert.NoError(t, l.Create(t.Context(), Topic{Name: topic, Partitions: 1, Config: map[string]string{"max.message.bytes": "104857600"}}))
			write := func(messages int) {
				t.Helper()
				list := make([]Message, messages)
				for i := range list {
					list[i].Value = zeros
				}
				produceBatch(t, l, topic, encodedSet(t, 2, codec, list...)[4:])
			}
			write(3)
			write(268435456/len(zeros) + 1)
			next, stop := iter.Pull2(l.Range(t.Context(), topic, 0, 0, 4))
			defer stop()
			for i := range 3 {
				m, err, _ := next()
				assert.Need(t, err == nil && m.Offset == int64(i) && len(m.Value) == len(zeros), "%d bytes at %d, %v", len(m.Value), m.Offset, err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err, _ := next()
			runtime.ReadMemStats(&after)
			want := fmt.Sprintf("read %s[0]@3: ", topic)
			assert.True(t, errors.Is(err, errUnpacked) && err.Error()[:len(want)] == want, "%v", err)
			spent := after.TotalAlloc - before.TotalAlloc
			assert.True(t, spent <= 2*268435456, "%d bytes were allocated", spent)
		})
	}
}

// follower reads partitions as they grow. Close ends it.
type follower struct {
	found chan delivered
	Close func()
}

// delivered is a message of a partition, or an error; neither: the partition has lost messages.
type delivered struct {
	at int
	*Message
	err error
}

func (l *Log) Follow(topic string, partition int, from int64) *follower {
	return l.follower(Start{Topic: topic, Partition: partition, Offset: from})
}

func (l *Log) follower(starts ...Start) *follower {
	ctx, stop := context.WithCancel(context.Background())
	f := &follower{make(chan delivered), stop}
	put := func(next delivered) {
		select {
		case f.found <- next:
		case <-ctx.Done():
		}
	}
	go func() {
		err := l.FollowAll(ctx, starts, func(at int, messages []Message, err error) {
			for i := range messages {
				put(delivered{at, &messages[i], nil})
			}
			if len(messages) == 0 {
				put(delivered{at, nil, err})
			}
		})
		put(delivered{err: err})
	}()
	return f
}

func (f *follower) Next(ctx context.Context) (m Message, err error) {
	select {
	case next := <-f.found:
		if err = next.err; err == nil {
			m = *next.Message
		}
		return m, err
	case <-ctx.Done():
		return m, ctx.Err()
	}
}

// FollowAll delivers each message of many partitions once, in order, existing and later ones, including large ones, and
// the remaining ones of a topic that has lost messages.
func TestFollowAll(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	const partitions, each = 40, 6
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: partitions}))
	write := func(p, from, to int) {
		for i := from; i < to; i++ {
			assert.Must(l.Append(ctx, "t", p, numbered(i, 10+p%3*200_000)))(t)
		}
	}
	var starts []Start
	for p := range partitions {
		write(p, 0, 3)
		starts = append(starts, Start{Topic: "t", Partition: p, Offset: int64(p % 2)})
	}
	assert.NoError(t, l.DeleteBefore(ctx, "t", 7, 2))
	starts[7].SkipDeleted = true
	assert.NoError(t, l.DeleteBefore(ctx, "t", 8, 2)) // an error without SkipDeleted
	starts[9].SkipDeleted, starts[9].Offset = true, 5
	var writing sync.WaitGroup
	writing.Go(func() {
		for p := range partitions {
			if p != 9 {
				write(p, 3, each)
			}
		}
	})
	f := l.follower(starts...)
	defer f.Close()
	found, failures, lost := map[int][]int64{}, []error(nil), 0
	for range 19*each + 18*(each-1) + 4 + 2 {
		switch next := <-f.found; {
		case next.err != nil:
			failures = append(failures, next.err)
		case next.Message == nil:
			lost++
		default:
			found[next.at] = append(found[next.at], next.Offset)
		}
	}
	writing.Wait()
	assert.Need(t, len(failures) == 1 && lost == 1, "%v; %d partitions have lost messages", failures, lost)
	assert.True(t, errors.As(failures[0], new(*DeletedError)), "deleted messages: %v", failures)
	for p, got := range found {
		var want []int64
		for offset := starts[p].Offset; offset < each; offset++ {
			if p != 7 || offset >= 2 {
				want = append(want, offset)
			}
		}
		assert.True(t, p == 9 || slices.Equal(got, want), "partition %d: offsets %d, expected %d", p, got, want)
	}
}

// An idle follower of a thousand partitions sends two requests a second, over one connection; one of a topic that does not exist ends.
func TestFollowAllIsIdle(t *testing.T) {
	ctx, l := testContext(t), openEmbedded(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 300}))
	l.unknownTimeout = 0
	none := l.Follow("none", 0, 0)
	assert.MustFail(none.Next(ctx))(t, ErrUnknownTopic)
	assert.NoError(t, (<-none.found).err) // no partition is left
	var starts []Start
	for p := range 300 {
		starts = append(starts, Start{Topic: "t", Partition: p})
	}
	f := l.follower(starts...)
	defer f.Close()
	assert.Must(l.Append(ctx, "t", 299, Message{Value: []byte("x")}))(t)
	next := <-f.found
	assert.Need(t, next.err == nil && next.at == 299 && next.Offset == 0, "%+v", next)
}

// A broker without a listener passes the common tests.
func TestEmbeddedWithoutPort(t *testing.T) {
	for name, test := range map[string]func(*testing.T, *Log, string){
		"round trip": testRoundTrip, "large": testLarge, "larger": testLarger, "deleted": testDeleted, "deleted before": testDeleteBefore,
		"recreated": testRecreated, "follow": testFollow, "partitions": testPartitions,
	} {
		t.Run(name, func(t *testing.T) { test(t, openEmbedded(t), "t") })
	}
}

// down makes brokers report an additional broker that is down.
func down(cluster *kfake.Cluster, addresses []string) {
	cluster.ControlKey(int16(kmsg.DescribeCluster), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		response := request.ResponseKind().(*kmsg.DescribeClusterResponse)
		for id := range len(addresses) + 1 {
			if request.(*kmsg.DescribeClusterRequest).IncludeFencedBrokers || id < len(addresses) {
				b := kmsg.NewDescribeClusterResponseBroker()
				b.NodeID, b.Host, b.IsFenced = int32(id), "127.0.0.1", id == len(addresses)
				response.Brokers = append(response.Brokers, b)
			}
		}
		return response, nil, true
	})
}

// replicasOf returns the replication factor of a topic; 0 if it does not exist.
func replicasOf(t *testing.T, l *Log, topic string) int {
	t.Helper()
	for _, found := range assert.Must(l.Topics(testContext(t), topic))(t) {
		return found.Replication
	}
	return 0
}

// A topic never gets fewer replicas than specified: the configured replication factor, or the default for the number of
// brokers in the cluster, whether or not they are up.
func TestCreateNeverMakesFewerReplicas(t *testing.T) {
	for name, c := range map[string]struct {
		up, replication int
		down            bool // whether an additional broker is registered
		want            int  // replication factor; 0: an error
		says            string
	}{
		"one broker":    {up: 1, want: 1},
		"two brokers":   {up: 2, want: 1},
		"three brokers": {up: 3, want: 3},
		"two of three": {up: 2, down: true, says: "t and 1 more would get 3 replicas, because the cluster has 3 " +
			"brokers and topics.replication is 0, but only 2 of 3 brokers can be reached: start the others, or set " +
			"topics.replication to 2 or fewer"},
		"two of three, two asked for": {up: 2, down: true, replication: 2, want: 2},
		"two of three, one asked for": {up: 2, down: true, replication: 1, want: 1},
		"one of two":                  {up: 1, down: true, want: 1},
		"three of four":               {up: 3, down: true, want: 3},
		"three asked for, but two exist": {up: 2, replication: 3,
			says: "t and 1 more would get 3 replicas, as topics.replication says, but only 2 of 2 brokers"},
		"two asked for, but one is there": {up: 1, replication: 2, says: "set topics.replication to 1"},
	} {
		t.Run(name, func(t *testing.T) {
			cluster, addresses := startCluster(t, kfake.NumBrokers(c.up))
			if c.down {
				down(cluster, addresses)
			}
			l := connect(t, addresses)
			l.unknownTimeout = 0
			err := l.Create(testContext(t), Topic{Name: "t", Partitions: 1, Replication: c.replication}, Topic{Name: "t2", Partitions: 1,
				Replication: c.replication})
			if c.want > 0 {
				assert.NoError(t, err)
			} else if short, ok := errors.AsType[*ReplicationError](err); !ok || short.Up != c.up || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v, want %q", err, c.says)
			}
			assert.Equal(t, replicasOf(t, l, "t"), c.want, "replicas")
		})
	}
}

// Brokers learn of a topic with a delay. Create waits for them longer than for a topic that may not exist.
func TestCreateWaitsUntilBrokersKnowTheTopics(t *testing.T) {
	cluster, addresses := startCluster(t, kfake.NumBrokers(1))
	l := connect(t, addresses)
	l.unknownTimeout = 100 * time.Millisecond
	made, hidden := time.Time{}, 5*l.unknownTimeout
	cluster.ControlKey(int16(kmsg.CreateTopics), func(kmsg.Request) (kmsg.Response, error, bool) {
		made = time.Now()
		return nil, nil, false
	})
	cluster.ControlKey(int16(kmsg.Metadata), func(request kmsg.Request) (kmsg.Response, error, bool) {
		cluster.KeepControl()
		asked := request.(*kmsg.MetadataRequest)
		if made.IsZero() || time.Since(made) > hidden || len(asked.Topics) == 0 {
			return nil, nil, false
		}
		response := request.ResponseKind().(*kmsg.MetadataResponse)
		for _, topic := range asked.Topics {
			answer := kmsg.NewMetadataResponseTopic()
			answer.Topic, answer.ErrorCode = topic.Topic, kerr.UnknownTopicOrPartition.Code
			response.Topics = append(response.Topics, answer)
		}
		broker := kmsg.NewMetadataResponseBroker()
		broker.Host, broker.Port = "127.0.0.1", int32(port(addresses[0]))
		response.Brokers = append(response.Brokers, broker)
		return response, nil, true
	})
	assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	assert.True(t, time.Since(made) >= hidden, "Create returned before the broker knew the topic")
}

// startCluster starts brokers that are not embedded.
func startCluster(t *testing.T, options ...kfake.Opt) (*kfake.Cluster, []string) {
	t.Helper()
	cluster := assert.Must(kfake.NewCluster(options...))(t)
	t.Cleanup(cluster.Close)
	return cluster, cluster.ListenAddrs()
}

func port(address string) int { return int(netip.MustParseAddrPort(address).Port()) }

func connect(t *testing.T, addresses []string) *Log {
	t.Helper()
	return open(t, Options{Brokers: addresses})
}

// appendAndFollow appends the messages from … to−1 one by one and reads each with the follower.
func appendAndFollow(t *testing.T, l *Log, f *follower, from, to int) {
	t.Helper()
	for i := from; i < to; i++ {
		assert.Must(l.Append(testContext(t), "t", 0, numbered(i, 10)))(t)
		m := assert.Must(f.Next(testContext(t)))(t)
		assert.Need(t, m.Offset == int64(i) && number(m) == strconv.Itoa(i), "message %d is %s@%d", i, number(m), m.Offset)
	}
}

func TestThreeBrokers(t *testing.T) {
	cluster, addresses := startCluster(t, kfake.NumBrokers(3))
	l := connect(t, addresses[:1])
	ctx := testContext(t)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	assert.Equal(t, assert.Must(l.Configs(ctx, "t"))(t)["t"]["min.insync.replicas"], "2", "min.insync.replicas")
	assert.Equal(t, len(assert.Must(l.metadata(ctx, []string{"t"}))(t).Topics[0].Partitions[0].Replicas), 3, "replicas")

	// The leader moves. A client learns of it from an error.
	f := l.Follow("t", 0, 0)
	defer f.Close()
	for i := range 6 {
		assert.NoError(t, cluster.MoveTopicPartition("t", 0, int32(i%3)))
		appendAndFollow(t, l, f, 5*i, 5*i+5)
	}
	// The leader leaves the cluster. A client learns of it from a broken connection.
	assert.NoError(t, cluster.MoveTopicPartition("t", 0, 2))
	appendAndFollow(t, l, f, 30, 31)
	assert.NoError(t, cluster.RemoveNode(2))
	appendAndFollow(t, l, f, 31, 40)
}

// While no broker is reachable, a topic is not reported as unknown.
func TestBrokersComeBack(t *testing.T) {
	dir := t.TempDir()
	cluster, addresses := startCluster(t, kfake.NumBrokers(1), kfake.DataDir(dir))
	l := connect(t, addresses)
	l.unknownTimeout = 0
	assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	f := l.Follow("t", 0, 0)
	defer f.Close()
	appendAndFollow(t, l, f, 0, 3)
	cluster.Close()

	refused := make(chan struct{})
	go func() {
		defer close(refused)
		listener, err := net.Listen("tcp", addresses[0])
		if err != nil {
			t.Error(err)
			return
		}
		defer listener.Close()
		for range 16 {
			if conn, err := listener.Accept(); err == nil {
				conn.Close()
			}
		}
	}()
	appended := make(chan struct{})
	go func() {
		defer close(appended)
		offset, err := l.Append(testContext(t), "t", 0, numbered(3, 10))
		assert.True(t, offset == 3 && err == nil, "append during the outage: %d, %v", offset, err)
	}()
	<-refused
	startCluster(t, kfake.Ports(port(addresses[0])), kfake.DataDir(dir))
	<-appended
	assert.Equal(t, assert.Must(f.Next(testContext(t)))(t).Offset, 3, "the offset at which the follower continues")
	appendAndFollow(t, l, f, 4, 6)
}
