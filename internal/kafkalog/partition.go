package kafkalog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// files is the directory of kfake's log, to which it applies retention and compaction. kfake does neither safely: it deletes a
// partition's files before it rewrites them, compacts without regard to min.compaction.lag.ms, and with retention may delete the
// last file of a partition, whose offsets then restart at 0. Here each file is replaced atomically, so that a process may be killed at any
// time.
type files struct {
	dir   string           // need not exist
	plans map[string]*plan // the last plans of partitions, by folder
}

// each calls do for each partition, and joins the errors.
func (l *files) each(do func(partition) error) error {
	topics, err := l.topics()
	if err != nil {
		return err
	}
	var failures []error
	var buffer []byte
	for i := range topics {
		for number := range topics[i].partitions {
			p := partition{topic: &topics[i], number: number, folder: l.folder(topics[i].name, number), buffer: &buffer}
			err := p.list()
			if err == nil {
				err = do(p)
			}
			if err != nil {
				failures = append(failures, fmt.Errorf("%s[%d]: %w", topics[i].name, number, err))
			}
		}
	}
	return errors.Join(failures...)
}

// open prepares the log for the broker. It returns a *DamagedError for each partition with a damaged batch, and for a damaged
// list of topics. The broker must not run, because it truncates a file at the first damaged batch.
//
// It reads the whole log, as the broker does next: most of the time is disk I/O, and afterwards the broker finds the files
// in the page cache.
func (l *files) open() error {
	return l.each(func(p partition) error { return p.open() })
}

// repair repairs all partitions: see [partition.repair].
func (l *files) repair() (repaired []Repaired, err error) {
	err = l.each(func(p partition) error {
		found, err := p.repair()
		repaired = append(repaired, found...)
		return err
	})
	return repaired, err
}

// keepEnd makes sure that the next offset of an empty partition does not fall below an offset, even if the broker,
// which may be running, is killed. It does nothing for a partition with messages.
func (l *files) keepEnd(topic string, number int, end int64) error {
	p := partition{folder: l.folder(topic, number)}
	if err := p.list(); err != nil || end == 0 {
		return err
	}
	// A running broker does not know of the segment that an earlier call has created, and does not delete it with later
	// messages.
	for _, s := range p.segments {
		if empty, err := s.endsWithoutMessages(end); err != nil || !empty {
			return err
		}
	}
	earlier := p.segments
	if err := p.keepEnd(end); err != nil {
		return err
	}
	for _, s := range earlier {
		if err := s.remove(); err != nil {
			return err
		}
	}
	return nil
}

// topic is a topic of the log, with its retention and compaction settings.
type topic struct {
	name       string
	partitions int

	deletes, compacts bool          // cleanup.policy; both may be set
	retention         time.Duration // retention.ms; negative: unlimited
	retentionBytes    int64         // retention.bytes, for a partition; negative: unlimited
	segmentTime       time.Duration // segment.ms
	tombstones        time.Duration // delete.retention.ms
	lag               time.Duration // min.compaction.lag.ms
}

