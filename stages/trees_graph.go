package stages

import (
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/stages/prepare"
)

// AddProduct adds the product of the block and weights (p × k): for each row the sum of the weights of its leaves and
// of the intercept. It panics unless the map has trees.
func (m *Map) AddProduct(g *onnx.Graph, c *prepare.Compared, weights kernel.Dense) onnx.Value {
	if m.finder == nil {
		panic("stages: a product of a map without trees")
	}
	f := m.forest
	numbers := f.Orders.Numbers()
	features := make([]int, len(f.Orders.Columns)) // per order: raw features, then the ranks of words
	parts := []onnx.Value{c.Raw}
	for order, column := range f.Orders.Columns {
		if features[order] = c.First[column]; order >= numbers {
			features[order] = c.Width + order - numbers
			parts = append(parts, g.Node("Gather", g.Row(floatsOf(f.Orders.RanksOf(order))), c.Codes[int(column)]))
		}
	}
	x := c.Raw
	if len(parts) > 1 {
		x = g.Along(1, "Concat", parts...)
	}
	var trees onnx.Trees
	node := 0
	for t, size := range f.Sizes {
		trees.Begin()
		p := planter{trees: &trees, forest: f, edges: m.coder.Edges(), features: features,
			leaves: weights.Slice(t*f.Leaves, (t+1)*f.Leaves)}
		p.plant(node, 0, int(size))
		node += int(size)
	}
	sum := g.Trees(x, &trees, weights.Cols)
	if m.extra > 0 {
		sum = g.Node("Add", sum, g.Row(weights.Row(m.size)))
	}
	return sum
}

// planter converts a tree to a tree of a graph.
type planter struct {
	trees    *onnx.Trees
	forest   tree.Forest
	edges    [][]float32 // per column
	features []int       // of the graph's matrix, for each order
	leaves   kernel.Dense
}

// plant adds a subtree, given its first node, first leaf and number of nodes, and returns the index of its root in the
// graph.
func (p *planter) plant(node, leaf, nodes int) int64 {
	if nodes == 0 {
		return p.trees.Leaf(p.leaves.Row(leaf))
	}
	threshold, missing, swapped := p.test(node)
	planted := p.trees.Node(p.features[p.forest.Compared[node]], threshold, missing)
	lefts := int(p.forest.Lefts[node])
	left := p.plant(node+1, leaf, lefts)
	right := p.plant(node+1+lefts, leaf+lefts+1, nodes-1-lefts)
	if swapped {
		left, right = right, left
	}
	p.trees.Lead(planted, left, right)
	return planted
}

// test returns the comparison of a graph node that is equivalent to a node of the forest: its threshold, whether a
// missing value counts as not above it, and whether values up to it go to the right side.
func (p *planter) test(node int) (threshold float32, missing, swapped bool) {
	order, cut := int(p.forest.Compared[node]), int(p.forest.Cuts[node])
	if p.forest.Orders.RanksOf(order) != nil {
		return float32(cut) + 0.5, true, false // of ranks
	}
	edges, all := p.edges[p.forest.Orders.Columns[order]], float32(math.Inf(1))
	switch {
	case cut == 0:
		return all, false, true // only missing values go left
	case cut > len(edges):
		return all, true, false // all go left
	}
	return edges[cut-1], true, false
}
