package kafkalog

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/stagewise/stagewise/internal/assert"
)

// now is the current time in all tests.
var now = time.UnixMilli(1_800_000_000_000)

// written is a record to write: its key, or none if empty, its value, or a tombstone if empty, and its age.
type written struct {
	key, value string
	age        time.Duration
}

// newBatch creates a batch encoded by kmsg. It does not compress the records, whatever the attributes.
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
	whole, _ := batchAt(encodeBatch(b))
	return whole
}

// listed returns partition 0 of a topic.
func listed(t *testing.T, l *files, topic string) partition {
	t.Helper()
	p := partition{folder: l.folder(topic, 0), buffer: new([]byte)}
	assert.NoError(t, p.list())
	return p
}

// content lists the records of a partition, as offset:key=value, and the offsets of empty batches, as (from-to).
func content(t *testing.T, l *files, topic string) string {
	t.Helper()
	p := listed(t, l, topic)
	var text []string
	for _, s := range p.segments {
		rest, err := p.batches(s, func(b batch) error {
			b.Attributes &^= compressedBits // see newBatch
			records := assert.Must(kfake.BatchRecords(b.RecordBatch))(t)
			for _, r := range records {
				text = append(text, fmt.Sprintf("%d:%s", b.FirstOffset+int64(r.OffsetDelta), r.Key))
			}
			if len(records) == 0 {
				text = append(text, fmt.Sprintf("(%d-%d)", b.FirstOffset, b.end()))
			}
			return nil
		})
		assert.NoError(t, err)
		index := assert.Must(os.ReadFile(s.index()))(t)
		assert.Equal(t, len(rest), 0, "bytes of %d that are no batches", s.bytes)
		assert.Equal(t, len(index)%entryBytes, 0, "bytes of the index of %d that are no entry", len(index))
	}
	return strings.Join(text, " ")
}

// newLog creates a log with a topic t of one partition.
func newLog(t *testing.T, config map[string]string, segments ...[]batch) *files {
	t.Helper()
	l := &files{dir: t.TempDir()}
	topics := map[string]any{"version": 1, "topics": []any{map[string]any{"name": "t", "partitions": 1, "replicas": 1, "configs": config}}}
	assert.NoError(t, os.WriteFile(filepath.Join(l.dir, "topics.json"), assert.Must(json.Marshal(topics))(t), 0o644))
	assert.NoError(t, os.MkdirAll(l.folder("t", 0), 0o755))
	for _, batches := range segments {
		path := filepath.Join(l.folder("t", 0), fmt.Sprint(batches[0].FirstOffset))
		assert.NoError(t, os.WriteFile(path+dataSuffix, raw(batches), 0o644))
		assert.NoError(t, os.WriteFile(path+indexSuffix, bytes.Repeat(entryOf(batches[0]), len(batches)), 0o644))
		var newest int64
		for _, b := range batches {
			newest = max(newest, b.MaxTimestamp)
		}
		assert.NoError(t, os.Chtimes(path+dataSuffix, time.Time{}, time.UnixMilli(newest)))
	}
	return l
}

func raw(batches []batch) (all []byte) {
	for _, b := range batches {
		all = append(all, b.raw...)
	}
	return all
}

func TestSettings(t *testing.T) {
	defaults := topic{
		name: "t", partitions: 1, deletes: true, retention: -time.Millisecond, retentionBytes: -1,
		segmentTime: 7 * 24 * time.Hour, tombstones: 24 * time.Hour,
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
		}, topic{"t", 1, true, true, time.Second, 2, 4 * time.Second, 0, 6 * time.Second}},
		"compact": {map[string]string{"cleanup.policy": "compact"}, with(func(t *topic) { t.deletes, t.compacts = false, true })},
		"for ever": {map[string]string{"retention.ms": "-1", "segment.ms": "9223372036854775807"},
			with(func(t *topic) { t.segmentTime = math.MaxInt64 - math.MaxInt64%time.Millisecond })},
		"not numbers": {map[string]string{"retention.ms": "x", "retention.bytes": "", "segment.bytes": "1e6"}, defaults},
	} {
		got, err := newLog(t, c.config).topics()
		assert.True(t, err == nil && len(got) == 1 && reflect.DeepEqual(got[0], c.want), "%s: %+v, %v, want %+v", name, got, err, c.want)
	}
	assert.Equal(t, len(assert.Must((&files{dir: t.TempDir()}).topics())(t)), 0, "topics without a log")
}

