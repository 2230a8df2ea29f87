package kafkalog

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
		before := l.broker.cluster
		noError(t, l.Clean(ctx))
		if l.broker.cluster != before {
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
	running := l.broker.cluster
	if err := l.Clean(ctx); err == nil || !strings.Contains(err.Error(), "damaged[0]") || l.broker.cluster != running {
		t.Errorf("%v, restarted %v", err, l.broker.cluster != running)
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

// history is the topics that the killed processes write, step by step: to topic t, compacted, the numbers of a few keys
// and tombstones, and to topic r, with a size limit, all numbers.
var history = []Topic{
	{Name: "t", Partitions: 1, Compact: true, Config: map[string]string{"delete.retention.ms": "0", "segment.bytes": "20000"}},
	{Name: "r", Partitions: 1, Config: map[string]string{"retention.bytes": "30000", "segment.bytes": "5000"}},
}

const historySize = 1000

// historyStep is message i of topic t.
func historyStep(i int) Message {
	key := fmt.Sprint(i * i % 11)
	if i%7 == 6 {
		return keyed(key, -1, 0)
	}
	return keyed(key, i, historySize)
}

// historyState is the contents of topic t after n steps.
func historyState(n int) map[string]string {
	state := map[string]string{}
	for i := range n {
		if m := historyStep(i); m.Value == nil {
			delete(state, string(m.Key))
		} else {
			state[string(m.Key)] = fmt.Sprint(i)
		}
	}
	return state
}

func writeHistory(ctx context.Context, l *Log, i int) error {
	_, err := l.Append(ctx, "r", 0, numbered(i, historySize))
	if err == nil {
		_, err = l.Append(ctx, "t", 0, historyStep(i))
	}
	return err
}

// checkHistory checks a log with at least n acknowledged steps, and at most one more. It returns the number of steps.
func checkHistory(t *testing.T, l *Log, n int) int {
	t.Helper()
	b := bounds(t, l)
	steps := int(b.End)
	if steps != n && steps != n+1 {
		t.Fatalf("%d steps are acknowledged, the log has %d", n, steps)
	}
	if got := latest(t, l); !maps.Equal(got, historyState(steps)) {
		t.Fatalf("after %d steps the log holds %v, want %v", steps, got, historyState(steps))
	}
	first, end, err := l.Bounds(testContext(t), "r", 0)
	noError(t, err)
	if end < int64(steps) || end > int64(steps)+1 || end-first < min(end, 27) { // 30 KB
		t.Fatalf("after %d steps the second topic holds [%d, %d)", steps, first, end)
	}
	if got, err := read(t, l, "r", first, end); !slices.Equal(texts(got), numbers(int(first), int(end))) {
		t.Fatalf("the second topic holds %v, %v, want [%d, %d)", texts(got), err, first, end)
	}
	if end > int64(steps) { // the process was killed between the two
		must(l.Append(testContext(t), "t", 0, historyStep(steps)))(t)
		steps++
	}
	return steps
}

// runCleanForever continues the history, cleans continuously, and prints the number of steps after each acknowledgement.
func runCleanForever(dir string) {
	ctx := context.Background()
	l, err := Open(ctx, Options{DataDir: dir})
	if err == nil {
		err = l.Create(ctx, history...)
	}
	var end int64
	if err == nil {
		_, end, err = l.Bounds(ctx, "t", 0)
	}
	out := bufio.NewWriterSize(os.Stdout, 16)
	cleaned := make(chan error, 1)
	go func() {
		for {
			if err := l.Clean(ctx); err != nil {
				cleaned <- err
				return
			}
		}
	}()
	for i := int(end); err == nil; i++ {
		if err = writeHistory(ctx, l, i); err == nil {
			fmt.Fprintln(out, i+1)
			err = out.Flush()
		}
		select {
		case err = <-cleaned:
		default:
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A process killed at any time during writes and cleaning loses no message that must be kept, and restores none.
func TestKilledWhileCleaning(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	self := must(os.Executable())(t)
	steps, cleaned := 0, 0
	for range 25 {
		process := exec.Command(self)
		process.Env = append(os.Environ(), cleanForever+"="+dir)
		process.Stderr = os.Stderr
		output := must(process.StdoutPipe())(t)
		noError(t, process.Start())
		lines := bufio.NewScanner(output)
		for i := 0; lines.Scan(); i++ {
			acknowledged := must(strconv.Atoi(lines.Text()))(t)
			steps = acknowledged
			if i == 0 { // from now on at a random time
				timer := time.AfterFunc(rand.N(100*time.Millisecond), func() { _ = process.Process.Kill() })
				defer timer.Stop()
			}
		}
		if err := process.Wait(); err == nil || process.ProcessState.Exited() {
			t.Fatalf("the process was not killed: %v", err)
		}
		leftovers := must(filepath.Glob(filepath.Join(dir, "log", "partitions", "*", "*.tmp")))(t)
		if len(leftovers) > 0 {
			cleaned++
		}
		l := openDir(t, dir)
		steps = checkHistory(t, l, steps)
		noError(t, l.Close())
	}
	t.Logf("%d steps; killed %d times while a file was written again", steps, cleaned)
}

// fullDisk is an environment variable with the data directory of a process whose files are limited to fullSize.
const fullDisk = "KAFKALOG_TEST_FULL_DISK"

const fullSize = 40_000

// runOnFullDisk appends messages, and prints the number of each after its acknowledgement, or "full" while the disk is
// full.
func runOnFullDisk(dir string) {
	signal.Ignore(syscall.SIGXFSZ) // so that the write returns an error
	err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: fullSize, Max: fullSize})
	ctx := context.Background()
	var l *Log
	if err == nil {
		l, err = Open(ctx, Options{DataDir: dir})
	}
	if err == nil {
		err = l.Create(ctx, Topic{Name: "t", Partitions: 1})
	}
	var end int64
	if err == nil {
		_, end, err = l.Bounds(ctx, "t", 0)
	}
	out := bufio.NewWriterSize(os.Stdout, 16)
	for i := int(end); err == nil; {
		switch _, refused := l.Append(ctx, "t", 0, numbered(i, 3000)); {
		case refused == nil:
			fmt.Fprintln(out, i)
			i++
		case errors.As(refused, new(*WriteError)):
			fmt.Fprintln(out, "full")
		default:
			err = refused
		}
		err = errors.Join(err, out.Flush())
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// A broker killed while its disk is full has all acknowledged messages when there is room again, and the next offset is
// free. It also starts while the disk is still full. A wrong byte afterwards is an error, and a repair loses one message.
func TestKilledOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	self := must(os.Executable())(t)
	acknowledged := 0
	for start := range 3 {
		process := exec.Command(self)
		process.Env = append(os.Environ(), fullDisk+"="+dir)
		process.Stderr = os.Stderr
		output := must(process.StdoutPipe())(t)
		noError(t, process.Start())
		refused := 0
		for lines := bufio.NewScanner(output); lines.Scan(); {
			if lines.Text() != "full" {
				n, err := strconv.Atoi(lines.Text())
				if err != nil || n != acknowledged {
					t.Errorf("acknowledged %q, want %d", lines.Text(), acknowledged)
				}
				acknowledged++
			} else if refused++; refused == 3 {
				noError(t, process.Process.Kill())
			}
		}
		if err := process.Wait(); err == nil || refused < 3 || process.ProcessState.Exited() {
			t.Fatalf("start %d: the process was not killed: %v", start, err)
		}
	}
	if acknowledged < 5 {
		t.Fatalf("%d messages are acknowledged", acknowledged)
	}
	l := openDir(t, dir)
	ctx := testContext(t)
	if base, err := l.Append(ctx, "t", 0, numbered(acknowledged, 3000)); base != int64(acknowledged) || err != nil {
		t.Errorf("the next message got offset %d, %v; %d are acknowledged", base, err, acknowledged)
	}
	if got := texts(all(t, l)); !slices.Equal(got, numbers(0, acknowledged+1)) {
		t.Errorf("left are %v", got)
	}
	noError(t, l.Close())
	segment := filepath.Join(dir, "log", "partitions", "t-0", "0.dat")
	flip(t, segment, 5000)
	if _, err := Open(ctx, Options{DataDir: dir}); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), segment) ||
		!strings.Contains(err.Error(), "`stagewise repair -c FILE`") {
		t.Errorf("with a wrong byte: %v", err)
	}
	must(Repair(t.Context(), dir))(t)
	if got := texts(all(t, openDir(t, dir))); len(got) != acknowledged || slices.Contains(got, "1") {
		t.Errorf("left are %v of %d", got, acknowledged+1)
	}
}

// flip flips a bit of a file like a disk fault: without a change of the modification time.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	info := must(os.Stat(path))(t)
	content := must(os.ReadFile(path))(t)
	content[at] ^= 1
	noError(t, os.WriteFile(path, content, 0o644))
	noError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// A damaged list of topics is refused with its file and byte.
func TestDamagedTopics(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l := openDir(t, dir)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	noError(t, l.Close())
	topics := filepath.Join(dir, "log", "topics.json")
	flip(t, topics, int64(strings.Index(string(must(os.ReadFile(topics))(t)), `"t"`)))
	for range 2 {
		_, err := Open(ctx, Options{DataDir: dir})
		if damaged, ok := errors.AsType[*DamagedError](err); !ok || damaged.File != topics || damaged.Position == 0 {
			t.Errorf("%v", err)
		}
		if repaired, err := Repair(t.Context(), dir); !errors.As(err, new(*DamagedError)) || len(repaired) != 0 {
			t.Errorf("%+v, %v", repaired, err)
		}
	}
}

// Repair does not change an intact log.
func TestRepairOfAWholeLog(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l := openDir(t, dir)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	must(l.Append(ctx, "t", 0, numbered(0, 10)))(t)
	noError(t, l.Close())
	if repaired, err := Repair(t.Context(), dir); len(repaired) > 0 || err != nil {
		t.Errorf("%+v, %v", repaired, err)
	}
	if _, err := Repair(t.Context(), filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a directory: %v", err)
	}
}

// Cleaning with a file that was damaged while the broker runs does not lose later messages: the log stops.
func TestDamageBeforeCleaning(t *testing.T) {
	dir := t.TempDir()
	l, _ := openClocked(t, dir)
	ctx := testContext(t)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Compact: true}, Topic{Name: "u", Partitions: 1}))
	for i := range 10 {
		must(l.Append(ctx, "t", 0, keyed("k", i, 1000)))(t)
		must(l.Append(ctx, "u", 0, numbered(i, 1000)))(t)
	}
	segment := filepath.Join(dir, "log", "partitions", "u-0", "0.dat")
	flip(t, segment, 1500)
	if err := l.Clean(ctx); !errors.As(err, new(*DamagedError)) || !strings.Contains(err.Error(), segment) {
		t.Errorf("%v", err)
	}
	noError(t, l.Close())
	must(Repair(t.Context(), dir))(t)
	l = openDir(t, dir)
	if got, err := read(t, l, "u", 0, 10); !slices.Equal(texts(got), append(numbers(0, 1), numbers(2, 10)...)) {
		t.Errorf("%v, %v", texts(got), err)
	}
}

// A partition from which all messages were deleted continues at its end, after a kill and after a clean shutdown.
func TestDeletedToTheEnd(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l := openDir(t, dir)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	next := 0
	for range 3 {
		for range 5 {
			must(l.Append(ctx, "t", 0, numbered(next, 10)))(t)
			next++
		}
		noError(t, l.DeleteBefore(ctx, "t", 0, int64(next)))
		killed := t.TempDir()
		noError(t, os.CopyFS(filepath.Join(killed, "log"), os.DirFS(filepath.Join(dir, "log"))))
		for _, l := range []*Log{openDir(t, killed), l} {
			if b := bounds(t, l); b != (Bounds{int64(next), int64(next)}) {
				t.Errorf("bounds %v, want %d", b, next)
			}
			if base, err := l.Append(ctx, "t", 0, numbered(next, 10)); base != int64(next) || err != nil {
				t.Errorf("the next message got offset %d, %v, want %d", base, err, next)
			}
		}
		next++
		noError(t, l.Close())
		l = openDir(t, dir)
		if got := texts(all(t, l)); !slices.Equal(got, numbers(next-1, next)) {
			t.Errorf("left are %v of %d", got, next)
		}
	}
}
