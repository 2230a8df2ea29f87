package tree

import (
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
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
	// Share is the share of the orders that a node tries, rounded down, but not below one.
	Share float64
	// Thresholds is how many thresholds a node tries in each of them: 1 to [MaxThresholds].
	Thresholds int
}

// MaxThresholds is the largest number of thresholds that a node tries in an order.
const MaxThresholds = 8

// Grow returns a forest that explains a sample's residuals. Of the leaves so far a tree divides the one whose division
// lowers the squared error of the residuals the most, until it has as many as the shape says, or none can be divided. A
// division is the best of random thresholds in random orders (extremely randomized trees, Geurts, Ernst and Wehenkel 2006).
// An order in which the leaf's rows don't differ counts as tried, unless all are like that. The draws are of the seed, the
// stage, and the number of the tree. That many workers grow the trees, with the same result.
func Grow(s Sample, o Orders, shape Shape, seed, stage uint64, workers int) Forest {
	if shape.Trees < 0 || shape.Leaves < 2 || shape.Leaves > MaxLeaves || shape.Rows < 1 || !(shape.Share > 0) ||
		shape.Thresholds < 1 || shape.Thresholds > MaxThresholds {
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
	// of the rows of a leaf between cuts: how many, their weight, and the sums of their residuals ((cuts + 1) × k)
	counts  [MaxThresholds + 1]int
	weighed [MaxThresholds + 1]float64
	parts   []float64
	cuts    [MaxThresholds]uint8
	gains   [MaxThresholds]float64
	leaves  []leaf
	nodes   []node
}

func newGrowth(v *view, shape Shape) *growth {
	g := &growth{view: v, shape: shape, orders: make([]int32, len(v.ranks))}
	g.rows, g.left, g.right = make([]int32, v.n), make([]int32, v.n), make([]int32, v.n)
	g.sums, g.total, g.parts = make([]float64, v.k), make([]float64, v.k), make([]float64, (MaxThresholds+1)*v.k)
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
	for from, differ := 0, false; from < len(g.orders) && (from < wanted || !differ); from++ {
		to := from + g.below(len(g.orders)-from)
		g.orders[from], g.orders[to] = g.orders[to], g.orders[from]
		order := g.orders[from]
		low, high := bounds(rows, g.ranks[order])
		if low >= high {
			continue
		}
		differ = true
		cuts := g.cuts[:0]
		for range g.shape.Thresholds {
			cuts = append(cuts, low+uint8(g.below(int(high-low))))
		}
		slices.Sort(cuts)
		for i, explained := range g.explained(rows, g.ranks[order], cuts, weight) {
			if gain := explained - before; gain > l.gain {
				l.gain, l.order, l.cut = gain, order, cuts[i]
			}
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

// explained returns for each of some ascending cuts the sum of both sides' squared sums by their weights; 0 if a side has too few
// rows. The result is valid until the next call.
func (g *growth) explained(rows []int32, ranks []uint8, cuts []uint8, weight float64) []float64 {
	g.tally(rows, ranks, cuts)
	explained, k, n, w := g.gains[:len(cuts)], g.k, 0, 0.0
	clear(g.sums)
	for i := range cuts {
		explained[i] = 0
		n += g.counts[i]
		w += g.weighed[i]
		for c, r := range g.parts[i*k:][:k] {
			g.sums[c] += r
		}
		if n < g.shape.Rows || len(rows)-n < g.shape.Rows || !(w > 0 && weight-w > 0) {
			continue
		}
		other := 0.0
		for c, t := range g.total {
			other += float64((t - g.sums[c]) * (t - g.sums[c]))
		}
		explained[i] = squares(g.sums)/w + other/(weight-w)
	}
	return explained
}

// tally sums the residuals of the rows between cuts, and counts and weighs them. It has no branches on ranks: those of random
// thresholds can't be predicted.
func (g *growth) tally(rows []int32, ranks []uint8, cuts []uint8) {
	k := g.k
	clear(g.parts)
	g.counts, g.weighed = [MaxThresholds + 1]int{}, [MaxThresholds + 1]float64{}
	for _, row := range rows {
		rank, part := int32(ranks[row]), 0
		for _, cut := range cuts {
			part += int(uint32(int32(cut)-rank) >> 31) // 1 if the rank is above the cut
		}
		g.counts[part]++
		if g.weights != nil {
			g.weighed[part] += g.weights[row]
		}
		switch residuals := g.residuals[int(row)*k:][:k]; k {
		case 1:
			g.parts[part] += residuals[0]
		case 2:
			parts := g.parts[2*part:][:2]
			parts[0], parts[1] = parts[0]+residuals[0], parts[1]+residuals[1]
		default:
			parts := g.parts[part*k:][:k]
			for c, r := range residuals {
				parts[c] += r
			}
		}
	}
	if g.weights == nil {
		for i, n := range g.counts {
			g.weighed[i] = float64(n)
		}
	}
}

// add64 writes the sums of the residuals of rows, and returns their weight.
func (g *growth) add64(sums []float64, rows []int32) (weight float64) {
	clear(sums)
	for _, row := range rows {
		for c, r := range g.residuals[int(row)*g.k:][:g.k] {
			sums[c] += r
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