// Each case is a log of segments, the remainder after cleaning, and the survey before.
func TestClean(t *testing.T) {
	const h = time.Hour
	old, young := written{"k", "v", 100 * h}, written{"k", "v", 0}
	value := func(key string) written { return written{key, "v", h} }
	tombstone := func(key string) written { return written{key, "", 48 * h} }
	youngBatch := newBatch(0, 0, young)
	youngBytes := youngBatch.size()
	type survey struct {
		expired int // segments
		waste   bool
		overdue bool
	}
	untouched, waste := survey{}, survey{waste: true}
	for name, c := range map[string]struct {
		config   map[string]string
		segments [][]batch
		want     string
		survey   survey
	}{
		"no limit": {nil, [][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, old)}}, "0:k 1:k", untouched},
		"by time, not the last segment": {map[string]string{"retention.ms": "360000000"},
			[][]batch{{newBatch(0, 0, written{"k", "v", 101 * h})}, {newBatch(1, 0, old)}}, "1:k", survey{expired: 1}},
		"by time, without gaps": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, young)}, {newBatch(2, 0, old)}, {newBatch(3, 0, young)}},
			"1:k 2:k 3:k", survey{expired: 1}},
		"by time, of a segment with a young message": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old), newBatch(1, 0, young)}, {newBatch(2, 0, young)}}, "0:k 1:k 2:k", untouched},
		"by time, all": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old)}, {newBatch(1, 0, old, old), newBatch(3, 0, old, old)}}, "(1-5)",
			survey{expired: 1, waste: true}},
		"by time, all and overdue": {map[string]string{"retention.ms": "3600000", "segment.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old)}}, "(0-1)", survey{overdue: true, waste: true}},
		"by time, a few of many": {map[string]string{"retention.ms": "3600000"},
			[][]batch{{newBatch(0, 0, old), newBatch(1, 0, young), newBatch(2, 0, young)}}, "0:k 1:k 2:k", untouched},
		"by time, a few of many that are overdue": {map[string]string{"retention.ms": "3600000", "segment.ms": "1"},
			[][]batch{{newBatch(0, 0, old), newBatch(1, 0, young), newBatch(2, 0, young)}}, "(0-1) 1:k 2:k", survey{overdue: true, waste: true}},
		"by size": {map[string]string{"retention.bytes": fmt.Sprint(2 * youngBytes)},
			[][]batch{{newBatch(0, 0, young)}, {newBatch(1, 0, young)}, {newBatch(2, 0, young)}, {newBatch(3, 0, young)}},
			"2:k 3:k", survey{expired: 2}},
		"by size, a byte more": {map[string]string{"retention.bytes": fmt.Sprint(2*youngBytes + 1)},
			[][]batch{{newBatch(0, 0, young)}, {newBatch(1, 0, young)}, {newBatch(2, 0, young)}, {newBatch(3, 0, young)}},
			"1:k 2:k 3:k", survey{expired: 1}},
		"by size, not the last segment": {map[string]string{"retention.bytes": "0"},
			[][]batch{{newBatch(0, 0, young)}, {newBatch(1, 0, young)}}, "1:k", survey{expired: 1}},
		"compaction": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("b"), value("a")), newBatch(3, 0, value("b"), value("c"))},
				{newBatch(5, 0, value("c"), value("b"))}},
			"2:a (3-5) 5:c 6:b", waste},
		"compaction, where it begins and ends": {map[string]string{"cleanup.policy": "compact"},
			[][]batch{{newBatch(0, 0, value("a"), value("a")), newBatch(2, 0, value("a"))}, {newBatch(3, 0, value("a"), tombstone("b"),
				tombstone("a"))}},
			"(0-3) (3-6)", waste},
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
			"(1-4) 4:a", survey{expired: 1, waste: true}},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, c.config, c.segments...)
			before := content(t, l, "t")
			surveyed := func() survey {
				assert.NoError(t, l.survey(now))
				plan := l.plans[l.folder("t", 0)]
				return survey{plan.expired, plan.worthwhile(), plan.worthwhile() && plan.overdue}
			}
			assert.Equal(t, surveyed(), c.survey, "survey")
			for range 2 { // cleaning again changes nothing
				assert.NoError(t, l.clean(now))
				assert.Equal(t, content(t, l, "t"), c.want, "what stays of %s", before)
			}
			assert.Equal(t, surveyed(), untouched, "survey after cleaning")
			assert.NoError(t, l.open())
		})
	}
}

