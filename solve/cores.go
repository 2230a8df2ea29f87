package solve

import (
	"runtime"
	"sync"
)

// minPart is how many values a core takes at least: with fewer it takes as long to begin.
const minPart = 1 << 16

// onCores calls do for parts of 0 … n−1 that are one after the other, from (included) to to (excluded), on all cores. Each number stands for so many
// values. do must not depend on the parts: workers wait for the solver, so all cores are free, but how many there are must change no bit.
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
