package embedded

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// now is the current time in all tests.
var now = time.UnixMilli(1_800_000_000_000)

// written is a record to write: its key, or none if empty, its value, or a tombstone if empty, and its age.
type written struct {
	key, value string
	age        time.Duration
}

// newBatch creates a batch encoded by kmsg.
func newBatch(base int64, attributes int16, records ...written) batch {
	b := kmsg.RecordBatch{
		FirstOffset: base, Magic: 2, Attributes: attributes, LastOffsetDelta: int32(len(records) - 1), NumRecords: int32(len(records)),
		ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1, MaxTimestamp: math.MinInt64,
	}
	for i, w := range records {
		at := now.Add(-w.age).UnixMilli()
		if i == 0 {
			b.FirstTimestamp = at
		}
		b.MaxTimestamp = max(b.MaxTimestamp, at)
		r := kmsg.Record{TimestampDelta: int32(at - b.FirstTimestamp), TimestampDelta64: at - b.FirstTimestamp, OffsetDelta: int32(i)}
		if w.key != "" {
			r.Key = []byte(w.key)
		}
		if w.value != "" {
			r.Value = []byte(strings.Repeat(w.value, 200))
		}
		r.Headers = []kmsg.Header{{Key: "h", Value: []byte{1, 2}}}
		r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
		b.Records = r.AppendTo(b.Records)
	}
	raw := batch(b.AppendTo(nil))
	binary.BigEndian.PutUint32(raw[atLength:], uint32(len(raw)-beforeLength))
	binary.BigEndian.PutUint32(raw[atChecksum:], raw.checksum())
	return raw
}

// content lists the records of a partition, as offset:key=value, and the offsets of empty batches, as (from-to).
func content(t *testing.T, l *files, topic string) string {
	t.Helper()
	p := partition{folder: l.folder(topic, 0)}
	noError(t, p.list())
	var text []string
	for _, s := range p.segments {
		sound, err := s.batches(func(b batch) error {
			records, ok := b.records()
			if !ok {
				t.Error("damaged records")
			}
			for _, r := range records {
				text = append(text, fmt.Sprintf("%d:%s", r.offset, r.key))
			}
			if len(records) == 0 {
				text = append(text, fmt.Sprintf("(%d-%d)", b.base(), b.end()))
			}
			return nil
		})
		noError(t, err)
		index, err := os.ReadFile(s.index())
		noError(t, err)
		if sound != s.bytes || len(index)%entryBytes != 0 {
			t.Errorf("%d bytes of %d are sound, with an index of %d", sound, s.bytes, len(index))
		}
	}
	return strings.Join(text, " ")
}

// newLog creates a log with a topic t of one partition.
func newLog(t *testing.T, config map[string]string, segments ...[]batch) *files {
	t.Helper()
	l := &files{dir: t.TempDir()}
	topics := map[string]any{"version": 1, "topics": []any{map[string]any{"name": "t", "partitions": 1, "replicas": 1, "configs": config}}}
	noError(t, os.WriteFile(filepath.Join(l.dir, "topics.json"), must(json.Marshal(topics))(t), 0o644))
	noError(t, os.MkdirAll(l.folder("t", 0), 0o755))
	for _, batches := range segments {
		path := filepath.Join(l.folder("t", 0), fmt.Sprint(batches[0].base()))
		noError(t, os.WriteFile(path+dataSuffix, bytes.Join(raw(batches), nil), 0o644))
		noError(t, os.WriteFile(path+indexSuffix, bytes.Repeat(newEntry(0), len(batches)), 0o644))
		var newest int64
		for _, b := range batches {
			newest = max(newest, b.maxTime())
		}
		noError(t, os.Chtimes(path+dataSuffix, time.Time{}, time.UnixMilli(newest)))
	}
	return l
}

func raw(batches []batch) [][]byte {
	all := make([][]byte, len(batches))
	for i, b := range batches {
		all[i] = b
	}
	return all
}

func noError(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func must[T any](v T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		noError(t, err)
		return v
	}
}

