package memorylimit

import (
	"github.com/stagewise/stagewise/internal/assert"
	"math"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
	"testing/fstest"
)

// files is a file system of these files.
func files(contents map[string]string) fstest.MapFS {
	all := fstest.MapFS{}
	for name, content := range contents {
		all[name] = &fstest.MapFile{Data: []byte(content)}
	}
	return all
}

func TestAllowed(t *testing.T) {
	const none = math.MaxInt64
	for name, c := range map[string]struct {
		files map[string]string
		want  int64
	}{
		"no groups": {nil, none},
		"no limit": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.current": "5\n"}, none},
		"container of 2": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "300\n"}, 700},
		"cache is free": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "300\n",
			"sys/fs/cgroup/memory.stat":    "anon 90\nfile 210\ninactive_file 200\n"}, 900},
		"group above": {map[string]string{"proc/self/cgroup": "0::/pod/c\n", "sys/fs/cgroup/pod/c/memory.max": "2000\n",
			"sys/fs/cgroup/pod/c/memory.current": "100",
			"sys/fs/cgroup/pod/memory.max":       "1000\n", "sys/fs/cgroup/pod/memory.current": "400"}, 600},
		"high": {map[string]string{"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/memory.max": "max\n",
			"sys/fs/cgroup/a/memory.high": "500\n", "sys/fs/cgroup/a/memory.current": "100"}, 400},
		"over": {map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "1100\n"}, 0},
		"path of 2": {map[string]string{"proc/self/cgroup": "0::/docker/123\n", "sys/fs/cgroup/memory.max": "1000\n",
			"sys/fs/cgroup/memory.current": "300\n"}, 700},
		"container of 1": {map[string]string{"proc/self/cgroup": "12:cpu,cpuacct:/docker/1\n5:memory:/docker/1\n1:name=systemd:/docker/1\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes": "1000\n", "sys/fs/cgroup/memory/memory.usage_in_bytes": "600\n",
			"sys/fs/cgroup/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 100\n"}, 500},
		"no limit in 1": {map[string]string{"proc/self/cgroup": "5:memory:/a\n",
			"sys/fs/cgroup/memory/a/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "600\n"}, none},
		"both": {map[string]string{"proc/self/cgroup": "5:hugetlb,memory:/a\n0::/a\n", "sys/fs/cgroup/memory/a/memory.limit_in_bytes": "800\n",
			"sys/fs/cgroup/memory/a/memory.usage_in_bytes": "100\n"}, 700},
	} {
		got, err := allowedByGroups(files(c.files))
		assert.True(t, err == nil && got == c.want, "%s: %d, %v, expected %d", name, got, err, c.want)
	}
	for _, contents := range []map[string]string{
		{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "much\n"},
		{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "300\n", "sys/fs/cgroup/memory.stat": "inactive_file x\n"},
	} {
		got, err := allowedByGroups(files(contents))
		assert.True(t, err != nil, "%v: %d", contents, got)
	}
}

// What this machine says can be read.
func TestBytes(t *testing.T) {
	got, err := Free()
	assert.True(t, err == nil && got > 0, "%d, %v", got, err)
}

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
	ctx := Garbage(t.Context())
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
	Allow(ctx, allowedGarbage/2)
	percent(func(p int) bool { return p == leastPercent })
	limit = debug.SetMemoryLimit(-1)
	assert.True(t, limit <= 2*allowedGarbage*5/4+allowedGarbage/4+(8<<20),
		"with a heap of %d bytes and garbage of %d the memory is limited to %d", 2*allowedGarbage, allowedGarbage/2, limit)
	runtime.KeepAlive(large)
	large = nil
	percent(func(p int) bool { return p >= 100 })
}
