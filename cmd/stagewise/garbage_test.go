package main

import (
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 100, 1: 100, allowedGarbage: 100, 2 * allowedGarbage: 50, 3 * allowedGarbage: 33, 4 * allowedGarbage: leastPercent, 1 << 40: leastPercent} {
		if got := garbagePercent(live); got != want {
			t.Errorf("%d bytes in use: %d %%, expected %d %%", live, got, want)
		}
	}
}

// A collection finds how large the heap is, and the percentage follows it up and down.
func TestGarbageIsLimited(t *testing.T) {
	t.Setenv("GOGC", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	limitGarbage()
	percent := func(reached func(int) bool) {
		t.Helper()
		sample := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}}
		for range 1000 {
			runtime.GC() // after which another goroutine sets the percentage
			if runtimemetrics.Read(sample); reached(int(sample[0].Value.Uint64())) {
				return
			}
			runtime.Gosched()
		}
		t.Errorf("after 1000 collections, garbage may be %d %%", sample[0].Value.Uint64())
	}
	large := make([]byte, 2*allowedGarbage) // of which no page is ever touched
	percent(func(p int) bool { return p < 60 })
	runtime.KeepAlive(large)
	large = nil
	percent(func(p int) bool { return p == 100 })
}