// topics reads the topics recorded by kfake. kfake records each change of them at once.
func (l *files) topics() ([]topic, error) {
	content, err := os.ReadFile(filepath.Join(l.dir, "topics.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var noted struct {
		Topics []struct {
			Name       string
			Partitions int
			Configs    map[string]string
		}
	}
	if err := json.Unmarshal(content, &noted); err != nil {
		damaged := &DamagedError{File: filepath.Join(l.dir, "topics.json"), Reason: err.Error()}
		if syntax, ok := errors.AsType[*json.SyntaxError](err); ok {
			damaged.Position = syntax.Offset
		}
		return nil, damaged
	}
	var list []topic
	for _, t := range noted.Topics {
		number := func(name string, absent int64) int64 {
			if n, err := strconv.ParseInt(t.Configs[name], 10, 64); err == nil {
				return n
			}
			return absent
		}
		duration := func(name string, absent time.Duration) time.Duration {
			return time.Duration(min(number(name, absent.Milliseconds()), math.MaxInt64/int64(time.Millisecond))) * time.Millisecond
		}
		policy, set := t.Configs["cleanup.policy"]
		list = append(list, topic{
			name: t.Name, partitions: t.Partitions,
			deletes: !set || strings.Contains(policy, "delete"), compacts: strings.Contains(policy, "compact"),
			// Kafka's default is a week. Here a topic without retention settings of its own keeps its messages.
			retention:      duration("retention.ms", -time.Millisecond),
			retentionBytes: number("retention.bytes", -1),
			// The others are the defaults of kfake, or else of Kafka.
			segmentTime: duration("segment.ms", 7*24*time.Hour),
			tombstones:  duration("delete.retention.ms", 24*time.Hour),
			lag:         duration("min.compaction.lag.ms", 0),
		})
	}
	return list, nil
}

// folder returns kfake's directory of a partition.
func (l *files) folder(topic string, partition int) string {
	return filepath.Join(l.dir, "partitions", fmt.Sprintf("%s-%d", url.PathEscape(topic), partition))
}

// partition is the directory of a topic partition.
type partition struct {
	topic    *topic
	number   int
	folder   string
	segments []segment // in offset order. The broker appends to the last
	buffer   *[]byte   // for the content of a segment; shared by partitions
}

// segment is a file of batches, with an index file that has an entry for each batch. The offsets of its batches have no gaps: a
// batch without records takes the place of removed records. Segments may have gaps between them.
type segment struct {
	data     string // its path
	base     int64  // its first offset
	bytes    int64
	modified time.Time
}

func (s segment) index() string { return strings.TrimSuffix(s.data, dataSuffix) + indexSuffix }

const (
	dataSuffix      = ".dat"
	indexSuffix     = ".idx"
	temporarySuffix = ".tmp" // marks a file that is being written. kfake deletes such files.
)

// list lists the segments of a partition. A partition has none before its first message.
func (p *partition) list() error {
	p.segments = nil
	entries, err := os.ReadDir(p.folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name, ok := strings.CutSuffix(entry.Name(), dataSuffix)
		base, err := strconv.ParseInt(name, 10, 64)
		if !ok || err != nil {
			continue
		}
		info, err := entry.Info()
		if errors.Is(err, fs.ErrNotExist) {
			continue // the broker has deleted it in the meantime
		}
		if err != nil {
			return err
		}
		p.segments = append(p.segments, segment{filepath.Join(p.folder, entry.Name()), base, info.Size(), info.ModTime()})
	}
	slices.SortFunc(p.segments, func(a, b segment) int { return cmp.Compare(a.base, b.base) })
	return nil
}

func (p *partition) bytes() (n int64) {
	for _, s := range p.segments {
		n += s.bytes
	}
	return n
}

// content reads a segment. It is valid until the next call.
func (p *partition) content(s segment) ([]byte, error) {
	f, err := os.Open(s.data)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	*p.buffer = slices.Grow((*p.buffer)[:0], int(s.bytes))[:s.bytes]
	_, err = io.ReadFull(f, *p.buffer)
	if err != nil {
		err = fmt.Errorf("read %s: %w", s.data, err)
	}
	return *p.buffer, err
}

// batches calls visit with the whole batches of a segment, until visit returns an error. It returns the bytes after them: a batch that the
// broker is writing, or damage. All are valid until the next call.
func (p *partition) batches(s segment, visit func(batch) error) (rest []byte, err error) {
	rest, err = p.content(s)
	for err == nil {
		b, reason := batchAt(rest)
		if reason != "" {
			break
		}
		err = visit(b)
		rest = rest[b.size():]
	}
	return rest, err
}

// headers calls visit with the header of each batch, until visit returns false. It returns the total length of these
// batches: less than the file's if the broker is writing to it, or was killed during a write, or if the file is damaged.
func (s segment) headers(visit func(batch) bool) (sound int64, err error) {
	f, err := os.Open(s.data)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	header := make([]byte, headerBytes)
	for {
		if _, err := f.ReadAt(header, sound); err == io.EOF {
			return sound, nil
		} else if err != nil {
			return sound, err
		}
		b, ok := headerAt(header)
		if !ok || sound+int64(b.size()) > s.bytes || !visit(b) {
			return sound, nil
		}
		sound += int64(b.size())
	}
}

// snapshot is kfake's own file beside the segments, written when kfake is closed. With a snapshot that matches the
// segments, kfake opens a partition segment by segment. Without, it reads the whole partition into memory, and assumes
// that it starts at the first offset in a file. As it identifies segments by size, a snapshot of other files is dangerous.
type snapshot struct {
	Version          int               `json:"version"`
	HighWatermark    int64             `json:"high_watermark"`
	LastStableOffset int64             `json:"last_stable_offset"`
	LogStartOffset   int64             `json:"log_start_offset"`
	MaxTimestamp     int64             `json:"max_timestamp"`
	CreatedAt        time.Time         `json:"created_at"`
	Segments         []snapshotSegment `json:"segments"`
}

type snapshotSegment struct {
	Base  int64 `json:"base_offset"`
	Bytes int64 `json:"size"`
}

const snapshotFile = "snapshot.json"

// snapshot reads a partition's snapshot. It returns an empty one if it is missing or unreadable.
func (p *partition) snapshot() (s snapshot) {
	content, err := os.ReadFile(filepath.Join(p.folder, snapshotFile))
	if err != nil || json.Unmarshal(content, &s) != nil || s.Version != 1 {
		return snapshot{}
	}
	return s
}

// open prepares a partition for the broker, which must not run, or returns a *DamagedError and changes nothing. It removes a torn batch at
// the end, left by a killed process, rebuilds indexes that do not match their segments, and writes a snapshot unless there is one that
// matches.
func (p *partition) open() error {
	old := p.snapshot()
	now := snapshot{Version: 1}
	sound, messages, transactions := 0, false, false
	for _, s := range p.segments {
		if s.bytes == 0 { // left by a killed process
			if err := s.remove(); err != nil {
				return err
			}
		}
	}
	p.segments = slices.DeleteFunc(p.segments, func(s segment) bool { return s.bytes == 0 })
	for i, s := range p.segments {
		data, err := p.content(s)
		if err != nil {
			return err
		}
		if s.base < now.HighWatermark {
			return p.damaged(s, 0, now.HighWatermark, fmt.Sprintf("it begins before offset %d, where the file before it ends", now.HighWatermark))
		}
		var index []byte
		sound = 0
		for part := range p.parts(i, data) {
			if part.damage != "" {
				return p.damaged(s, part.at, part.from, part.damage)
			}
			b := part.batch
			if i == 0 && part.at == 0 {
				now.LogStartOffset = b.FirstOffset
			}
			sound, now.HighWatermark, now.MaxTimestamp = part.end, b.end(), max(now.MaxTimestamp, b.MaxTimestamp)
			messages = messages || b.NumRecords > 0
			transactions = transactions || b.Attributes&(transactional|marker) != 0
			if !messages && p.topic.deletes {
				now.LogStartOffset = b.end() // everything before has expired
			}
			index = append(index, entryOf(b)...)
		}
		if err := s.keepIndex(index); err != nil {
			return err
		}
	}
	if end := old.HighWatermark; len(p.segments) > 0 && now.HighWatermark < end { // without segments everything was deleted
		last := p.segments[len(p.segments)-1]
		return p.damaged(last, int(last.bytes), now.HighWatermark, fmt.Sprintf("the log ended at offset %d before", end))
	}
	if n := len(p.segments) - 1; n >= 0 && int64(sound) < p.segments[n].bytes { // truncated after its whole batches, or removed if it has none
		last, err := &p.segments[n], error(nil)
		if last.bytes = int64(sound); sound > 0 {
			err = os.Truncate(last.data, last.bytes)
		} else {
			p.segments, err = p.segments[:n], last.remove()
		}
		if err != nil {
			return err
		}
	}
	if len(p.segments) == 0 && old.HighWatermark > 0 {
		now.LogStartOffset, now.HighWatermark = old.HighWatermark, old.HighWatermark
		if err := p.keepEnd(old.HighWatermark); err != nil {
			return err
		}
	}
	for _, s := range p.segments {
		now.Segments = append(now.Segments, snapshotSegment{s.base, s.bytes})
	}
	// kfake determines the outcomes of transactions from their markers.
	if len(p.segments) == 0 || transactions || old.HighWatermark == now.HighWatermark && slices.Equal(old.Segments, now.Segments) {
		return nil
	}
	// Earlier records may be deleted, although their file still exists.
	now.LogStartOffset = max(now.LogStartOffset, min(old.LogStartOffset, now.HighWatermark))
	now.LastStableOffset, now.CreatedAt = now.HighWatermark, p.segments[0].modified
	content, err := json.Marshal(now)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.folder, snapshotFile), content, time.Time{})
}

