package embedded

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// partition is the directory of a topic partition.
type partition struct {
	topic    *topic
	number   int
	folder   string
	segments []segment // in offset order. The broker appends to the last
}

// segment is a file of batches, with an index file that has an entry of entryBytes for each batch.
type segment struct {
	data     string // its path
	base     int64  // first offset at its creation
	bytes    int64
	modified time.Time
}

func (s segment) index() string { return strings.TrimSuffix(s.data, dataSuffix) + indexSuffix }

const (
	dataSuffix  = ".dat"
	indexSuffix = ".idx"
	entryBytes  = 15
	// temporarySuffix marks a file that is being written. kfake deletes such files.
	temporarySuffix = ".tmp"
)

// newEntry returns the index entry of a batch: a version, a checksum, the leader epoch, which is 0, a timestamp that kfake
// does not read, and flags.
func newEntry(flags byte) []byte {
	entry := make([]byte, entryBytes)
	entry[0], entry[entryBytes-1] = 1, flags
	entry[1] = byte(crc32.Checksum(entry[2:], crc32.MakeTable(crc32.Castagnoli)))
	return entry
}

// isEntry reports whether an index entry belongs to a batch with these flags.
func isEntry(entry []byte, flags byte) bool {
	return entry[0] == 1 && entry[1] == byte(crc32.Checksum(entry[2:], crc32.MakeTable(crc32.Castagnoli))) && entry[entryBytes-1] == flags
}

// indexFlags are the index flags of a batch: 1 if it is transactional, except for control batches.
func (b batch) indexFlags() byte {
	if b.attributes()&(transactional|marker) == transactional {
		return 1
	}
	return 0
}

