package visit

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
)

// freeBytes returns how many bytes of memory this process may still take.
func freeBytes() (int64, error) {
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
