package kafkalog

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// clock is a clock that tests set.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) forward(d time.Duration) { c.ahead.Add(int64(d)) }

// openClocked opens an embedded broker whose cleaner uses a test clock, and only cleans on request.
func openClocked(t testing.TB, dir string) (*Log, *clock) {
	c := &clock{}
	return open(t, Options{DataDir: dir, Listen: "127.0.0.1:0", now: c.now, cleanEvery: time.Hour}), c
}

// logBytes returns the size of all messages on disk. The log may clean itself in the meantime: if a file disappears, it
// starts again.
func logBytes(t testing.TB, dir string) (bytes int64) {
	t.Helper()
	for {
		bytes = 0
		err := filepath.WalkDir(filepath.Join(dir, "log"), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".dat") {
				return err
			}
			info, err := entry.Info()
			if err != nil {
				return err
			}
			bytes += info.Size()
			return nil
		})
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		noError(t, err)
		return bytes
	}
}

// keyed returns a message. A negative value is a tombstone.
func keyed(key string, value, size int) Message {
	m := numbered(value, size)
	m.Key = []byte(key)
	if value < 0 {
		m.Value = nil
	}
	return m
}

// bounds returns the bounds of t[0].
func bounds(t testing.TB, l *Log) Bounds {
	t.Helper()
	first, end, err := l.Bounds(testContext(t), "t", 0)
	noError(t, err)
	return Bounds{first, end}
}

// all returns the messages of t[0].
func all(t testing.TB, l *Log) []Message {
	t.Helper()
	b := bounds(t, l)
	messages, err := read(t, l, "t", b.First, b.End)
	if err != io.EOF {
		t.Fatal(err)
	}
	return messages
}

// latest returns the last value of each key of t[0], without keys whose last message is a tombstone.
func latest(t testing.TB, l *Log) map[string]string {
	t.Helper()
	values := map[string]string{}
	for _, m := range all(t, l) {
		if m.Value == nil {
			delete(values, string(m.Key))
		} else {
			values[string(m.Key)] = number(m)
		}
	}
	return values
}

// A partition whose messages have all expired keeps its end when its broker is closed or killed.
func TestExpiredPartitionKeepsItsEnd(t *testing.T) {
	dir, killed := t.TempDir(), t.TempDir()
	l, clock := openClocked(t, dir)
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Config: map[string]string{"retention.ms": "3600000", "segment.ms": "3600000"}}))
	must(l.Append(ctx, "t", 0, numberedUpTo(7, 1000)...))(t)
	clock.forward(3 * time.Hour)
	noError(t, l.Clean(ctx))
	if left := logBytes(t, dir); left > 100 {
		t.Errorf("%d bytes are left", left)
	}
	noError(t, os.CopyFS(filepath.Join(killed, "log"), os.DirFS(filepath.Join(dir, "log"))))
	noError(t, os.Remove(filepath.Join(killed, "log", "partitions", "t-0", "snapshot.json")))
	noError(t, l.Close())
	for _, d := range []string{dir, killed} {
		for i := range 3 {
			l := openDir(t, d)
			want := Bounds{7, int64(7 + i)}
			if got := bounds(t, l); got != want || len(all(t, l)) != i {
				t.Errorf("%v, want %v", got, want)
			}
			if i == 0 {
				if _, err := read(t, l, "t", 6, 7); !isDeleted(err, DeletedError{Topic: "t", Wanted: 6, First: 7, End: 7}) {
					t.Errorf("range of a deleted message: %v", err)
				}
			}
			must(l.Append(ctx, "t", 0, numbered(7+i, 10)))(t)
			noError(t, l.Close())
		}
	}
}

// Clients that write and read during a restart of the broker wait. Nothing is lost, duplicated or reordered.
func TestCleanWhileInUse(t *testing.T) {
	const n, keys = 600, 3
	dir := t.TempDir()
	l, _ := openClocked(t, dir)
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}, Topic{Name: "compacted", Partitions: 1, Compact: true}))
	var wg sync.WaitGroup
	written := make(chan struct{})
	wg.Go(func() {
		defer close(written)
		for i := range n {
			if base, err := l.Append(ctx, "t", 0, numbered(i, 1000)); base != int64(i) || err != nil {
				t.Errorf("append %d: %d, %v", i, base, err)
			}
			if base, err := l.Append(ctx, "compacted", 0, keyed(fmt.Sprint(i%keys), i, 1000)); base != int64(i) || err != nil {
				t.Errorf("append %d: %d, %v", i, base, err)
			}
		}
	})
	for _, reader := range []*Log{l, connect(t, l.Addr())} {
		wg.Go(func() {
			f := reader.Follow("t", 0, 0)
			defer f.Close()
			for i := range n {
				if m, err := f.Next(ctx); err != nil || m.Offset != int64(i) || number(m) != fmt.Sprint(i) {
					t.Errorf("embedded %v: message %d is %s@%d, %v", reader.Embedded(), i, number(m), m.Offset, err)
					return
				}
			}
		})
	}
	wg.Go(func() {
		f := l.Follow("compacted", 0, 0)
		defer f.Close()
		for next := int64(0); next < n; {
			m, err := f.Next(ctx)
			if err != nil || m.Offset < next || number(m) != fmt.Sprint(m.Offset) {
				t.Errorf("message %s@%d, %v, want one from %d on", number(m), m.Offset, err, next)
				return
			}
			next = m.Offset + 1
		}
	})
	restarts := 0
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		before := l.broker.Cluster()
		noError(t, l.Clean(ctx))
		if l.broker.Cluster() != before {
			restarts++
		}
	}
	wg.Wait()
	if restarts < 3 {
		t.Errorf("%d restarts", restarts)
	}
	if b := bounds(t, l); b != (Bounds{0, n}) {
		t.Errorf("bounds %v", b)
	}
	t.Logf("%d restarts", restarts)
}

