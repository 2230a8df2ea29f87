package kafkalog

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// flip flips a bit of a file like a disk fault: without a change of the modification time.
func flip(t *testing.T, path string, at int64) {
	t.Helper()
	info := must(os.Stat(path))(t)
	content := must(os.ReadFile(path))(t)
	content[at] ^= 1
	noError(t, os.WriteFile(path, content, 0o644))
	noError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// A wrong byte in any batch of any file, after a clean shutdown or a kill: the log does not open, and reports the
// position. After a repair all other messages are there with their offsets, and no offset is reused.
func TestDamagedLog(t *testing.T) {
	const n, size = 9, 1000
	ctx := testContext(t)
	stopped, killed := t.TempDir(), t.TempDir()
	l := openDir(t, stopped)
	noError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Config: map[string]string{"segment.bytes": "3000"}}))
	for i := range n {
		must(l.Append(ctx, "t", 0, numbered(i, size)))(t)
	}
	noError(t, os.CopyFS(filepath.Join(killed, "log"), os.DirFS(filepath.Join(stopped, "log"))))
	noError(t, l.Close())
	for name, from := range map[string]string{"stopped": stopped, "killed": killed} {
		t.Run(name, func(t *testing.T) {
			for _, lost := range []int{0, 1, 2, 4, n - 2, n - 1} {
				dir := t.TempDir()
				noError(t, os.CopyFS(dir, os.DirFS(from)))
				segment := filepath.Join(dir, "log", "partitions", "t-0", string(rune('0'+lost/3*3))+".dat")
				info, err := os.Stat(segment)
				noError(t, err)
				batch := info.Size() / 3
				flip(t, segment, int64(lost%3)*batch+batch/2)
				for range 2 {
					_, err = Open(ctx, Options{DataDir: dir})
					damaged, ok := errors.AsType[*DamagedError](err)
					if !ok || damaged.File != segment || damaged.Position != int64(lost%3)*batch || damaged.Offset != int64(lost) ||
						!strings.Contains(err.Error(), segment) || !strings.Contains(err.Error(), "`stagewise repair -c FILE`") {
						t.Fatalf("message %d is damaged: %v", lost, err)
					}
				}
				repaired, err := Repair(t.Context(), dir)
				if err != nil || len(repaired) != 1 || repaired[0].From != int64(lost) || repaired[0].To != int64(lost)+1 {
					t.Fatalf("repaired %+v, %v", repaired, err)
				}
				left := slices.DeleteFunc(numbers(0, n), func(s string) bool { return s == numbers(lost, lost+1)[0] })
				for i := range 3 {
					l := openDir(t, dir)
					first, end, err := l.Bounds(ctx, "t", 0)
					begins := int64(0)
					if lost == 0 { // nothing is left before
						begins = 1
					}
					if first != begins || end != int64(n+i) || err != nil {
						t.Fatalf("bounds [%d, %d), %v", first, end, err)
					}
					if base, err := l.Append(ctx, "t", 0, numbered(n+i, size)); base != int64(n+i) || err != nil {
						t.Fatalf("the next message got offset %d, %v", base, err)
					}
					left = append(left, numbers(n+i, n+i+1)...)
					got, _ := read(t, l, "t", begins, int64(n+i+1))
					if !slices.Equal(texts(got), left) || slices.ContainsFunc(got,
						func(m Message) bool { return number(m) != numbers(int(m.Offset), int(m.Offset)+1)[0] }) {
						t.Fatalf("left are %v, want %v", texts(got), left)
					}
					noError(t, l.Close())
				}
			}
		})
	}
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
