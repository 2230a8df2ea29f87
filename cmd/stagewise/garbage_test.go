package main

import (
	"github.com/stagewise/stagewise/internal/assert"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
)

func TestGarbagePercent(t *testing.T) {
	for live, want := range map[uint64]int{0: 3200, 1: 3200, 4 << 20: 800, smallGarbage: 100, allowedGarbage: 100, 2 * allowedGarbage: 50, 4 * allowedGarbage: 25,
		8 * allowedGarbage: leastPercent, 1 << 40: leastPercent} {
		assert.Equal(t, garbagePercent(live, allowedGarbage), want, "%d bytes in use", live)
	}
	assert.Equal(t, garbagePercent(4<<20, 1<<20), 25, "4 MiB in use, and 1 MiB of garbage allowed")
}

// A collection finds how large the heap is, and the percentage follows it up and down.
func TestGarbageIsLimited(t *testing.T) {
	t.Setenv("GOGC", "")
	t.Setenv("GOMEMLIMIT", "")
	defer debug.SetGCPercent(debug.SetGCPercent(100))
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(-1))
	ctx := limitGarbage(t.Context())
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
	limit := debug.SetMemoryLimit(-1)
	assert.True(t, limit >= 2*allowedGarbage && limit <= 4*allowedGarbage,
		"with a heap of %d bytes the memory is limited to %d", 2*allowedGarbage, limit)
	allowGarbage(ctx, allowedGarbage/2)
	percent(func(p int) bool { return p == leastPercent })
	limit = debug.SetMemoryLimit(-1)
	assert.True(t, limit <= 2*allowedGarbage*5/4+allowedGarbage/4+(8<<20),
		"with a heap of %d bytes and garbage of %d the memory is limited to %d", 2*allowedGarbage, allowedGarbage/2, limit)
	runtime.KeepAlive(large)
	large = nil
	percent(func(p int) bool { return p >= 100 })
}
