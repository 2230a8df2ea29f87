package tree

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"sync"
	"sync/atomic"
)

// Sample is rows, and what trees are to explain of them.
type Sample struct {
	// Codes are the codes of the rows (n × Columns, row-major).
	Codes   []uint8
	Columns int
	// Residuals are those of Outputs outputs (n × k, row-major). Weights are those of the rows (n), above 0; nil: each row weighs 1.
	Residuals []float32
	Outputs   int
	Weights   []float32
}

// rows returns n. It panics if the shapes don't match.
func (s Sample) rows() int {
	n := len(s.Residuals) / max(1, s.Outputs)
	if s.Outputs < 1 || len(s.Residuals) != n*s.Outputs || len(s.Codes) != n*s.Columns || s.Weights != nil && len(s.Weights) != n {
		panic(fmt.Sprintf("tree: a sample of %d codes of %d columns, %d residuals of %d outputs and %d weights",
			len(s.Codes), s.Columns, len(s.Residuals), s.Outputs, len(s.Weights)))
	}
	return n
}

// Shape says how trees grow. All fields must be set.
type Shape struct {
	Trees  int
	Leaves int // of a tree, at most: 2 to [MaxLeaves]
	Rows   int // of the sample in a leaf, at least
	// Share is the share of the orders that a node tries, with one threshold each.
	Share float64
}

// Grow returns a forest that explains a sample's residuals. Of the leaves so far a tree divides the one whose division
// lowers the squared error of the residuals the most, until it has as many as the shape says, or none can be divided. A
// division is the best of one random threshold in each of some random orders, in which the leaf's rows differ. The draws
// are of the seed, the stage, and the number of the tree. That many workers grow the trees, with the same result.
func Grow(s Sample, o Orders, shape Shape, seed, stage uint64, workers int) Forest {
	if shape.Trees < 0 || shape.Leaves < 2 || shape.Leaves > MaxLeaves || shape.Rows < 1 || !(shape.Share > 0) {
		panic(fmt.Sprintf("tree: Grow: %+v", shape))
	}
	view := newView(s, o)
	trees := make([][]node, shape.Trees)
	var group sync.WaitGroup
	var next atomic.Int64
	for range max(1, min(workers, shape.Trees)) {
		group.Go(func() {
			g := newGrowth(view, shape)
			for t := int(next.Add(1)) - 1; t < len(trees); t = int(next.Add(1)) - 1 {
				trees[t] = g.grow(rand.NewPCG(mix(seed, stage), uint64(t)))
			}
		})
	}
	group.Wait()
	f := Forest{Leaves: shape.Leaves, Orders: o, Sizes: make([]uint8, len(trees))}
	for t, nodes := range trees {
		f.Sizes[t] = uint8(len(nodes))
		f.add(nodes, 0)
	}
	return f
}

// add adds the nodes of a tree, from one on, in preorder. It returns how many these are.
func (f *Forest) add(nodes []node, from int32) int {
	if from < 0 || len(nodes) == 0 {
		return 0
	}
	n, at := nodes[from], len(f.Lefts)
	f.Compared, f.Cuts, f.Lefts = append(f.Compared, n.order), append(f.Cuts, n.cut), append(f.Lefts, 0)
	left := f.add(nodes, n.children[0])
	f.Lefts[at] = uint8(left)
	return 1 + left + f.add(nodes, n.children[1])
}

// view is a sample as trees read it.
type view struct {
	n, k      int
	ranks     [][]uint8 // of each order those of the rows
	residuals []float64 // n × k, times the weights
	weights   []float64 // nil: each row weighs 1
}

func newView(s Sample, o Orders) *view {
	v := &view{n: s.rows(), k: s.Outputs, ranks: make([][]uint8, len(o.Columns)), residuals: make([]float64, len(s.Residuals))}
	for order, column := range o.Columns {
		rows, ranks := make([]uint8, v.n), o.RanksOf(order)
		for i := range rows {
			if rows[i] = s.Codes[i*s.Columns+int(column)]; ranks != nil {
				rows[i] = ranks[rows[i]]
			}
		}
		v.ranks[order] = rows
	}
	for i, r := range s.Residuals {
		v.residuals[i] = float64(r)
	}
	if s.Weights == nil {
		return v
	}
	v.weights = make([]float64, v.n)
	for i, w := range s.Weights {
		v.weights[i] = float64(w)
		for c := range v.k {
			v.residuals[i*v.k+c] *= float64(w)
		}
	}
	return v
}

// node divides the rows of a tree. A child is the number of a node; −1: it is a leaf.
type node struct {
	order    int32
	cut      uint8
	children [2]int32
}

// leaf is rows that a node may divide, and how.
type leaf struct {
	from, to int     // which places of the growth's rows
	gain     float64 // by how much the division lowers the squared error; 0: there is none
	order    int32
	cut      uint8
	parent   int32 // a node; −1: it is the whole tree
	side     int   // of the parent
}

// growth grows trees, one after the other, in the same memory.
type growth struct {
	*view
	shape       Shape
	draws       *rand.PCG
	rows        []int32 // of all leaves, those of each ascending
	left, right []int32
	orders      []int32 // a permutation
	sums, total []float64
	leaves      []leaf
	nodes       []node
}

func newGrowth(v *view, shape Shape) *growth {
	g := &growth{view: v, shape: shape, orders: make([]int32, len(v.ranks))}
	g.rows, g.left, g.right = make([]int32, v.n), make([]int32, v.n), make([]int32, v.n)
	g.sums, g.total = make([]float64, v.k), make([]float64, v.k)
	return g
}

