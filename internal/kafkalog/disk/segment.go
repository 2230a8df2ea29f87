package disk

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

	"github.com/stagewise/stagewise/internal/kafkalog/recordbatch"
)

// partition is a partition of a topic, as its folder holds it.
type partition struct {
	topic    *topic
	number   int
	folder   string
	segments []segment // in the order of their offsets. The broker appends to the last
}

// segment is a file of batches, and beside it an index with an entry of entryBytes for each batch.
type segment struct {
	data     string // its path
	base     int64  // the first offset when it was begun
	bytes    int64
	modified time.Time
}

func (s segment) index() string { return strings.TrimSuffix(s.data, dataSuffix) + indexSuffix }

const (
	dataSuffix  = ".dat"
	indexSuffix = ".idx"
	entryBytes  = 15
	// temporarySuffix is that of a file that is being written. kfake deletes such files.
	temporarySuffix = ".tmp"
)

// newEntry returns the entry of a batch in an index: a version, a checksum, the epoch of the leader, which is 0, a time that kfake does
// not read, and flags.
func newEntry(flags byte) []byte {
	entry := make([]byte, entryBytes)
	entry[0], entry[entryBytes-1] = 1, flags
	entry[1] = byte(crc32.Checksum(entry[2:], crc32.MakeTable(crc32.Castagnoli)))
	return entry
}

// isEntry reports whether an entry of an index is of a batch with these flags.
func isEntry(entry []byte, flags byte) bool {
	return entry[0] == 1 && entry[1] == byte(crc32.Checksum(entry[2:], crc32.MakeTable(crc32.Castagnoli))) && entry[entryBytes-1] == flags
}

// indexFlags are what an index says about a batch: 1 if it is of a transaction, which a marker of its end is not.
func (b batch) indexFlags() byte {
	if b.attributes()&(recordbatch.Transactional|recordbatch.Marker) == recordbatch.Transactional {
		return 1
	}
	return 0
}

// list finds the segments of a partition in its folder. There are none before the first message.
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
			continue // the broker has deleted it meanwhile
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

// headers calls visit with the header of each batch, until visit returns false. It returns the bytes of the batches before: less
// than the file has if the broker is writing to it, or was killed while it did, or if the file is damaged.
func (s segment) headers(visit func(batch) bool) (sound int64, err error) {
	f, err := os.Open(s.data)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make(batch, recordbatch.HeaderBytes)
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

// batches is headers for whole batches that are intact, until visit returns an error. A batch is valid until visit returns.
func (s segment) batches(visit func(batch) error) (sound int64, err error) {
	f, err := os.Open(s.data)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(f, 1<<20)
	b := make(batch, recordbatch.HeaderBytes)
	for {
		b = b[:recordbatch.HeaderBytes]
		if _, err := io.ReadFull(r, b); err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && (!b.sound() || sound+b.bytes() > s.bytes) {
			return sound, nil
		} else if err != nil {
			return sound, err
		}
		b = slices.Grow(b, int(b.bytes())-recordbatch.HeaderBytes)[:b.bytes()]
		if _, err := io.ReadFull(r, b[recordbatch.HeaderBytes:]); err == io.EOF || err == io.ErrUnexpectedEOF || err == nil && !b.intact() {
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

// snapshot is kfake's own file beside the segments, which it writes when it is closed. With one whose segments are those of the
// folder it opens a partition segment by segment. Without, it reads the whole partition into memory, and takes the first
// offset in a file for the first that is not deleted. As it knows segments by their sizes, a snapshot of other files is dangerous.
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

// snapshot reads a partition's snapshot. It returns nil if there is none that can be read.
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

// matches reports whether a snapshot is of the segments that are there.
func (s *snapshot) matches(p *partition) bool {
	return slices.EqualFunc(s.Segments, p.segments, func(s snapshotSegment, f segment) bool {
		return s.Base == f.base && s.Bytes == f.bytes
	})
}

// prepare makes a snapshot of a partition that has none that matches, because the broker was killed or files were deleted. First
// it cuts off what the broker was writing when it was killed.
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

// keepEnd makes a segment for a partition from which all messages were deleted: without one its offsets would begin at 0 again.
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

// endsWithoutMessages reports whether a segment has batches, none of which has messages, and ends before an offset.
func (s segment) endsWithoutMessages(before int64) (bool, error) {
	empty := true
	sound, err := s.headers(func(b batch) bool {
		empty = b.count() == 0 && b.end() < before
		return empty
	})
	if errors.Is(err, fs.ErrNotExist) { // the broker has deleted it meanwhile
		return false, nil
	}
	return empty && sound > 0 && sound == s.bytes, err // without batches it is one that the broker is about to write to
}

// replaceFile replaces a file, or makes it. Whoever is killed meanwhile leaves the old one or the new one.
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

// takeSnapshot makes a snapshot of a partition. A partition with transactions it leaves to kfake, which reads from their markers
// how they ended. Of the old snapshot, which may be nil, it takes the first offset that is not deleted.
func (p *partition) takeSnapshot(old *snapshot) error {
	made := snapshot{Version: 1, CreatedAt: p.segments[0].modified}
	var messages, transactions, disorder bool
	for i, s := range p.segments {
		sound, err := s.headers(func(b batch) bool {
			if i == 0 && made.HighWatermark == 0 {
				made.LogStartOffset = b.base()
			}
			disorder = disorder || b.base() < made.HighWatermark
			transactions = transactions || b.attributes()&(recordbatch.Transactional|recordbatch.Marker) != 0
			messages = messages || b.count() > 0
			made.HighWatermark, made.MaxTimestamp = b.end(), max(made.MaxTimestamp, b.maxTime())
			if !messages && p.topic.deletes {
				made.LogStartOffset = b.end() // all before has expired
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
	if old != nil { // records below this offset were deleted, although their file is still there
		made.LogStartOffset = max(made.LogStartOffset, min(old.LogStartOffset, made.HighWatermark))
	}
	made.LastStableOffset = made.HighWatermark
	content, err := json.Marshal(made)
	if err != nil {
		return err
	}
	return replaceFile(filepath.Join(p.folder, snapshotFile), content)
}

// cutTorn cuts the last segment after its last intact batch, and removes it if it has none.
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

// remove deletes a segment and its index. The index goes last: without its segment it does no harm.
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

// writer writes batches into new segments in a folder.
type writer struct {
	folder   string
	limit    int64     // of bytes: a segment that has reached it is followed by another
	modified time.Time // when what is written now was first written
	written  int64     // bytes of the current segment

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

// close makes sure that the current segment is on disk.
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
		err = os.Chtimes(w.data.Name(), w.modified, w.modified) // retention goes by it
	}
	w.data, w.index = nil, nil
	return err
}
