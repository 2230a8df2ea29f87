package tree

import (
	"fmt"
	"math/bits"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Finder finds the leaves of rows in a forest. Make it with [NewFinder]. It is immutable.
//
// It has no branches and follows no path (QuickScorer, Lucchese et al. 2015): each node whose test a row fails rules out
// the leaves of its left side, and the row's leaf is the first that it keeps. What all nodes of a column rule out in all
// trees depends on the column's code alone, so a table has it, in words of the leaves of one tree, or of two with up to
// 32 leaves each. A row takes one conjunction of such words a column.
type Finder struct {
	trees, leaves int
	columns       int
	words         int      // of all trees
	kept          []uint64 // of the tables of dense columns, one after the other
	dense, sparse []table
}

// table is which leaves the codes of a column keep.
type table struct {
	column int
	first  int          // of a dense column: where its rows begin
	rows   [Codes]uint8 // of each code: its row
	at     []int32      // of a sparse column: which words its rows have; nil: all of them
	kept   []uint64
}

// NewFinder returns the finder of a forest, whose rows have so many columns. It panics if the forest is not as [Forest.Check] says.
func NewFinder(forest Forest, columns int) *Finder {
	if err := forest.Check(columns); err != nil || columns < 1 {
		panic(fmt.Sprintf("tree: NewFinder: a forest over %d columns: %v", columns, err))
	}
	f := &Finder{trees: forest.Trees(), leaves: forest.Leaves, columns: columns}
	f.words = (f.trees*f.leafBits() + 63) / 64
	nodes := make(map[int32][]rule) // of each column
	var used []int32
	first := 0
	for t, size := range forest.Sizes {
		shift := t * f.leafBits() % 64
		walk(forest.Lefts[first:][:size], func(node, leaf, left, _ int) {
			order := int(forest.Compared[first+node])
			column := forest.Orders.Columns[order]
			if nodes[column] == nil {
				used = append(used, column)
			}
			ruled := (uint64(1)<<(left+1) - 1) << leaf << shift
			nodes[column] = append(nodes[column], rule{t * f.leafBits() / 64, ^ruled, forest.Orders.RanksOf(order), forest.Cuts[first+node]})
		})
		first += int(size)
	}
	slices.Sort(used)
	for _, column := range used {
		t := newTable(int(column), nodes[column], f.words)
		if t.at != nil {
			f.sparse = append(f.sparse, t)
			continue
		}
		t.first = len(f.kept)
		f.kept, t.kept = append(f.kept, t.kept...), nil
		f.dense = append(f.dense, t)
	}
	return f
}

// leafBits returns how many bits of a word a tree has.
func (f *Finder) leafBits() int {
	if f.leaves <= 32 {
		return 32
	}
	return 64
}

// rule is a node: which leaves of a word a row of a rank above the cut keeps.
type rule struct {
	word  int
	kept  uint64
	ranks []uint8 // of the codes; nil: each is its own
	cut   uint8
}

// fails reports whether a code is above the cut.
func (r rule) fails(code int) bool {
	if r.ranks != nil {
		return r.ranks[code] > r.cut
	}
	return code > int(r.cut)
}

// newTable returns the table of a column. It has all words if the rules are about half of them or more, or else theirs.
func newTable(column int, rules []rule, words int) table {
	t := table{column: column}
	for _, r := range rules { // whose words ascend
		if last := len(t.at) - 1; last < 0 || t.at[last] != int32(r.word) {
			t.at = append(t.at, int32(r.word))
		}
	}
	width, places := len(t.at), make([]int, len(rules)) // in a row, of the word of each rule
	for i, r := range rules {
		places[i], _ = slices.BinarySearch(t.at, int32(r.word))
	}
	if 2*width >= words {
		t.at, width = nil, words
		for i, r := range rules {
			places[i] = r.word
		}
	}
	row := make([]uint64, width)
	for code := range Codes {
		for i := range row {
			row[i] = ^uint64(0)
		}
		for i, r := range rules {
			if r.fails(code) {
				row[places[i]] &= r.kept
			}
		}
		if last := len(t.kept) - width; last < 0 || !slices.Equal(row, t.kept[last:]) {
			t.kept = append(t.kept, row...)
		}
		t.rows[code] = uint8(len(t.kept)/width - 1)
	}
	return t
}

// Leaves are the leaves of rows in each tree: a byte for each, numbered within the tree, of the first tree for all rows
// first (trees × rows).
type Leaves struct {
	Rows, Trees int
	Data        []uint8

	kept    []uint64 // memory of [Finder.Find] for one row
	offsets []int
}

// Reshape makes l as large. It reuses its memory. The values are unspecified.
func (l *Leaves) Reshape(rows, trees int) {
	l.Rows, l.Trees, l.Data = rows, trees, slices.Grow(l.Data[:0], rows*trees)[:rows*trees]
}

// Tree returns the leaves of all rows in a tree.
func (l Leaves) Tree(t int) []uint8 { return l.Data[t*l.Rows:][:l.Rows:l.Rows] }

// Find writes the leaves of rows, given their codes (rows × columns, row-major), into dst, whose memory it reuses.
func (f *Finder) Find(dst *Leaves, codes []uint8) {
	n := len(codes) / f.columns
	if len(codes) != n*f.columns {
		panic(fmt.Sprintf("tree: Find: %d codes of %d columns", len(codes), f.columns))
	}
	dst.Reshape(n, f.trees)
	dst.kept, dst.offsets = slices.Grow(dst.kept[:0], f.words)[:f.words], slices.Grow(dst.offsets[:0], len(f.dense))[:len(f.dense)]
	kept, offsets := dst.kept, dst.offsets
	for i := range n {
		row := codes[i*f.columns:][:f.columns]
		for j := range f.dense {
			t := &f.dense[j]
			offsets[j] = t.first + int(t.rows[row[t.column]])*f.words
		}
		kernel.Conjoin(kept, f.kept, offsets)
		for j := range f.sparse {
			t := &f.sparse[j]
			from := int(t.rows[row[t.column]]) * len(t.at)
			for i, word := range t.at {
				kept[word] &= t.kept[from+i]
			}
		}
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
			dst.Data[at] = uint8(bits.TrailingZeros32(uint32(kept[f.words-1])))
		}
	}
}
