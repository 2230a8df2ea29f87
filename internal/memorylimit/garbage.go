// Package memorylimit keeps a process within the memory of its machine: it limits garbage and unused pages, and returns how much more
// memory the process may use.
package memorylimit

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"strconv"
	"strings"
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

// key is that of the limiter among the values of a context.
type key struct{}

// Garbage makes the process collect garbage sooner when its heap is large, and return unused pages to the operating system, unless GOGC and
// GOMEMLIMIT are set. Each collection sets the limit for the next one. Allow takes the returned context, or one derived from it.
func Garbage(ctx context.Context) context.Context {
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
	return context.WithValue(ctx, key{}, l)
}

// Allow limits the garbage of a process that has a limit of memory, from the second collection after the call on. About half of the bytes
// may be allocated before a collection begins, and half while it runs. A limit above the default has no effect.
func Allow(ctx context.Context, bytes int64) {
	if l, ok := ctx.Value(key{}).(*limiter); ok {
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

// Free returns how many bytes of memory this process may still take.
func Free() (int64, error) {
	machine, err := available()
	if err != nil {
		return 0, err
	}
	allowed, err := allowedByGroups(os.DirFS("/"))
	return min(allowed, machine), err
}

// allowedByGroups returns how many bytes of memory the control groups of this process still allow, of version 1 and of version
// 2, given the root of the file system; [math.MaxInt64] if there are none, or they have no limit. A file that is read
// off disk and can be read again counts as free.
func allowedByGroups(root fs.FS) (int64, error) {
	content, err := fs.ReadFile(root, "proc/self/cgroup")
	if errors.Is(err, fs.ErrNotExist) { // not Linux
		return math.MaxInt64, nil
	}
	if err != nil {
		return 0, err
	}
	allowed := int64(math.MaxInt64)
	for line := range strings.Lines(string(content)) {
		number, rest, _ := strings.Cut(strings.TrimSpace(line), ":")
		controllers, group, _ := strings.Cut(rest, ":")
		mount := "sys/fs/cgroup/memory" // of version 1
		if number == "0" && controllers == "" {
			mount = "sys/fs/cgroup"
		} else if !slices.Contains(strings.Split(controllers, ","), "memory") {
			continue
		}
		for at := path.Clean("/" + group); ; at = path.Dir(at) {
			left, err := allowedByGroup(root, path.Join(mount, at))
			if err != nil {
				return 0, err
			}
			if allowed = min(allowed, left); at == "/" { // which a container may see as its own group, whatever its path is outside
				break
			}
		}
	}
	return allowed, nil
}

// allowedByGroup returns how many bytes a group still allows, without those above it.
func allowedByGroup(root fs.FS, folder string) (allowed int64, err error) {
	least := func(key string, files ...string) int64 {
		least := int64(math.MaxInt64)
		for _, file := range files {
			n, wrong := number(root, path.Join(folder, file), key)
			least, err = min(least, n), errors.Join(err, wrong)
		}
		return least
	}
	limit := least("", "memory.max", "memory.high", "memory.limit_in_bytes")
	used := least("", "memory.current", "memory.usage_in_bytes")
	if limit == math.MaxInt64 || used == math.MaxInt64 || err != nil {
		return limit, err
	}
	cache := least("total_inactive_file ", "memory.stat") // of version 1, whose inactive_file is without groups below
	if cache == math.MaxInt64 {
		cache = least("inactive_file ", "memory.stat")
	}
	if cache < math.MaxInt64 {
		used = max(used-cache, 0)
	}
	return max(limit-used, 0), err
}

// number reads a number in a file: of the line that begins with a key, or of the first line if the key is empty. It returns [math.MaxInt64]
// if there is none, or it says that there is no limit.
func number(root fs.FS, file, key string) (int64, error) {
	content, err := fs.ReadFile(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return math.MaxInt64, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(content)) {
		text, found := strings.CutPrefix(strings.TrimSpace(line), key)
		if !found {
			continue
		}
		text = strings.TrimSuffix(strings.TrimSpace(text), " kB")
		value, err := strconv.ParseUint(text, 10, 64)
		switch {
		case text == "max", value >= 1<<62: // version 1 says so that there is none, in whole pages
			return math.MaxInt64, nil
		case err != nil:
			return 0, fmt.Errorf("%s: %s%w", file, key, err)
		}
		return int64(value), nil
	}
	return math.MaxInt64, nil
}
