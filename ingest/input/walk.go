package input

import (
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Hidden reports whether a path in a directory or an archive is hidden, as in Hive and Spark: a name in it starts with a dot, or with
// an underscore and is no partition value, such as _year=2026.
func Hidden(path string) bool {
	for name := range strings.SplitSeq(path, "/") {
		switch {
		case name == "." || name == "..":
		case strings.HasPrefix(name, "."), strings.HasPrefix(name, "_") && !strings.Contains(name, "="):
			return true
		}
	}
	return false
}

// WalkFiles calls visit for the files in a directory tree that are not hidden, in path order. It follows links to directories, but
// not in cycles.
func WalkFiles(folder fs.FS, visit func(path string, info fs.FileInfo) error) error {
	return walkFrom(folder, ".", nil, Hidden, visit)
}

// WalkAll is like WalkFiles, but calls visit for hidden files too.
func WalkAll(folder fs.FS, visit func(path string, info fs.FileInfo) error) error {
	return walkFrom(folder, ".", nil, func(string) bool { return false }, visit)
}

func walkFrom(folder fs.FS, path string, above []fs.FileInfo, skip func(name string) bool, visit func(string, fs.FileInfo) error) error {
	info, err := fs.Stat(folder, path) // follows links
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return visit(path, info)
	}
	if slices.ContainsFunc(above, func(other fs.FileInfo) bool { return os.SameFile(info, other) }) {
		return nil
	}
	entries, err := fs.ReadDir(folder, path)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		below := entry.Name()
		if path != "." {
			below = path + "/" + entry.Name()
		}
		if skip(entry.Name()) {
			continue
		}
		if err := walkFrom(folder, below, append(above, info), skip, visit); err != nil {
			return err
		}
	}
	return nil
}
