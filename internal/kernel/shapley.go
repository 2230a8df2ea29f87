package kernel

import (
	"fmt"
	"slices"
)

// ShapleyRows is the number of rows that [ShapleyTree.Add] processes at a time.
const ShapleyRows = 2 * lanes

// ShapleyTree is a tree for rows of which each column is known with some probability. It has quadrature points for this probability.
type ShapleyTree struct {
	// Nodes are in preorder.
	Nodes []ShapleyNode
	// Leaves are the scores of the leaves (outputs × leaves).
	Leaves []float32
	// Points are, for each share of rows that pass the earlier nodes of a column (shares × 3 × Count): the probability that it is known to
	// those that do; the same with the opposite sign; its derivative times the weights of the points.
	Points []float32
	// Count is the number of points.
	Count int
}

// ShapleyNode is a node of a tree. Of two values, the first is that of the left side, the second that of the right side.
type ShapleyNode struct {
	// Passing are the codes of rows that pass the earlier nodes of the column and go to each side: of code c the bit 31 − c/8 of word c%8.
	Passing [2][codesOfColumn / 32]uint32
	// Shares are those of the rows without the column that go to each side.
	Shares [2]float32
	// Column is that of the codes, Place that of the sums, and Points the index of the share in [ShapleyTree.Points].
	Column, Place, Points int32
	// The node is on a Side (0 or 1) of the node Above.
	Above, Side int32
	// Below are the nodes on each side, or the number of nodes plus that of the leaf.
	Below [2]int32
}

// Add adds what the nodes contribute to sums (groups × outputs × places × [ShapleyRows]), given the codes of rows (groups × columns ×
// ShapleyRows). It uses the memory of scratch, and makes it larger if necessary.
func (t ShapleyTree) Add(sums []float64, codes []uint8, groups, outputs int, scratch *[]float32) {
	if len(t.Nodes) == 0 || groups == 0 {
		return
	}
	columns, places := len(codes)/groups, len(sums)/groups/outputs
	t.check(columns/ShapleyRows, places/ShapleyRows, outputs)
	nodes, size, leaves := len(t.Nodes), t.Count*ShapleyRows, len(t.Leaves)/outputs
	*scratch = slices.Grow((*scratch)[:0], nodes*(ShapleyRows+2*size))
	effects, rest := (*scratch)[:nodes*ShapleyRows], (*scratch)[nodes*ShapleyRows:cap(*scratch)]
	reached, means := rest[:nodes*size], rest[nodes*size:][:nodes*size]
	for i := range size {
		reached[i] = 1 // by all rows: the root
	}
	for group := range groups {
		codes := codes[group*columns:][:columns]
		if hasAVX2() {
			reachNodes(&reached[0], &effects[0], &t.Nodes[0].Passing[0][0], &t.Points[0], &codes[0], nodes, t.Count)
		} else {
			t.reach(reached, effects, codes)
		}
		for out := range outputs {
			sums, leaves := sums[(group*outputs+out)*places:][:places], t.Leaves[out*leaves:][:leaves]
			if hasAVX2() {
				meanOfNodes(&sums[0], &means[0], &leaves[0], &reached[0], &effects[0], &t.Nodes[0].Passing[0][0], &t.Points[0], nodes, t.Count)
			} else {
				t.mean(sums, means, leaves, reached, effects)
			}
		}
	}
}

// check panics if an index is out of range: assembly would read or write past the end.
func (t ShapleyTree) check(columns, places, outputs int) {
	within := func(v int32, from, to int) bool { return from <= int(v) && int(v) < to }
	nodes, ok := len(t.Nodes), t.Count > 0
	for i := 0; ok && i < nodes; i++ {
		node, all := &t.Nodes[i], nodes+len(t.Leaves)/outputs
		ok = within(node.Column, 0, columns) && within(node.Place, 0, places) && within(node.Points, 0, len(t.Points)/t.Count/3) &&
			within(node.Above, 0, max(1, i)) && within(node.Side, 0, 2) && within(node.Below[0], i+1, all) && within(node.Below[1], i+1, all)
	}
	if !ok {
		panic(fmt.Sprintf("kernel: Shapley values of %d columns for %d outputs: indices of %d nodes are out of range", columns, outputs, nodes))
	}
}

// reach is the loop in assembly, in Go: it writes the effects of the nodes for a group of rows, and which part of the rows reaches them.
func (t ShapleyTree) reach(reached, effects []float32, codes []uint8) {
	size := t.Count * ShapleyRows
	for i := range t.Nodes {
		node := &t.Nodes[i]
		for row, code := range codes[node.Column*ShapleyRows:][:ShapleyRows] {
			var added [2]float32
			for side, passing := range node.Passing {
				if passing[code%8]<<(code/8)>>31 == 1 {
					added[side] = node.Shares[1-side]
				}
			}
			effects[i*ShapleyRows+row] = added[0] - added[1]
		}
		if i == 0 {
			continue
		}
		above := &t.Nodes[node.Above]
		share, from, effects := above.Shares[node.Side], reached[int(node.Above)*size:], effects[node.Above*ShapleyRows:]
		for point, known := range t.Points[(3*int(above.Points)+int(node.Side))*t.Count:][:t.Count] {
			for row, effect := range effects[:ShapleyRows] {
				at := point*ShapleyRows + row
				reached[i*size+at] = (share + known*effect) * from[at]
			}
		}
	}
}

// mean is the loop in assembly, in Go: it writes the mean scores at the nodes for a group of rows, and adds to sums.
func (t ShapleyTree) mean(sums []float64, means, leaves, reached, effects []float32) {
	size := t.Count * ShapleyRows
	below := func(node int32, at int) float32 {
		if leaf := int(node) - len(t.Nodes); leaf >= 0 {
			return leaves[leaf]
		}
		return means[int(node)*size+at]
	}
	for i := len(t.Nodes) - 1; i >= 0; i-- {
		node := &t.Nodes[i]
		points := t.Points[3*int(node.Points)*t.Count:]
		for row, effect := range effects[i*ShapleyRows:][:ShapleyRows] {
			sum := float32(0)
			for point, known := range points[:t.Count] {
				at := point*ShapleyRows + row
				right := below(node.Below[1], at)
				difference := below(node.Below[0], at) - right
				sum += difference * points[2*t.Count+point] * reached[i*size+at]
				means[i*size+at] = (node.Shares[0]+known*effect)*difference + right
			}
			sums[int(node.Place)*ShapleyRows+row] += float64(effect * sum)
		}
	}
}
