package tree

import (
	"errors"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"
)

// Contributions computes what each column adds to the scores of rows in a forest: the path-dependent Shapley values of TreeSHAP
// (Lundberg, Erion and Lee 2018). Among rows without the value of a column, as many go left at a node as its cover says. Make it with
// [NewContributions]. It is immutable.
//
// The Shapley value of a column is the mean of its effect along the diagonal of the multilinear extension (Owen 1972):
//
//	φⱼ = Σ over leaves  w · (oⱼ − zⱼ) · ∫₀¹ Π over the other columns i of the path fᵢ(t) dt,  fᵢ(t) = zᵢ(1−t) + oᵢt
//
// with oⱼ = 1 if the row passes all nodes of column j on the path to the leaf, otherwise 0, and zⱼ the share of rows that do. The
// integrand is a polynomial of t, so Gauss–Legendre quadrature is exact. As in Linear TreeSHAP (Yu et al. 2022), a row goes through a
// tree once: a side of a node of column j adds (oⱼ − zⱼ)/fⱼ, less what the nodes of column j above it have added, times the sum over the
// leaves of the side of w · Π fᵢ.
type Contributions struct {
	columns int
	places  []int // of the columns
	width   int   // of a row of the results
	base    []float64
	trees   []shapleyTree
}

// shapleyTree is a tree with what the quadrature needs.
type shapleyTree struct {
	at, weights []float64 // of the quadrature
	depth       int       // most nodes of a path
	root        side
}

// side is a side of a node, or a tree.
type side struct {
	share float64 // of the rows at the node
	// ratios are fⱼ of the side over that of the node, and gains what a side adds, times the weight of the quadrature, at each of its
	// points: of rows that have passed all nodes of the column above, and that pass this one or not. Rows that have not passed one above
	// have the ratio share, and no gain.
	ratios, gains [2][]float64
	leaf          []float32 // the weights of the leaf (k); nil: the side begins with a node

	column int32
	ranks  []uint8 // of the codes; nil: each code is its own rank
	cut    uint8
	sides  *[2]side // left and right
}

// Indices of the ratios and gains.
const (
	passes = iota
	fails
)

// ErrNoCovers means that the covers of a forest are unknown.
var ErrNoCovers = errors.New("the trees have no covers, as they were grown before versions had them")

// NewContributions returns the contributions to the scores of a forest over columns. weights are those of its leaves ([Forest.Size] × k).
// places are the columns of the result to which each column belongs. The error is [ErrNoCovers].
func NewContributions(f Forest, places []int, weights []float32, k int) (*Contributions, error) {
	if f.Covers == nil {
		return nil, ErrNoCovers
	}
	c := &Contributions{columns: len(places), places: places, width: (1 + slices.Max(places)) * k, base: make([]float64, k)}
	first, firstLeaf := 0, 0
	for t, size := range f.Sizes {
		b := shapleyBuilder{f, c, first, f.Covers[firstLeaf:], weights[t*f.Leaves*k:], slices.Repeat([]float64{1}, c.columns), shapleyTree{}}
		b.tree.depth = b.depth(0, int(size))
		b.tree.at, b.tree.weights = make([]float64, (b.tree.depth+1)/2), make([]float64, (b.tree.depth+1)/2)
		if size > 0 {
			quad.Legendre{}.FixedLocations(b.tree.at, b.tree.weights, 0, 1)
		}
		b.build(&b.tree.root, 0, int(size), 0, 1)
		c.trees = append(c.trees, b.tree)
		first, firstLeaf = first+int(size), firstLeaf+int(size)+1
	}
	return c, nil
}

// shapleyBuilder makes a tree.
type shapleyBuilder struct {
	Forest
	c       *Contributions
	first   int       // node of the tree
	covers  []float32 // of the tree's leaves
	weights []float32 // of the tree's leaves
	shares  []float64 // z of each column on the path
	tree    shapleyTree
}

// depth returns the most nodes of a path in a subtree.
func (b *shapleyBuilder) depth(node, nodes int) int {
	if nodes == 0 {
		return 0
	}
	left := int(b.Lefts[b.first+node])
	return 1 + max(b.depth(node+1, left), b.depth(node+1+left, nodes-1-left))
}

// cover returns the weight of the rows in leaves.
func (b *shapleyBuilder) cover(leaf, leaves int) (cover float64) {
	for _, w := range b.covers[leaf:][:leaves] {
		cover += float64(w)
	}
	return cover
}

