package tree

import (
	"errors"
	"slices"
	"sync"

	"gonum.org/v1/gonum/integrate/quad"
)

// Contributions computes what each column adds to the scores of rows in a forest: the path-dependent Shapley values of TreeSHAP
// (Lundberg, Erion and Lee 2018). Among rows without the value of a column, as many go left at a node as its cover says. Make it with
// [NewContributions]. It is safe for concurrent use.
//
// The Shapley value of a column is the mean of its effect along the diagonal of the multilinear extension (Owen 1972):
//
//	φⱼ = Σ over leaves  w · (oⱼ − zⱼ) · ∫₀¹ Π over the other columns i of the path (zᵢ(1−t) + oᵢt) dt
//
// with oⱼ = 1 if the row passes all nodes of column j on the path to the leaf, otherwise 0, and zⱼ the share of rows that do. The
// integrand is a polynomial of t, so Gauss–Legendre quadrature is exact.
//
// The values of neighbouring leaves depend on few bits of a row: whether it passes the path to them, by column, and the nodes among them.
// Such a part of a tree memoises the sums over its leaves, as in Fast TreeSHAP (Yang 2021). A row takes its bits from [tables], as in a
// [Finder], and one sum from each part.
type Contributions struct {
	tables  tables
	base    []float64
	parts   []*part
	results int // columns of the result times outputs
}

// partBits is the largest number of bits of a part of more than one leaf, and the logarithm of the largest number of sums that a part
// memoises.
const partBits = 12

// memoBytes is the most memory for the sums of a forest. If it is too little, parts memoise fewer sums.
const memoBytes = 32 << 20

// minNodes is the smallest number of nodes of a part with more.
const minNodes = 2

// part is some neighbouring leaves of a tree.
type part struct {
	word, shift int
	mask        uint64 // of its bits
	conditions  []condition
	at          []int32 // places of the sums in a row's result
	columns     []int32
	leaves      []partLeaf
	memo        memo
}

// memo is the sums of a part by the bits of a row. If there are fewer places than bits, sums may replace each other.
type memo struct {
	sync.RWMutex
	wide   bool    // there are fewer places than bits
	at     []int32 // for the last bits: 1 + the place among the keys; 0: none
	keys   []uint64
	values []float32
}

// condition means that a row has a bit of a part only if it goes left at a node, or with below only if it goes right.
type condition struct {
	node, bit int
	below     bool
}

// partLeaf is a leaf: its weights (k) and a factor for each column of its path.
type partLeaf struct {
	weights []float32
	factors []factor
}

// factor is the nodes of a column on the path to a leaf.
type factor struct {
	column     int32
	share      float64 // of the rows that pass
	mask, want uint64  // bits of rows that pass
	nodes      []condition
}

// ErrNoCovers means that the covers of a forest are unknown.
var ErrNoCovers = errors.New("the trees have no covers, as they were grown before versions had them")

// NewContributions returns the contributions to the scores of a forest over columns. weights are those of its leaves ([Forest.Size] × k).
// places are the columns of the result to which each column belongs. The error is [ErrNoCovers].
func NewContributions(f Forest, places []int, weights []float32, k int) (*Contributions, error) {
	if f.Covers == nil {
		return nil, ErrNoCovers
	}
	c := &Contributions{base: make([]float64, k), results: (1 + slices.Max(places)) * k}
	first, leaf := 0, 0
	for t, size := range f.Sizes {
		b := &builder{Forest: f, c: c, first: first, firstLeaf: leaf, weights: weights[t*f.Leaves*k:]}
		b.rest = append(b.rest, subtree{nodes: int(size)})
		for len(b.rest) > 0 {
			s := b.rest[0]
			b.rest = b.rest[1:]
			b.part(s)
		}
		first, leaf = first+int(size), leaf+int(size)+1
	}
	width := 16
	for i := range c.parts {
		if c.parts[i].mask>>16 != 0 {
			width = 64
		}
	}
	rules := make(rules)
	for i := range c.parts {
		p := c.parts[i]
		p.word, p.shift = i*width/64, i*width%64
		for _, at := range p.conditions {
			rules.add(f, at.node, rule{word: p.word, kept: ^(1 << (at.bit + p.shift)), below: at.below})
		}
		p.conditions = nil
		for _, column := range p.columns {
			for out := range k {
				p.at = append(p.at, int32(places[column]*k+out))
			}
		}
	}
	c.tables = rules.tables(len(places), (len(c.parts)*width+63)/64)
	c.allot()
	return c, nil
}

