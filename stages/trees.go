package stages

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/onnx"
	"github.com/stagewise/stagewise/internal/option"
	"github.com/stagewise/stagewise/internal/tree"
	"github.com/stagewise/stagewise/schemas"
	"github.com/stagewise/stagewise/schemas/statistics"
	"github.com/stagewise/stagewise/schemas/wire"
)

// Trees is the kind of leaf indicators: a feature is 1 in the rows that end in its leaf, otherwise 0. The trees are
// grown on the residuals of a fresh sample of rows, and the weights of all their leaves are fitted jointly to all rows,
// as in RGF (Johnson and Zhang 2014). Trees compare the codes of raw features, which [Coder] computes.
const Trees = "trees"

// Measured on six tables (medians of three seeds): blocks of 32 trees with 32 leaves reach a lower error than larger
// ones after the same number of passes. On Adult, samples of 32,768 rows reach a 0.3 % lower error than samples of
// 8,192. On the others the error is within 0.2 %, and the log loss is lower on four of six.
const (
	defaultTreesSize   = 1024
	defaultTreesLeaves = 32
	defaultTreesSample = 32768
	maxTreesSample     = 1 << 20
)

func trees() Kind {
	return Kind{
		name:    Trees,
		meaning: "leaves of trees that each stage grows on the residuals of the stages before it",
		keys: []option.Key{
			{Name: "size", Meaning: "leaves of all trees: the number of trees times `leaves`; 1024 if not given"},
			{Name: "leaves", Rule: option.Whole(2, tree.MaxLeaves), Meaning: "maximum number of leaves of a tree, from 2 to 64; 32 if not given"},
			{Name: "sample", Rule: option.Whole(2, maxTreesSample), Meaning: "number of training rows that the trees of a stage are grown on, " +
				"sampled for each stage; 32768 if not given"},
		},
		fits: func(f schemas.Features) []option.Problem {
			if f.Leaves < 1 || f.Size%f.Leaves == 0 {
				return nil
			}
			return []option.Problem{{Key: "size", Value: fmt.Sprint(f.Size), Want: "a multiple of leaves"}}
		},
		minSize: 2,
		Suits:   []Examples{Tables},
		Grown:   true,
		defaults: func(f *schemas.Features) {
			f.Size, f.Leaves, f.Sample = defaultTreesSize, defaultTreesLeaves, defaultTreesSample
		},
		describe: func(f schemas.Features) string {
			return fmt.Sprintf("%d %s of %d leaves", f.Size/f.Leaves, f.Kind, f.Leaves)
		},
	}
}

// Larger returns features with the same number of trees and twice the leaves; f itself at the largest number of leaves.
func Larger(f schemas.Features) schemas.Features {
	if 2*f.Leaves <= tree.MaxLeaves {
		f.Size, f.Leaves = 2*f.Size, 2*f.Leaves
	}
	return f
}

// ErrNoCodes means that trees need codes of the raw features, but the survey's result has no bins for them.
var ErrNoCodes = errors.New("the survey's result lacks the bins of columns, which trees need")

// Leaves returns the maximum number of leaves per tree of the map; 0 for a map of another kind.
func (m *Map) Leaves() int {
	if !m.kind.Grown {
		return 0
	}
	return m.features.Leaves
}

// Trees returns the number of trees of the map; 0 for a map of another kind.
func (m *Map) Trees() int {
	if !m.kind.Grown {
		return 0
	}
	return m.features.Size / m.features.Leaves
}

// Grow returns the map with the trees of a record of kind structure. The error is a *[wire.ShapeError], or wraps
// [wire.ErrDamaged] and names the invalid number of the structure.
func (m *Map) Grow(structure wire.Tensors[float32]) (*Map, error) {
	if m.coder == nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrDamaged, ErrNoCodes)
	}
	forest, err := forestOf(structure, m.features.Leaves, m.features.Size/m.features.Leaves)
	if err != nil {
		return nil, err
	}
	if err := forest.Check(m.coder.Width()); err != nil {
		return nil, fmt.Errorf("%w: %w", wire.ErrDamaged, err)
	}
	if err := m.coder.checkOrders(forest.Orders); err != nil {
		return nil, err
	}
	grown := *m
	grown.forest, grown.finder = forest, tree.NewFinder(forest, m.coder.Width())
	return &grown, nil
}

// Structure returns the tensors from which the map was grown; nil for a map of another kind, or without trees yet.
func (m *Map) Structure() wire.Tensors[float32] {
	if m.finder == nil {
		return nil
	}
	return StructureOf(m.forest)
}

// Forest returns the trees of the map.
func (m *Map) Forest() tree.Forest { return m.forest }

// FindLeaves writes the leaves of rows, given their codes, into dst. It panics unless the map has trees.
func (m *Map) FindLeaves(dst *tree.Leaves, codes []uint8) {
	if m.finder == nil {
		panic("stages: leaves of a map without trees")
	}
	m.finder.Find(dst, codes)
}

// ExpandLeaves is [Map.Expand] for trees: it writes the indicators of the leaves of rows, given their codes.
func (m *Map) ExpandLeaves(dst *kernel.Dense, scratch *tree.Leaves, codes []uint8) {
	m.FindLeaves(scratch, codes)
	dst.Reshape(scratch.Rows, m.Size())
	clear(dst.Data)
	for t := range scratch.Trees {
		for i, leaf := range scratch.Tree(t) {
			dst.Row(i)[t*m.features.Leaves+int(leaf)] = 1
		}
	}
	if m.extra > 0 {
		for i := range dst.Rows {
			dst.Row(i)[m.size] = 1
		}
	}
}

