package accumulate

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// Columns have the numbers that they were given, by place and in the table, whatever was numbered before.
func TestNumbering(t *testing.T) {
	var n numbering
	ways := map[bool]int{}
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		columns := []int{1, 70, numberedByPlace, numberedByPlace + 1, 1 << 24}[r.IntN(5)]
		occurring := make([]int32, 1+r.IntN(2000))
		for i := range occurring {
			if occurring[i] = int32(r.IntN(columns)); r.IntN(4) > 0 { // many are near each other
				occurring[i] %= 5000
			}
		}
		n.begin(columns, len(occurring))
		ways[n.hashed]++
		want := map[int32]int32{}
		for _, column := range occurring {
			at := n.of(column)
			if *at != want[column] {
				t.Fatalf("seed %d: column %d has the number %d, expected %d", seed, column, *at, want[column])
			}
			if *at == 0 {
				*at = int32(len(want) + 1)
				want[column] = *at
			}
		}
		slices.Sort(occurring)
		n.end(slices.Compact(occurring))
	}
	if ways[true] < 5 || ways[false] < 5 || len(n.byPlace) > numberedByPlace {
		t.Errorf("%d in the table and %d by place, of %d columns", ways[true], ways[false], len(n.byPlace))
	}
}