// below draws one of n numbers, from 0 on.
func (g *growth) below(n int) int {
	high, _ := bits.Mul64(g.draws.Uint64(), uint64(n))
	return int(high)
}

// grow returns the nodes of a tree, parents before their children.
func (g *growth) grow(draws *rand.PCG) []node {
	g.draws, g.leaves, g.nodes = draws, g.leaves[:0], nil
	for i := range g.rows {
		g.rows[i] = int32(i)
	}
	for j := range g.orders {
		g.orders[j] = int32(j)
	}
	g.add(leaf{to: g.n, parent: -1})
	for len(g.leaves) < g.shape.Leaves {
		best := 0
		for i, l := range g.leaves {
			if l.gain > g.leaves[best].gain { // of two equals the earlier
				best = i
			}
		}
		if !(g.leaves[best].gain > 0) {
			break
		}
		g.divide(best)
	}
	return g.nodes
}

// add adds a leaf, and finds its division.
func (g *growth) add(l leaf) {
	g.find(&l)
	g.leaves = append(g.leaves, l)
}

// divide makes a node of a leaf. Its left side takes the leaf's place.
func (g *growth) divide(i int) {
	l := g.leaves[i]
	number := int32(len(g.nodes))
	g.nodes = append(g.nodes, node{l.order, l.cut, [2]int32{-1, -1}})
	if l.parent >= 0 {
		g.nodes[l.parent].children[l.side] = number
	}
	rows := g.rows[l.from:l.to]
	left, right := g.split(rows, g.ranks[l.order], l.cut)
	copy(rows[copy(rows, left):], right)
	g.leaves[i] = leaf{from: l.from, to: l.from + len(left), parent: number}
	g.find(&g.leaves[i])
	g.add(leaf{from: l.from + len(left), to: l.to, parent: number, side: 1})
}

// split returns the rows of each side of a division, valid until the next call. It has no branches: those of a random
// threshold can't be predicted.
func (g *growth) split(rows []int32, ranks []uint8, cut uint8) (left, right []int32) {
	left, right = g.left[:len(rows)], g.right[:len(rows)]
	n := 0
	for i, row := range rows {
		left[n], right[i-n] = row, row
		n += int(uint32(int32(ranks[row])-int32(cut)-1) >> 31) // 1 if the rank is up to the cut
	}
	return left[:n], right[:len(rows)-n]
}

// find finds the division of a leaf.
func (g *growth) find(l *leaf) {
	rows := g.rows[l.from:l.to]
	if len(rows) < 2*g.shape.Rows {
		return
	}
	weight := g.add64(g.total, rows)
	if !(weight > 0) {
		return
	}
	before := squares(g.total) / weight
	wanted := max(1, int(g.shape.Share*float64(len(g.orders))))
	for tried, from := 0, 0; tried < wanted && from < len(g.orders); from++ {
		to := from + g.below(len(g.orders)-from)
		g.orders[from], g.orders[to] = g.orders[to], g.orders[from]
		ranks := g.ranks[g.orders[from]]
		low, high := bounds(rows, ranks)
		if low >= high {
			continue
		}
		tried++
		cut := low + uint8(g.below(int(high-low)))
		if gain := g.explained(rows, ranks, cut, weight) - before; gain > l.gain {
			l.gain, l.order, l.cut = gain, g.orders[from], cut
		}
	}
}

// bounds returns the smallest and the largest rank of rows.
func bounds(rows []int32, ranks []uint8) (low, high uint8) {
	low = Codes - 1
	for _, row := range rows {
		rank := ranks[row]
		low, high = min(low, rank), max(high, rank)
	}
	return low, high
}

// explained returns the sum of both sides' squared sums by their weights; 0 if a side has too few rows.
func (g *growth) explained(rows []int32, ranks []uint8, cut uint8, weight float64) float64 {
	side, other := g.split(rows, ranks, cut)
	if len(side) < g.shape.Rows || len(other) < g.shape.Rows {
		return 0
	}
	if len(side) > len(other) {
		side = other
	}
	w := g.add64(g.sums, side)
	if !(w > 0 && weight-w > 0) {
		return 0
	}
	explained := squares(g.sums) / w
	for c, t := range g.total {
		g.sums[c] = t - g.sums[c]
	}
	return explained + squares(g.sums)/(weight-w)
}

// add64 writes the sums of the residuals of rows, and returns their weight.
func (g *growth) add64(sums []float64, rows []int32) (weight float64) {
	clear(sums)
	switch g.k {
	case 1:
		s := 0.0
		for _, row := range rows {
			s += g.residuals[row]
		}
		sums[0] = s
	case 2:
		s, t := 0.0, 0.0
		for _, row := range rows {
			r := g.residuals[2*row:][:2]
			s, t = s+r[0], t+r[1]
		}
		sums[0], sums[1] = s, t
	default:
		for _, row := range rows {
			for c, r := range g.residuals[int(row)*g.k:][:g.k] {
				sums[c] += r
			}
		}
	}
	if g.weights == nil {
		return float64(len(rows))
	}
	for _, row := range rows {
		weight += g.weights[row]
	}
	return weight
}

// squares returns the sum of squares.
func squares(sums []float64) (total float64) {
	for _, s := range sums {
		total += float64(s * s)
	}
	return total
}