// The log cleans itself.
func TestLogCleansItself(t *testing.T) {
	dir := t.TempDir()
	l := open(t, Options{DataDir: dir, cleanEvery: time.Millisecond})
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Compact: true}))
	for i := range 20 {
		must(l.Append(ctx, "t", 0, keyed("k", i, 100_000)))(t)
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for logBytes(t, dir) > 300_000 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("%d bytes are left", logBytes(t, dir))
		}
	}
	if values := latest(t, l); values["k"] != "19" {
		t.Errorf("%v", values)
	}
}

// A log whose data directory is deleted ends, and says so, as nothing that it writes could be found again.
func TestDeletedDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := must(Open(testContext(t), Options{DataDir: dir, cleanEvery: time.Millisecond}))(t)
	noError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	noError(t, os.RemoveAll(dir))
	<-l.ctx.Done()
	if _, err := l.Append(testContext(t), "t", 0, numbered(0, 10)); err == nil || !strings.Contains(err.Error(), dir+" was deleted") {
		t.Errorf("append: %v", err)
	}
	_ = l.Close() // there is no lock file to release
}

// A failed cleaning is reported, and the log stays usable. Once cleaning succeeds the wait is over.
func TestFailingCleanIsReported(t *testing.T) {
	dir := t.TempDir()
	waits := make(chan Wait, 100)
	l := open(t, Options{DataDir: dir, cleanEvery: time.Millisecond, Waiting: func(w Wait) {
		select {
		case waits <- w:
		default:
		}
	}})
	ctx := testContext(t)
	next := func() Wait {
		t.Helper()
		select {
		case w := <-waits:
			return w
		case <-ctx.Done():
			t.Fatal("nothing is reported")
			return Wait{}
		}
	}
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Compact: true}))
	must(l.Append(ctx, "t", 0, keyed("k", 0, 10)))(t)
	obstacle := filepath.Join(dir, "log", "partitions", "t-0", "5.dat") // a directory in place of a segment
	noError(t, os.Mkdir(obstacle, 0o755))
	if w := next(); w.What != "clean the log" || w.Err == nil || w.Over || !strings.Contains(w.Err.Error(), "t[0]") {
		t.Errorf("%+v", w)
	}
	must(l.Append(ctx, "t", 0, keyed("k", 1, 10)))(t)
	noError(t, os.Remove(obstacle))
	w := next()
	for ; !w.Over; w = next() {
		if w.Err == nil {
			t.Errorf("%+v", w)
		}
	}
	if w.Err != nil || w.Since <= 0 {
		t.Errorf("%+v", w)
	}
}

// If the broker does not start again, waiting callers get the error, and the log can be closed.
func TestBrokerDoesNotStartAgain(t *testing.T) {
	dir := t.TempDir()
	l, _ := openClocked(t, dir)
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Compact: true}))
	for i := range 10 {
		must(l.Append(ctx, "t", 0, keyed("k", i, 1000)))(t)
	}
	obstacle := filepath.Join(dir, "log", "groups.log")
	noError(t, os.RemoveAll(obstacle))
	noError(t, os.Mkdir(obstacle, 0o755))
	if err := l.Clean(ctx); err == nil || !strings.Contains(err.Error(), "groups.log") {
		t.Errorf("clean: %v", err)
	}
	if _, err := l.Append(ctx, "t", 0, numbered(1, 10)); err == nil || !strings.Contains(err.Error(), "groups.log") {
		t.Errorf("append: %v", err)
	}
	noError(t, l.Close())
	noError(t, os.Remove(obstacle))
	if left := texts(all(t, openDir(t, dir))); !slices.Equal(left, numbers(9, 10)) {
		t.Errorf("left are %v", left)
	}
}

// With an unreadable file the broker is not restarted, because it might not start. Expired segments are deleted
// nevertheless.
func TestCleanWithADamagedFile(t *testing.T) {
	dir := t.TempDir()
	l, _ := openClocked(t, dir)
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Compact: true}, Topic{Name: "damaged", Partitions: 1, Compact: true},
		Topic{Name: "large", Partitions: 1, Config: map[string]string{"retention.bytes": "1", "segment.bytes": "1"}}))
	for i := range 10 {
		must(l.Append(ctx, "t", 0, keyed("k", i, 1000)))(t)
		must(l.Append(ctx, "damaged", 0, keyed("k", i, 1000)))(t)
		must(l.Append(ctx, "large", 0, numbered(i, 1000)))(t)
	}
	obstacle := filepath.Join(dir, "log", "partitions", "damaged-0", "5.dat")
	noError(t, os.Mkdir(obstacle, 0o755))
	running := l.broker.Cluster()
	if err := l.Clean(ctx); err == nil || !strings.Contains(err.Error(), "damaged[0]") || l.broker.Cluster() != running {
		t.Errorf("%v, restarted %v", err, l.broker.Cluster() != running)
	}
	if first, end, err := l.Bounds(ctx, "large", 0); first != 9 || end != 10 || err != nil {
		t.Errorf("[%d, %d), %v", first, end, err)
	}
	noError(t, os.Remove(obstacle))
	noError(t, l.Clean(ctx))
	if left := texts(all(t, l)); !slices.Equal(left, numbers(9, 10)) {
		t.Errorf("left are %v", left)
	}
}
