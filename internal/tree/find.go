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
	trees, leaves int
	tables
}

// tables hold bitmasks of the codes of columns. A row takes the AND of those of its codes.
type tables struct {
	columns int
	words   int      // of a bitmask
	kept    []uint64 // the bitmasks of all tables
	tables  []table
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
	f := &Finder{trees: forest.Trees(), leaves: forest.Leaves}
	rules := make(rules)
	first := 0
	for t, size := range forest.Sizes {
		shift := t * f.leafBits() % 64
		walk(forest.Lefts[first:][:size], func(node, leaf, left, _ int) {
			ruled := (uint64(1)<<(left+1) - 1) << leaf << shift
			rules.add(forest, first+node, rule{word: t * f.leafBits() / 64, kept: ^ruled})
		})
		first += int(size)
	}
	f.tables = rules.tables(columns, (f.trees*f.leafBits()+63)/64)
	return f
}

// rules are those of each column.
type rules map[int32][]rule

// add adds the rule of a node.
func (all rules) add(f Forest, node int, r rule) {
	order := int(f.Compared[node])
	r.ranks, r.cut = f.Orders.RanksOf(order), f.Cuts[node]
	column := f.Orders.Columns[order]
	all[column] = append(all[column], r)
}

// tables returns the tables of rules. Neighbouring codes that keep the same bits share a bitmask.
func (all rules) tables(columns, words int) tables {
	f, row := tables{columns: columns, words: words}, make([]uint64, words)
	for _, column := range slices.Sorted(maps.Keys(all)) {
		t, rules := table{column: int(column)}, all[column]
		for code := range Codes {
			for i := range row {
				row[i] = ^uint64(0)
			}
			for i := range rules {
				if r := &rules[i]; r.fails(code) {
					row[r.word] &= r.kept
				}
			}
			if code == 0 || !slices.Equal(row, f.kept[len(f.kept)-words:]) {
				f.kept = append(f.kept, row...)
			}
			t.offsets[code] = int32(len(f.kept) - words)
		}
		f.tables = append(f.tables, t)
	}
	return f
}

// leafBits returns the number of bits of a word per tree.
func (f *Finder) leafBits() int {
	if f.leaves <= 32 {
		return 32
	}
	return 64
}

// rule is a node: the bits of a word that a row of a rank above the cut keeps, or with below one of a rank up to it.
type rule struct {
	word  int
	kept  uint64
	below bool
	ranks []uint8 // of the codes; nil: each code is its own rank
	cut   uint8
}

// fails reports whether a row with a code keeps no other bits.
func (r *rule) fails(code int) bool {
	if r.ranks != nil {
		code = int(r.ranks[code])
	}
	return (code > int(r.cut)) != r.below
}

// Leaves are the leaves of rows in each tree (trees × rows): a byte each, numbered within the tree.
type Leaves struct {
	Rows, Trees int
	Data        []uint8

	conjunction
}

// Reshape resizes l. It reuses its memory. The values are unspecified.
func (l *Leaves) Reshape(rows, trees int) {
	l.Rows, l.Trees, l.Data = rows, trees, slices.Grow(l.Data[:0], rows*trees)[:rows*trees]
}

// Tree returns the leaves of all rows in a tree.
func (l Leaves) Tree(t int) []uint8 { return l.Data[t*l.Rows:][:l.Rows:l.Rows] }

// Find writes the leaves of rows, given their codes (rows × columns, row-major), into dst, whose memory it reuses.
func (f *Finder) Find(dst *Leaves, codes []uint8) {
	n := f.rows(codes)
	dst.Reshape(n, f.trees)
	for i := range n {
		kept := f.conjoin(&dst.conjunction, codes[i*f.columns:][:f.columns])
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

// rows returns the number of rows with these codes.
func (f *tables) rows(codes []uint8) int {
	n := len(codes) / f.columns
	if len(codes) != n*f.columns {
		panic(fmt.Sprintf("tree: %d codes of %d columns", len(codes), f.columns))
	}
	return n
}

// conjunction is scratch of [tables.conjoin] for one row.
type conjunction struct {
	kept    []uint64
	offsets []int32
}

// conjoin returns the bits that all codes of a row keep, valid until the next call.
func (f *tables) conjoin(c *conjunction, row []uint8) []uint64 {
	c.kept, c.offsets = slices.Grow(c.kept[:0], f.words)[:f.words], c.offsets[:0]
	for j := range f.tables {
		t := &f.tables[j]
		c.offsets = append(c.offsets, t.offsets[row[t.column]])
	}
	at := 0
	for ; at+8 <= f.words; at += 8 {
		conjoin8((*[8]uint64)(c.kept[at:]), f.kept[min(at, len(f.kept)):], c.offsets)
	}
	for ; at < f.words; at++ {
		c.kept[at] = ^uint64(0)
		for _, from := range c.offsets {
			c.kept[at] &= f.kept[int(from)+at]
		}
	}
	return c.kept
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
