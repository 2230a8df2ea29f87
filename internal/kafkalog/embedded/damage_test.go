package embedded

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stagewise/stagewise/internal/arrowtest"
)

// damage flips bits of a file like a disk fault: without a change of the modification time.
func damage(t *testing.T, path string, at int, bits byte) {
	t.Helper()
	info := arrowtest.Must(os.Stat(path))(t)
	content := arrowtest.Must(os.ReadFile(path))(t)
	content[at] ^= bits
	arrowtest.NoError(t, os.WriteFile(path, content, 0o644))
	arrowtest.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// allFiles returns the content of all files of a log.
func allFiles(t *testing.T, l *files) map[string]string {
	t.Helper()
	all := map[string]string{}
	arrowtest.NoError(t, filepath.WalkDir(l.dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[strings.TrimPrefix(path, l.dir+"/")] = string(arrowtest.Must(os.ReadFile(path))(t))
		}
		return err
	}))
	return all
}

func damagedIn(err error) *DamagedError {
	found, _ := errors.AsType[*DamagedError](err)
	return found
}

// endOf returns the offset after the last batch of topic t.
func endOf(t *testing.T, l *files) int64 {
	t.Helper()
	p := listed(t, l, "t")
	end := int64(0)
	arrowtest.Must(p.batches(p.segments[len(p.segments)-1], func(b batch) error {
		end = b.end()
		return nil
	}))(t)
	return end
}

// three returns segments of three batches each.
func three(attributes int16) [][]batch {
	one := func(key string) written { return written{key, "", time.Hour} }
	var segments [][]batch
	for s := range int64(3) {
		base := 40 + 7*s
		segments = append(segments, []batch{
			newBatch(base, attributes, one("a"), one("b"), one("c")),
			newBatch(base+3, attributes, one("")),
			newBatch(base+4, attributes, one("d"), one("a"), one("e")),
		})
	}
	return segments
}

// A wrong byte of a segment, in the first, a middle or the last batch of any segment: the log is rejected, with file,
// position and offset, and nothing is changed. Repair keeps all other batches, byte for byte, and the end. The leader epoch is
// also in the index, which is intact.
func TestEachDamagedByte(t *testing.T) {
	for name, c := range map[string]struct {
		attributes int16
		step       int
	}{"plain": {0, 3}, "compressed": {2, 17}, "transactional": {transactional, 17}} {
		segments := three(c.attributes)
		for s, batches := range segments {
			start := 0
			for n, b := range batches {
				for at := 0; at < len(b.raw); at += c.step {
					l := newLog(t, nil, segments...)
					arrowtest.NoError(t, l.open())
					path := filepath.Join(l.folder("t", 0), fmt.Sprint(batches[0].FirstOffset)+dataSuffix)
					damage(t, path, start+at, byte(1<<(at%8)))
					before := allFiles(t, l)
					where := fmt.Sprintf("%s, segment %d, batch %d, byte %d", name, s, n, at)
					found := damagedIn(l.open())
					if at >= beforeLength && at < atMagic {
						if found != nil {
							t.Errorf("%s: %v", where, found)
						}
						continue
					}
					if found == nil || found.File != path || found.Position != int64(start) || found.Offset != b.FirstOffset || found.Topic != "t" {
						t.Fatalf("%s: %v", where, found)
					}
					if !maps.Equal(allFiles(t, l), before) {
						t.Fatalf("%s: verifying has changed a file", where)
					}
					repaired, err := l.repair()
					if err != nil || len(repaired) != 1 || repaired[0].Position != int64(start) || repaired[0].From != b.FirstOffset {
						t.Fatalf("%s: repaired %+v, %v", where, repaired, err)
					}
					arrowtest.NoError(t, l.open())
					lost := arrowtest.Must(os.ReadFile(path))(t)
					if !bytes.HasPrefix(lost, raw(batches[:n])) || !bytes.HasSuffix(lost, raw(batches[n+1:])) {
						t.Fatalf("%s: other batches have changed", where)
					}
					if repaired[0].To < b.end() || n < 2 && repaired[0].To != b.end() || endOf(t, l) < 61 {
						t.Fatalf("%s: %+v, the log ends at %d", where, repaired, endOf(t, l))
					}
					if again, err := l.repair(); len(again) > 0 || err != nil {
						t.Fatalf("%s: repaired again %+v, %v", where, again, err)
					}
				}
				start += len(b.raw)
			}
		}
	}
}

