package solve

import (
	"runtime"
	"sync"
)

// minPart is the smallest number of values per core: with fewer, the start of a goroutine dominates. Sums are divided
// into parts of this size, so another size changes their last bits.
const minPart = 1 << 16

// onCores calls do for consecutive parts [from, to) of 0 … n−1, on all cores. Each of the n numbers stands for the
// given number of values. The result of do must not depend on the parts. Workers wait for the solver, so all cores are
// free, but their number must not change any bit.
func onCores(n, values int, do func(from, to int)) {
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

// sumsByClass returns k sums over the rows 0 … n−1 of matrices (n × k); add adds those of the rows [from, to). It adds
// the sums of equally large parts in order: the number of cores does not change any bit.
func sumsByClass(n, k int, add func(from, to int, sums []float64)) []float64 {
	size := max(1, minPart/k)
	parts := max(1, (n+size-1)/size)
	sums := make([]float64, parts*k)
	onCores(parts, minPart, func(from, to int) {
		for i := from; i < to; i++ {
			add(i*size, min((i+1)*size, n), sums[i*k:(i+1)*k])
		}
	})
	total := sums[:k:k]
	for sums = sums[k:]; len(sums) > 0; sums = sums[k:] {
		for c := range total {
			total[c] += sums[c]
		}
	}
	return total
}