// allot gives each part places for as many sums as memoBytes allow.
func (c *Contributions) allot() {
	places := func(p *part, most uint64) uint64 { return min(p.mask, most-1) + 1 }
	bytes := func(most uint64) (bytes uint64) {
		for _, p := range c.parts {
			bytes += places(p, most) * uint64(4+8+4*len(p.at)) // a place, a key, and sums
		}
		return bytes
	}
	most := uint64(1) << partBits
	for most > 1 && bytes(most) > memoBytes {
		most /= 2
	}
	for _, p := range c.parts {
		p.memo.at = make([]int32, places(p, most))
		p.memo.wide = p.mask >= uint64(len(p.memo.at))
	}
}

// builder makes the parts of a tree.
type builder struct {
	Forest
	c                *Contributions
	first, firstLeaf int       // of the tree
	weights          []float32 // of the tree's leaves
	rest             []subtree // of no part yet
}

// subtree is some nodes of a tree, their leaves, and the path to them.
type subtree struct {
	node, nodes, leaf int
	path              []factor
}

// cover returns the weight of the rows of a subtree.
func (b *builder) cover(s subtree) (cover float64) {
	for _, w := range b.Covers[b.firstLeaf+s.leaf:][:s.nodes+1] {
		cover += float64(w)
	}
	return cover
}

// part adds the part that begins with a subtree: all of it, or what fits.
func (b *builder) part(s subtree) {
	p := &part{}
	for i := range s.path {
		f := &s.path[i]
		f.mask, f.want = 1<<i, 1<<i
		for _, at := range f.nodes {
			p.conditions = append(p.conditions, condition{at.node, i, at.below})
		}
	}
	bits := len(s.path)
	b.add(p, s, &bits, max(partBits, bits+minNodes))
	if len(p.columns) > 0 {
		p.mask = 1<<bits - 1
		b.c.parts = append(b.c.parts, p)
	}
}

// add adds the leaves of a subtree to a part: those of the smaller side of each node first, until the part has so many bits.
func (b *builder) add(p *part, s subtree, bits *int, most int) {
	switch {
	case s.nodes == 0:
		b.addLeaf(p, s)
		return
	case *bits == most:
		b.rest = append(b.rest, s)
		return
	}
	node, left := b.first+s.node, int(b.Lefts[b.first+s.node])
	sides := [2]subtree{{s.node + 1, left, s.leaf, nil}, {s.node + 1 + left, s.nodes - 1 - left, s.leaf + left + 1, nil}}
	column, all := b.Orders.Columns[b.Compared[node]], b.cover(s)
	at := slices.IndexFunc(s.path, func(f factor) bool { return f.column == column })
	for i := range sides {
		side := &sides[i]
		if side.path = slices.Clone(s.path); at < 0 {
			side.path = append(side.path, factor{column: column, share: 1})
		}
		f := &side.path[len(side.path)-1]
		if at >= 0 {
			f = &side.path[at]
		}
		if all > 0 {
			f.share *= b.cover(*side) / all
		} else { // no row is known
			f.share *= float64(side.nodes+1) / float64(s.nodes+1)
		}
		f.nodes = append(slices.Clone(f.nodes), condition{node: node, below: i == 1})
		if f.mask |= 1 << *bits; i == 0 {
			f.want |= 1 << *bits
		}
	}
	p.conditions = append(p.conditions, condition{node: node, bit: *bits})
	*bits++
	if sides[0].nodes > sides[1].nodes {
		sides[0], sides[1] = sides[1], sides[0]
	}
	for _, side := range sides {
		b.add(p, side, bits, most)
	}
}

