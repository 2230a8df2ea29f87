package main

import (
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
)

const (
	// allowedGarbage is how many bytes of garbage may come before the next collection, whatever the heap has. By itself Go allows as much as the heap
	// has in use: with a gigabyte of blocks, another gigabyte.
	allowedGarbage = 256 << 20
	// leastPercent bounds how much sooner a large heap is collected. What is large has no pointers, which makes collections cheap; plans of many
	// sources have some. Measured with blocks of 1 GiB of MNIST's patches: 2.75 GB of memory with 100 percent, 2.19 with 50, 1.86 with 25, and
	// the same processor time.
	leastPercent = 25
)

// limitGarbage makes the process collect garbage sooner when its heap is large, unless GOGC says when. Each collection sets when the next one
// comes.
func limitGarbage() {
	if os.Getenv("GOGC") != "" {
		return
	}
	afterCollection(func() {
		measured := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/gogc:percent"}}
		runtimemetrics.Read(measured)
		if percent := garbagePercent(measured[0].Value.Uint64()); percent != int(measured[1].Value.Uint64()) {
			debug.SetGCPercent(percent)
		}
	})
}

// garbagePercent returns how much garbage may come before the next collection, in percent of the bytes in use.
func garbagePercent(live uint64) int {
	return int(min(100, max(leastPercent, 100*allowedGarbage/max(live, 1))))
}

// afterCollection calls do after each collection.
func afterCollection(do func()) {
	unused := new(struct{ _ [64]byte }) // of its own memory: tiny values share some
	runtime.AddCleanup(unused, func(do func()) {
		do()
		afterCollection(do)
	}, do)
}
