package stages

import (
	"math"
	"slices"
)

// An axis is how the positions along one side of an image fall into the cells of a grid. Cells may overlap, so sums are first made of segments: positions
// beside each other that are in the same cells.
type axis struct {
	segment []int    // of each position
	cells   [][2]int // of each cell its first segment, and the one after its last
}

// newAxis divides positions, of which there are at least as many as cells. Cells are as equal as can be, and then longer by overlap positions at each
// of their ends that is none of the axis.
func newAxis(positions, grid, overlap int) axis {
	a := axis{segment: make([]int, positions), cells: make([][2]int, grid)}
	edge := func(c int) int { return int(math.RoundToEven(float64(positions*c) / float64(grid))) }
	var ends []int
	for c := range a.cells {
		a.cells[c] = [2]int{max(edge(c)-overlap, 0), min(edge(c+1)+overlap, positions)}
		ends = append(ends, a.cells[c][:]...)
	}
	slices.Sort(ends)
	ends = slices.Compact(ends)
	for s, from := range ends[:len(ends)-1] {
		for i := from; i < ends[s+1]; i++ {
			a.segment[i] = s
		}
	}
	for c, positions := range a.cells {
		for i, p := range positions {
			a.cells[c][i], _ = slices.BinarySearch(ends, p)
		}
	}
	return a
}

// positions returns how many there are.
func (a axis) positions() int { return len(a.segment) }

// segments returns how many there are.
func (a axis) segments() int { return a.segment[len(a.segment)-1] + 1 }

// within reports whether a position is in a cell.
func (a axis) within(position, cell int) bool {
	s := a.segment[position]
	return s >= a.cells[cell][0] && s < a.cells[cell][1]
}