// list lists the segments of a partition. There are none before the first message.
func (p *partition) list() error {
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

// headers calls visit with the header of each batch, until visit returns false. It returns the total length of these
// batches: less than the file's if the broker is writing to it, or was killed during a write, or if the file is damaged.
func (s segment) headers(visit func(batch) bool) (sound int64, err error) {
	f, err := os.Open(s.data)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make(batch, headerBytes)
	for {
		if _, err := f.ReadAt(b, sound); err == io.EOF || err == nil && (!b.sound() || sound+b.bytes() > s.bytes) {
			return sound, nil
		} else if err != nil {
			return sound, err
		}
		if !visit(b) {
			return sound, nil
		}
		sound += b.bytes()
	}
}

// batches is headers for whole intact batches, until visit returns an error. A batch is valid until visit returns.
func (s segment) batches(visit func(batch) error) (sound int64, err error) {
	f, err := os.Open(s.data)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	b := make(batch, headerBytes)
	for {
		b = b[:headerBytes]
		if _, err := io.ReadFull(r, b); err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && (!b.sound() || sound+b.bytes() > s.bytes) {
			return sound, nil
		} else if err != nil {
			return sound, err
		}
		b = slices.Grow(b, int(b.bytes())-headerBytes)[:b.bytes()]
		if _, err := io.ReadFull(r, b[headerBytes:]); err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && !b.intact() {
			return sound, nil
		} else if err != nil {
			return sound, err
		}
		if err := visit(b); err != nil {
			return sound, err
		}
		sound += b.bytes()
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

// snapshot reads a partition's snapshot. It returns nil if it is missing or unreadable.
func (p *partition) snapshot() *snapshot {
	content, err := os.ReadFile(filepath.Join(p.folder, snapshotFile))
	if err != nil {
		return nil
	}
	var s snapshot
	if json.Unmarshal(content, &s) != nil || s.Version != 1 {
		return nil
	}
	return &s
}

// matches reports whether a snapshot matches the existing segments.
func (s *snapshot) matches(p *partition) bool {
	return slices.EqualFunc(s.Segments, p.segments, func(s snapshotSegment, f segment) bool {
		return s.Base == f.base && s.Bytes == f.bytes
	})
}

// prepare creates a snapshot of a partition without a matching one, because the broker was killed or files were deleted.
// First it cuts off a torn batch.
func (p *partition) prepare() error {
	old := p.snapshot()
	if len(p.segments) > 0 && old != nil && old.matches(p) {
		if end, err := p.end(); err != nil || end == old.HighWatermark {
			return err
		}
	}
	if err := p.cutTorn(); err != nil {
		return err
	}
	if len(p.segments) == 0 {
		if old == nil || old.HighWatermark == 0 {
			return nil
		}
		if err := p.keepEnd(old.HighWatermark); err != nil {
			return err
		}
	}
	return p.takeSnapshot(old)
}

// end returns the offset after the last batch.
func (p *partition) end() (end int64, err error) {
	_, err = p.segments[len(p.segments)-1].headers(func(b batch) bool {
		end = b.end()
		return true
	})
	return end, err
}

// keepEnd creates a segment for a partition from which all messages were deleted: without one its offsets would restart at
// 0.
func (p *partition) keepEnd(end int64) error {
	b := newEmpty(end-1, end)[0]
	s := segment{data: filepath.Join(p.folder, fmt.Sprint(b.base())+dataSuffix), base: b.base(), bytes: int64(len(b))}
	if err := replaceFile(s.index(), newEntry(b.indexFlags())); err != nil {
		return err
	}
	if err := replaceFile(s.data, b); err != nil {
		return err
	}
	p.segments = append(p.segments, s)
	return nil
}

// endsWithoutMessages reports whether a segment has only batches without messages, and ends before an offset.
func (s segment) endsWithoutMessages(before int64) (bool, error) {
	empty := true
	sound, err := s.headers(func(b batch) bool {
		empty = b.count() == 0 && b.end() < before
		return empty
	})
	if errors.Is(err, fs.ErrNotExist) { // the broker has deleted it in the meantime
		return false, nil
	}
	return empty && sound > 0 && sound == s.bytes, err // without batches, the broker is about to write to it
}

// replaceFile replaces or creates a file atomically.
func replaceFile(path string, content []byte) error {
	f, err := os.Create(path + temporarySuffix)
	if err != nil {
		return err
	}
	if _, err = f.Write(content); err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(filepath.Dir(path))
}

// takeSnapshot creates a snapshot of a partition. It leaves a partition with transactions to kfake, which determines their
// outcomes from their markers. From the old snapshot, which may be nil, it takes the log start offset.
func (p *partition) takeSnapshot(old *snapshot) error {
	made := snapshot{Version: 1, CreatedAt: p.segments[0].modified}
	var messages, transactions, disorder bool
	for i, s := range p.segments {
		sound, err := s.headers(func(b batch) bool {
			if i == 0 && made.HighWatermark == 0 {
				made.LogStartOffset = b.base()
			}
			disorder = disorder || b.base() < made.HighWatermark
			transactions = transactions || b.attributes()&(transactional|marker) != 0
			messages = messages || b.count() > 0
			made.HighWatermark, made.MaxTimestamp = b.end(), max(made.MaxTimestamp, b.maxTime())
			if !messages && p.topic.deletes {
				made.LogStartOffset = b.end() // everything before has expired
			}
			return true
		})
		if err != nil {
			return err
		}
		disorder = disorder || sound != s.bytes
		made.Segments = append(made.Segments, snapshotSegment{s.base, s.bytes})
	}
	if transactions || disorder {
		return nil
	}
	if old != nil { // earlier records were deleted, although their file still exists
		made.LogStartOffset = max(made.LogStartOffset, min(old.LogStartOffset, made.HighWatermark))
	}
	made.LastStableOffset = made.HighWatermark
	content, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.folder, snapshotFile), content)
}

// cutTorn truncates the last segment after its last intact batch, and removes it if it has none.
func (p *partition) cutTorn() error {
	for len(p.segments) > 0 {
		last := &p.segments[len(p.segments)-1]
		sound, err := last.batches(func(batch) error { return nil })
		if err != nil {
			return err
		}
		if sound == last.bytes && sound > 0 {
			return nil
		}
		if sound > 0 {
			last.bytes = sound
			return os.Truncate(last.data, sound)
		}
		if err := last.remove(); err != nil {
			return err
		}
		p.segments = p.segments[:len(p.segments)-1]
	}
	return nil
}

// remove deletes a segment and its index. The index is deleted last: without its segment it is harmless.
func (s segment) remove() error {
	err := os.Remove(s.data)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if also := os.Remove(s.index()); err == nil && !errors.Is(also, fs.ErrNotExist) {
		err = also
	}
	return err
}

// writer writes batches to new segments in a directory.
type writer struct {
	folder   string
	limit    int64     // segment size at which a segment is rolled
	modified time.Time // modification time of the source segment
	written  int64     // size of the current segment

	data, index *os.File // nil before the first batch
	out         *bufio.Writer
}

func (w *writer) write(b batch, entry []byte) error {
	if w.data == nil || w.written >= w.limit {
		if err := w.close(); err != nil {
			return err
		}
		next := segment{data: filepath.Join(w.folder, fmt.Sprint(b.base())+dataSuffix)}
		var err error
		if w.data, err = os.Create(next.data); err != nil {
			return err
		}
		if w.index, err = os.Create(next.index()); err != nil {
			return err
		}
		w.out, w.written = bufio.NewWriterSize(w.data, 1<<20), 0
	}
	w.written += int64(len(b))
	if _, err := w.out.Write(b); err != nil {
		return err
	}
	_, err := w.index.Write(entry)
	return err
}

// close syncs the current segment to disk.
func (w *writer) close() error {
	if w.data == nil {
		return nil
	}
	err := w.out.Flush()
	for _, f := range []*os.File{w.data, w.index} {
		if f == nil {
			continue
		}
		if err == nil {
			err = f.Sync()
		}
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = os.Chtimes(w.data.Name(), w.modified, w.modified) // retention depends on it
	}
	w.data, w.index = nil, nil
	return err
}