// Records match those found by kfake, and kfake can read a batch with some of them.
func TestRecords(t *testing.T) {
	b := newBatch(70, 0, written{"a", "1", time.Hour}, written{"", "22", 2 * time.Hour}, written{"c", "", time.Minute})
	records, ok := b.records()
	if !ok || len(records) != 3 || !b.intact() || !b.sound() || !b.plain() || b.end() != 73 || b.bytes() != int64(len(b)) {
		t.Fatalf("%d records, %v", len(records), ok)
	}
	check := func(b batch, want []record) {
		t.Helper()
		var decoded kmsg.RecordBatch
		noError(t, decoded.ReadFrom(b))
		theirs, err := kfake.BatchRecords(decoded)
		noError(t, err)
		if len(theirs) != len(want) || decoded.FirstOffset != 70 || decoded.LastOffsetDelta != 2 || !b.intact() ||
			int(decoded.Length) != len(b)-12 {
			t.Errorf("%+v", decoded)
		}
		for i, r := range theirs {
			w := want[i]
			if 70+int64(r.OffsetDelta) != w.offset || decoded.FirstTimestamp+r.TimestampDelta64 != w.time || !bytes.Equal(r.Key, w.key) ||
				(r.Key == nil) != (w.key == nil) || (r.Value == nil) != w.absent || len(r.Headers) != 1 {
				t.Errorf("record %d is %+v, want %+v", i, r, w)
			}
		}
	}
	check(b, records)
	check(b.with(records[1:2]), records[1:2])
	check(b.with(nil), nil)
	if got, want := b.with(records[:2]).maxTime(), now.Add(-time.Hour).UnixMilli(); got != want {
		t.Errorf("the newest time is %d, want %d", got, want)
	}
	if again := b.with(records); !bytes.Equal(again, b) {
		t.Errorf("with all records: %x, want %x", again, b)
	}
	if records, ok = newBatch(0, logAppendTime, written{"a", "1", time.Hour},
		written{"b", "1", time.Minute}).records(); !ok || records[0].time != records[1].time {
		t.Errorf("with the broker's time: %+v, %v", records, ok)
	}
}

// For any bytes, records are a part of them, or the batch is not ok.
func FuzzRecords(f *testing.F) {
	f.Add([]byte(newBatch(0, 0, written{"a", "1", 0}, written{"b", "", 0})[headerBytes:]), uint8(2))
	f.Fuzz(func(t *testing.T, content []byte, count uint8) {
		b := append(newBatch(0, 0, written{"a", "1", 0})[:headerBytes:headerBytes], content...)
		b[atCount+3] = count
		records, ok := b.records()
		if !ok {
			return
		}
		var all []byte
		for _, r := range records {
			all = append(all, r.raw...)
		}
		if !bytes.Equal(all, content) || len(records) != int(count) {
			t.Errorf("%d records of %d, %x of %x", len(records), count, all, content)
		}
	})
}

func TestSettings(t *testing.T) {
	defaults := topic{
		name: "t", partitions: 1, deletes: true, retention: -time.Millisecond, retentionBytes: -1,
		segmentBytes: 100 << 20, segmentTime: 7 * 24 * time.Hour, tombstones: 24 * time.Hour,
	}
	with := func(change func(*topic)) topic {
		changed := defaults
		change(&changed)
		return changed
	}
	for name, c := range map[string]struct {
		config map[string]string
		want   topic
	}{
		"none": {nil, defaults},
		"all": {map[string]string{
			"cleanup.policy": "compact,delete", "retention.ms": "1000", "retention.bytes": "2", "segment.bytes": "3",
			"segment.ms": "4000", "delete.retention.ms": "0", "min.compaction.lag.ms": "6000",
		}, topic{"t", 1, true, true, time.Second, 2, 3, 4 * time.Second, 0, 6 * time.Second}},
		"compact": {map[string]string{"cleanup.policy": "compact"}, with(func(t *topic) { t.deletes, t.compacts = false, true })},
		"for ever": {map[string]string{"retention.ms": "-1", "segment.ms": "9223372036854775807"},
			with(func(t *topic) { t.segmentTime = math.MaxInt64 - math.MaxInt64%time.Millisecond })},
		"not numbers": {map[string]string{"retention.ms": "x", "retention.bytes": "", "segment.bytes": "1e6"}, defaults},
	} {
		got, err := newLog(t, c.config).topics()
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0], c.want) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, c.want)
		}
	}
	if got, err := (&files{dir: t.TempDir()}).topics(); err != nil || len(got) != 0 {
		t.Errorf("no log: %v, %v", got, err)
	}
}

