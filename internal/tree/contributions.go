package tree

import (
	"errors"
	"math"
	"slices"

	"gonum.org/v1/gonum/integrate/quad"

	"github.com/stagewise/stagewise/internal/kernel"
)

// Contributions computes what each column adds to the scores of rows in a forest: the path-dependent Shapley values of
// TreeSHAP (Lundberg, Erion and Lee 2018). Of the rows without the value of a column, the share given by the covers
// goes left at a node. Create it with [NewContributions]. It is immutable.
//
// The Shapley value of a column is its derivative in the multilinear extension, integrated along the diagonal (Owen 1972): the mean score
// if each column is known with a probability, the same t from 0 to 1. Of the rows that reach a node, s + (o − s)·τ go left: s is the left
// share of the cover, o is 1 if the row goes left, otherwise 0, and τ is the probability that the column is known: t, or t/(z(1−t) + t) if
// earlier nodes compare the same column, where z is the share of rows that pass them without it. A row that does not pass them reaches the
// node only without the column. By the chain rule, a node adds to its column
//
//	∫₀¹ (o − s) · dτ/dt · reached(t) · (left(t) − right(t)) dt
//
// where reached is the share of the rows that reach the node, and left and right are the mean scores of its sides. The
// sum over all nodes of the column is the integral of a polynomial, so Gauss–Legendre quadrature is exact.
type Contributions struct {
	base    []float64
	columns int // of a row
	outputs int // computed outputs: k, or k − 1 if the scores of each leaf add up to 0, as with softmax
	trees   []kernel.ShapleyTree
}

// ErrNoCovers means that the covers of a forest are unknown.
var ErrNoCovers = errors.New("the trees have no covers, as they were grown before versions had them")

// NewContributions returns the contributions to the scores of a forest over columns. weights are its leaf weights
// ([Forest.Size] × k). places has the column of the result for each column. The error is [ErrNoCovers].
func NewContributions(f Forest, places []int, weights []float32, k int) (*Contributions, error) {
	if f.Covers == nil {
		return nil, ErrNoCovers
	}
	c := &Contributions{base: make([]float64, k), columns: len(places), outputs: k}
	if k > 1 && addUpTo0(weights, k) {
		c.outputs--
	}
	node, leaf := 0, 0
	for t, size := range f.Sizes {
		p := paths{Forest: f, places: places, nodes: int(size), first: node, covers: f.Covers[leaf:], passing: []float64{1}}
		p.follow(p.nodes, 0, 0, nil)
		tree := kernel.ShapleyTree{Nodes: p.tree, Leaves: make([]float32, len(p.leaves)*c.outputs), Count: (p.longest + 1) / 2}
		tree.Points = pointsOf(p.passing, tree.Count)
		for leaf, share := range p.leaves {
			of := weights[(t*f.Leaves+leaf)*k:][:k]
			for out, w := range of {
				c.base[out] += share * float64(w)
			}
			for out, w := range of[:c.outputs] {
				tree.Leaves[out*len(p.leaves)+leaf] = w
			}
		}
		c.trees = append(c.trees, tree)
		node, leaf = node+len(p.tree), leaf+len(p.leaves)
	}
	return c, nil
}

// addUpTo0 reports whether the k weights of each leaf add up to 0, up to rounding.
func addUpTo0(weights []float32, k int) bool {
	largest, most := 0.0, 0.0 // of the weights and of the sums
	for ; len(weights) > 0; weights = weights[k:] {
		sum := 0.0
		for _, w := range weights[:k] {
			sum, largest = sum+float64(w), max(largest, math.Abs(float64(w)))
		}
		most = max(most, math.Abs(sum))
	}
	return most <= 1e-6*largest
}

// paths follows the paths to the leaves of a tree.
type paths struct {
	Forest
	places  []int
	nodes   int       // of the tree
	first   int       // its first node in the forest
	covers  []float32 // of its leaves that remain
	tree    []kernel.ShapleyNode
	leaves  []float64 // the shares of the rows in the leaves so far
	passing []float64 // the shares of the rows that pass the earlier nodes of a column; the first is 1, without earlier nodes
	longest int       // the maximum number of factors of a path
}

// factor combines the nodes of a path that compare the same column.
type factor struct {
	column int
	share  float64   // of the rows that pass all of them
	passes [8]uint32 // codes of the rows that do, as in [kernel.ShapleyNode]
}

