package outcome

import (
	"container/heap"
	"hash/maphash"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
)

// entry is a waiting row or outcome.
type entry struct {
	place   examples.JoinPlace
	behind  int64    // how far the time of the message is behind the latest one of its partition
	settled bool     // it is kept only for its key
	segment *segment // on disk; nil: it is in memory
	number  int      // in the segment
	key     string
	value   []byte
}

func (e *entry) at() examples.JoinPlace { return e.place }

// overhead is the approximate memory of an entry besides its key and its value: itself, its positions in the queue and
// under its key.
const overhead = 200

func (e *entry) size() int64 { return overhead + int64(len(e.key)+len(e.value)) }

func byPlace(a, b *entry) int { return compare(a.place, b.place) }

// table has entries by key and in order of position. The oldest entries may be on disk.
type table struct {
	limit int64 // of bytes; 0: none
	disk  disk
	byKey map[string][]*entry
	order queue[*entry]
	open  int   // number of entries that are not settled, including those on disk
	bytes int64 // size of the entries in memory
}

// newTable returns an empty table. limit is its memory, with that of its disk; 0: unlimited.
func newTable(limit int64, folder string) *table {
	return &table{limit: limit / inMemory, byKey: map[string][]*entry{},
		disk: disk{folder: folder, seed: maphash.MakeSeed()}}
}

// add adds an entry. If there are too many, it moves the oldest ones to disk, about half of the bytes.
func (t *table) add(e *entry) error {
	t.byKey[e.key] = append(t.byKey[e.key], e)
	heap.Push(&t.order, e)
	if !e.settled {
		t.open++
	}
	if t.bytes += e.size(); t.limit == 0 || t.bytes <= t.limit {
		return nil
	}
	target := t.bytes / 2
	return t.disk.add(func(yield func(*entry) bool) {
		for t.bytes > target && yield(t.pop()) {
		}
	})
}

// get returns the entries of a key in order. The caller may modify the list.
func (t *table) get(key string) (entries []*entry, err error) {
	entries, err = t.disk.get(key)
	entries = append(entries, t.byKey[key]...)
	slices.SortFunc(entries, byPlace)
	return entries, err
}

// first returns the first entry, if its position is before a limit; nil: there is none.
func (t *table) first(before examples.JoinPlace) (first *entry) {
	first = t.disk.first()
	if len(t.order) > 0 && (first == nil || byPlace(t.order[0], first) < 0) {
		first = t.order[0]
	}
	if first == nil || compare(first.place, before) >= 0 {
		return nil
	}
	return first
}

// settle records that an entry is settled, and replaces its value by a shorter one or nil.
func (t *table) settle(e *entry, value []byte) {
	if e.settled {
		return
	}
	t.open--
	e.settled = true
	if e.segment != nil {
		e.segment.settle(e.number)
		return
	}
	t.bytes -= int64(len(e.value) - len(value))
	e.value = value
}

// remove removes the entry that first returned.
func (t *table) remove(e *entry) error {
	if !e.settled {
		t.open--
	}
	if e.segment != nil {
		return t.disk.removeFirst()
	}
	t.pop()
	return nil
}

// pop removes the first entry in memory.
func (t *table) pop() *entry {
	e := heap.Pop(&t.order).(*entry)
	if of := slices.DeleteFunc(t.byKey[e.key], func(other *entry) bool { return other == e }); len(of) > 0 {
		t.byKey[e.key] = of
	} else {
		delete(t.byKey, e.key)
	}
	t.bytes -= e.size()
	return e
}

// queue is a heap by position.
type queue[T interface{ at() examples.JoinPlace }] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(a, b int) bool { return compare(q[a].at(), q[b].at()) < 0 }
func (q queue[T]) Swap(a, b int)      { q[a], q[b] = q[b], q[a] }
func (q *queue[T]) Push(x any)        { *q = append(*q, x.(T)) }
func (q *queue[T]) Pop() any {
	last := (*q)[len(*q)-1]
	clear((*q)[len(*q)-1:])
	*q = (*q)[:len(*q)-1]
	return last
}

// inMemory divides the memory of a table: one part of this many is for entries in memory, the rest for the indexes of its disk.
const inMemory = 2

// memory has the newest decided rows after their deadlines: whether a late outcome had a row depends on them. It is not
// restored after a restart, and forgets the oldest rows.
type memory struct {
	seed maphash.Seed
	rows []remembered // sets of associated
}

// remembered is a row: the hash of its key, and its time, shifted by the bit that it is absent.
type remembered struct {
	hash uint64
	time int64
}

const (
	associated      = 8
	minRemembered   = 1 << 10
	memoryShare     = 32 // of the memory limit
	rememberedBytes = 16
)

func newMemory(limit int64) *memory {
	size := int64(minRemembered)
	for 2*size*rememberedBytes <= limit/memoryShare {
		size *= 2
	}
	return &memory{maphash.MakeSeed(), make([]remembered, size)}
}

// set returns the rows that may have a key.
func (m *memory) set(key string) (rows []remembered, hash uint64) {
	hash = max(1, maphash.String(m.seed, key))
	at := hash % uint64(len(m.rows)/associated) * associated
	return m.rows[at : at+associated], hash
}

// add adds a row. It replaces the oldest row of its set.
func (m *memory) add(row *entry, time int64, absent bool) {
	rows, hash := m.set(row.key)
	copy(rows[1:], rows)
	time <<= 1
	if absent {
		time |= 1
	}
	rows[0] = remembered{hash, time}
}

// has reports whether rows with a key have times for which of is true, and whether all of these are absent.
func (m *memory) has(key string, of func(time int64) bool) (any, absent bool) {
	rows, hash := m.set(key)
	for _, row := range rows {
		if row.hash == hash && of(row.time>>1) {
			any, absent = true, (!any || absent) && row.time&1 > 0
		}
	}
	return any, absent
}