// Each case is a log of segments, the remainder after cleaning, and the survey before.
func TestClean(t *testing.T) {
	const h = time.Hour
	old, young := written{"k", "v", 100 * h}, written{"k", "v", 0}
	value := func(key string) written { return written{key, "v", h} }
	tombstone := func(key string) written { return written{key, "", 48 * h} }
	var untouched, waste survey
	waste.waste = 1
	for name, c := range map[string]struct {
		config   map[string]string
		segments [][]batch
		want     string
		survey   survey // a waste of 1 stands for any
	}{
		"no limit": {nil, [][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, old)}}, "0:k 1:k", untouched},
		"by time, not the last segment": {map[string]string{"retention.ms": "360000000"},
			[][]batch{{newBatch(0, 0, written{"k", "v", 101 * h})}, {newBatch(1, 0, old)}}, "1:k", survey{expired: []expired{{"t", 0, 1}}}},
		"by time, without gaps": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, young)}, {newBatch(2, 0, old)}, {newBatch(3, 0, young)}},
			"1:k 2:k 3:k", survey{expired: []expired{{"t", 0, 1}}}},
		"by time, of a segment with a young message": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old), newBatch(1, 0, young)}, {newBatch(2, 0, young)}}, "0:k 1:k 2:k", untouched},
		"by time, all": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, old, old), newBatch(3, 0, old, old)}}, "(3-5)",
			survey{expired: []expired{{"t", 0, 1}}, waste: 1}},
		"by time, all and overdue": {map[string]string{"retention.ms": "3600000", "segment.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old)}}, "(0-1)", survey{overdue: true, waste: 1}},
		"by time, a few of many": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old), newBatch(1, 0, young), newBatch(2, 0, young)}}, "0:k 1:k 2:k", untouched},
		"by time, a few of many that are overdue": {map[string]string{"retention.ms": "3600000", "segment.ms": "1"},
			[][]batch{{newBatch(0, 0, old), newBatch(1, 0, young), newBatch(2, 0, young)}}, "1:k 2:k", survey{overdue: true, waste: 1}},
		"by size": {map[string]string{"retention.bytes": fmt.Sprint(2 * len(newBatch(0, 0, young)))},
			[][]batch{{newBatch(0, 0, young)}, {newBatch(1, 0, young)}, {newBatch(2, 0, young)}, {newBatch(3, 0, young)}},
			"2:k 3:k", survey{expired: []expired{{"t", 0, 2}}}},
		"by size, a byte more": {map[string]string{"retention.bytes": fmt.Sprint(2*len(newBatch(0, 0, young)) + 1)},
			[][]batch{{newBatch(0, 0, young)}, {newBatch(1, 0, young)}, {newBatch(2, 0, young)}, {newBatch(3, 0, young)}},
			"1:k 2:k 3:k", survey{expired: []expired{{"t", 0, 1}}}},
		"by size, not the last segment": {map[string]string{"retention.bytes": "0"},
			[][]batch{{newBatch(0, 0, young)}, {newBatch(1, 0, young)}}, "1:k", survey{expired: []expired{{"t", 0, 1}}}},
		"compaction": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("b"), value("a")), newBatch(3, 0, value("b"), value("c"))},
				{newBatch(5, 0, value("c"), value("b"))}},
			"2:a 5:c 6:b", waste},
		"compaction, where it begins and ends": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("a")), newBatch(2, 0, value("a"))}, {newBatch(3, 0, value("a"), tombstone("b"),
				tombstone("a"))}},
			"(0-2) (3-6)", waste},
		"compaction, without a key": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("")), newBatch(2, 0, value(""), value("a"), value("a"), value("a"), value("a"))}},
			"1: 2: 6:a", waste},
		"compaction that is not worth it": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("b")), newBatch(2, 0, value("a"), value("c"))}}, "0:a 1:b 2:a 3:c", untouched},
		"tombstones": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("b"), value("c"), value("d")), newBatch(4, 0, tombstone("a"), written{"b", "", h},
				value("c"), tombstone("d"), value("d"))}},
			"(0-4) 5:b 6:c 8:d", waste},
		"lag": {map[string]string{"cleanup.policy": "compact", "min.compaction.lag.ms": "3600001"},
			[][]batch{{newBatch(0, 0, old, old, old, old, old, old), newBatch(6, 0, old, value("k")), newBatch(8, 0, old)}},
			"5:k 6:k 7:k 8:k", waste},
		"compressed": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("a"), value("a"))}, {newBatch(3, 2, value("a"))}}, "0:a 1:a 2:a 3:a", untouched},
		"both policies": {map[string]string{"cleanup.policy": "compact,delete", "retention.ms": "3600001"},
			[][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, value("a"), value("a"), value("a")), newBatch(4, 0, value("a"))}},
			"4:a", survey{expired: []expired{{"t", 0, 1}}, waste: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, c.config, c.segments...)
			before := content(t, l, "t")
			survey, err := l.survey(now)
			noError(t, err)
			if survey.waste > 0 != (c.survey.waste > 0) || survey.overdue != c.survey.overdue || !slices.Equal(survey.expired, c.survey.expired) {
				t.Errorf("survey %+v, want %+v", survey, c.survey)
			}
			for range 2 { // cleaning again changes nothing
				noError(t, l.clean(now))
				if got := content(t, l, "t"); got != c.want {
					t.Errorf("%s stays of %s, want %s", got, before, c.want)
				}
			}
			if survey, err = l.survey(now); err != nil || survey.waste != 0 || survey.overdue || len(survey.expired) != 0 {
				t.Errorf("survey after cleaning %+v, %v", survey, err)
			}
			noError(t, l.restore())
			noError(t, l.prepare())
		})
	}
}

