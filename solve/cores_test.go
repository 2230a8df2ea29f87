package solve

import (
	"runtime"
	"slices"
	"testing"
)

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
