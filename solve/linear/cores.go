package linear

import (
	"runtime"
	"sync"
)

// minPart is how many values a core takes at least: with fewer it takes as long to begin. Sums are made in parts of so
// many values, so another number changes their last bits.
const minPart = 1 << 16

// OnCores calls do for parts of 0 … n−1 that are one after the other, from (included) to to (excluded), on all cores.
// Each number stands for so many values. do must not depend on the parts: workers wait for the solver, so all cores are
// free, but how many there are must change no bit.
func OnCores(n, values int, do func(from, to int)) {
	parts := min(runtime.GOMAXPROCS(0), n, n*values/minPart)
	if parts < 2 {
		do(0, n)
		return
	}
	var group sync.WaitGroup
	for i := range parts {
		group.Go(func() { do(i*n/parts, (i+1)*n/parts) })
	}
	group.Wait()
}

// SumsByClass returns k sums over the rows 0 … n−1 of matrices (n × k), of which add adds those from from (included) to
// to (excluded). It adds the sums of parts of one size, in their order: how many cores there are changes no bit.
func SumsByClass(n, k int, add func(from, to int, sums []float64)) []float64 {
	return AddSums(nil, n, k, add)
}

// partRows is the number of rows of k values in a part of a sum.
func partRows(k int) int { return max(1, minPart/k) }

// AddSums adds the sums over the n rows of a window to total, the sums over the windows before, and returns them: see
// [SumsByClass]. total is nil before the first window.
func AddSums(total []float64, n, k int, add func(from, to int, sums []float64)) []float64 {
	size := partRows(k)
	parts := max(1, (n+size-1)/size)
	sums := make([]float64, parts*k)
	OnCores(parts, minPart, func(from, to int) {
		for i := from; i < to; i++ {
			add(i*size, min((i+1)*size, n), sums[i*k:(i+1)*k])
		}
	})
	if total == nil {
		total, sums = sums[:k:k], sums[k:]
	}
	for ; len(sums) > 0; sums = sums[k:] {
		for c := range total {
			total[c] += sums[c]
		}
	}
	return total
}
