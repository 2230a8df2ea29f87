package memorylimit

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"strconv"
	"strings"

	"github.com/shirou/gopsutil/v4/mem"
)

// Free returns how many bytes of memory this process may still take.
func Free() (int64, error) {
	machine, err := mem.VirtualMemory()
	if err != nil {
		return 0, err
	}
	allowed, err := allowedByGroups(os.DirFS("/"))
	if err != nil {
		return 0, err
	}
	return min(allowed, int64(min(machine.Available, math.MaxInt64))), nil
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
	for lines := bufio.NewScanner(bytes.NewReader(content)); lines.Scan(); {
		fields := strings.SplitN(lines.Text(), ":", 3) // number, controllers, path
		if len(fields) != 3 {
			continue
		}
		version := (*hierarchy)(nil)
		switch {
		case fields[0] == "0" && fields[1] == "":
			version = version2()
		case hasController(fields[1]):
			version = version1()
		default:
			continue
		}
		left, err := version.allowed(root, fields[2])
		if err != nil {
			return 0, err
		}
		allowed = min(allowed, left)
	}
	return allowed, nil
}

// hasController reports whether a hierarchy of version 1 has the controller of memory.
func hasController(list string) bool {
	for name := range strings.SplitSeq(list, ",") {
		if name == "memory" {
			return true
		}
	}
	return false
}

// hierarchy is where a version of control groups has what.
type hierarchy struct {
	mount  string
	limits []string // files
	used   string   // file
	cache  string   // the key in memory.stat of files that can be read again
}

func version1() *hierarchy {
	return &hierarchy{"sys/fs/cgroup/memory", []string{"memory.limit_in_bytes"}, "memory.usage_in_bytes", "total_inactive_file"}
}

func version2() *hierarchy {
	return &hierarchy{"sys/fs/cgroup", []string{"memory.max", "memory.high"}, "memory.current", "inactive_file"}
}

// allowed returns how many bytes a group and those above it still allow. A container may see its own group as the root,
// whatever its path is outside.
func (h *hierarchy) allowed(root fs.FS, group string) (int64, error) {
	allowed := int64(math.MaxInt64)
	for at := path.Clean("/" + group); ; at = path.Dir(at) {
		folder := path.Join(h.mount, at)
		limit := int64(math.MaxInt64)
		for _, name := range h.limits {
			value, err := number(root, path.Join(folder, name))
			if err != nil {
				return 0, err
			}
			limit = min(limit, value)
		}
		if limit < math.MaxInt64 {
			used, err := h.inUse(root, folder)
			if err != nil {
				return 0, err
			}
			allowed = min(allowed, max(limit-used, 0))
		}
		if at == "/" {
			return allowed, nil
		}
	}
}

// inUse returns how many bytes a group has that do not go by themselves.
func (h *hierarchy) inUse(root fs.FS, folder string) (int64, error) {
	used, err := number(root, path.Join(folder, h.used))
	if err != nil || used == math.MaxInt64 {
		return 0, err
	}
	content, err := fs.ReadFile(root, path.Join(folder, "memory.stat"))
	if errors.Is(err, fs.ErrNotExist) {
		return used, nil
	}
	if err != nil {
		return 0, err
	}
	for line := range strings.SplitSeq(string(content), "\n") {
		if key, text, _ := strings.Cut(line, " "); key == h.cache {
			cache, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return 0, fmt.Errorf("%s/memory.stat: %s: %w", folder, key, err)
			}
			return max(used-cache, 0), nil
		}
	}
	return used, nil
}

// number reads the number in a file; [math.MaxInt64] if there is no such file, or it says that there is no limit.
func number(root fs.FS, file string) (int64, error) {
	content, err := fs.ReadFile(root, file)
	if errors.Is(err, fs.ErrNotExist) {
		return math.MaxInt64, nil
	}
	if err != nil {
		return 0, err
	}
	text := strings.TrimSpace(string(content))
	if text == "max" {
		return math.MaxInt64, nil
	}
	value, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", file, err)
	}
	if value >= 1<<62 { // version 1 says so that there is none, in whole pages
		return math.MaxInt64, nil
	}
	return int64(value), nil
}
