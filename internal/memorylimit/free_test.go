package memorylimit

import (
	"math"
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
		if got, err := allowedByGroups(files(c.files)); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, expected %d", name, got, err, c.want)
		}
	}
	for _, contents := range []map[string]string{
		{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "much\n"},
		{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "1000\n", "sys/fs/cgroup/memory.current": "300\n", "sys/fs/cgroup/memory.stat": "inactive_file x\n"},
	} {
		if got, err := allowedByGroups(files(contents)); err == nil {
			t.Errorf("%v: %d", contents, got)
		}
	}
}

// What this machine says can be read.
func TestBytes(t *testing.T) {
	if got, err := Free(); err != nil || got <= 0 {
		t.Errorf("%d, %v", got, err)
	}
}
