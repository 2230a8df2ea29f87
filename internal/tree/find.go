package tree

import (
	"fmt"
	"maps"
	"math/bits"
	"slices"
)

// Finder finds the leaves of rows in a forest. Make it with [NewFinder]. It is immutable.
//
// Like QuickScorer (Lucchese et al. 2015), it is branch-free and follows no path: each node whose test a row fails
// rules out the leaves of its left side, and the row's leaf is the first one left. The leaves that all nodes of a
// column rule out, in all trees, depend on the column's code alone. So a table holds them, as bitmasks: one word per
// tree, or per two trees of up to 32 leaves. A row takes one bitwise AND of such words per column.
type Finder struct {
	trees, leaves, columns int

	words  int      // of a bitmask: a multiple of 8
	kept   []uint64 // the bitmasks of all tables
	tables []table
}

// table holds the bits that the codes of a column keep.
type table struct {
	column  int
	offsets [Codes]int32 // of the bitmask of each code
}

// NewFinder returns the finder of a forest over the given number of columns. It panics if the forest fails
// [Forest.Check].
func NewFinder(forest Forest, columns int) *Finder {
	if err := forest.Check(columns); err != nil || columns < 1 {
		panic(fmt.Sprintf("tree: NewFinder: a forest over %d columns: %v", columns, err))
	}
	f := &Finder{trees: len(forest.Sizes), leaves: forest.Leaves, columns: columns}
	leafBits := 64 // of a word per tree
	if f.leaves <= 32 {
		leafBits = 32
	}
	f.words = (f.trees*leafBits + 511) / 512 * 8
	rules := make(map[int32][]rule) // of each column
	first := 0
	for t, size := range forest.Sizes {
		shift := t * leafBits % 64
		walk(forest.Lefts[first:][:size], func(node, leaf, left, _ int) {
			order, ruled := int(forest.Compared[first+node]), (uint64(1)<<(left+1)-1)<<leaf<<shift
			column := forest.Orders.Columns[order]
			rules[column] = append(rules[column], rule{t * leafBits / 64, ^ruled, order, forest.Cuts[first+node]})
		})
		first += int(size)
	}
	row := make([]uint64, f.words)
	for _, column := range slices.Sorted(maps.Keys(rules)) {
		t, rules := table{column: int(column)}, rules[column]
		for code := range Codes {
			for i := range row {
				row[i] = ^uint64(0)
			}
			for _, r := range rules {
				if forest.Orders.Rank(r.order, uint8(code)) > r.cut {
					row[r.word] &= r.kept
				}
			}
			if code == 0 || !slices.Equal(row, f.kept[len(f.kept)-f.words:]) { // neighbouring codes share a bitmask
				f.kept = append(f.kept, row...)
			}
			t.offsets[code] = int32(len(f.kept) - f.words)
		}
		f.tables = append(f.tables, t)
	}
	return f
}

// rule is a node: the bits of a word that a row of a rank above the cut keeps.
type rule struct {
	word  int
	kept  uint64
	order int
	cut   uint8
}

// Leaves are the leaves of rows in each tree (trees × rows): a byte each, numbered within the tree.
type Leaves struct {
	Rows, Trees int
	Data        []uint8

	kept    []uint64 // scratch for one row
	offsets []int32
}

// Reshape resizes l. It reuses its memory. The values are unspecified.
func (l *Leaves) Reshape(rows, trees int) {
	l.Rows, l.Trees, l.Data = rows, trees, slices.Grow(l.Data[:0], rows*trees)[:rows*trees]
}

// Tree returns the leaves of all rows in a tree.
func (l Leaves) Tree(t int) []uint8 { return l.Data[t*l.Rows:][:l.Rows:l.Rows] }

// Find writes the leaves of rows, given their codes (rows × columns, row-major), into dst, whose memory it reuses.
func (f *Finder) Find(dst *Leaves, codes []uint8) {
	n := len(codes) / f.columns
	if len(codes) != n*f.columns {
		panic(fmt.Sprintf("tree: %d codes of %d columns", len(codes), f.columns))
	}
	dst.Reshape(n, f.trees)
	for i := range n {
		kept := f.conjoin(dst, codes[i*f.columns:][:f.columns])
		if f.leaves > 32 {
			for t := range f.trees {
				dst.Data[t*n+i] = uint8(bits.TrailingZeros64(kept[t]))
			}
			continue
		}
		at := i
		for _, word := range kept[:f.trees/2] { // two trees each
			dst.Data[at] = uint8(bits.TrailingZeros32(uint32(word)))
			dst.Data[at+n] = uint8(bits.TrailingZeros32(uint32(word >> 32)))
			at += 2 * n
		}
		if f.trees%2 == 1 {
			dst.Data[at] = uint8(bits.TrailingZeros32(uint32(kept[f.trees/2])))
		}
	}
}

// conjoin returns the bits that all codes of a row keep, in the scratch of l.
func (f *Finder) conjoin(l *Leaves, row []uint8) []uint64 {
	l.kept, l.offsets = slices.Grow(l.kept[:0], f.words)[:f.words], l.offsets[:0]
	for j := range f.tables {
		t := &f.tables[j]
		l.offsets = append(l.offsets, t.offsets[row[t.column]])
	}
	for at := 0; at < f.words; at += 8 {
		conjoin8((*[8]uint64)(l.kept[at:]), f.kept[min(at, len(f.kept)):], l.offsets)
	}
	return l.kept
}

// conjoin8 writes eight words of the conjunction. It is a separate function so that they stay in registers.
//
//go:noinline
func conjoin8(dst *[8]uint64, words []uint64, offsets []int32) {
	a, b, c, d := ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)
	e, f, g, h := ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)
	for _, from := range offsets {
		w := (*[8]uint64)(words[from:])
		a &= w[0]
		b &= w[1]
		c &= w[2]
		d &= w[3]
		e &= w[4]
		f &= w[5]
		g &= w[6]
		h &= w[7]
	}
	dst[0], dst[1], dst[2], dst[3], dst[4], dst[5], dst[6], dst[7] = a, b, c, d, e, f, g, h
}
