package kernel

import (
	"fmt"
	"slices"
)

// ShapleyRows is the number of rows that [ShapleyTree.Add] processes at a time.
const ShapleyRows = 2 * lanes

// ShapleyTree is a tree for rows whose columns are known with some probability, with quadrature points for this probability.
type ShapleyTree struct {
	// Nodes are ordered such that each node follows the node above it.
	Nodes []ShapleyNode
	// Leaves are the scores of the leaves (outputs × leaves).
	Leaves []float32
	// Points are three values for each share of rows that pass the earlier nodes of a column (Count × shares × 3): the probability that the
	// column is known in these rows; the same with the opposite sign; its derivative times the weight of the point.
	Points []float32
	// Count is the number of points.
	Count int
}

// ShapleyNode is a node of a tree. In each pair, the first value is for the left side, the second for the right side.
type ShapleyNode struct {
	// Passing are the codes of rows that pass the earlier nodes of the column and go to each side: bit 31 − c/8 of word c%8 for code c.
	Passing [2][codesOfColumn / 32]uint32
	// Shares are the shares of the rows without the column that go to each side.
	Shares [2]float32
	// Column is the column of the codes, Place the index in the sums, and Points the index of the share's first value within a point.
	Column, Place, Points int32
	// Below are the indices of the nodes on each side, or the number of nodes plus the index of the leaf.
	Below [2]int32
	// Above is the node above. AbovePoints is the index of the probability that its column is known, on the right side
	// with the opposite sign, and AboveShare its share on the node's side.
	Above, AbovePoints int32
	AboveShare         float32
}

// Add adds the contributions of the nodes to sums (groups × outputs × places × [ShapleyRows]), given the codes of rows
// (groups × columns × ShapleyRows). It uses the memory of scratch, and makes it larger if necessary.
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
			scores := all[2*t.Count*size+out*leaves*ShapleyRows:] // the index of a leaf includes the number of nodes
			if hasAVX2() {
				meanOfNodes(&sums[0], &means[0], &scores[0], &reached[0], &t.Nodes[0].Passing[0][0], &t.Points[0], len(t.Nodes), t.Count, stride)
			} else {
				t.mean(sums, means, scores, reached)
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

// shapleyRows are the values of a group of rows.
type shapleyRows = [ShapleyRows]float32

// reach writes the effects of the nodes for a group of rows, and the share of the rows that reach them ((1 + points) × nodes × rows).
func (t ShapleyTree) reach(reached []float32, codes []uint8) {
	size, stride := len(t.Nodes)*ShapleyRows, len(t.Points)/t.Count
	for i := range t.Nodes {
		node, effects := &t.Nodes[i], (*shapleyRows)(reached[i*ShapleyRows:])
		for row, code := range codes[node.Column*ShapleyRows:][:ShapleyRows] {
			left, right := int32(node.Passing[0][code%8]<<(code/8))>>31, int32(node.Passing[1][code%8]<<(code/8))>>31 // −1: the row passes
			effects[row] = node.Shares[0]*float32(right) - node.Shares[1]*float32(left)
		}
		above, share := reached[node.Above*ShapleyRows:], node.AboveShare
		effects = (*shapleyRows)(above)
		for point := 0; i > 0 && point < t.Count; point++ {
			known := t.Points[point*stride+int(node.AbovePoints)]
			from, to := (*shapleyRows)(above[(1+point)*size:]), (*shapleyRows)(reached[(1+point)*size+i*ShapleyRows:])
			for row, effect := range effects {
				to[row] = (share + known*effect) * from[row]
			}
		}
	}
}

// mean writes the mean scores at the nodes (points × nodes × rows) for a group of rows, and adds to sums. scores has
// the scores of the leaves (leaves × rows) at the indices of Below.
func (t ShapleyTree) mean(sums []float64, means, scores, reached []float32) {
	size, stride := len(t.Nodes)*ShapleyRows, len(t.Points)/t.Count
	for i := len(t.Nodes) - 1; i >= 0; i-- {
		node, effects := &t.Nodes[i], (*shapleyRows)(reached[i*ShapleyRows:])
		var below [2][]float32
		var step [2]int // a leaf has the same score at all points
		for side, index := range node.Below {
			if below[side] = scores[index*ShapleyRows:]; int(index) < len(t.Nodes) {
				below[side], step[side] = means[index*ShapleyRows:], size
			}
		}
		var sum shapleyRows
		for point := range t.Count {
			left, right := (*shapleyRows)(below[0][point*step[0]:]), (*shapleyRows)(below[1][point*step[1]:])
			at, points := point*size+i*ShapleyRows, t.Points[point*stride+int(node.Points):][:3]
			to, above := (*shapleyRows)(means[at:]), (*shapleyRows)(reached[size+at:])
			known, slope, share := points[0], points[2], node.Shares[0]
			for row, effect := range effects {
				difference := left[row] - right[row]
				sum[row] += difference * slope * above[row]
				to[row] = (share+known*effect)*difference + right[row]
			}
		}
		for row, effect := range effects {
			sums[int(node.Place)*ShapleyRows+row] += float64(effect * sum[row])
		}
	}
}
