package outcome

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stagewise/stagewise/schemas/examples"
)

// Disk stores the waiting entries of a join that do not fit into memory, in a directory with a store created on first use.
type Disk struct {
	folder string
	memory int64 // memory limit of the store
	db     *pebble.DB
	lock   *pebble.Lock
	cache  *pebble.Cache
	counts map[byte]int
	heads  map[byte]*heads
}

// heads are the next positions of a table on disk, which were read together.
type heads struct {
	items []queued
	after []byte // key after the last one; nil: the first
	ended bool   // there are no further positions
}

// NewDisk returns a Disk in a directory, which it empties at the start and at the end.
func NewDisk(folder string, memory int64) *Disk {
	return &Disk{folder: folder, memory: memory, counts: map[byte]int{}, heads: map[byte]*heads{}}
}

const (
	storedByKey   = 0 // table prefix for the entries of a key, in sequence
	storedByPlace = 1 // table prefix for the key of an entry, by its position
	placeBytes    = 20
	headsAtOnce   = 1000
	minMemTable   = 256 << 10
	maxMemTable   = 64 << 20
	bloomBits     = 10
	maxFolders    = 16 // maximum number of directories of concurrent processes
)

// open opens an empty store.
func (d *Disk) open() (err error) {
	if d.db != nil {
		return nil
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("open the store of waiting rows in %s: %w", d.folder, err)
		}
	}()
	for base, n := d.folder, 1; ; n++ { // another process may use the same directory
		if err := os.MkdirAll(d.folder, 0o777); err != nil {
			return err
		}
		if d.lock, err = pebble.LockDirectory(d.folder, vfs.Default); err == nil {
			break
		}
		if n == maxFolders {
			return fmt.Errorf("%w: do other processes use the same data_dir?", err)
		}
		d.folder = fmt.Sprintf("%s.%d", base, n)
	}
	if err := d.empty(); err != nil {
		return errors.Join(err, d.lock.Close())
	}
	// Two tables, as much for blocks, and for compactions.
	share := uint64(max(minMemTable, min(maxMemTable, float64(d.memory)*(1-inMemory)/6)))
	d.cache = pebble.NewCache(int64(2 * share))
	o := &pebble.Options{FS: unsynced{vfs.Default}, Lock: d.lock, Cache: d.cache, DisableWAL: true, MemTableSize: share, Logger: silent{},
		MaxOpenFiles: 100, FormatMajorVersion: pebble.FormatNewest}
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(bloomBits)
	}
	d.db, err = pebble.Open(d.folder, o)
	return err
}

// empty removes files of an earlier process from the directory, except the lock.
func (d *Disk) empty() error {
	files, err := os.ReadDir(d.folder)
	if err != nil {
		return err
	}
	for _, f := range files {
		if f.Name() != "LOCK" {
			if err := os.RemoveAll(filepath.Join(d.folder, f.Name())); err != nil {
				return err
			}
		}
	}
	return nil
}

// close closes the store and removes its files. It keeps the directory, because another process may have started to use
// it.
func (d *Disk) close() error {
	if d == nil || d.db == nil {
		return nil
	}
	err := errors.Join(d.db.Close(), d.empty(), d.lock.Close())
	d.cache.Unref()
	d.db = nil
	return err
}

// entries returns the number of entries of a table on disk.
func (d *Disk) entries(prefix byte) int {
	if d == nil {
		return 0
	}
	return d.counts[prefix]
}

func keyed(prefix byte, key string) []byte { return append([]byte{prefix, storedByKey}, key...) }

func placed(prefix byte, p examples.JoinPlace) []byte {
	return appendPlace([]byte{prefix, storedByPlace}, p)
}

// appendPlace encodes a position so that the byte order is the order of positions.
func appendPlace(b []byte, p examples.JoinPlace) []byte {
	b = binary.BigEndian.AppendUint64(b, uint64(p.Time)^1<<63)
	b = binary.BigEndian.AppendUint32(b, uint32(p.Partition))
	return binary.BigEndian.AppendUint64(b, uint64(p.Offset))
}

func placeOf(b []byte) examples.JoinPlace {
	return examples.JoinPlace{Time: int64(binary.BigEndian.Uint64(b) ^ 1<<63), Partition: int(binary.BigEndian.Uint32(b[8:])),
		Offset: int64(binary.BigEndian.Uint64(b[12:]))}
}

// appendEntry encodes an entry of a key.
func appendEntry(b []byte, e entry) []byte {
	b = appendPlace(b, e.place)
	b = binary.AppendUvarint(b, uint64(e.behind)<<1|uint64(map[bool]int{true: 1}[e.settled]))
	b = binary.AppendUvarint(b, uint64(len(e.value)))
	return append(b, e.value...)
}