// The remainder is divided into segments of segment.bytes, which keep the modification times of their source files.
func TestCleanSplitsSegments(t *testing.T) {
	var batches []batch
	for i := range 40 {
		batches = append(batches, newBatch(int64(i), 0, written{fmt.Sprint(i % 10), "v", time.Hour}))
	}
	l := newLog(t, map[string]string{"cleanup.policy": "compact", "segment.bytes": fmt.Sprint(3 * len(batches[0]))}, batches)
	noError(t, l.clean(now))
	p := partition{folder: l.folder("t", 0)}
	noError(t, p.list())
	var bases []int64
	for _, s := range p.segments {
		bases = append(bases, s.base)
		if got := now.Sub(s.modified); got != time.Hour {
			t.Errorf("segment %d is %v old", s.base, got)
		}
	}
	if want := []int64{0, 33, 36, 39}; !slices.Equal(bases, want) {
		t.Errorf("segments begin at %v, want %v", bases, want)
	}
}

// For an unfinished replacement, Restore keeps the complete directory.
func TestRestore(t *testing.T) {
	const folder = "t-0"
	for name, there := range map[string][]string{
		"nothing":                 {folder},
		"being written":           {folder, folder + writtenSuffix},
		"the old one moved":       {folder + replacedSuffix, folder + writtenSuffix},
		"the new one moved":       {folder, folder + replacedSuffix},
		"the old one being moved": {folder, folder + replacedSuffix, folder + writtenSuffix},
	} {
		t.Run(name, func(t *testing.T) {
			l := &files{dir: t.TempDir()}
			for i, path := range there {
				path = filepath.Join(l.dir, "partitions", path)
				noError(t, os.MkdirAll(path, 0o755))
				noError(t, os.WriteFile(filepath.Join(path, "0.dat"), []byte{byte(i)}, 0o644))
			}
			var snapshots []string
			l.step = func() { // and when Restore itself is interrupted
				dir := t.TempDir()
				noError(t, os.CopyFS(dir, os.DirFS(l.dir)))
				snapshots = append(snapshots, dir)
			}
			noError(t, l.restore())
			for _, dir := range append(snapshots, l.dir) {
				noError(t, (&files{dir: dir}).restore())
				entries := must(os.ReadDir(filepath.Join(dir, "partitions")))(t)
				content, err := os.ReadFile(filepath.Join(dir, "partitions", folder, "0.dat"))
				if len(entries) != 1 || err != nil || content[0] != 0 {
					t.Errorf("%v, %v, %v", entries, content, err)
				}
			}
		})
	}
	noError(t, (&files{dir: filepath.Join(t.TempDir(), "none")}).restore())
}

