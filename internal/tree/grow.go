package tree

import (
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"sync"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Shape configures how trees grow. All fields must be set.
type Shape struct {
	Trees  int
	Leaves int // maximum number of leaves of a tree: 2 to [MaxLeaves]
	Rows   int // minimum number of rows of the sample in a leaf
	// Share is the fraction of the orders that a node tries, rounded down, but at least one order.
	Share float64
	// Thresholds is the number of thresholds that a node tries per order: 1 to [MaxThresholds].
	Thresholds int
}

// MaxThresholds is the largest number of thresholds that a node tries in an order.
const MaxThresholds = 8

// Grow returns a forest that explains the residuals of a sample. A row of the sample has its codes in the given number of columns, its k
// residuals, and its weight, which is above 0. A tree repeatedly splits the leaf whose split reduces the squared error the most, until it
// has the configured number of leaves or no leaf can be split. A split is the best of random thresholds in random orders (extremely
// randomized trees, Geurts, Ernst and Wehenkel 2006). An order in which the leaf's rows do not differ counts as tried, but if all tried
// orders are like that, a node tries more. The draws depend on the seed, the stage and the number of the tree, so the result does not
// depend on the number of workers.
func Grow(sample kernel.Dense, columns int, o Orders, shape Shape, seed, stage uint64, workers int) Forest {
	if shape.Trees < 0 || shape.Leaves < 2 || shape.Leaves > MaxLeaves || shape.Rows < 1 || !(shape.Share > 0) ||
		shape.Thresholds < 1 || shape.Thresholds > MaxThresholds || columns+2 > sample.Cols {
		panic(fmt.Sprintf("tree: Grow: %+v on rows of %d values, of which %d are codes", shape, sample.Cols, columns))
	}
	view := newView(sample, columns, o)
	trees := make([]Forest, shape.Trees)
	workers = max(1, min(workers, shape.Trees))
	var group sync.WaitGroup
	for worker := range workers {
		group.Go(func() {
			g := newGrowth(view, shape)
			for t := worker; t < len(trees); t += workers {
				g.write(&trees[t], g.grow(rand.NewPCG(mix(seed, stage), uint64(t))))
			}
		})
	}
	group.Wait()
	f := Forest{Leaves: shape.Leaves, Orders: o, Sizes: make([]uint8, len(trees))}
	for t, g := range trees {
		f.Sizes[t] = uint8(len(g.Lefts))
		f.Compared, f.Cuts, f.Lefts = append(f.Compared, g.Compared...), append(f.Cuts, g.Cuts...), append(f.Lefts, g.Lefts...)
		f.Covers = append(f.Covers, g.Covers...)
	}
	return f
}

// view is a sample in the layout that growth reads.
type view struct {
	n, k, stride int     // stride is the number of orders
	ranks        []uint8 // of the rows in each order (n × stride)
	// values hold for each row its k residuals times its weight, its weight, 1, and padding to a multiple of 4 (n ×
	// width).
	values []float64
	width  int
	bounds // of all ranks
}

// bounds are lower and upper bounds of the ranks of rows in each order.
type bounds struct{ low, high []uint8 }

func (b bounds) clone() bounds { return bounds{slices.Clone(b.low), slices.Clone(b.high)} }

func newView(sample kernel.Dense, columns int, o Orders) *view {
	v := &view{n: sample.Rows, k: sample.Cols - columns - 1, stride: len(o.Columns)}
	v.ranks = make([]uint8, v.n*v.stride)
	v.bounds = bounds{bytes.Repeat([]byte{Codes - 1}, v.stride), make([]uint8, v.stride)}
	for order, column := range o.Columns {
		for i := range v.n {
			rank := o.Rank(order, uint8(sample.Row(i)[column]))
			v.ranks[i*v.stride+order] = rank
			v.low[order], v.high[order] = min(v.low[order], rank), max(v.high[order], rank)
		}
	}
	v.width = (v.k + 2 + 3) / 4 * 4
	v.values = make([]float64, v.n*v.width)
	for i := range v.n {
		values, residuals := v.values[i*v.width:][:v.width], sample.Row(i)[columns:]
		w := float64(residuals[v.k])
		for c, r := range residuals[:v.k] {
			values[c] = float64(w * float64(r))
		}
		values[v.k], values[v.k+1] = w, 1
	}
	return v
}

// sums are the weighted residuals of rows, their weight and their number.
type sums []float64

func (v *view) residuals(s sums) []float64 { return s[:v.k] }
func (v *view) weight(s sums) float64      { return s[v.k] }
func (v *view) count(s sums) int           { return int(s[v.k+1]) }

// node is rows with their best split, and the nodes on the two sides once they are split.
type node struct {
	rows        []int32 // ascending
	bounds              // of the rows
	gain        float64 // reduction of the squared error by the split; 0: there is none
	order       int32
	cut         uint8
	left, right *node // nil: the node is a leaf
}

// growth grows trees sequentially, in the same memory.
type growth struct {
	*view
	shape  Shape
	draws  *rand.PCG
	rows   []int32 // of all leaves
	right  []int32 // scratch for the rows of the right side of a split
	orders []int32 // a permutation
	// tried are the orders in which a leaf is split, by cuts, and parts are the sums of the rows between these (orders
	// × (thresholds + 1) × width). An additional column has a single part: the total of the rows.
	tried kernel.Parts
	cuts  []uint8 // orders × thresholds, ascending
	parts []float64
	lower sums // of the rows up to a cut
}

func newGrowth(v *view, shape Shape) *growth {
	g := &growth{view: v, shape: shape, orders: make([]int32, v.stride)}
	g.rows, g.right = make([]int32, v.n), make([]int32, v.n)
	g.lower = make(sums, v.width)
	g.tried.Stride, g.tried.Count = v.stride, shape.Thresholds+1
	return g
}

// below draws one of the numbers 0 … n−1.
func (g *growth) below(n int) int {
	high, _ := bits.Mul64(g.draws.Uint64(), uint64(n))
	return int(high)
}

// grow returns the root of a tree, valid until the next call.
func (g *growth) grow(draws *rand.PCG) *node {
	g.draws = draws
	for i := range g.rows {
		g.rows[i] = int32(i)
	}
	for j := range g.orders {
		g.orders[j] = int32(j)
	}
	root := g.leaf(g.rows, g.bounds.clone())
	for leaves := []*node{root}; len(leaves) < g.shape.Leaves; {
		best := 0
		for i, l := range leaves {
			if l.gain > leaves[best].gain { // ties: the earlier leaf
				best = i
			}
		}
		n := leaves[best]
		if !(n.gain > 0) {
			break
		}
		middle := g.split(n.rows, n.order, n.cut)
		n.left = g.leaf(n.rows[:middle], n.bounds.clone())
		n.right = g.leaf(n.rows[middle:], n.bounds)
		leaves[best] = n.left
		leaves = append(leaves, n.right)
	}
	return root
}

// write appends a node and those below it in preorder, and the covers of their leaves. It returns the number of nodes that are not leaves.
func (g *growth) write(f *Forest, n *node) int {
	if n.left == nil {
		cover := 0.0
		for _, row := range n.rows {
			cover += g.values[int(row)*g.width+g.k]
		}
		f.Covers = append(f.Covers, float32(cover))
		return 0
	}
	at := len(f.Lefts)
	f.Compared, f.Cuts, f.Lefts = append(f.Compared, n.order), append(f.Cuts, n.cut), append(f.Lefts, 0)
	left := g.write(f, n.left)
	f.Lefts[at] = uint8(left)
	return 1 + left + g.write(f, n.right)
}

// split moves the rows of the left side of a split before those of the right side, and returns their number. Each side stays in order. It
// is branch-free: the branches of a random threshold are unpredictable.
func (g *growth) split(rows []int32, order int32, cut uint8) (left int) {
	right := g.right[:len(rows)]
	for i, row := range rows {
		rows[left], right[i-left] = row, row
		left += int(uint32(int32(g.ranks[int(row)*g.stride+int(order)])-int32(cut)-1) >> 31) // 1 if the rank is up to the cut
	}
	copy(rows[left:], right)
	return left
}

// leaf returns a leaf with its best split, given bounds of its rows, which it narrows.
func (g *growth) leaf(rows []int32, b bounds) *node {
	l := &node{rows: rows, bounds: b}
	if len(rows) < 2*g.shape.Rows {
		return l
	}
	g.try(l)
	tried := len(g.tried.Columns)
	if tried == 0 {
		return l
	}
	g.tried.Columns, g.tried.Of = append(g.tried.Columns, 0), append(g.tried.Of, make([]uint8, Codes)...)
	size := g.tried.Count * g.width // per order
	g.parts = slices.Grow(g.parts[:0], (tried+1)*size)[:(tried+1)*size]
	clear(g.parts)
	kernel.AddParts(g.parts, g.tried, g.ranks, g.values, g.width, rows)
	total := sums(g.parts[tried*size:][:g.width])
	if !(g.weight(total) > 0) {
		return l
	}
	before := squares(g.residuals(total)) / g.weight(total)
	for j, order := range g.tried.Columns[:tried] {
		clear(g.lower)
		for i, cut := range g.cuts[j*g.shape.Thresholds:][:g.shape.Thresholds] {
			for c, r := range g.parts[j*size+i*g.width:][:g.width] {
				g.lower[c] += r
			}
			if gain := g.explained(g.lower, total) - before; gain > l.gain {
				l.gain, l.order, l.cut = gain, order, cut
			}
		}
	}
	return l
}

// try draws the orders in which a leaf is split, and the thresholds in each of them.
func (g *growth) try(l *node) {
	g.tried.Columns, g.tried.Of, g.cuts = g.tried.Columns[:0], g.tried.Of[:0], g.cuts[:0]
	wanted := max(1, int(g.shape.Share*float64(len(g.orders))))
	for from := 0; from < len(g.orders) && (from < wanted || len(g.tried.Columns) == 0); from++ {
		to := from + g.below(len(g.orders)-from)
		g.orders[from], g.orders[to] = g.orders[to], g.orders[from]
		order := g.orders[from]
		l.narrow(g.view, order)
		low, high := l.low[order], l.high[order]
		if low >= high {
			continue
		}
		first := len(g.cuts)
		for range g.shape.Thresholds {
			g.cuts = append(g.cuts, low+uint8(g.below(int(high-low))))
		}
		cuts := g.cuts[first:]
		slices.Sort(cuts)
		g.tried.Columns, g.tried.Of = append(g.tried.Columns, order), appendParts(g.tried.Of, cuts)
	}
}

// narrow sets the bounds of the rows in an order to their smallest and largest rank. A few rows mostly reach the bounds of the node above.
func (n *node) narrow(v *view, order int32) {
	low, high := uint8(Codes-1), uint8(0)
	for rows := range slices.Chunk(n.rows, 64) {
		for _, row := range rows {
			rank := v.ranks[int(row)*v.stride+int(order)]
			low, high = min(low, rank), max(high, rank)
		}
		if low == n.low[order] && high == n.high[order] {
			break
		}
	}
	n.low[order], n.high[order] = low, high
}

// appendParts appends the part of each code: the number of ascending cuts below it.
func appendParts(parts, cuts []uint8) []uint8 {
	code := 0
	for part, cut := range cuts {
		for ; code <= int(cut); code++ {
			parts = append(parts, uint8(part))
		}
	}
	for ; code < Codes; code++ {
		parts = append(parts, uint8(len(cuts)))
	}
	return parts
}

// explained returns Σ |sums|²/weight over both sides, where left holds the sums of the rows up to a cut; 0 if a side
// has too few rows.
func (g *growth) explained(left, total sums) float64 {
	n, w, others := g.count(left), g.weight(left), g.weight(total)-g.weight(left)
	if n < g.shape.Rows || g.count(total)-n < g.shape.Rows || !(w > 0 && others > 0) {
		return 0
	}
	other := 0.0
	for c, t := range g.residuals(total) {
		other += float64((t - left[c]) * (t - left[c]))
	}
	return squares(g.residuals(left))/w + other/others
}

// squares returns the sum of squares.
func squares(sums []float64) (total float64) {
	for _, s := range sums {
		total += float64(s * s)
	}
	return total
}
