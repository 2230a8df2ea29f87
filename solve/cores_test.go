package solve

import (
	"runtime"
	"slices"
	"sync"
	"testing"
)

// Each number is in one part, for any number of parts, and few values form one part.
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

// Adding columns gives the same bits on any number of cores.
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

// Sums have the same bits on any number of cores, and include each row once.
func TestSumsOnCores(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, k := range []int{1, 13, minPart + 1} {
		size := max(1, minPart/k)
		for _, n := range []int{0, 1, size - 1, size, size + 1, 5*size + 3} {
			rows := make([]float64, n)
			for i := range rows {
				rows[i] = 1 / float64(i+3)
			}
			on := func(cores int) []float64 {
				runtime.GOMAXPROCS(cores)
				return sumsByClass(n, k, func(from, to int, sums []float64) {
					for _, v := range rows[from:to] {
						sums[0] += v
						sums[k-1]++
					}
				})
			}
			one := on(1)
			if many := on(4); len(one) != k || !slices.Equal(one, many) {
				t.Errorf("%d rows of %d: the sums of four cores have other bits", n, k)
			}
			if k > 1 && one[k-1] != float64(n) {
				t.Errorf("%d rows of %d: %v of them are in the sums", n, k, one[k-1])
			}
		}
	}
}
