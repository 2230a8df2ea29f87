package outcome

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"os"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
)

// disk stores the entries of a table that do not fit into memory, in segments. Its files are unlinked, so a killed process leaves none.
type disk struct {
	folder   string // "": there is none
	index    int64  // memory limit of the index of a merged segment
	seed     maphash.Seed
	segments []*segment
	block    [blockBytes]byte // of an index
}

// segment is a file of entries in order of position, followed by an index: their locations by hash of the key. The file does not change.
type segment struct {
	file    *os.File
	level   int // number of merges of its entries
	entries int
	removed int      // number of entries removed from the start
	settled []uint64 // bit set of the settled entries
	filter  []uint64 // Bloom filter of the hashes
	fences  []uint64 // first hash of each block of the index
	index   int64    // offset of the index
	head    *entry   // first entry that is not removed
	next    int64    // offset of the entry after the first of all
	reader  *bufio.Reader
}

// location is an item of an index.
type location struct {
	hash   uint64
	offset int64
	size   uint32
	number uint32 // of the entry in the segment
}

const (
	recordHeader   = 36 // position, time behind, and the sizes of key and value
	locationBytes  = 24
	perBlock       = 170 // locations
	blockBytes     = perBlock * locationBytes
	filterBits     = 10 // per entry
	filterProbes   = 4
	bufferBytes    = 32 << 10
	mergedTogether = 8
	indexShare     = 4 // divides the memory limit
)

// close deletes the files.
func (d *disk) close() (err error) {
	for _, s := range d.segments {
		err = errors.Join(err, s.file.Close())
	}
	d.segments = nil
	return err
}

// add writes entries, in order, as a segment, and merges segments if there are many.
func (d *disk) add(entries iter.Seq[*entry]) error {
	s, err := d.write(entries)
	if err != nil {
		return fmt.Errorf("write waiting rows to %s: %w", d.folder, err)
	}
	d.segments = append(d.segments, s)
	for level := 0; err == nil && s != nil; level++ {
		if s, err = d.merge(level); err != nil {
			return fmt.Errorf("merge waiting rows in %s: %w", d.folder, err)
		}
	}
	return err
}

// merge merges the segments of a level, if there are enough and their index fits in memory, and returns the merged one.
func (d *disk) merge(level int) (*segment, error) {
	var of, others []*segment
	count := 0
	for _, s := range d.segments {
		if s.level == level {
			of, count = append(of, s), count+s.entries-s.removed
		} else {
			others = append(others, s)
		}
	}
	if len(of) < mergedTogether || int64(count)*locationBytes > d.index {
		return nil, nil
	}
	var read error
	merged, err := d.write(func(yield func(*entry) bool) {
		for s := earliest(of); s != nil && yield(s.first()); s = earliest(of) {
			if read = s.pop(); read != nil {
				return
			}
		}
	})
	if err = errors.Join(read, err); err != nil {
		return nil, err
	}
	for _, s := range of {
		err = errors.Join(err, s.file.Close())
	}
	merged.level = level + 1
	d.segments = append(others, merged)
	return merged, err
}

// write writes a segment.
func (d *disk) write(entries iter.Seq[*entry]) (s *segment, err error) {
	if err := os.MkdirAll(d.folder, 0o777); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(d.folder, "waiting-")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	s = &segment{file: f}
	w := bufio.NewWriterSize(f, bufferBytes) // its first error is that of Flush
	var index []location
	var b []byte
	for e := range entries {
		b = appendRecord(b[:0], e)
		_, _ = w.Write(b)
		index = append(index, location{maphash.String(d.seed, e.key), s.index, uint32(len(b)), uint32(s.entries)})
		s.index += int64(len(b))
		if s.entries == 0 {
			s.head, s.next = e, s.index
			e.segment, e.number = s, 0
		}
		if s.entries++; s.entries > 64*len(s.settled) {
			s.settled = append(s.settled, 0)
		}
		if e.settled {
			s.settle(s.entries - 1)
		}
	}
	slices.SortFunc(index, func(a, b location) int { return cmp.Compare(a.hash, b.hash) })
	s.filter = make([]uint64, len(index)*filterBits/64+1)
	for i, l := range index {
		if i%perBlock == 0 {
			s.fences = append(s.fences, l.hash)
		}
		for bit := range s.bits(l.hash) {
			s.filter[bit/64] |= 1 << (bit % 64)
		}
		b = binary.LittleEndian.AppendUint64(b[:0], l.hash)
		b = binary.LittleEndian.AppendUint64(b, uint64(l.offset))
		b = binary.LittleEndian.AppendUint32(b, l.size)
		_, _ = w.Write(binary.LittleEndian.AppendUint32(b, l.number))
	}
	if err := w.Flush(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}

// appendRecord encodes an entry. Whether it is settled is in the segment.
func appendRecord(b []byte, e *entry) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(e.place.Time))
	b = binary.LittleEndian.AppendUint32(b, uint32(e.place.Partition))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.place.Offset))
	b = binary.LittleEndian.AppendUint64(b, uint64(e.behind))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.key)))
	b = binary.LittleEndian.AppendUint32(b, uint32(len(e.value)))
	return append(append(b, e.key...), e.value...)
}