// Segments without messages go, but for the first and the last, and the others keep their modification times.
func TestCleanedSegments(t *testing.T) {
	var segments [][]batch
	for i, key := range []string{"a", "b", "a", "c", "a"} {
		segments = append(segments, []batch{newBatch(int64(i), 0, written{key, "v", time.Hour})})
	}
	l := newLog(t, map[string]string{"cleanup.policy": "compact"}, segments...)
	assert.NoError(t, l.clean(now, "t"))
	assert.Equal(t, content(t, l, "t"), "(0-1) 1:b 3:c 4:a", "what stays")
	for _, s := range listed(t, l, "t").segments {
		assert.Equal(t, now.Sub(s.modified), time.Hour, "the age of segment %d", s.base)
	}
}

// A partition that can't be cleaned does not change, and the others are cleaned.
func TestCleanNamesWhatFails(t *testing.T) {
	l := newLog(t, map[string]string{"cleanup.policy": "compact"}, []batch{newBatch(0, 0, written{"a", "v", 0}, written{"a", "v", 0},
		written{"a", "v", 0})})
	topics := assert.Must(os.ReadFile(filepath.Join(l.dir, "topics.json")))(t)
	assert.NoError(t, os.WriteFile(filepath.Join(l.dir, "topics.json"), bytes.Replace(topics, []byte(`"partitions":1`),
		[]byte(`"partitions":2`), 1), 0o644))
	assert.NoError(t, os.MkdirAll(filepath.Join(l.folder("t", 1), "0.dat"), 0o755))
	var failed *fs.PathError
	err := l.clean(now)
	assert.True(t, errors.As(err, &failed) && strings.Contains(err.Error(), "t[1]") && !strings.Contains(err.Error(), "t[0]"), "%v", err)
	assert.Equal(t, content(t, l, "t"), "2:a", "what stays")
	assert.NoError(t, os.WriteFile(filepath.Join(l.dir, "topics.json"), []byte("{"), 0o644))
	assert.Fails(t, l.clean(now), "topics.json")
}

// After a kill, opening truncates a torn batch, and creates the snapshot with which kfake opens a partition without
// reading all of it into memory. Deleted messages stay deleted. A partition with transactions is left to kfake.
func TestOpen(t *testing.T) {
	message := written{"k", "v", time.Hour}
	removed, _ := batchAt(newEmpty(3, 5))
	for name, c := range map[string]struct {
		policy       string
		segments     [][]batch
		torn         int64 // bytes missing from the last segment
		deleted      int64 // according to the old snapshot; negative: there is none
		first, end   int64
		withSnapshot bool
	}{
		"whole":        {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 0, -1, 3, 6, true},
		"torn":         {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message), newBatch(6, 0, message)}}, 1, -1, 3, 6, true},
		"torn off":     {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 1, -1, 3, 5, true},
		"deleted":      {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 0, 4, 4, 6, true},
		"all deleted":  {"delete", [][]batch{{newBatch(3, 0, message, message)}, {newBatch(5, 0, message)}}, 1, 6, 5, 5, true},
		"expired":      {"delete", [][]batch{{removed, newBatch(5, 0, message)}}, 0, -1, 5, 6, true},
		"all expired":  {"delete", [][]batch{{removed}}, 0, -1, 5, 5, true},
		"compacted":    {"compact", [][]batch{{removed, newBatch(5, 0, message)}}, 0, -1, 3, 6, true},
		"transactions": {"delete", [][]batch{{newBatch(3, 1<<4, message, message)}, {newBatch(5, 1<<5, message)}}, 0, -1, 0, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLog(t, map[string]string{"cleanup.policy": c.policy}, c.segments...)
			p := listed(t, l, "t")
			last := p.segments[len(p.segments)-1]
			assert.NoError(t, os.Truncate(last.data, last.bytes-c.torn))
			path := filepath.Join(p.folder, snapshotFile)
			if c.deleted >= 0 {
				assert.NoError(t, os.WriteFile(path, assert.Must(json.Marshal(snapshot{Version: 1, LogStartOffset: c.deleted}))(t), 0o644))
			}
			for range 2 { // with a matching snapshot there is nothing to do
				assert.NoError(t, l.open())
				if !c.withSnapshot {
					assert.MustFail(os.Stat(path))(t, fs.ErrNotExist)
					continue
				}
				got := matching(t, l)
				assert.Equal(t, []int64{got.LogStartOffset, got.HighWatermark, got.LastStableOffset}, []int64{c.first, c.end, c.end}, "offsets")
			}
		})
	}
}