// StructureOf returns the tensors of a record of kind structure.
func StructureOf(f tree.Forest) wire.Tensors[float32] {
	t := wire.Tensors[float32]{
		wire.Vector(statistics.TensorTreeSizes, floatsOf(f.Sizes)), wire.Vector(statistics.TensorTreeOrders, floatsOf(f.Orders.Columns)),
		wire.Vector(statistics.TensorTreeRanks, floatsOf(f.Orders.Ranks)), wire.Vector(statistics.TensorTreeCompared, floatsOf(f.Compared)),
		wire.Vector(statistics.TensorTreeCuts, floatsOf(f.Cuts)), wire.Vector(statistics.TensorTreeLefts, floatsOf(f.Lefts)),
	}
	if f.Covers != nil {
		t = append(t, wire.Vector(statistics.TensorTreeCovers, f.Covers))
	}
	return t
}

// forestOf is the inverse of [StructureOf].
func forestOf(t wire.Tensors[float32], leaves, trees int) (f tree.Forest, err error) {
	f.Leaves = leaves
	read := func(name string, length int, to func([]float32) error) {
		values, wrong := t.Shaped(name, length)
		if wrong == nil {
			if wrong = to(values); wrong != nil {
				wrong = fmt.Errorf("%w: tensor %s: %w", wire.ErrDamaged, name, wrong)
			}
		}
		err = cmp.Or(err, wrong)
	}
	read(statistics.TensorTreeSizes, trees, func(v []float32) (err error) { f.Sizes, err = wholeOf[uint8](v); return err })
	read(statistics.TensorTreeOrders, -1, func(v []float32) (err error) { f.Orders.Columns, err = wholeOf[int32](v); return err })
	read(statistics.TensorTreeRanks, -1, func(v []float32) (err error) { f.Orders.Ranks, err = wholeOf[uint8](v); return err })
	read(statistics.TensorTreeCompared, -1, func(v []float32) (err error) { f.Compared, err = wholeOf[int32](v); return err })
	read(statistics.TensorTreeCuts, -1, func(v []float32) (err error) { f.Cuts, err = wholeOf[uint8](v); return err })
	read(statistics.TensorTreeLefts, -1, func(v []float32) (err error) { f.Lefts, err = wholeOf[uint8](v); return err })
	if err == nil {
		f.Covers, err = t.Optional(statistics.TensorTreeCovers, len(f.Lefts)+trees)
	}
	return f, err
}

func floatsOf[T uint8 | int32](values []T) []float32 {
	floats := make([]float32, len(values))
	for i, v := range values {
		floats[i] = float32(v)
	}
	return floats
}

// wholeOf is the inverse of floatsOf. A float32 represents all numbers of orders exactly: there are fewer than 2²⁴.
func wholeOf[T uint8 | int32](floats []float32) ([]T, error) {
	values := make([]T, len(floats))
	for i, v := range floats {
		if !(v >= 0 && v < 1<<24) || float32(T(v)) != v {
			return nil, fmt.Errorf("%v at index %d is not a whole number in range", v, i)
		}
		values[i] = T(v)
	}
	return values, nil
}

// AddProduct adds the product of the block and weights (p × k): for each row the sum of the weights of its leaves and
// of the intercept. It panics unless the map has trees.
func (m *Map) AddProduct(g *onnx.Graph, c *Compared, weights kernel.Dense) onnx.Value {
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
	var trees []onnx.Tree
	node := 0
	for t, size := range f.Sizes {
		p := planter{forest: f, edges: m.coder.edges, features: features, leaves: weights.Slice(t*f.Leaves, (t+1)*f.Leaves)}
		p.plant(node, 0, int(size))
		node += int(size)
		trees = append(trees, p.tree)
	}
	sum := g.Trees(x, trees, weights.Cols)
	if m.extra > 0 {
		sum = g.Node("Add", sum, g.Row(weights.Row(m.size)))
	}
	return sum
}

// planter converts a tree to a tree of a graph.
type planter struct {
	tree     onnx.Tree
	forest   tree.Forest
	edges    [][]float32 // per column
	features []int       // of the graph's matrix, for each order
	leaves   kernel.Dense
}

// plant adds a subtree, given its first node, first leaf and number of nodes, and returns the index of its root in the
// graph's tree.
func (p *planter) plant(node, leaf, nodes int) int {
	planted := len(p.tree)
	if nodes == 0 {
		p.tree = append(p.tree, onnx.TreeNode{Weights: p.leaves.Row(leaf)})
		return planted
	}
	threshold, missing, swapped := p.test(node)
	p.tree = append(p.tree, onnx.TreeNode{Feature: p.features[p.forest.Compared[node]], Threshold: threshold, Missing: missing})
	lefts := int(p.forest.Lefts[node])
	left := p.plant(node+1, leaf, lefts)
	right := p.plant(node+1+lefts, leaf+lefts+1, nodes-1-lefts)
	if swapped {
		left, right = right, left
	}
	p.tree[planted].AtMost, p.tree[planted].Above = left, right
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
