package outcome

import (
	"container/heap"
	"slices"

	"github.com/stagewise/stagewise/schemas/examples"
)

// entry is a waiting row or outcome.
type entry struct {
	place   examples.JoinPlace
	behind  int64 // how far the time of the message is behind the latest one of its partition
	settled bool  // it is kept only for its key
	key     string
	value   []byte
}

// overhead is the approximate memory of an entry besides its key and its value: itself, its positions in the queue and
// under its key.
const overhead = 200

func (e entry) size() int64 { return overhead + int64(len(e.key)+len(e.value)) }

// table has entries by key and in order of position. The positions of a partition are added in order. The oldest entries
// may be on disk.
type table struct {
	budget *budget
	prefix byte
	byKey  map[string][]entry // each list in order
	queues map[int]*queue     // by partition; removed entries are still included
	open   int                // number of entries that are not settled, including those on disk
	bytes  int64              // size of the entries in memory
}

// queue has the positions of a partition, in order.
type queue struct {
	from  int
	items []queued
	late  lateItems // those that were not at the end
}

type queued struct {
	place examples.JoinPlace
	key   string
}

func newTable(prefix byte, b *budget) *table {
	return &table{budget: b, prefix: prefix, byKey: map[string][]entry{}, queues: map[int]*queue{}}
}

// add adds an entry, and moves others to disk if there are too many.
func (t *table) add(e entry) error {
	t.byKey[e.key] = insert(t.byKey[e.key], e)
	q := t.queues[e.place.Partition]
	if q == nil {
		q = &queue{}
		t.queues[e.place.Partition] = q
	}
	q.push(queued{e.place, e.key})
	if !e.settled {
		t.open++
	}
	t.bytes += e.size()
	return t.budget.keep()
}

// insert inserts an entry into those of its key.
func insert(entries []entry, e entry) []entry {
	at, _ := slices.BinarySearchFunc(entries, e.place, func(e entry, p examples.JoinPlace) int { return compare(e.place, p) })
	return slices.Insert(entries, at, e)
}

// push adds a position.
func (q *queue) push(item queued) {
	if n := len(q.items); n == q.from || compare(q.items[n-1].place, item.place) < 0 {
		q.items = append(q.items, item)
	} else {
		heap.Push(&q.late, item)
	}
}

// head returns the first position; nil if there is none.
func (q *queue) head() *queued {
	switch {
	case len(q.late) > 0 && (q.from == len(q.items) || compare(q.late[0].place, q.items[q.from].place) < 0):
		return &q.late[0]
	case q.from < len(q.items):
		return &q.items[q.from]
	}
	return nil
}

// pop removes the first position.
func (q *queue) pop() {
	if len(q.late) > 0 && q.head() == &q.late[0] {
		heap.Pop(&q.late)
		return
	}
	q.items[q.from] = queued{}
	if q.from++; q.from > 1024 && q.from > len(q.items)/2 {
		q.items = append(q.items[:0:0], q.items[q.from:]...)
		q.from = 0
	}
}

// lateItems is a heap of positions.
type lateItems []queued

func (l lateItems) Len() int           { return len(l) }
func (l lateItems) Less(a, b int) bool { return compare(l[a].place, l[b].place) < 0 }
func (l lateItems) Swap(a, b int)      { l[a], l[b] = l[b], l[a] }
func (l *lateItems) Push(x any)        { *l = append(*l, x.(queued)) }
func (l *lateItems) Pop() any {
	last := (*l)[len(*l)-1]
	*l = (*l)[:len(*l)-1]
	return last
}

// get returns the entries of a key in order. The caller may modify the list.
func (t *table) get(key string) ([]entry, error) {
	entries := slices.Clone(t.byKey[key])
	if !t.budget.disk.has(t.prefix) {
		return entries, nil
	}
	more, err := t.budget.disk.get(t.prefix, key)
	for _, e := range more {
		entries = insert(entries, e)
	}
	return entries, err
}

// earliest returns the first entry in memory and its queue; nil: there is none.
func (t *table) earliest() (e entry, from *queue) {
	for _, q := range t.queues {
		for head := q.head(); head != nil && (from == nil || compare(head.place, e.place) < 0); head = q.head() {
			if at, has := find(t.byKey[head.key], head.place); has {
				e, from = t.byKey[head.key][at], q
				break
			}
			q.pop() // it was removed
		}
	}
	return e, from
}

// first returns the first entry, if its position is before a limit.
func (t *table) first(before examples.JoinPlace) (e entry, ok bool) {
	e, from := t.earliest()
	ok = from != nil && compare(e.place, before) < 0
	if !t.budget.disk.has(t.prefix) {
		return e, ok
	}
	if old, has := t.budget.disk.first(t.prefix, before); has && (!ok || compare(old.place, e.place) < 0) {
		return old, true
	}
	return e, ok
}

func find(entries []entry, place examples.JoinPlace) (int, bool) {
	return slices.BinarySearchFunc(entries, place, func(e entry, p examples.JoinPlace) int { return compare(e.place, p) })
}

// settle records that an entry is settled, and replaces its value by a shorter one or nil.
func (t *table) settle(e entry, value []byte) error {
	if e.settled {
		return nil
	}
	t.open--
	e.settled, e.value = true, value
	entries := t.byKey[e.key]
	at, has := find(entries, e.place)
	if !has {
		return t.budget.disk.settle(t.prefix, e)
	}
	t.bytes -= int64(len(entries[at].value) - len(value))
	entries[at] = e
	return nil
}

// remove removes the entry that first returned.
func (t *table) remove(e entry) error {
	if !e.settled {
		t.open--
	}
	if !t.forget(e) {
		return t.budget.disk.removeFirst(t.prefix)
	}
	return nil
}

// forget removes an entry from memory, but not from its queue. It returns false if it is not in memory.
func (t *table) forget(e entry) bool {
	entries := t.byKey[e.key]
	at, has := find(entries, e.place)
	switch {
	case !has:
		return false
	case len(entries) == 1:
		delete(t.byKey, e.key)
	default:
		t.byKey[e.key] = slices.Delete(entries, at, at+1)
	}
	t.bytes -= e.size()
	return true
}

// spill moves the oldest entries to disk, about half of the bytes.
func (t *table) spill() error {
	target := t.bytes / 2
	return t.budget.disk.add(t.prefix, func(yield func(entry) bool) {
		for t.bytes > target {
			e, from := t.earliest()
			if from == nil {
				return
			}
			from.pop()
			t.forget(e)
			if !yield(e) {
				return
			}
		}
	})
}

// budget is the memory of a join's tables.
type budget struct {
	limit  int64
	disk   *Disk // nil: none
	tables []*table
}

// inMemory is the fraction of the limit for tables. The rest is for the store.
const inMemory = 0.5

// keep moves entries to disk if there are too many in memory.
func (b *budget) keep() error {
	if b.disk == nil {
		return nil
	}
	sum, largest := int64(0), b.tables[0]
	for _, t := range b.tables {
		if sum += t.bytes; t.bytes > largest.bytes {
			largest = t
		}
	}
	if float64(sum) <= inMemory*float64(b.limit) {
		return nil
	}
	return largest.spill()
}