// An index is rebuilt from its segment after any damage.
func TestDamagedIndex(t *testing.T) {
	l := newLog(t, nil, slices.Concat(three(transactional),
		[][]batch{{newBatch(61, transactional|marker, written{"k", "v", 0})}})...)
	arrowtest.NoError(t, l.open())
	whole := allFiles(t, l)
	path := filepath.Join(l.folder("t", 0), "47"+indexSuffix)
	if !strings.HasSuffix(whole["partitions/t-0/47"+indexSuffix], "\x01") || strings.HasSuffix(whole["partitions/t-0/61"+indexSuffix],
		"\x01") {
		t.Errorf("%q", whole)
	}
	for at := range 3 * entryBytes {
		for _, bits := range []byte{1, 0x80, 0xff} {
			damage(t, path, at, bits)
			arrowtest.NoError(t, l.open())
			if n := at % entryBytes; (n < 2 || n == entryBytes-1) && !maps.Equal(allFiles(t, l), whole) {
				t.Fatalf("byte %d: %x", at, arrowtest.Must(os.ReadFile(path))(t))
			}
		}
	}
	for _, size := range []int64{0, 7, 2 * entryBytes, 4 * entryBytes} {
		arrowtest.NoError(t, os.Truncate(path, size))
		arrowtest.NoError(t, l.open())
		if !maps.Equal(allFiles(t, l), whole) {
			t.Errorf("cut to %d bytes: %x", size, arrowtest.Must(os.ReadFile(path))(t))
		}
	}
	arrowtest.NoError(t, os.Remove(path))
	arrowtest.NoError(t, l.open())
	if !maps.Equal(allFiles(t, l), whole) {
		t.Error("without an index")
	}
}

// No wrong byte of a snapshot makes a log end before its last message.
func TestDamagedSnapshotKeepsTheEnd(t *testing.T) {
	l := newLog(t, nil, three(0)...)
	arrowtest.NoError(t, l.open())
	path := filepath.Join(l.folder("t", 0), snapshotFile)
	for at := range arrowtest.Must(os.ReadFile(path))(t) {
		l := newLog(t, nil, three(0)...)
		arrowtest.NoError(t, l.open())
		damage(t, filepath.Join(l.folder("t", 0), snapshotFile), at, 1<<(at%8))
		if l.open() != nil {
			arrowtest.Must(l.repair())(t)
			arrowtest.NoError(t, l.open())
		}
		if s := matching(t, l); s.HighWatermark < 61 || s.HighWatermark != endOf(t, l) {
			t.Fatalf("byte %d: %+v", at, s)
		}
	}
}

// A torn batch of a killed process is no damage, wherever it ends.
func TestTornBatchIsNoDamage(t *testing.T) {
	segments := three(0)
	last := len(raw(segments[2]))
	for cut := 1; cut <= len(segments[2][2].raw); cut++ {
		l := newLog(t, nil, segments...)
		arrowtest.NoError(t, os.Truncate(filepath.Join(l.folder("t", 0), "54"+dataSuffix), int64(last-cut)))
		arrowtest.NoError(t, l.open())
		if repaired, err := l.repair(); len(repaired) > 0 || err != nil {
			t.Fatalf("%d bytes less: repaired %+v, %v", cut, repaired, err)
		}
		arrowtest.NoError(t, l.open())
		if got := endOf(t, l); got != 58 {
			t.Fatalf("%d bytes less: the log ends at %d", cut, got)
		}
	}
}

