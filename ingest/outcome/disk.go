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

// Disk stores the waiting entries of a join that do not fit into memory, in segments. Its files have no names, so nothing is left of a
// process that is killed.
type Disk struct {
	folder string
	memory int64 // memory limit of the store
	seed   maphash.Seed
	tables map[byte][]*segment
	block  [blockBytes]byte // of an index
}

// segment is a file of entries in order of position, followed by an index: their locations by hash of the key. The file does not change.
type segment struct {
	file    *os.File
	level   int // how often its entries were merged
	entries int
	removed int      // entries from the start
	settled []uint64 // bit set of the entries
	filter  []uint64 // Bloom filter of the hashes
	fences  []uint64 // first hash of each block of the index
	index   int64    // offset of the index
	head    *entry   // first entry that is not removed
	next    int64    // offset of the entry after it
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
	indexShare     = 4 // of the memory limit, for the index of merged segments
)

// NewDisk returns a Disk in a directory.
func NewDisk(folder string, memory int64) *Disk {
	return &Disk{folder: folder, memory: memory, seed: maphash.MakeSeed(), tables: map[byte][]*segment{}}
}

// close deletes the files.
func (d *Disk) close() (err error) {
	if d == nil {
		return nil
	}
	for _, segments := range d.tables {
		for _, s := range segments {
			err = errors.Join(err, s.file.Close())
		}
	}
	clear(d.tables)
	return err
}

// has reports whether entries of a table are on disk.
func (d *Disk) has(prefix byte) bool { return d != nil && len(d.tables[prefix]) > 0 }

// add writes entries, in order, as a segment, and merges segments if there are many.
func (d *Disk) add(prefix byte, entries iter.Seq[*entry]) error {
	s, err := d.write(entries)
	if err != nil {
		return fmt.Errorf("write waiting rows to %s: %w", d.folder, err)
	}
	d.tables[prefix] = append(d.tables[prefix], s)
	for level := 0; err == nil && s != nil; level++ {
		if s, err = d.merge(prefix, level); err != nil {
			return fmt.Errorf("merge waiting rows in %s: %w", d.folder, err)
		}
	}
	return err
}

// merge merges the segments of a level, if there are enough and their index fits in memory, and returns the merged one.
func (d *Disk) merge(prefix byte, level int) (*segment, error) {
	var of, others []*segment
	count := 0
	for _, s := range d.tables[prefix] {
		if s.level == level {
			of, count = append(of, s), count+s.entries-s.removed
		} else {
			others = append(others, s)
		}
	}
	if len(of) < mergedTogether || int64(count)*locationBytes > d.memory/indexShare {
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
	d.tables[prefix] = append(others, merged)
	return merged, err
}

// write writes a segment.
func (d *Disk) write(entries iter.Seq[*entry]) (s *segment, err error) {
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
			e.stored = true
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

// readRecord decodes an entry, and returns its size.
func readRecord(from io.Reader) (e *entry, size int64, err error) {
	var header [recordHeader]byte
	e = &entry{stored: true}
	if _, err := io.ReadFull(from, header[:]); err != nil {
		return e, 0, err
	}
	u64, u32 := binary.LittleEndian.Uint64, binary.LittleEndian.Uint32
	e.place = examples.JoinPlace{Time: int64(u64(header[:])), Partition: int(u32(header[8:])), Offset: int64(u64(header[12:]))}
	e.behind = int64(u64(header[20:]))
	key, value := u32(header[28:]), u32(header[32:])
	content := make([]byte, int64(key)+int64(value))
	_, err = io.ReadFull(from, content)
	e.key, e.value = string(content[:key]), content[key:]
	return e, recordHeader + int64(len(content)), err
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

func (s *segment) settle(number int) { s.settled[number/64] |= 1 << (number % 64) }

func (s *segment) isSettled(number int) bool { return s.settled[number/64]&(1<<(number%64)) != 0 }

// find calls with for the segments and locations of the entries with the hash of a key.
func (d *Disk) find(prefix byte, key string, with func(*segment, location) error) error {
	hash := maphash.String(d.seed, key)
	for _, s := range d.tables[prefix] {
		if !s.mayHave(hash) {
			continue
		}
		at, _ := slices.BinarySearch(s.fences, hash)
		for at = max(0, at-1); at < len(s.fences) && s.fences[at] <= hash; at++ {
			block := d.block[:locationBytes*min(perBlock, s.entries-at*perBlock)]
			if _, err := s.file.ReadAt(block, s.index+int64(at)*blockBytes); err != nil {
				return fmt.Errorf("read waiting rows in %s: %w", d.folder, err)
			}
			for ; len(block) > 0; block = block[locationBytes:] {
				l := location{hash: binary.LittleEndian.Uint64(block), offset: int64(binary.LittleEndian.Uint64(block[8:])),
					size: binary.LittleEndian.Uint32(block[16:]), number: binary.LittleEndian.Uint32(block[20:])}
				if l.hash != hash || int(l.number) < s.removed {
					continue
				}
				if err := with(s, l); err != nil {
					return fmt.Errorf("read waiting rows in %s: %w", d.folder, err)
				}
			}
		}
	}
	return nil
}

// get returns the entries of a key.
func (d *Disk) get(prefix byte, key string) (entries []*entry, err error) {
	err = d.find(prefix, key, func(s *segment, l location) error {
		e, _, err := readRecord(bufio.NewReaderSize(io.NewSectionReader(s.file, l.offset, int64(l.size)), int(l.size)))
		if e.settled = s.isSettled(int(l.number)); e.key == key {
			entries = append(entries, e)
		}
		return err
	})
	return entries, err
}

// settle records that an entry is settled. It reads no values: a key may have many entries.
func (d *Disk) settle(prefix byte, e *entry) error {
	record := appendRecord(nil, e)
	record = record[:len(record)-len(e.value)]
	const sizes = recordHeader - 8
	stored := make([]byte, len(record))
	return d.find(prefix, e.key, func(s *segment, l location) error {
		if int(l.size) < len(record) {
			return nil
		}
		_, err := s.file.ReadAt(stored, l.offset)
		if bytes.Equal(stored[:sizes], record[:sizes]) && bytes.Equal(stored[recordHeader:], record[recordHeader:]) {
			s.settle(int(l.number))
		}
		return err
	})
}

// first returns the first entry of a table; nil: there is none.
func (d *Disk) first(prefix byte) *entry {
	s := earliest(d.tables[prefix])
	if s == nil {
		return nil
	}
	return s.first()
}

// removeFirst removes the first entry of a table.
func (d *Disk) removeFirst(prefix byte) error {
	s := earliest(d.tables[prefix])
	if err := s.pop(); err != nil {
		return fmt.Errorf("read waiting rows in %s: %w", d.folder, err)
	}
	if s.removed < s.entries {
		return nil
	}
	d.tables[prefix] = slices.DeleteFunc(d.tables[prefix], func(other *segment) bool { return other == s })
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
func (s *segment) pop() error {
	if s.removed++; s.removed == s.entries {
		return nil
	}
	if s.reader == nil {
		s.reader = bufio.NewReaderSize(io.NewSectionReader(s.file, s.next, s.index-s.next), bufferBytes)
	}
	e, size, err := readRecord(s.reader)
	s.head, s.next = e, s.next+size
	return err
}
