package tree

import "fmt"

const (
	// MaxLeaves is the largest number of leaves of a tree: a bit of a word for each.
	MaxLeaves = 64
	// MaxSize is the largest number of leaves of a forest.
	MaxSize = 1 << 16
)

// Forest is the structure of a block of trees, in flat arrays. The nodes of a tree are in preorder: a node, the nodes of
// its left side, those of its right side. Leaves are numbered from left to right. So any numbers in their bounds are a
// forest: there is no cycle, and no leaf is lost. The zero value has no trees.
type Forest struct {
	// Leaves is how many leaves a tree may have, and how many columns of the block it has. Columns of leaves that it does not have are 0.
	Leaves int
	// Orders are what nodes compare.
	Orders Orders
	// Sizes is how many nodes each tree has, less than Leaves. A tree has one leaf more.
	Sizes []uint8
	// Compared is the order that each node compares. Cuts is its threshold: a row of a rank up to it goes left. Lefts is
	// how many nodes the left side has.
	Compared []int32
	Cuts     []uint8
	Lefts    []uint8
}

// Trees returns T, how many trees there are.
func (f Forest) Trees() int { return len(f.Sizes) }

// Size returns how many columns the block has: T · Leaves.
func (f Forest) Size() int { return len(f.Sizes) * f.Leaves }

// StructureError describes an invalid forest from outside.
type StructureError struct {
	What string // the array, as in "cuts"
	At   int    // its first value that is wrong, or its length
	Why  string
}

func (e *StructureError) Error() string {
	return fmt.Sprintf("trees: %s: at %d: %s", e.What, e.At, e.Why)
}

// Check returns a *[StructureError] if f is no forest over so many columns. All other functions take only forests that are.
func (f Forest) Check(columns int) error {
	switch {
	case f.Leaves < 2 || f.Leaves > MaxLeaves:
		return &StructureError{"leaves", f.Leaves, fmt.Sprintf("must be 2 to %d", MaxLeaves)}
	case len(f.Sizes) > MaxSize/f.Leaves:
		return &StructureError{"sizes", len(f.Sizes), fmt.Sprintf("more than %d leaves", MaxSize)}
	case len(f.Orders.Ranks)%Codes != 0 || len(f.Orders.Ranks)/Codes > len(f.Orders.Columns):
		why := fmt.Sprintf("must be %d for each of the last of %d orders", Codes, len(f.Orders.Columns))
		return &StructureError{"ranks", len(f.Orders.Ranks), why}
	}
	for i, column := range f.Orders.Columns {
		if column < 0 || int(column) >= columns {
			return &StructureError{"orders", i, fmt.Sprintf("column %d of %d", column, columns)}
		}
	}
	nodes := 0
	for t, size := range f.Sizes {
		if int(size) >= f.Leaves {
			return &StructureError{"sizes", t, fmt.Sprintf("%d nodes, of %d leaves", size, f.Leaves)}
		}
		nodes += int(size)
	}
	for _, array := range []struct {
		name   string
		values int
	}{{"compared", len(f.Compared)}, {"cuts", len(f.Cuts)}, {"lefts", len(f.Lefts)}} {
		if array.values != nodes {
			return &StructureError{array.name, array.values, fmt.Sprintf("must be %d, one for each node", nodes)}
		}
	}
	for node, order := range f.Compared {
		if order < 0 || int(order) >= len(f.Orders.Columns) {
			return &StructureError{"compared", node, fmt.Sprintf("order %d of %d", order, len(f.Orders.Columns))}
		}
	}
	first := 0
	for _, size := range f.Sizes {
		if node := f.checkLefts(first, int(size)); node >= 0 {
			return &StructureError{"lefts", node, "more nodes than the tree has left"}
		}
		first += int(size)
	}
	return nil
}

// checkLefts returns the first node of a tree whose left side has too many nodes; −1: there is none.
func (f Forest) checkLefts(first, size int) int {
	wrong := -1
	walk(f.Lefts[first:][:size], func(node, _, left, nodes int) {
		if left >= nodes && wrong < 0 {
			wrong = first + node
		}
	})
	return wrong
}

// walk calls do for the nodes of a tree in preorder: with the number of a node, that of its leftmost leaf, how many
// nodes its left side has, and how many it has with itself. If the left side has too many do learns it, and the walk
// goes on with as many as there can be.
func walk(lefts []uint8, do func(node, leaf, left, nodes int)) {
	type part struct{ leaf, nodes int }
	rest := []part{{0, len(lefts)}}
	for node := 0; len(rest) > 0; {
		p := rest[len(rest)-1]
		rest = rest[:len(rest)-1]
		if p.nodes == 0 {
			continue
		}
		left := int(lefts[node])
		do(node, p.leaf, left, p.nodes)
		left = min(left, p.nodes-1)
		rest = append(rest, part{p.leaf + left + 1, p.nodes - 1 - left}, part{p.leaf, left})
		node++
	}
}