// add writes entries.
func (d *Disk) add(prefix byte, entries []entry) error {
	if err := d.open(); err != nil {
		return err
	}
	batch := d.db.NewBatch()
	for _, e := range entries {
		if err := errors.Join(batch.Merge(keyed(prefix, e.key), appendEntry(nil, e), nil),
			batch.Set(placed(prefix, e.place), []byte(e.key), nil)); err != nil {
			return fmt.Errorf("write waiting rows to %s: %w", d.folder, err)
		}
	}
	d.counts[prefix] += len(entries)
	d.heads[prefix] = &heads{} // some may precede existing entries
	if err := batch.Commit(pebble.NoSync); err != nil {
		return fmt.Errorf("write waiting rows to %s: %w", d.folder, err)
	}
	return nil
}

// get returns the entries of a key.
func (d *Disk) get(prefix byte, key string) (entries []entry, err error) {
	stored, done, err := d.db.Get(keyed(prefix, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read waiting rows in %s: %w", d.folder, err)
	}
	for rest := stored; len(rest) > 0; {
		e := entry{key: key, place: placeOf(rest)}
		rest = rest[placeBytes:]
		behind, n := binary.Uvarint(rest)
		e.behind, e.settled = int64(behind>>1), behind&1 > 0
		rest = rest[n:]
		size, n := binary.Uvarint(rest)
		rest = rest[n:]
		e.value = append([]byte(nil), rest[:size]...)
		entries = append(entries, e)
		rest = rest[size:]
	}
	return entries, done.Close()
}

// settle replaces an entry by a settled one.
func (d *Disk) settle(prefix byte, e entry) error {
	entries, err := d.get(prefix, e.key)
	if err != nil {
		return err
	}
	var all []byte
	for _, other := range entries {
		if other.place == e.place {
			other = e
		}
		all = appendEntry(all, other)
	}
	if err := d.db.Set(keyed(prefix, e.key), all, pebble.NoSync); err != nil {
		return fmt.Errorf("write waiting rows in %s: %w", d.folder, err)
	}
	return nil
}

// remove removes an entry. Its position is skipped later.
func (d *Disk) remove(prefix byte, e entry) error {
	entries, err := d.get(prefix, e.key)
	if err != nil {
		return err
	}
	var rest []byte
	for _, other := range entries {
		if other.place != e.place {
			rest = appendEntry(rest, other)
		}
	}
	d.counts[prefix]--
	if rest == nil {
		err = d.db.Delete(keyed(prefix, e.key), pebble.NoSync)
	} else {
		err = d.db.Set(keyed(prefix, e.key), rest, pebble.NoSync)
	}
	if err != nil {
		return fmt.Errorf("remove waiting rows in %s: %w", d.folder, err)
	}
	return nil
}

// first returns the first entry of a table, if its position is before a limit.
func (d *Disk) first(prefix byte, before examples.JoinPlace) (e entry, ok bool, err error) {
	h := d.heads[prefix]
	if h == nil {
		return e, false, nil
	}
	for {
		if len(h.items) == 0 {
			if h.ended {
				return e, false, nil
			}
			if err := d.readHeads(prefix, h); err != nil {
				return e, false, fmt.Errorf("read waiting rows in %s: %w", d.folder, err)
			}
			continue
		}
		head := h.items[0]
		if compare(head.place, before) >= 0 {
			return e, false, nil
		}
		entries, err := d.get(prefix, head.key)
		if err != nil {
			return e, false, err
		}
		for _, e := range entries {
			if e.place == head.place {
				return e, true, nil
			}
		}
		h.items = h.items[1:]
	}
}

// readHeads reads the next positions, and removes those before.
func (d *Disk) readHeads(prefix byte, h *heads) (err error) {
	begin := []byte{prefix, storedByPlace}
	if h.after != nil {
		if err := d.db.DeleteRange(begin, h.after, pebble.NoSync); err != nil {
			return err
		}
		begin = h.after
	}
	places, err := d.db.NewIter(&pebble.IterOptions{LowerBound: begin, UpperBound: []byte{prefix, storedByPlace + 1}})
	if err != nil {
		return err
	}
	for places.First(); places.Valid() && len(h.items) < headsAtOnce; places.Next() {
		key, err := places.ValueAndErr()
		if err != nil {
			return errors.Join(err, places.Close())
		}
		h.items = append(h.items, queued{placeOf(places.Key()[2:]), string(key)})
	}
	if len(h.items) == 0 {
		h.ended = true
	} else {
		h.after = append(placed(prefix, h.items[len(h.items)-1].place), 0)
	}
	return places.Close()
}

// silent discards the log of a store, whose errors are returned.
type silent struct{}

func (silent) Infof(string, ...any) {}

func (silent) Errorf(string, ...any) {}

func (silent) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
