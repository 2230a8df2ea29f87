package outcome

import "hash/maphash"

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
