package stages

import (
	"math"
	"slices"
)

// An axis is how the positions along one side of an image fall into the cells of a grid. Cells may overlap, so sums are
// first made of segments: positions beside each other that are in the same cells.
type axis struct {
	segment []int    // of each position
	cells   [][2]int // of each cell its first segment, and the one after its last
}

// newAxis divides positions, of which there are at least as many as cells. Cells are as equal as can be, and then
// longer by overlap positions at each of their ends that is none of the axis.
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

// A run is positions beside each other that are in the same segment, and whose mirror images are in the same one.
type run struct {
	from, to          int
	segment, mirrored int
}

// runs returns those of an axis whose positions change places with those counted from its other end, in their order.
func (a axis) runs() []run {
	var all []run
	for i, segment := range a.segment {
		mirrored := a.segment[len(a.segment)-1-i]
		if n := len(all); n > 0 && all[n-1].segment == segment && all[n-1].mirrored == mirrored {
			all[n-1].to++
		} else {
			all = append(all, run{from: i, to: i + 1, segment: segment, mirrored: mirrored})
		}
	}
	return all
}

// rowsPerTile is about how many patches are multiplied at once, so that they stay in the cache.
const rowsPerTile = 128

// A tile is some of the positions of an image.
type tile struct {
	rows    int
	regions []region
}

// A region is positions of an image that are in the same segment of both axes: those from left on, and below, row by
// row. Segments have the numbers of down · segments of across + across.
type region struct {
	top, left, rows, cols int
	segment, mirrored     int // of an image and of its mirror image
}

// tilesOf divides all positions into tiles of whole regions. Regions larger than a tile are divided themselves.
func tilesOf(down, across axis) []tile {
	var tiles []tile
	for _, y := range down.runs() {
		for _, x := range across.runs() {
			cols := x.to - x.from
			step := max(rowsPerTile/cols, 1)
			for top := y.from; top < y.to; top += step {
				r := region{
					top: top, left: x.from, rows: min(step, y.to-top), cols: cols,
					segment: y.segment*across.segments() + x.segment, mirrored: y.segment*across.segments() + x.mirrored,
				}
				if n := len(tiles); n == 0 || tiles[n-1].rows+r.rows*r.cols > rowsPerTile {
					tiles = append(tiles, tile{})
				}
				t := &tiles[len(tiles)-1]
				t.regions, t.rows = append(t.regions, r), t.rows+r.rows*r.cols
			}
		}
	}
	return tiles
}

// within reports whether a position is in a cell.
func (a axis) within(position, cell int) bool {
	s := a.segment[position]
	return s >= a.cells[cell][0] && s < a.cells[cell][1]
}