// A partition that can't be cleaned does not change, and the others are cleaned.
func TestCleanNamesWhatFails(t *testing.T) {
	l := newLog(t, map[string]string{"cleanup.policy": "compact"}, []batch{newBatch(0, 0, written{"a", "v", 0}, written{"a", "v", 0},
		written{"a", "v", 0})})
	topics := must(os.ReadFile(filepath.Join(l.dir, "topics.json")))(t)
	noError(t, os.WriteFile(filepath.Join(l.dir, "topics.json"), bytes.Replace(topics, []byte(`"partitions":1`),
		[]byte(`"partitions":2`), 1), 0o644))
	noError(t, os.MkdirAll(filepath.Join(l.folder("t", 1), "0.dat"), 0o755))
	var failed *fs.PathError
	if err := l.clean(now); !errors.As(err, &failed) || !strings.Contains(err.Error(), "t[1]") || strings.Contains(err.Error(), "t[0]") {
		t.Errorf("%v", err)
	}
	if got := content(t, l, "t"); got != "2:a" {
		t.Errorf("%s stays", got)
	}
	noError(t, os.WriteFile(filepath.Join(l.dir, "topics.json"), []byte("{"), 0o644))
	if err := l.clean(now); err == nil || !strings.Contains(err.Error(), "topics.json") {
		t.Errorf("%v", err)
	}
}

// After a kill, Prepare truncates a torn batch, and creates the snapshot with which kfake opens a partition without
// reading all of it into memory. Deleted messages stay deleted. A partition with transactions is left to kfake.
func TestPrepare(t *testing.T) {
	message := written{"k", "v", time.Hour}
	for name, c := range map[string]struct {
		policy       string
		segments     [][]batch
		torn         int64 // bytes missing from the last segment
		deleted      int64 // according to the old snapshot; negative: there is none
		first, end   int64
		withSnapshot bool
	}{
		"whole": {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 0, -1, 3, 6, true},
		"torn": {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message), newBatch(6, 0, message)}}, 1,
			-1, 3, 6, true},
		"torn off":     {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 1, -1, 3, 5, true},
		"deleted":      {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 0, 4, 4, 6, true},
		"all deleted":  {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 1, 6, 5, 5, true},
		"expired":      {"delete", [][]batch{{newBatch(3, 0, message, message).with(nil), newBatch(5, 0, message)}}, 0, -1, 5, 6, true},
		"all expired":  {"delete", [][]batch{{newBatch(3, 0, message, message).with(nil)}}, 0, -1, 5, 5, true},
		"compacted":    {"compact", [][]batch{{newBatch(3, 0, message, message).with(nil), newBatch(5, 0, message)}}, 0, -1, 3, 6, true},
		"transactions": {"delete", [][]batch{{newBatch(3, 1<<4, message, message)}, {newBatch(5, 1<<5, message)}}, 0, -1, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, map[string]string{"cleanup.policy": c.policy}, c.segments...)
			p := partition{folder: l.folder("t", 0)}
			noError(t, p.list())
			last := p.segments[len(p.segments)-1]
			noError(t, os.Truncate(last.data, last.bytes-c.torn))
			path := filepath.Join(p.folder, snapshotFile)
			if c.deleted >= 0 {
				noError(t, os.WriteFile(path, must(json.Marshal(snapshot{Version: 1, LogStartOffset: c.deleted}))(t), 0o644))
			}
			for range 2 { // with a matching snapshot there is nothing to do
				noError(t, l.prepare())
				p.segments = nil
				noError(t, p.list())
				got := p.snapshot()
				if !c.withSnapshot {
					if got != nil {
						t.Errorf("snapshot %+v", got)
					}
					continue
				}
				if got == nil || !got.matches(&p) || got.LogStartOffset != c.first || got.HighWatermark != c.end || got.LastStableOffset != c.end {
					t.Errorf("snapshot %+v, want [%d, %d)", got, c.first, c.end)
				}
			}
		})
	}
}