// addLeaf adds a leaf to a part, and to the base.
func (b *builder) addLeaf(p *part, s subtree) {
	k, share := len(b.c.base), 1.0
	for i := range s.path {
		f := &s.path[i]
		share *= f.share
		at := slices.Index(p.columns, f.column)
		if at < 0 {
			at, p.columns = len(p.columns), append(p.columns, f.column)
		}
		f.column, f.nodes = int32(at), nil
	}
	l := partLeaf{b.weights[s.leaf*k:][:k], s.path}
	for out, w := range l.weights {
		b.c.base[out] += share * float64(w)
	}
	p.leaves = append(p.leaves, l)
}

// Base returns the mean score of rows whose columns are all unknown (k), from which contributions count. It must not be changed.
func (c *Contributions) Base() []float64 { return c.base }

// contributedRows is how many rows go through a part together, so that the part stays in the cache.
const contributedRows = 256

// Add adds the contributions to the results of rows (n × places × k), given the codes of the rows (n × columns).
func (c *Contributions) Add(results []float64, codes []uint8) {
	var scratch conjunction
	var words []uint64
	for codes := range slices.Chunk(codes, contributedRows*c.tables.columns) {
		n := c.tables.rows(codes)
		words = words[:0]
		for i := range n {
			words = append(words, c.tables.conjoin(&scratch, codes[i*c.tables.columns:][:c.tables.columns])...)
		}
		for i := range c.parts {
			c.parts[i].add(results, words, n, c.tables.words, c.results)
		}
		results = results[n*c.results:]
	}
}

// add adds the sums of a part to the results of rows.
func (p *part) add(results []float64, words []uint64, n, wordsOfRow, width int) {
	m := &p.memo
	m.RLock()
	defer m.RUnlock()
	for i := range n {
		key := words[i*wordsOfRow+p.word] >> p.shift & p.mask
		at := int(m.at[key&uint64(len(m.at)-1)]) - 1
		for at < 0 || m.wide && m.keys[at] != key {
			m.RUnlock()
			at = p.learn(key)
			m.RLock()
		}
		row, values := results[i*width:][:width], m.values[at*len(p.at):][:len(p.at)]
		for j, at := range p.at {
			row[at] += float64(values[j])
		}
	}
}

// learn computes the sums for the bits of a row, and returns their place.
func (p *part) learn(key uint64) int {
	k := len(p.at) / len(p.columns)
	sums := make([]float64, len(p.at))
	var passes, shares, effects [MaxLeaves]float64
	for _, l := range p.leaves {
		for i, f := range l.factors {
			shares[i], passes[i] = f.share, 0
			if key&f.mask == f.want {
				passes[i] = 1
			}
		}
		effectsOf(effects[:len(l.factors)], passes[:len(l.factors)], shares[:len(l.factors)])
		for i, f := range l.factors {
			for out, w := range l.weights {
				sums[int(f.column)*k+out] += effects[i] * float64(w)
			}
		}
	}
	m := &p.memo
	m.Lock()
	defer m.Unlock()
	slot := &m.at[key&uint64(len(m.at)-1)]
	if *slot == 0 {
		m.keys, m.values = append(m.keys, key), append(m.values, make([]float32, len(sums))...)
		*slot = int32(len(m.keys))
	}
	at := int(*slot) - 1
	m.keys[at] = key
	for j, v := range sums {
		m.values[at*len(sums)+j] = float32(v)
	}
	return at
}

// effectsOf writes the Shapley values of the product whose factors are passes with a column, and shares without it.
func effectsOf(effects, passes, shares []float64) {
	n := (len(passes) + 1) / 2
	var at, weights [MaxLeaves / 2]float64
	quad.Legendre{}.FixedLocations(at[:n], weights[:n], 0, 1)
	clear(effects)
	var after [MaxLeaves]float64
	for q, t := range at[:n] {
		factor := func(i int) float64 { return shares[i]*(1-t) + passes[i]*t }
		product := 1.0
		for i := len(passes) - 1; i >= 0; i-- {
			after[i] = product
			product *= factor(i)
		}
		product = weights[q]
		for i := range passes {
			effects[i] += (passes[i] - shares[i]) * product * after[i]
			product *= factor(i)
		}
	}
}
