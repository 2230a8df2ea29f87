package online

import "math/bits"

// slots maps the columns that have sums to slots, numbered from 0 in insertion order. Small columns index an array,
// others use a hash table with open addressing. Go's map took a twentieth of the time of an update. The zero value is
// empty.
type slots struct {
	byPlace []int32 // plus 1; 0: none. For columns below its length, which is at most maxByPlace
	table   []slot  // the length is a power of two; the load factor is at most half
	hashed  int     // number of slots in table
	count   int
}

// maxByPlace is the number of columns that index the array: 4 MB.
const maxByPlace = 1 << 20

// slot is an entry of the hash table.
type slot struct {
	column int32 // plus 1; 0: free
	at     int32
}

// find returns the table entry of a column, or the free one for it.
func (p *slots) find(column int32) *slot {
	mask, shift := uint32(len(p.table)-1), 32-bits.Len32(uint32(len(p.table)-1))
	for i := uint32(column) * 2654435769 >> shift; ; i = (i + 1) & mask { // Knuth's multiplicative hash
		if e := &p.table[i&mask]; e.column == 0 || e.column == column+1 {
			return e
		}
	}
}

// of returns the slot of a column, and whether it has one.
func (p *slots) of(column int32) (at int, any bool) {
	switch {
	case int(column) < len(p.byPlace):
		at := p.byPlace[column]
		return int(at) - 1, at > 0
	case column < maxByPlace || p.hashed == 0:
		return 0, false
	}
	e := p.find(column)
	return int(e.at), e.column != 0
}

// add returns the slot of a column, which it adds if absent, and whether it was present.
func (p *slots) add(column int32) (at int, had bool) {
	if column < maxByPlace {
		if int(column) >= len(p.byPlace) {
			p.byPlace = append(p.byPlace, make([]int32, max(64, 1<<bits.Len32(uint32(column)))-len(p.byPlace))...)
		}
		of := &p.byPlace[column]
		if *of > 0 {
			return int(*of) - 1, true
		}
		p.count++
		*of = int32(p.count)
		return p.count - 1, false
	}
	if 2*(p.hashed+1) > len(p.table) {
		before := p.table
		p.table = make([]slot, max(64, 2*len(before)))
		for _, e := range before {
			if e.column != 0 {
				*p.find(e.column - 1) = e
			}
		}
	}
	e := p.find(column)
	if e.column != 0 {
		return int(e.at), true
	}
	*e = slot{column + 1, int32(p.count)}
	p.hashed++
	p.count++
	return p.count - 1, false
}

// clear removes all slots.
func (p *slots) clear() {
	clear(p.byPlace)
	clear(p.table)
	p.hashed, p.count = 0, 0
}