// A log left by a process that is killed between any two changes of cleaning is the one before or after cleaning.
func TestEachStepOfCleaning(t *testing.T) {
	value := func(key string) written { return written{key, "v", time.Hour} }
	l := newLog(t, map[string]string{"cleanup.policy": "compact", "segment.bytes": "600"},
		[]batch{newBatch(0, 0, value("a"), value("b"), value("a")), newBatch(3, 0, value("c")), newBatch(4, 0, value("a"))},
		[]batch{newBatch(5, 0, value("b")), newBatch(6, 0, value("a"), value("c")), newBatch(8, 0, value("d"))})
	copies, step := t.TempDir(), 0
	copied := func(n int) *files { return &files{dir: filepath.Join(copies, fmt.Sprint(n))} }
	l.step = func() {
		noError(t, os.CopyFS(copied(step).dir, os.DirFS(l.dir)))
		step++
	}
	before := content(t, l, "t")
	noError(t, l.clean(now))
	after, replaced := content(t, l, "t"), 0
	if step < 6 || after == before {
		t.Fatalf("%d steps from %s to %s", step, before, after)
	}
	for n := range step {
		c := copied(n)
		if _, err := os.Stat(c.folder("t", 0)); err != nil {
			replaced++
		}
		noError(t, c.restore())
		noError(t, c.verify())
		if got := content(t, c, "t"); got != before && got != after {
			t.Errorf("step %d: %s", n, got)
		}
		noError(t, c.clean(now))
		leftovers := must(filepath.Glob(filepath.Join(c.dir, "partitions", "*.*")))(t)
		if got := content(t, c, "t"); got != after || len(leftovers) > 0 {
			t.Errorf("step %d, cleaned again: %s, left are %s", n, got, leftovers)
		}
	}
	if replaced != 1 {
		t.Errorf("the partition was missing after %d steps, want 1", replaced)
	}
}

// A survey reads only what has changed, until messages may have become removable.
func TestSurveyOfWhatHasChanged(t *testing.T) {
	value := func(key string) written { return written{key, "v", time.Hour} }
	superseded := []batch{newBatch(0, 0, value("a")), newBatch(1, 0, value("a")), newBatch(2, 0, value("a"))}
	l := newLog(t, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "16000"}, superseded)
	waste := func(after time.Duration) int64 { return must(l.survey(now.Add(after)))(t).waste }
	before := waste(0)
	path := filepath.Join(l.folder("t", 0), "0"+dataSuffix)
	info := must(os.Stat(path))(t)
	noError(t, os.WriteFile(path, bytes.Join(raw([]batch{newBatch(0, 0, value("a")), newBatch(1, 0, value("b")), newBatch(2, 0,
		value("c"))}), nil), 0o644))
	noError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	if got := waste(time.Second - 1); before == 0 || got != before {
		t.Errorf("a partition that has not changed was read: waste %d, then %d", before, got)
	}
	if got := waste(time.Second); got != 0 {
		t.Errorf("the partition was not read again: waste %d", got)
	}
	noError(t, os.WriteFile(path, bytes.Join(raw(superseded), nil), 0o644))
	if got := waste(time.Second); got != before {
		t.Errorf("a partition that has changed was not read: waste %d", got)
	}
}
