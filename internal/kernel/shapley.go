package kernel

import (
	"fmt"
	"slices"
)

// ShapleyRows is the number of rows that [ShapleyTree.Add] processes at a time.
const ShapleyRows = 2 * lanes

// ShapleyTree is a tree for rows of which each column is known with some probability. It has quadrature points for this probability.
type ShapleyTree struct {
	// Nodes are in an order in which each is after the one above it.
	Nodes []ShapleyNode
	// Leaves are the scores of the leaves (outputs × leaves).
	Leaves []float32
	// Points are three values for each share of rows that pass the earlier nodes of a column (Count × shares × 3): the probability that it
	// is known to those that do; the same with the opposite sign; its derivative times the weight of the point.
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
	// Column is that of the codes, Place that of the sums, and Points the index of the first value of the share in those of a point.
	Column, Place, Points int32
	// Below are the nodes on each side, or the number of nodes plus that of the leaf.
	Below [2]int32
	// Above is the node above. AbovePoints is the index of its probability to be known, on the right side with the opposite sign, and
	// AboveShare its share on the node's side.
	Above, AbovePoints int32
	AboveShare         float32
}

// Add adds what the nodes contribute to sums (groups × outputs × places × [ShapleyRows]), given the codes of rows (groups × columns ×
// ShapleyRows). It uses the memory of scratch, and makes it larger if necessary.
func (t ShapleyTree) Add(sums []float64, codes []uint8, groups, outputs int, scratch *[]float32) {
	if len(t.Nodes) == 0 || groups == 0 {
		return
	}
	columns, places, leaves := len(codes)/groups, len(sums)/groups/outputs, len(t.Leaves)/outputs
	t.check(columns/ShapleyRows, places/ShapleyRows, leaves)
	size, stride := len(t.Nodes)*ShapleyRows, 4*len(t.Points)/t.Count
	*scratch = slices.Grow((*scratch)[:0], (1+2*t.Count)*size+len(t.Leaves)*ShapleyRows)
	all := (*scratch)[:cap(*scratch)]
	reached, means := all[:(1+t.Count)*size], all[(1+t.Count)*size:][:t.Count*size]
	for point := range t.Count {
		for row := range ShapleyRows {
			reached[(1+point)*size+row] = 1 // by all rows: the root
		}
	}
	for at := range len(t.Leaves) * ShapleyRows {
		all[(1+2*t.Count)*size+at] = t.Leaves[at/ShapleyRows]
	}
	for group := range groups {
		codes := codes[group*columns:][:columns]
		if hasAVX2() {
			reachNodes(&reached[0], &t.Nodes[0].Passing[0][0], &t.Points[0], &codes[0], len(t.Nodes), t.Count, stride)
		} else {
			t.reach(reached, codes)
		}
		for out := range outputs {
			sums := sums[(group*outputs+out)*places:][:places]
			if hasAVX2() {
				scores := &all[2*t.Count*size+out*leaves*ShapleyRows] // a leaf has the number of nodes in its index
				meanOfNodes(&sums[0], &means[0], scores, &reached[0], &t.Nodes[0].Passing[0][0], &t.Points[0], len(t.Nodes), t.Count, stride)
			} else {
				t.mean(sums, means, t.Leaves[out*leaves:], reached)
			}
		}
	}
}

// check panics if an index is out of range: assembly would read or write past the end.
func (t ShapleyTree) check(columns, places, leaves int) {
	within := func(v int32, from, to int) bool { return from <= int(v) && int(v) < to }
	ok, all := t.Count > 0, len(t.Nodes)+leaves
	for i := 0; ok && i < len(t.Nodes); i++ {
		node, points := &t.Nodes[i], len(t.Points)/t.Count
		ok = within(node.Column, 0, columns) && within(node.Place, 0, places) && within(node.Points, 0, points-2) &&
			within(node.AbovePoints, 0, points) && within(node.Above, 0, max(1, i)) && within(node.Below[0], i+1, all) &&
			within(node.Below[1], i+1, all)
	}
	if !ok {
		panic(fmt.Sprintf("kernel: Shapley values of %d columns: indices of %d nodes are out of range", columns, len(t.Nodes)))
	}
}

// reach writes the effects of the nodes for a group of rows, and which part of the rows reaches them ((1 + points) × nodes × rows).
func (t ShapleyTree) reach(reached []float32, codes []uint8) {
	size := len(t.Nodes) * ShapleyRows
	for i, node := range t.Nodes {
		effects := reached[i*ShapleyRows:][:ShapleyRows]
		for row, code := range codes[node.Column*ShapleyRows:][:ShapleyRows] {
			var added [2]float32
			for side, passing := range node.Passing {
				if passing[code%8]<<(code/8)>>31 == 1 {
					added[side] = node.Shares[1-side]
				}
			}
			effects[row] = added[0] - added[1]
		}
		for at := size; i > 0 && at < len(reached); at += size {
			known := t.Points[(at/size-1)*len(t.Points)/t.Count+int(node.AbovePoints)]
			above := reached[node.Above*ShapleyRows:]
			for row, effect := range above[:ShapleyRows] {
				reached[at+i*ShapleyRows+row] = (node.AboveShare + known*effect) * above[at+row]
			}
		}
	}
}

// mean writes the mean scores at the nodes (points × nodes × rows) for a group of rows, and adds to sums.
func (t ShapleyTree) mean(sums []float64, means, leaves, reached []float32) {
	size := len(t.Nodes) * ShapleyRows
	score := func(node int32, point, row int) float32 {
		if leaf := int(node) - len(t.Nodes); leaf >= 0 {
			return leaves[leaf]
		}
		return means[point*size+int(node)*ShapleyRows+row]
	}
	for i := len(t.Nodes) - 1; i >= 0; i-- {
		node := &t.Nodes[i]
		for row, effect := range reached[i*ShapleyRows:][:ShapleyRows] {
			sum := float32(0)
			for point := range t.Count {
				at, points := point*size+i*ShapleyRows+row, t.Points[point*len(t.Points)/t.Count+int(node.Points):]
				right := score(node.Below[1], point, row)
				difference := score(node.Below[0], point, row) - right
				sum += difference * points[2] * reached[size+at]
				means[at] = (node.Shares[0]+points[0]*effect)*difference + right
			}
			sums[int(node.Place)*ShapleyRows+row] += float64(effect * sum)
		}
	}
}
