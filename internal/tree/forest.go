package tree

import (
	"fmt"
	"math"
)

const (
	// MaxLeaves is the largest number of leaves of a tree: one bit of a word each.
	MaxLeaves = 64
	// MaxSize is the largest number of leaves of a forest.
	MaxSize = 1 << 16
)

// Forest is the structure of a block of trees, in flat arrays. The nodes of a tree are in preorder: a node, the nodes
// of its left side, those of its right side. Leaves are numbered from left to right. So any in-range numbers form a
// valid forest: there is no cycle, and no leaf is lost. The zero value has no trees.
type Forest struct {
	// Leaves is the largest number of leaves per tree, and the number of columns per tree. Columns of absent leaves are
	// 0.
	Leaves int
	// Orders are the orders that nodes compare.
	Orders Orders
	// Sizes is the number of nodes of each tree, less than Leaves. A tree has one leaf more.
	Sizes []uint8
	// Compared is the order that each node compares. Cuts is its threshold: a row of a rank up to it goes left. Lefts
	// is the number of nodes on its left side.
	Compared []int32
	Cuts     []uint8
	Lefts    []uint8
	// Covers are the weights of the sample's rows in each leaf, tree after tree, from left to right. Nil means that they
	// are unknown: only contributions need them.
	Covers []float32
}

// Size returns the number of columns of the block: Leaves for each tree.
func (f Forest) Size() int { return len(f.Sizes) * f.Leaves }

// Check returns an error with the name of the array and the index of its first wrong value if f is not a valid forest over the given
// columns. Other functions require a valid forest.
func (f Forest) Check(columns int) error {
	bad := func(array string, at int, format string, args ...any) error {
		return fmt.Errorf("trees: %s: at %d: %s", array, at, fmt.Sprintf(format, args...))
	}
	switch {
	case f.Leaves < 2 || f.Leaves > MaxLeaves:
		return bad("leaves", f.Leaves, "must be 2 to %d", MaxLeaves)
	case len(f.Sizes) > MaxSize/f.Leaves:
		return bad("sizes", len(f.Sizes), "more than %d leaves", MaxSize)
	case len(f.Orders.Ranks)%Codes != 0 || len(f.Orders.Ranks)/Codes > len(f.Orders.Columns):
		return bad("ranks", len(f.Orders.Ranks), "must be %d for each of the last of %d orders", Codes, len(f.Orders.Columns))
	}
	for i, column := range f.Orders.Columns {
		if column < 0 || int(column) >= columns {
			return bad("orders", i, "column %d of %d", column, columns)
		}
	}
	nodes := 0
	for t, size := range f.Sizes {
		if int(size) >= f.Leaves {
			return bad("sizes", t, "%d nodes, of %d leaves", size, f.Leaves)
		}
		nodes += int(size)
	}
	for _, array := range []struct {
		name   string
		values int
	}{{"compared", len(f.Compared)}, {"cuts", len(f.Cuts)}, {"lefts", len(f.Lefts)}} {
		if array.values != nodes {
			return bad(array.name, array.values, "must be %d, one for each node", nodes)
		}
	}
	if f.Covers != nil && len(f.Covers) != nodes+len(f.Sizes) {
		return bad("covers", len(f.Covers), "must be %d, one for each leaf", nodes+len(f.Sizes))
	}
	for leaf, cover := range f.Covers {
		if !(cover >= 0 && cover <= math.MaxFloat32) {
			return bad("covers", leaf, "must be a number ≥ 0")
		}
	}
	for node, order := range f.Compared {
		if order < 0 || int(order) >= len(f.Orders.Columns) {
			return bad("compared", node, "order %d of %d", order, len(f.Orders.Columns))
		}
	}
	first, wrong := 0, -1
	for _, size := range f.Sizes {
		walk(f.Lefts[first:][:size], func(node, _, left, nodes int) {
			if left >= nodes && wrong < 0 {
				wrong = first + node
			}
		})
		first += int(size)
	}
	if wrong >= 0 {
		return bad("lefts", wrong, "more nodes than the tree has left")
	}
	return nil
}

// walk calls do for the nodes of a tree in preorder, with the index of the node, the index of its leftmost leaf, the
// number of nodes on its left side, and the number of nodes including itself. If the left side has too many nodes, do
// receives the invalid number, and the walk continues with the largest valid one.
func walk(lefts []uint8, do func(node, leaf, left, nodes int)) {
	var below func(node, leaf, nodes int)
	below = func(node, leaf, nodes int) {
		if nodes == 0 {
			return
		}
		left := int(lefts[node])
		do(node, leaf, left, nodes)
		left = min(left, nodes-1)
		below(node+1, leaf, left)
		below(node+1+left, leaf+left+1, nodes-1-left)
	}
	below(0, 0, len(lefts))
}
