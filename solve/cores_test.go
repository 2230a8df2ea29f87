package solve

import (
	"slices"
	"sync"
	"testing"
)

// Each number is in one part, however many there are, and few values are one part.
func TestPartsAreDisjoint(t *testing.T) {
	for _, n := range []int{0, 1, 2, 3, 20, minPart - 1, 2 * minPart, 2*minPart + 1} {
		for _, values := range []int{1, 20, minPart} {
			var mutex sync.Mutex
			times, parts := make([]int, n), 0
			onCores(n, values, func(from, to int) {
				mutex.Lock()
				defer mutex.Unlock()
				parts++
				for i := from; i < to; i++ {
					times[i]++
				}
			})
			if slices.ContainsFunc(times, func(n int) bool { return n != 1 }) || n*values < 2*minPart && parts != 1 {
				t.Errorf("%d numbers of %d values: %d parts", n, values, parts)
			}
		}
	}
}

// Columns are added with the same bits on any number of cores.
func TestColumnsOnCores(t *testing.T) {
	const p, k = 20_000, 13
	a, b, lengths := make([]float64, p*k), make([]float64, p*k), make([]float64, k)
	for i := range a {
		a[i], b[i] = 1/float64(i+3), 1/float64(7*i+1)
	}
	for c := range k {
		lengths[c] = float64(c%3) / 7
	}
	sums := slices.Clone(a)
	for i := range sums {
		sums[i] += lengths[i%k] * b[i]
	}
	if addByClass(a, lengths, b); !slices.Equal(a, sums) {
		t.Error("addByClass has other bits")
	}
}