// matching returns the snapshot of topic t, and checks that it matches the files.
func matching(t *testing.T, l *files) snapshot {
	t.Helper()
	p := listed(t, l, "t")
	s := p.snapshot()
	same := func(s snapshotSegment, f segment) bool { return s.Base == f.base && s.Bytes == f.bytes }
	assert.True(t, slices.EqualFunc(s.Segments, p.segments, same), "the snapshot is of %+v, want %+v", s.Segments, p.segments)
	return s
}

// A process that is killed while it cleans, after any number of segments and before their indexes are right, leaves a log with the last
// message of each key, and cleaning it again gives the same as without.
func TestEachStepOfCleaning(t *testing.T) {
	value := func(key string) written { return written{key, "v", time.Hour} }
	make := func() *files {
		return newLog(t, map[string]string{"cleanup.policy": "compact"},
			[]batch{newBatch(0, 0, value("a"), value("b"), value("a")), newBatch(3, 0, value("c")), newBatch(4, 0, value("a"))},
			[]batch{newBatch(5, 0, value("b")), newBatch(6, 0, value("c"))}, []batch{newBatch(7, 0, value("a"), written{"b", "", 48 * time.Hour})},
			[]batch{newBatch(9, 0, value("a")), newBatch(10, 0, value("d"))})
	}
	l := make()
	assert.NoError(t, l.clean(now))
	after := content(t, l, "t")
	assert.Need(t, after == "(0-5) (5-6) 6:c 9:a 10:d", "%s stays", after)
	for n := range 5 {
		l := make()
		assert.NoError(t, l.each(func(p partition) error {
			plan, err := p.plan(now)
			for i := 0; i < n && i < len(p.segments) && err == nil; i++ {
				err = plan.rewrite(i)
			}
			return err
		}))
		assert.NoError(t, l.open())
		matching(t, l)
		got := content(t, l, "t")
		assert.True(t, strings.Contains(got, "6:c") && strings.HasSuffix(got, "9:a 10:d"), "after %d segments: %s", n, got)
		assert.NoError(t, l.clean(now, "t"))
		assert.Equal(t, content(t, l, "t"), after, "after %d segments, cleaned again", n)
	}
}

// A survey reads only what has changed, until messages may have become removable.
func TestSurveyOfWhatHasChanged(t *testing.T) {
	value := func(key string) written { return written{key, "v", time.Hour} }
	superseded := []batch{newBatch(0, 0, value("a")), newBatch(1, 0, value("a")), newBatch(2, 0, value("a"))}
	l := newLog(t, map[string]string{"cleanup.policy": "compact", "delete.retention.ms": "16000"}, superseded)
	waste := func(after time.Duration) int64 {
		assert.NoError(t, l.survey(now.Add(after)))
		return l.plans[l.folder("t", 0)].drop
	}
	before := waste(0)
	path := filepath.Join(l.folder("t", 0), "0"+dataSuffix)
	info := assert.Must(os.Stat(path))(t)
	assert.NoError(t, os.WriteFile(path, raw([]batch{newBatch(0, 0, value("a")), newBatch(1, 0, value("b")), newBatch(2, 0,
		value("c"))}), 0o644))
	assert.NoError(t, os.Chtimes(path, time.Time{}, info.ModTime()))
	got := waste(time.Second - 1)
	assert.True(t, before != 0 && got == before, "a partition that has not changed was read: waste %d, then %d", before, got)
	assert.Equal(t, waste(time.Second), 0, "waste of a partition that was read again")
	assert.NoError(t, os.WriteFile(path, raw(superseded), 0o644))
	assert.Equal(t, waste(time.Second), before, "waste of a partition that has changed")
}

// damage flips bits of a file like a disk fault: without a change of the modification time.
func damage(t *testing.T, path string, at int, bits byte) {
	t.Helper()
	info := assert.Must(os.Stat(path))(t)
	content := assert.Must(os.ReadFile(path))(t)
	content[at] ^= bits
	assert.NoError(t, os.WriteFile(path, content, 0o644))
	assert.NoError(t, os.Chtimes(path, info.ModTime(), info.ModTime()))
}

