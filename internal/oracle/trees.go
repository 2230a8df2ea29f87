package oracle

import (
	"math"
	"math/rand/v2"
	"slices"

	"github.com/stagewise/stagewise/internal/kernel"
	"github.com/stagewise/stagewise/internal/tree"
)

// Table is the columns of a table: the number of features of each, 1 for numbers, and its edges.
type Table struct {
	Features []int
	Edges    [][]float32
}

// NewTable returns a table whose columns of numbers have random edges: from none to the maximum, mostly few.
func NewTable(random *rand.Rand, features ...int) Table {
	t := Table{Features: features}
	for _, n := range features {
		if n > 1 {
			t.Edges = append(t.Edges, tree.WordEdges(min(n-1, tree.MaxWords)))
			continue
		}
		edges := make([]float32, random.IntN(1+random.IntN(tree.MaxEdges+1)))
		for i := range edges {
			edges[i] = float32(random.NormFloat64())
		}
		slices.Sort(edges)
		t.Edges = append(t.Edges, slices.Compact(edges))
	}
	return t
}

// Rows returns n random rows of raw features (n × d): numbers, many of them edges, words, unknown words, and missing
// values.
func (t Table) Rows(random *rand.Rand, n int) kernel.Dense {
	rows := kernel.NewDense(n, t.Width())
	for i := range n {
		row := rows.Row(i)
		for j, features := range t.Features {
			switch edges := t.Edges[j]; {
			case random.IntN(6) == 0:
				for c := range row[:features] {
					row[c] = float32(math.NaN())
				}
			case features > 1:
				row[random.IntN(features)] = 1
			case len(edges) > 0 && random.IntN(2) == 0:
				row[0] = edges[random.IntN(len(edges))]
			default:
				row[0] = float32(random.NormFloat64())
			}
			row = row[features:]
		}
	}
	return rows
}

// Width returns the number of features of all columns, d.
func (t Table) Width() (d int) {
	for _, n := range t.Features {
		d += n
	}
	return d
}

// Bins returns the table in the survey's result: of each column, the number of its features and of its edges, and all edges.
func (t Table) Bins() (bins, edges []float32) {
	for j, n := range t.Features {
		bins, edges = append(bins, float32(n), float32(len(t.Edges[j]))), append(edges, t.Edges[j]...)
	}
	return bins, edges
}

// Codes returns the codes of a row of raw features (d).
func (t Table) Codes(row []float32) (codes []uint8) {
	for j, n := range t.Features {
		code := uint8(0)
		switch {
		case n == 1 && row[0] == row[0]:
			code = 1
			for _, edge := range t.Edges[j] {
				if edge < row[0] {
					code++
				}
			}
		case n > 1:
			if i := slices.IndexFunc(row[:n-1], func(v float32) bool { return v > 0 }); i >= 0 && i < tree.MaxWords {
				code = uint8(1 + i)
			}
		}
		codes, row = append(codes, code), row[n:]
	}
	return codes
}

// Forest returns random trees, from single leaves to the maximum size. Columns of words have two orders. Nodes also
// compare missing values alone, and cut where no row is above.
func (t Table) Forest(random *rand.Rand, leaves, trees int) tree.Forest {
	f := tree.Forest{Leaves: leaves, Compared: []int32{}, Cuts: []uint8{}, Lefts: []uint8{}, Covers: []float32{}}
	for _, words := range []bool{false, true} {
		for j, n := range t.Features {
			switch {
			case words != (n > 1):
			case !words:
				f.Orders.Columns = append(f.Orders.Columns, int32(j))
			default:
				for range 2 {
					f.Orders.Columns = append(f.Orders.Columns, int32(j))
					for _, rank := range random.Perm(tree.Codes) {
						f.Orders.Ranks = append(f.Orders.Ranks, uint8(rank))
					}
				}
			}
		}
	}
	numbers := len(f.Orders.Columns) - len(f.Orders.Ranks)/tree.Codes
	var grow func(nodes int)
	grow = func(nodes int) {
		if nodes == 0 {
			return
		}
		order, left := random.IntN(len(f.Orders.Columns)), random.IntN(nodes)
		cuts := tree.Codes
		if order < numbers {
			cuts = len(t.Edges[f.Orders.Columns[order]]) + 3
		}
		f.Compared, f.Lefts = append(f.Compared, int32(order)), append(f.Lefts, uint8(left))
		f.Cuts = append(f.Cuts, uint8(random.IntN(cuts)))
		grow(left)
		grow(nodes - 1 - left)
	}
	for i := range trees {
		size := random.IntN(leaves)
		if i < 2 {
			size = i * (leaves - 1)
		}
		f.Sizes = append(f.Sizes, uint8(size))
		grow(size)
		for range size + 1 {
			f.Covers = append(f.Covers, float32(random.IntN(9)))
		}
	}
	return f
}

// Leaf returns the leaf of a row of codes in a tree by definition: from node to node.
func Leaf(f tree.Forest, t int, codes []uint8) int {
	node := 0
	for _, size := range f.Sizes[:t] {
		node += int(size)
	}
	numbers := len(f.Orders.Columns) - len(f.Orders.Ranks)/tree.Codes
	nodes, leaf := int(f.Sizes[t]), 0
	for nodes > 0 {
		order := int(f.Compared[node])
		rank := codes[f.Orders.Columns[order]]
		if order >= numbers {
			rank = f.Orders.Ranks[(order-numbers)*tree.Codes+int(rank)]
		}
		if left := int(f.Lefts[node]); rank <= f.Cuts[node] {
			node, nodes = node+1, left
		} else {
			node, nodes, leaf = node+1+left, nodes-1-left, leaf+left+1
		}
	}
	return leaf
}