// A log that is shorter than at the broker's shutdown has lost messages. Repair does not reuse their offsets.
func TestShortenedLogIsDamaged(t *testing.T) {
	for name, shorten := range map[string]func(path string) error{
		"a byte":   func(path string) error { return os.Truncate(path, 250) },
		"the file": os.Remove,
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, nil, three(0)...)
			arrowtest.NoError(t, l.open())
			arrowtest.NoError(t, shorten(filepath.Join(l.folder("t", 0), "54"+dataSuffix)))
			found := damagedIn(l.open())
			if found == nil || !strings.Contains(found.Reason, "ended at offset 61") {
				t.Errorf("%v", found)
			}
			repaired, err := l.repair()
			if err != nil || len(repaired) != 1 || repaired[0].From != found.Offset || repaired[0].To != 61 {
				t.Errorf("%+v, %v", repaired, err)
			}
			arrowtest.NoError(t, l.open())
			arrowtest.NoError(t, l.open())
			if got := endOf(t, l); got != 61 {
				t.Errorf("the log ends at %d", got)
			}
		})
	}
}

// Zeros at the end, which some file systems leave after a power failure, are damage: they may have been acknowledged
// messages. None of their possible offsets is reused.
func TestZerosAtTheEnd(t *testing.T) {
	segments := three(0)
	lost := len(segments[2][1].raw) + len(segments[2][2].raw)
	l := newLog(t, nil, segments...)
	path := filepath.Join(l.folder("t", 0), "54"+dataSuffix)
	content := arrowtest.Must(os.ReadFile(path))(t)
	clear(content[len(content)-lost:])
	arrowtest.NoError(t, os.WriteFile(path, content, 0o644))
	if found := damagedIn(l.open()); found == nil || found.Position != int64(len(content)-lost) || found.Offset != 57 {
		t.Errorf("%v", found)
	}
	repaired, err := l.repair()
	if err != nil || len(repaired) != 1 || repaired[0].From != 57 || repaired[0].To < 61 || repaired[0].To > 61+int64(lost) {
		t.Errorf("%+v, %v", repaired, err)
	}
	arrowtest.NoError(t, l.open())
}

// An apparent batch inside of a message is not restored as one when the enclosing batch is damaged.
func TestBatchInsideOfAMessage(t *testing.T) {
	inner := newBatch(1, 0, written{"inner", "", 0}).raw
	outer := newBatch(0, 0, written{"outer", "v", 0})
	end := len(outer.raw) - 5 // before the header of the record
	outer.Records = slices.Concat(outer.raw[headerBytes:end-len(inner)], inner, outer.raw[end:])
	outer, _ = batchAt(encode(outer.RecordBatch))
	l := newLog(t, nil, []batch{outer, newBatch(1, 0, written{"next", "v", 0})})
	arrowtest.NoError(t, l.open())
	damage(t, filepath.Join(l.folder("t", 0), "0"+dataSuffix), headerBytes+9, 1)
	arrowtest.Must(l.repair())(t)
	if got := content(t, l, "t"); got != "(0-1) 1:next" {
		t.Errorf("%s stays", got)
	}
}

// repair works in steps, and may be killed after each.
func TestRepairThatIsKilled(t *testing.T) {
	config := map[string]string{}
	l := newLog(t, config, three(0)...)
	for _, base := range []string{"40", "47", "54"} {
		damage(t, filepath.Join(l.folder("t", 0), base+dataSuffix), 100, 1)
	}
	arrowtest.NoError(t, os.WriteFile(filepath.Join(l.folder("t", 0), "40"+dataSuffix+temporarySuffix), []byte("some"), 0o644))
	p := listed(t, l, "t")
	p.topic, p.segments = &topic{name: "t"}, p.segments[:1] // as if killed after the first
	arrowtest.Must(p.repair())(t)
	if repaired, err := l.repair(); len(repaired) != 2 || err != nil {
		t.Errorf("%+v, %v", repaired, err)
	}
	arrowtest.NoError(t, l.open())
	if got := endOf(t, l); got != 61 {
		t.Errorf("the log ends at %d", got)
	}
}

// A partition from which all messages were deleted continues at its end.
func TestEmptyPartitionKeepsItsEnd(t *testing.T) {
	l := newLog(t, nil, three(0)...)
	arrowtest.NoError(t, l.open())
	for _, s := range listed(t, l, "t").segments {
		arrowtest.NoError(t, s.remove())
	}
	arrowtest.NoError(t, l.open())
	if s := matching(t, l); s.LogStartOffset != 61 || s.HighWatermark != 61 || endOf(t, l) != 61 {
		t.Errorf("%+v", s)
	}
}