// allFiles returns the content of all files of a log.
func allFiles(t *testing.T, l *files) map[string]string {
	t.Helper()
	all := map[string]string{}
	assert.NoError(t, filepath.WalkDir(l.dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			all[strings.TrimPrefix(path, l.dir+"/")] = string(assert.Must(os.ReadFile(path))(t))
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
	assert.Must(p.batches(p.segments[len(p.segments)-1], func(b batch) error {
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
					assert.NoError(t, l.open())
					path := filepath.Join(l.folder("t", 0), fmt.Sprint(batches[0].FirstOffset)+dataSuffix)
					damage(t, path, start+at, byte(1<<(at%8)))
					before := allFiles(t, l)
					where := fmt.Sprintf("%s, segment %d, batch %d, byte %d", name, s, n, at)
					found := damagedIn(l.open())
					if at >= beforeLength && at < atMagic {
						assert.True(t, found == nil, "%s: %v", where, found)
						continue
					}
					assert.Need(t, found != nil && found.File == path && found.Position == int64(start) && found.Offset == b.FirstOffset &&
						found.Topic == "t", "%s: %v", where, found)
					assert.Need(t, maps.Equal(allFiles(t, l), before), "%s: verifying has changed a file", where)
					repaired, err := l.repair()
					assert.Need(t, err == nil && len(repaired) == 1 && repaired[0].Position == int64(start) && repaired[0].From == b.FirstOffset,
						"%s: repaired %+v, %v", where, repaired, err)
					assert.NoError(t, l.open())
					lost := assert.Must(os.ReadFile(path))(t)
					assert.Need(t, bytes.HasPrefix(lost, raw(batches[:n])) && bytes.HasSuffix(lost, raw(batches[n+1:])),
						"%s: other batches have changed", where)
					if repaired[0].To < b.end() || n < 2 && repaired[0].To != b.end() || endOf(t, l) < 61 {
						t.Fatalf("%s: %+v, the log ends at %d", where, repaired, endOf(t, l))
					}
					assert.Equal(t, len(assert.Must(l.repair())(t)), 0, "%s: repaired again", where)
				}
				start += len(b.raw)
			}
		}
	}
}

// An index is rebuilt from its segment after any damage.
func TestDamagedIndex(t *testing.T) {
	l := newLog(t, nil, slices.Concat(three(transactional), [][]batch{{newBatch(61, transactional|marker, written{"k", "v", 0})}})...)
	assert.NoError(t, l.open())
	whole := allFiles(t, l)
	path := filepath.Join(l.folder("t", 0), "47"+indexSuffix)
	assert.True(t, strings.HasSuffix(whole["partitions/t-0/47"+indexSuffix], "\x01") &&
		!strings.HasSuffix(whole["partitions/t-0/61"+indexSuffix], "\x01"),
		"%q", whole)
	for at := range 3 * entryBytes {
		for _, bits := range []byte{1, 0x80, 0xff} {
			damage(t, path, at, bits)
			assert.NoError(t, l.open())
			if n := at % entryBytes; (n < 2 || n == entryBytes-1) && !maps.Equal(allFiles(t, l), whole) {
				t.Fatalf("byte %d: %x", at, assert.Must(os.ReadFile(path))(t))
			}
		}
	}
	for _, size := range []int64{0, 7, 2 * entryBytes, 4 * entryBytes} {
		assert.NoError(t, os.Truncate(path, size))
		assert.NoError(t, l.open())
		assert.True(t, maps.Equal(allFiles(t, l), whole), "cut to %d bytes: %x", size, assert.Must(os.ReadFile(path))(t))
	}
	assert.NoError(t, os.Remove(path))
	assert.NoError(t, l.open())
	assert.True(t, maps.Equal(allFiles(t, l), whole), "without an index")
}

// No wrong byte of a snapshot makes a log end before its last message.
func TestDamagedSnapshotKeepsTheEnd(t *testing.T) {
	l := newLog(t, nil, three(0)...)
	assert.NoError(t, l.open())
	path := filepath.Join(l.folder("t", 0), snapshotFile)
	for at := range assert.Must(os.ReadFile(path))(t) {
		l := newLog(t, nil, three(0)...)
		assert.NoError(t, l.open())
		damage(t, filepath.Join(l.folder("t", 0), snapshotFile), at, 1<<(at%8))
		if l.open() != nil {
			assert.Must(l.repair())(t)
			assert.NoError(t, l.open())
		}
		s := matching(t, l)
		assert.Need(t, s.HighWatermark >= 61 && s.HighWatermark == endOf(t, l), "byte %d: %+v", at, s)
	}
}

// A torn batch of a killed process is no damage, wherever it ends.
func TestTornBatchIsNoDamage(t *testing.T) {
	segments := three(0)
	last := len(raw(segments[2]))
	for cut := 1; cut <= len(segments[2][2].raw); cut++ {
		l := newLog(t, nil, segments...)
		assert.NoError(t, os.Truncate(filepath.Join(l.folder("t", 0), "54"+dataSuffix), int64(last-cut)))
		assert.NoError(t, l.open())
		assert.Equal(t, len(assert.Must(l.repair())(t)), 0, "%d bytes less: repaired", cut)
		assert.NoError(t, l.open())
		got := endOf(t, l)
		assert.Need(t, got == 58, "%d bytes less: the log ends at %d", cut, got)
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
			assert.NoError(t, l.open())
			assert.NoError(t, shorten(filepath.Join(l.folder("t", 0), "54"+dataSuffix)))
			found := damagedIn(l.open())
			assert.True(t, found != nil && strings.Contains(found.Reason, "ended at offset 61"), "%v", found)
			repaired, err := l.repair()
			assert.True(t, err == nil && len(repaired) == 1 && repaired[0].From == found.Offset && repaired[0].To == 61, "%+v, %v", repaired, err)
			assert.NoError(t, l.open())
			assert.NoError(t, l.open())
			assert.Equal(t, endOf(t, l), 61, "the end of the log")
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
	content := assert.Must(os.ReadFile(path))(t)
	clear(content[len(content)-lost:])
	assert.NoError(t, os.WriteFile(path, content, 0o644))
	found := damagedIn(l.open())
	assert.True(t, found != nil && found.Position == int64(len(content)-lost) && found.Offset == 57, "%v", found)
	repaired, err := l.repair()
	assert.True(t, err == nil && len(repaired) == 1 && repaired[0].From == 57 && repaired[0].To >= 61 && repaired[0].To <= 61+int64(lost),
		"%+v, %v", repaired, err)
	assert.NoError(t, l.open())
}

// An apparent batch inside of a message is not restored as one when the enclosing batch is damaged.
func TestBatchInsideOfAMessage(t *testing.T) {
	inner := newBatch(1, 0, written{"inner", "", 0}).raw
	outer := newBatch(0, 0, written{"outer", "v", 0})
	end := len(outer.raw) - 5 // before the header of the record
	outer.Records = slices.Concat(outer.raw[headerBytes:end-len(inner)], inner, outer.raw[end:])
	outer, _ = batchAt(encodeBatch(outer.RecordBatch))
	l := newLog(t, nil, []batch{outer, newBatch(1, 0, written{"next", "v", 0})})
	assert.NoError(t, l.open())
	damage(t, filepath.Join(l.folder("t", 0), "0"+dataSuffix), headerBytes+9, 1)
	assert.Must(l.repair())(t)
	assert.Equal(t, content(t, l, "t"), "(0-1) 1:next", "what stays")
}

// repair works in steps, and may be killed after each.
func TestRepairThatIsKilled(t *testing.T) {
	l := newLog(t, map[string]string{}, three(0)...)
	for _, base := range []string{"40", "47", "54"} {
		damage(t, filepath.Join(l.folder("t", 0), base+dataSuffix), 100, 1)
	}
	assert.NoError(t, os.WriteFile(filepath.Join(l.folder("t", 0), "40"+dataSuffix+temporarySuffix), []byte("some"), 0o644))
	p := listed(t, l, "t")
	p.topic, p.segments = &topic{name: "t"}, p.segments[:1] // as if killed after the first
	assert.Must(p.repair())(t)
	assert.Equal(t, len(assert.Must(l.repair())(t)), 2, "repaired")
	assert.NoError(t, l.open())
	assert.Equal(t, endOf(t, l), 61, "the end of the log")
}

// A partition from which all messages were deleted continues at its end.
func TestEmptyPartitionKeepsItsEnd(t *testing.T) {
	l := newLog(t, nil, three(0)...)
	assert.NoError(t, l.open())
	for _, s := range listed(t, l, "t").segments {
		assert.NoError(t, s.remove())
	}
	assert.NoError(t, l.open())
	s := matching(t, l)
	assert.True(t, s.LogStartOffset == 61 && s.HighWatermark == 61 && endOf(t, l) == 61, "%+v", s)
}

// openUncleaned opens an embedded broker that cleans its log only on request, and whose topics have some messages of one key.
func openUncleaned(t *testing.T, messages int, topics ...Topic) (l *Log, dir string) {
	t.Helper()
	dir = t.TempDir()
	l = open(t, Options{DataDir: dir, Listen: "127.0.0.1:0", cleanEvery: time.Hour})
	assert.NoError(t, l.Create(testContext(t), topics...))
	for _, topic := range topics {
		for i := range messages {
			assert.Must(l.Append(testContext(t), topic.Name, 0, keyed("k", i, 1000)))(t)
		}
	}
	return l, dir
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

// all returns the messages of t[0].
func all(t testing.TB, l *Log) []Message {
	t.Helper()
	b := bounds(t, l, "t", 0)
	return assert.Must(read(t, l, "t", b.First, b.End))(t)
}

// Clients that write and read during a restart of the broker wait. Nothing is lost, duplicated or reordered.
func TestCleanWhileInUse(t *testing.T) {
	const n, keys = 600, 3
	l, _ := openUncleaned(t, 0, Topic{Name: "t", Partitions: 1}, Topic{Name: "compacted", Partitions: 1, Compact: true})
	ctx := testContext(t)
	var wg sync.WaitGroup
	written := make(chan struct{})
	wg.Go(func() {
		defer close(written)
		for i := range n {
			base, err := l.Append(ctx, "t", 0, numbered(i, 1000))
			assert.True(t, base == int64(i) && err == nil, "append %d: %d, %v", i, base, err)
			base, err = l.Append(ctx, "compacted", 0, keyed(fmt.Sprint(i%keys), i, 1000))
			assert.True(t, base == int64(i) && err == nil, "append %d: %d, %v", i, base, err)
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
		assert.NoError(t, l.clean())
		if l.broker.cluster != before {
			restarts++
		}
	}
	wg.Wait()
	assert.True(t, restarts >= 3, "%d restarts", restarts)
	assert.Equal(t, bounds(t, l, "t", 0), Bounds{0, n}, "bounds")
	t.Logf("%d restarts", restarts)
}

// A log whose data directory is deleted ends, and says so, as nothing that it writes could be found again.
func TestDeletedDataDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := assert.Must(Open(testContext(t), Options{DataDir: dir, cleanEvery: time.Millisecond}))(t)
	assert.NoError(t, l.Create(testContext(t), Topic{Name: "t", Partitions: 1}))
	assert.NoError(t, os.RemoveAll(dir))
	<-l.ctx.Done()
	assert.MustFail(l.Append(testContext(t), "t", 0, numbered(0, 10)))(t, dir+" was deleted")
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
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1, Compact: true}))
	assert.Must(l.Append(ctx, "t", 0, keyed("k", 0, 10)))(t)
	obstacle := filepath.Join(dir, "log", "partitions", "t-0", "5.dat") // a directory in place of a segment
	assert.NoError(t, os.Mkdir(obstacle, 0o755))
	w := next()
	assert.True(t, w.What == "clean the log" && w.Err != nil && !w.Over && strings.Contains(w.Err.Error(), "t[0]"), "%+v", w)
	assert.Must(l.Append(ctx, "t", 0, keyed("k", 1, 10)))(t)
	assert.NoError(t, os.Remove(obstacle))
	for w = next(); !w.Over; w = next() {
		assert.True(t, w.Err != nil, "%+v", w)
	}
	assert.True(t, w.Err == nil && w.Since > 0, "%+v", w)
}

// If the broker does not start again, waiting callers get the error, and the log can be closed.
func TestBrokerDoesNotStartAgain(t *testing.T) {
	l, dir := openUncleaned(t, 10, Topic{Name: "t", Partitions: 1, Compact: true})
	ctx := testContext(t)
	obstacle := filepath.Join(dir, "log", "groups.log")
	assert.NoError(t, os.RemoveAll(obstacle))
	assert.NoError(t, os.Mkdir(obstacle, 0o755))
	assert.Fails(t, l.clean(), "groups.log")
	assert.MustFail(l.Append(ctx, "t", 0, numbered(1, 10)))(t, "groups.log")
	assert.NoError(t, l.Close())
	assert.NoError(t, os.Remove(obstacle))
	assert.Equal(t, texts(all(t, openDir(t, dir))), numbers(9, 10), "what is left")
}

// With an unreadable file the broker is not restarted, because it might not start. Expired segments are deleted nevertheless.
func TestCleanWithADamagedFile(t *testing.T) {
	l, dir := openUncleaned(t, 10, Topic{Name: "t", Partitions: 1, Compact: true}, Topic{Name: "damaged", Partitions: 1, Compact: true},
		Topic{Name: "large", Partitions: 1, Config: map[string]string{"retention.bytes": "1", "segment.bytes": "1"}})
	obstacle := filepath.Join(dir, "log", "partitions", "damaged-0", "5.dat")
	assert.NoError(t, os.Mkdir(obstacle, 0o755))
	running := l.broker.cluster
	assert.Fails(t, l.clean(), "damaged[0]")
	assert.True(t, l.broker.cluster == running, "the broker is restarted")
	assert.Equal(t, bounds(t, l, "large", 0), Bounds{9, 10}, "bounds of the topic with expired segments")
	assert.NoError(t, os.Remove(obstacle))
	assert.NoError(t, l.clean())
	assert.Equal(t, texts(all(t, l)), numbers(9, 10), "what is left")
}

// A damaged list of topics is refused with its file and byte.
func TestDamagedTopics(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l := openDir(t, dir)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	assert.NoError(t, l.Close())
	topics := filepath.Join(dir, "log", "topics.json")
	damage(t, topics, strings.Index(string(assert.Must(os.ReadFile(topics))(t)), `"t"`), 1)
	for range 2 {
		_, err := Open(ctx, Options{DataDir: dir})
		damaged, ok := errors.AsType[*DamagedError](err)
		assert.True(t, ok && damaged.File == topics && damaged.Position != 0, "%v", err)
		repaired, err := Repair(t.Context(), dir)
		assert.True(t, errors.As(err, new(*DamagedError)) && len(repaired) == 0, "%+v, %v", repaired, err)
	}
}

// Cleaning with a file that was damaged while the broker runs does not lose later messages: the log stops.
func TestDamageBeforeCleaning(t *testing.T) {
	l, dir := openUncleaned(t, 10, Topic{Name: "t", Partitions: 1, Compact: true}, Topic{Name: "u", Partitions: 1})
	segment := filepath.Join(dir, "log", "partitions", "u-0", "0.dat")
	damage(t, segment, 1500, 1)
	assert.Fails(t, l.clean(), new(*DamagedError), segment, "`stagewise repair -c FILE`")
	assert.NoError(t, l.Close())
	assert.Must(Repair(t.Context(), dir))(t)
	l = openDir(t, dir)
	mustHold(t, l, "u", 0, 10, append(numbers(0, 1), numbers(2, 10)...))
}

// A partition from which all messages were deleted continues at its end, after a kill and after a clean shutdown.
func TestDeletedToTheEnd(t *testing.T) {
	ctx, dir := testContext(t), t.TempDir()
	l := openDir(t, dir)
	assert.NoError(t, l.Create(ctx, Topic{Name: "t", Partitions: 1}))
	next := 0
	for range 3 {
		for range 5 {
			assert.Must(l.Append(ctx, "t", 0, numbered(next, 10)))(t)
			next++
		}
		assert.NoError(t, l.DeleteBefore(ctx, "t", 0, int64(next)))
		killed := t.TempDir()
		assert.NoError(t, os.CopyFS(filepath.Join(killed, "log"), os.DirFS(filepath.Join(dir, "log"))))
		for _, l := range []*Log{openDir(t, killed), l} {
			assert.Equal(t, bounds(t, l, "t", 0), Bounds{int64(next), int64(next)}, "bounds")
			assert.Equal(t, assert.Must(l.Append(ctx, "t", 0, numbered(next, 10)))(t), int64(next), "the offset of the next message")
		}
		next++
		assert.NoError(t, l.Close())
		l = openDir(t, dir)
		assert.Equal(t, texts(all(t, l)), numbers(next-1, next), "what is left")
	}
}
