package online

import (
	"math/rand/v2"
	"testing"
)

// Slots are those of a map, for any columns: also many close together, and the largest.
func TestPlaces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, width := range []int32{1, 70, 1 << 12, Intercept} {
		var p slots
		for range 2 {
			want := map[int32]int{}
			for range 3000 {
				column := r.Int32N(width)
				if r.IntN(50) == 0 {
					column = Intercept
				}
				place, any := want[column]
				if at, is := p.of(column); is != any || any && at != place {
					t.Fatalf("column %d of %d is at %d, %v; want %d, %v", column, width, at, is, place, any)
				}
				if !any {
					place = len(want)
					want[column] = place
				}
				if at, had := p.add(column); at != place || had != any {
					t.Fatalf("column %d of %d is added at %d, %v; want %d, %v", column, width, at, had, place, any)
				}
			}
			p.clear()
		}
	}
}