// entryOf returns the index entry of a batch: a version, a checksum, the leader epoch, which is 0, a timestamp that kfake does
// not read, and flags: 1 if the batch is transactional, except for control batches.
func entryOf(b batch) []byte {
	entry := make([]byte, entryBytes)
	entry[0] = 1
	if b.Attributes&(transactional|marker) == transactional {
		entry[entryBytes-1] = 1
	}
	entry[1] = byte(crc32.Checksum(entry[2:], crc32.MakeTable(crc32.Castagnoli)))
	return entry
}

const entryBytes = 15

// keepIndex writes the index of a segment unless it has the same flags.
func (s segment) keepIndex(want []byte) error {
	has, err := os.ReadFile(s.index())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	same := len(has) == len(want)
	for at := 0; same && at < len(want); at += entryBytes {
		entry := has[at : at+entryBytes]
		sum := crc32.Checksum(entry[2:], crc32.MakeTable(crc32.Castagnoli))
		same = entry[0] == 1 && entry[1] == byte(sum) && entry[entryBytes-1] == want[at+entryBytes-1]
	}
	if same || len(want) == 0 {
		return nil
	}
	return replaceFile(s.index(), want, time.Time{})
}

// keepEnd creates a segment for a partition from which all messages were deleted: without one its offsets would restart at
// 0.
func (p *partition) keepEnd(end int64) error {
	content := newEmpty(end-1, end)
	b, _ := batchAt(content)
	s := segment{data: filepath.Join(p.folder, fmt.Sprint(b.FirstOffset)+dataSuffix), base: b.FirstOffset, bytes: int64(len(content))}
	if err := s.keepIndex(entryOf(b)); err != nil {
		return err
	}
	p.segments = append(p.segments, s)
	return replaceFile(s.data, content, time.Time{})
}

