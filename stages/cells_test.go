package stages

import "testing"

// Cells are as equal as possible, and extend overlap positions into their neighbours. Positions of a segment are in the
// same cells, and those of adjacent segments are not.
func TestAxis(t *testing.T) {
	for _, positions := range []int{4, 5, 20, 63, 64, 65} {
		for _, grid := range []int{1, 2, 3, 4} {
			for _, overlap := range []int{0, 1, 2, 7, 100} {
				a := newAxis(positions, grid, overlap)
				if a.positions() != positions || a.segments() > 2*grid-1 || overlap == 0 && a.segments() != grid {
					t.Fatalf("%d positions, %d cells, overlap %d: %d positions, %d segments", positions, grid, overlap, a.positions(), a.segments())
				}
				plain := newAxis(positions, grid, 0)
				for i := range positions {
					same := i > 0
					for c := range grid {
						want := false
						for j := max(0, i-overlap); j < min(positions, i+overlap+1); j++ {
							want = want || plain.within(j, c)
						}
						if a.within(i, c) != want {
							t.Errorf("%d positions, %d cells, overlap %d: position %d in cell %d: %v", positions, grid, overlap, i, c, !want)
						}
						same = same && want == a.within(max(i-1, 0), c)
					}
					if i > 0 && same != (a.segment[i] == a.segment[i-1]) {
						t.Errorf("%d positions, %d cells, overlap %d: position %d is in segment %d, the one before in %d", positions, grid, overlap,
							i, a.segment[i], a.segment[i-1])
					}
				}
			}
		}
	}
}