// build makes the side that is a subtree, which a share of all rows reaches.
func (b *shapleyBuilder) build(s *side, node, nodes, leaf int, share float64) {
	if nodes == 0 {
		k := len(b.c.base)
		s.leaf = b.weights[leaf*k:][:k]
		for out, w := range s.leaf {
			b.c.base[out] += share * float64(w)
		}
		return
	}
	order, left := int(b.Compared[b.first+node]), int(b.Lefts[b.first+node])
	s.column, s.ranks, s.cut, s.sides = b.Orders.Columns[order], b.Orders.RanksOf(order), b.Cuts[b.first+node], &[2]side{}
	goLeft := float64(left+1) / float64(nodes+1) // if no row is known
	if all := b.cover(leaf, nodes+1); all > 0 {
		goLeft = b.cover(leaf, left+1) / all
	}
	s.sides[0].share, s.sides[1].share = goLeft, 1-goLeft
	above := b.shares[s.column]
	for i := range s.sides {
		of := &s.sides[i]
		of.weigh(b.tree, above)
		b.shares[s.column] = above * of.share
		if i == 0 {
			b.build(of, node+1, left, leaf, share*of.share)
		} else {
			b.build(of, node+1+left, nodes-1-left, leaf+left+1, share*of.share)
		}
	}
	b.shares[s.column] = above
}

// weigh computes the ratios and gains of a side, given the share of the rows that pass the nodes of its column above.
func (s *side) weigh(t shapleyTree, above float64) {
	n := len(t.at)
	all := make([]float64, 4*n)
	s.ratios, s.gains = [2][]float64{all[:n], all[n : 2*n]}, [2][]float64{all[2*n : 3*n], all[3*n:]}
	z := above * s.share
	for q, at := range t.at {
		before, pass := above*(1-at)+at, z*(1-at)+at
		s.ratios[passes][q], s.ratios[fails][q] = pass/before, z*(1-at)/before
		s.gains[passes][q] = t.weights[q] * ((1-z)/pass - (1-above)/before)
		s.gains[fails][q] = t.weights[q] * (-1/(1-at) - (1-above)/before)
	}
}

// Base returns the mean score of rows whose columns are all unknown (k), from which contributions count. It must not be changed.
func (c *Contributions) Base() []float64 { return c.base }

// shapleyRow is a row that goes through a tree.
type shapleyRow struct {
	codes    []uint8
	places   []int
	result   []float64
	fails    []bool // whether it fails a node of a column on the path
	products []float64
	sums     []float64
	n, k     int // points of the quadrature, and outputs
}

// Add adds the contributions to the results of rows (n × places × k), given the codes of the rows (n × columns).
func (c *Contributions) Add(results []float64, codes []uint8) {
	r := shapleyRow{places: c.places, fails: make([]bool, c.columns), k: len(c.base)}
	for i := range len(codes) / c.columns {
		r.codes, r.result = codes[i*c.columns:][:c.columns], results[i*c.width:][:c.width]
		for t := range c.trees {
			tree := &c.trees[t]
			r.n = len(tree.at)
			r.products = slices.Grow(r.products[:0], (tree.depth+1)*r.n)[:(tree.depth+1)*r.n]
			r.sums = slices.Grow(r.sums[:0], (tree.depth+1)*r.n*r.k)[:(tree.depth+1)*r.n*r.k]
			for q := range r.n {
				r.products[q] = 1
			}
			r.add(&tree.root, r.products, r.sums)
		}
	}
}

// add adds the contributions of the nodes of a side. products are Π fᵢ of the path to it, and sums become those of w · Π fᵢ over its
// leaves. What follows them is memory for its sides.
func (r *shapleyRow) add(s *side, products, sums []float64) {
	n, k := r.n, r.k
	if s.sides == nil {
		for out, w := range s.leaf {
			for q, product := range products[:n] {
				sums[out*n+q] = product * float64(w)
			}
		}
		return
	}
	code := r.codes[s.column]
	if s.ranks != nil {
		code = s.ranks[code]
	}
	failed, result := r.fails[s.column], r.result[r.places[s.column]*k:][:k]
	clear(sums[:n*k])
	for i := range s.sides {
		of, below := &s.sides[i], products[n:]
		how := passes
		if (code <= s.cut) != (i == 0) {
			how = fails
		}
		ratios, gains := of.ratios[how][:n], of.gains[how][:n]
		for q, product := range products[:n] {
			if below[q] = product * of.share; !failed {
				below[q] = product * ratios[q]
			}
		}
		r.fails[s.column] = failed || how == fails
		r.add(of, below, sums[n*k:])
		for out := range k {
			all, gained := sums[out*n:][:n], 0.0
			for q, sum := range sums[(k+out)*n:][:n] {
				all[q] += sum
				gained += gains[q] * sum
			}
			if !failed {
				result[out] += gained
			}
		}
	}
	r.fails[s.column] = failed
}