// readRecord decodes an entry.
func readRecord(from io.Reader) (e *entry, err error) {
	var header [recordHeader]byte
	e = &entry{}
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return e, err
	}
	u64, u32 := binary.LittleEndian.Uint64, binary.LittleEndian.Uint32
	e.place = examples.JoinPlace{Time: int64(u64(header[:])), Partition: int(u32(header[8:])), Offset: int64(u64(header[12:]))}
	e.behind = int64(u64(header[20:]))
	key, value := u32(header[28:]), u32(header[32:])
	content := make([]byte, int64(key)+int64(value))
	_, err = io.ReadFull(from, content)
	e.key, e.value = string(content[:key]), content[key:]
	return e, err
}

// bits returns the bits of a hash in the filter.
func (s *segment) bits(hash uint64) iter.Seq[uint64] {
	return func(yield func(uint64) bool) {
		for range filterProbes {
			if !yield(hash % uint64(64*len(s.filter))) {
				return
			}
			hash = hash>>17 | hash<<47
		}
	}
}

// mayHave reports whether an entry may have the hash.
func (s *segment) mayHave(hash uint64) bool {
	for bit := range s.bits(hash) {
		if s.filter[bit/64]&(1<<(bit%64)) == 0 {
			return false
		}
	}
	return true
}

// get returns the entries of a key. The caller may settle them until entries are added.
func (d *disk) get(key string) (entries []*entry, err error) {
	hash := maphash.String(d.seed, key)
	for _, s := range d.segments {
		if !s.mayHave(hash) {
			continue
		}
		at, _ := slices.BinarySearch(s.fences, hash)
		for at = max(0, at-1); at < len(s.fences) && s.fences[at] <= hash; at++ {
			block := d.block[:locationBytes*min(perBlock, s.entries-at*perBlock)]
			if _, err := s.file.ReadAt(block, s.index+int64(at)*blockBytes); err != nil {
				return nil, d.fail(err)
			}
			for ; len(block) > 0; block = block[locationBytes:] {
				number := int(binary.LittleEndian.Uint32(block[20:]))
				if binary.LittleEndian.Uint64(block) != hash || number < s.removed {
					continue
				}
				record := make([]byte, binary.LittleEndian.Uint32(block[16:]))
				if _, err := s.file.ReadAt(record, int64(binary.LittleEndian.Uint64(block[8:]))); err != nil {
					return nil, d.fail(err)
				}
				if e, err := s.read(bytes.NewReader(record), number); err != nil {
					return nil, d.fail(err)
				} else if e.key == key {
					entries = append(entries, e)
				}
			}
		}
	}
	return entries, nil
}

func (d *disk) fail(err error) error { return fmt.Errorf("read waiting rows in %s: %w", d.folder, err) }

// read reads an entry.
func (s *segment) read(from io.Reader, number int) (*entry, error) {
	e, err := readRecord(from)
	e.segment, e.number, e.settled = s, number, s.isSettled(number)
	return e, err
}

func (s *segment) isSettled(number int) bool { return s.settled[number/64]&(1<<(number%64)) != 0 }

// settle records that an entry is settled.
func (s *segment) settle(number int) { s.settled[number/64] |= 1 << (number % 64) }

// first returns the first entry of all segments; nil: there is none.
func (d *disk) first() *entry {
	if s := earliest(d.segments); s != nil {
		return s.first()
	}
	return nil
}

// removeFirst removes the first entry.
func (d *disk) removeFirst() error {
	s := earliest(d.segments)
	if err := s.pop(); err != nil {
		return d.fail(err)
	}
	if s.removed < s.entries {
		return nil
	}
	d.segments = slices.DeleteFunc(d.segments, func(other *segment) bool { return other == s })
	return s.file.Close()
}

// earliest returns the segment with the first entry; nil: none has any.
func earliest(of []*segment) (first *segment) {
	for _, s := range of {
		if s.removed < s.entries && (first == nil || compare(s.head.place, first.head.place) < 0) {
			first = s
		}
	}
	return first
}

// first returns the first entry that is not removed.
func (s *segment) first() *entry {
	s.head.settled = s.isSettled(s.removed)
	return s.head
}

// pop removes the first entry.
func (s *segment) pop() (err error) {
	if s.removed++; s.removed == s.entries {
		return nil
	}
	if s.reader == nil {
		s.reader = bufio.NewReaderSize(io.NewSectionReader(s.file, s.next, s.index-s.next), bufferBytes)
	}
	s.head, err = s.read(s.reader, s.removed)
	return err
}