// follow adds a subtree with the given number of nodes below a side of the node above. It returns its index in Below.
func (p *paths) follow(nodes, above, side int, path []factor) int32 {
	if nodes == 0 {
		share := 1.0
		for i := range path {
			share *= path[i].share
		}
		p.leaves, p.covers, p.longest = append(p.leaves, share), p.covers[1:], max(p.longest, len(path))
		return int32(p.nodes + len(p.leaves) - 1)
	}
	index := len(p.tree)
	order, cut := int(p.Compared[p.first+index]), p.Cuts[p.first+index]
	sizes := [2]int{int(p.Lefts[p.first+index]), nodes - 1 - int(p.Lefts[p.first+index])}
	left := float64(sizes[0]+1) / float64(nodes+1) // if no row is known
	if all := coverOf(p.covers[:nodes+1]); all > 0 {
		left = coverOf(p.covers[:sizes[0]+1]) / all
	}
	node := kernel.ShapleyNode{Column: p.Orders.Columns[order], Shares: [2]float32{float32(left), float32(1 - left)}}
	if index > 0 {
		node.Above, node.AboveShare = int32(above), p.tree[above].Shares[side]
		node.AbovePoints = p.tree[above].Points + int32(side)
	}
	node.Place = int32(p.places[node.Column])
	at := slices.IndexFunc(path, func(f factor) bool { return f.column == int(node.Column) })
	if path = slices.Clone(path); at < 0 {
		const all = math.MaxUint32
		at, path = len(path), append(path, factor{int(node.Column), 1, [8]uint32{all, all, all, all, all, all, all, all}})
	} else {
		node.Points, p.passing = int32(3*len(p.passing)), append(p.passing, path[at].share)
	}
	before := path[at]
	for code := range Codes {
		side := 0
		if p.Orders.Rank(order, uint8(code)) > cut {
			side = 1
		}
		node.Passing[side][code%8] |= before.passes[code%8] & (1 << (31 - code/8))
	}
	p.tree = append(p.tree, node)
	for side, share := range []float64{left, 1 - left} {
		path[at] = factor{before.column, before.share * share, node.Passing[side]}
		p.tree[index].Below[side] = p.follow(sizes[side], index, side, path)
	}
	return int32(index)
}

// coverOf returns the total weight of the rows in leaves.
func coverOf(covers []float32) (sum float64) {
	for _, w := range covers {
		sum += float64(w)
	}
	return sum
}

// pointsOf returns the given number of points for each share of passing rows.
func pointsOf(passing []float64, count int) (points []float32) {
	if count == 0 {
		return nil
	}
	at, weights := make([]float64, count), make([]float64, count)
	quad.Legendre{}.FixedLocations(at, weights, 0, 1)
	for i, t := range at {
		for _, z := range passing {
			passed := z*(1-t) + t
			points = append(points, float32(t/passed), float32(-t/passed), float32(weights[i]*z/(passed*passed)))
		}
	}
	return points
}

// Base returns the mean score of rows whose columns are all unknown (k), the base of the contributions. Callers must not change it.
func (c *Contributions) Base() []float64 { return c.base }

// Add adds the contributions to the results of rows (places × k × n), given the codes of the rows (n × columns). The
// time per row is shorter for many rows.
func (c *Contributions) Add(results []float64, codes []uint8) {
	const group = kernel.ShapleyRows
	n, k := len(codes)/c.columns, len(c.base)
	groups, places := (n+group-1)/group, len(results)/k/max(1, n)
	grouped, sums := make([]uint8, groups*c.columns*group), make([]float64, groups*c.outputs*places*group)
	for i := range n {
		of := grouped[i/group*c.columns*group+i%group:]
		for j, code := range codes[i*c.columns:][:c.columns] {
			of[j*group] = code
		}
	}
	var scratch []float32
	for _, tree := range c.trees {
		tree.Add(sums, grouped, groups, c.outputs, &scratch)
	}
	for place := range places {
		last := results[(place*k+k-1)*n:][:n]
		for out := range c.outputs {
			to := results[(place*k+out)*n:][:n]
			for i := range to {
				v := sums[((i/group*c.outputs+out)*places+place)*group+i%group]
				if to[i] += v; c.outputs < k {
					last[i] -= v
				}
			}
		}
	}
}
