package stages

import (
	"math"
	"slices"
)

// An axis maps the positions along one side of an image to the cells of a grid. Cells may overlap, so sums are first
// computed over segments: adjacent positions in the same cells.
type axis struct {
	segment []int    // of each position
	cells   [][2]int // range [first, last) of segments of each cell
}

// newAxis divides positions into cells; there must be a position for each cell. Cells are as equal as possible, and are
// then extended by overlap positions at both ends, except at the ends of the axis.
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

// positions returns the number of positions.
func (a axis) positions() int { return len(a.segment) }

// segments returns the number of segments.
func (a axis) segments() int { return a.segment[len(a.segment)-1] + 1 }

// A run is adjacent positions in the same segment, whose mirrored positions are also in the same segment.
type run struct {
	from, to          int
	segment, mirrored int
}

// runs returns the runs of an axis, in order. Mirroring reverses the positions of the axis.
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

// rowsPerTile is the approximate number of patches that are multiplied at once, so that they stay in the cache.
const rowsPerTile = 128

// A tile is some of the positions of an image.
type tile struct {
	rows    int
	regions []region
}

// A region is a rectangle of positions in the same segment of both axes, at left and top. The index of a segment is
// down · segments of across + across.
type region struct {
	top, left, rows, cols int
	segment, mirrored     int // of an image and of its mirror image
}

// tilesOf divides all positions into tiles of whole regions. Regions larger than a tile are split.
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
