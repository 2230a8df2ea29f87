package main

import (
	"context"
	"os"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"sync/atomic"
)

const (
	// allowedGarbage is how many bytes of garbage may come before the next collection, whatever the heap has. By itself Go
	// allows as much as the heap has in use: with a gigabyte of blocks, another gigabyte.
	allowedGarbage = 128 << 20
	// leastPercent bounds how much sooner a large heap is collected. What is large has no pointers, which makes
	// collections cheap; plans of many sources have some.
	leastPercent = 12
	// smallGarbage is how many bytes of garbage may always come before the next collection: a process with a small heap, which would be
	// collected each few milliseconds, collects less often.
	smallGarbage = 32 << 20
	// spare is what the runtime's memory may grow by, besides garbage, until the next collection.
	spare = 32 << 20
)

// limiter is what limits the garbage of the process.
type limiter struct{ allowed, spare atomic.Int64 }

// limiterKey is that of the limiter among the values of a context.
type limiterKey struct{}

// limitGarbage makes the process collect garbage sooner when its heap is large, and return unused pages to the operating system, unless
// GOGC and GOMEMLIMIT are set. Each collection sets the limit for the next one. allowGarbage takes the returned context, or one below it.
func limitGarbage(ctx context.Context) context.Context {
	if os.Getenv("GOGC") != "" {
		return ctx
	}
	pages := os.Getenv("GOMEMLIMIT") == ""
	l := &limiter{}
	l.allowed.Store(allowedGarbage)
	l.spare.Store(spare)
	afterCollection(func() {
		const live, total, objects, free, released, allowed = 0, 1, 2, 3, 4, 5
		measured := []runtimemetrics.Sample{
			{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/total:bytes"},
			{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/heap/released:bytes"},
			{Name: "/gc/gogc:percent"},
		}
		runtimemetrics.Read(measured)
		bytes := func(i int) uint64 { return measured[i].Value.Uint64() }
		percent := garbagePercent(bytes(live), uint64(l.allowed.Load()))
		if pages {
			// A collection can't return memory that is neither an object nor free, such as stacks.
			besides := bytes(total) - bytes(objects) - bytes(free) - bytes(released)
			debug.SetMemoryLimit(int64(besides + bytes(live)*uint64(100+percent)/100 + uint64(l.spare.Load())))
		}
		if percent != int(bytes(allowed)) { // it stops the world
			debug.SetGCPercent(percent)
		}
	})
	return context.WithValue(ctx, limiterKey{}, l)
}

// allowGarbage limits the garbage of a process that has a limit of memory, from the second collection after the call on. About half of the
// bytes may be allocated before a collection begins, and half while it runs. A limit above the default has no effect.
func allowGarbage(ctx context.Context, bytes int64) {
	if l, ok := ctx.Value(limiterKey{}).(*limiter); ok {
		l.allowed.Store(min(allowedGarbage, bytes/2))
		l.spare.Store(min(spare, bytes/2))
		runtime.GC()
	}
}

// garbagePercent returns how much garbage may come before the next collection, in percent of the bytes in use.
func garbagePercent(live, allowed uint64) int {
	live = max(live, 1<<20)
	return int(max(min(100, max(leastPercent, 100*allowed/live)), 100*min(smallGarbage, allowed)/live))
}

// afterCollection calls do after each collection.
func afterCollection(do func()) {
	unused := new(struct{ _ [64]byte }) // of its own memory: tiny values share some
	runtime.AddCleanup(unused, func(do func()) {
		do()
		afterCollection(do)
	}, do)
}