// endsWithoutMessages reports whether a segment has only batches without messages, and ends before an offset.
func (s segment) endsWithoutMessages(before int64) (bool, error) {
	empty := true
	sound, err := s.headers(func(b batch) bool {
		empty = b.NumRecords == 0 && b.end() < before
		return empty
	})
	if errors.Is(err, fs.ErrNotExist) { // the broker has deleted it in the meantime
		return false, nil
	}
	return empty && sound > 0 && sound == s.bytes, err // without batches, the broker is about to write to it
}

// remove deletes a segment and its index. The index is deleted last: without its segment it is harmless.
func (s segment) remove() error {
	for _, path := range []string{s.data, s.index()} {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// replaceFile replaces or creates a file atomically. modified is its modification time, unless zero.
func replaceFile(path string, content []byte, modified time.Time) error {
	f, err := os.Create(path + temporarySuffix)
	if err != nil {
		return err
	}
	if _, err = io.Copy(f, bytes.NewReader(content)); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Chtimes(f.Name(), modified, modified)
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	folder, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// Byte positions in a record batch: https://kafka.apache.org/documentation/#recordbatch.
const (
	beforeLength   = 12 // bytes not counted by the length
	atMagic        = 16 // the version, which is 2
	atChecksum     = 17 // of all bytes after it
	atAttributes   = 21
	headerBytes    = 61
	maxBatchLength = 1 << 30 // kfake's own limit
)

// Attributes.
const (
	compressedBits = 0b111
	logAppendTime  = 1 << 3 // all records have the maximum timestamp, set by the broker
	transactional  = 1 << 4
	marker         = 1 << 5 // a control batch
)

const noTime = -1

// batch is a record batch of the log: its header, and its bytes unless only the header was read.
type batch struct {
	kmsg.RecordBatch
	raw []byte
}

// headerAt decodes the header at the beginning of data. ok is false if it is not plausible.
func headerAt(data []byte) (b batch, ok bool) {
	if len(data) < headerBytes {
		return b, false
	}
	_ = b.ReadFrom(data) // the records, which come last, may be missing
	return b, b.Length >= headerBytes-beforeLength && b.Length <= maxBatchLength && b.Magic == 2 && b.LastOffsetDelta >= 0 && b.NumRecords >= 0
}

// batchAt returns the batch at the beginning of data, or the reason why there is no whole one.
func batchAt(data []byte) (b batch, reason string) {
	b, ok := headerAt(data)
	switch {
	case len(data) < headerBytes:
		return b, "the header of the batch there is truncated"
	case !ok:
		return b, "a batch header is missing"
	case b.size() > len(data):
		return b, "the batch there is truncated"
	}
	if b.raw = data[:b.size()]; uint32(b.CRC) != checksumOf(b.raw) {
		return b, "the checksum of the batch there is wrong"
	}
	return b, ""
}

func (b *batch) size() int  { return beforeLength + int(b.Length) }
func (b *batch) end() int64 { return b.FirstOffset + int64(b.LastOffsetDelta) + 1 }

// time returns the timestamp of a record in milliseconds.
func (b *batch) time(r *kmsg.Record) int64 {
	if b.Attributes&logAppendTime != 0 {
		return b.MaxTimestamp
	}
	return b.FirstTimestamp + r.TimestampDelta64
}

// records returns the records of a batch that is neither compressed nor part of a transaction. It returns false for other batches, which
// this program does not write.
func (b *batch) records() ([]kmsg.Record, bool) {
	if b.Attributes&(compressedBits|transactional|marker) != 0 {
		return nil, false
	}
	records, err := kfake.BatchRecords(b.RecordBatch)
	return records, err == nil
}

// with returns a batch for the same offsets with only the given records. Kafka's log cleaner does the same: readers see
// the gaps, and the end of the log does not change.
func (b *batch) with(records []kmsg.Record) []byte {
	kept := b.RecordBatch
	kept.Records, kept.NumRecords = nil, int32(len(records))
	kept.MaxTimestamp = noTime // a search by time must not stop at removed records
	for i := range records {
		kept.Records = records[i].AppendTo(kept.Records)
		kept.MaxTimestamp = max(kept.MaxTimestamp, b.time(&records[i]))
	}
	return encodeBatch(kept)
}

func encodeBatch(b kmsg.RecordBatch) []byte {
	b.Length = int32(headerBytes - beforeLength + len(b.Records))
	raw := b.AppendTo(nil)
	binary.BigEndian.PutUint32(raw[atChecksum:], checksumOf(raw))
	return raw
}

func checksumOf(raw []byte) uint32 {
	return crc32.Checksum(raw[atAttributes:], crc32.MakeTable(crc32.Castagnoli))
}

// newEmpty returns batches without records that cover the offsets [from, to): one, or several if the range is too large.
func newEmpty(from, to int64) (raw []byte) {
	for from < to {
		n := min(to-from, math.MaxInt32)
		raw = append(raw, encodeBatch(kmsg.RecordBatch{FirstOffset: from, Magic: 2, LastOffsetDelta: int32(n - 1), FirstTimestamp: noTime,
			MaxTimestamp: noTime, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1})...)
		from += n
	}
	return raw
}

// age returns the age of a timestamp in milliseconds. Without a timestamp it is 0.
func age(now time.Time, milliseconds int64) time.Duration {
	if milliseconds < 0 {
		return 0
	}
	return now.Sub(time.UnixMilli(milliseconds))
}
