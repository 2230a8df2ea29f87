package outcome

import (
	"bufio"
	"bytes"
	"cmp"
	"container/heap"
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
	seed     maphash.Seed
	segments queue[*segment]
	block    [blockBytes]byte // of an index
}

// segment is a file of entries in order of position, followed by an index: their locations by hash of the key. The file does not change.
type segment struct {
	file    *os.File
	entries int
	removed int      // number of entries removed from the start
	settled []uint64 // bit set of the settled entries
	filter  []uint64 // Bloom filter of the hashes, of which each has its bits in one word
	fences  []uint64 // first hash of each block of the index
	index   int64    // offset of the index
	head    *entry   // first entry that is not removed
	next    int64    // offset of the entry after the first of all
	reader  *bufio.Reader
}

func (s *segment) at() examples.JoinPlace { return s.head.place }

// location is an item of an index.
type location struct {
	hash   uint64
	offset int64
	size   uint32
	number uint32 // of the entry in the segment
}

const (
	locationBytes = 24
	perBlock      = 170 // locations
	blockBytes    = perBlock * locationBytes
	filterBits    = 12 // per entry
	bufferBytes   = 32 << 10
)

// close deletes the files.
func (d *disk) close() (err error) {
	for _, s := range d.segments {
		err = errors.Join(err, s.file.Close())
	}
	d.segments = nil
	return err
}

// add writes entries, in order, as a segment.
func (d *disk) add(entries iter.Seq[*entry]) error {
	s, err := d.write(entries)
	if err != nil {
		return fmt.Errorf("write waiting rows to %s: %w", d.folder, err)
	}
	heap.Push(&d.segments, s)
	return nil
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
		b, _ = binary.Append(b[:0], binary.LittleEndian, []int64{e.place.Time, int64(e.place.Partition), e.place.Offset, e.behind,
			int64(len(e.key)), int64(len(e.value))}) // see read
		b = append(append(b, e.key...), e.value...)
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
		word, bits := s.filtered(l.hash)
		*word |= bits
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

// filtered returns the word of the filter with the bits of a hash, and these bits.
func (s *segment) filtered(hash uint64) (word *uint64, bits uint64) {
	for shift := 0; shift < 24; shift += 6 {
		bits |= 1 << (hash >> shift % 64)
	}
	return &s.filter[hash>>24%uint64(len(s.filter))], bits
}

// get returns the entries of a key. The caller may settle them until entries are added.
func (d *disk) get(key string) (entries []*entry, err error) {
	hash := maphash.String(d.seed, key)
	for _, s := range d.segments {
		if word, bits := s.filtered(hash); *word&bits != bits {
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
	h := make([]int64, 6)
	if err := binary.Read(from, binary.LittleEndian, h); err != nil {
		return nil, err
	}
	content := make([]byte, h[4]+h[5])
	_, err := io.ReadFull(from, content)
	return &entry{place: examples.JoinPlace{Time: h[0], Partition: int(h[1]), Offset: h[2]}, behind: h[3], settled: s.isSettled(number),
		segment: s, number: number, key: string(content[:h[4]]), value: content[h[4]:]}, err
}

func (s *segment) isSettled(number int) bool { return s.settled[number/64]&(1<<(number%64)) != 0 }

// settle records that an entry is settled.
func (s *segment) settle(number int) { s.settled[number/64] |= 1 << (number % 64) }

// first returns the first entry of all segments; nil: there is none.
func (d *disk) first() *entry {
	if len(d.segments) == 0 {
		return nil
	}
	s := d.segments[0]
	s.head.settled = s.isSettled(s.removed)
	return s.head
}

// removeFirst removes the first entry.
func (d *disk) removeFirst() (err error) {
	s := d.segments[0]
	if s.removed++; s.removed == s.entries {
		heap.Pop(&d.segments)
		return s.file.Close()
	}
	if s.reader == nil {
		s.reader = bufio.NewReaderSize(io.NewSectionReader(s.file, s.next, s.index-s.next), bufferBytes)
	}
	if s.head, err = s.read(s.reader, s.removed); err != nil {
		return d.fail(err)
	}
	heap.Fix(&d.segments, 0)
	return nil
}
