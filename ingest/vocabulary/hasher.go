package vocabulary

import (
	"hash"
	"hash/fnv"
	"slices"
)

// Hasher hashes the words of several columns of a row, and of crosses of such columns, to columns of sparse rows. It is
// not safe for concurrent use. Create it with NewHasher.
type Hasher struct {
	columns uint64
	names   []string
	crosses [][]int // indices in names
	hash    hash.Hash64
	row
}

// NewHasher returns a hasher of the words of columns with these names, and of crosses of some of them, to a number of
// columns.
func NewHasher(columns int, names []string, cross [][]string) *Hasher {
	h := &Hasher{columns: uint64(columns), names: names, hash: fnv.New64a()}
	for i := range names {
		h.crosses = append(h.crosses, []int{i})
	}
	for _, of := range cross {
		var places []int
		for _, name := range of {
			places = append(places, slices.Index(names, name))
		}
		h.crosses = append(h.crosses, places)
	}
	return h
}

// Hash hashes a row with these words in the columns of the hasher, in order; "": none. A cross needs words in all of its
// columns.
func (h *Hasher) Hash(words []string) {
	_ = h.count(func(put func(column int32)) error {
		for _, cross := range h.crosses {
			if slices.ContainsFunc(cross, func(i int) bool { return words[i] == "" }) {
				continue
			}
			h.hash.Reset()
			for _, i := range cross {
				for _, text := range []string{h.names[i], words[i]} { // a hash never fails
					h.hash.Write([]byte(text))
					h.hash.Write([]byte{0})
				}
			}
			put(int32(h.hash.Sum64() % h.columns))
		}
		return nil
	})
}

// Most returns the maximum number of columns of a row.
func (h *Hasher) Most() int { return len(h.crosses) }
