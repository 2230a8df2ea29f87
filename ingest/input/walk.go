package input

import (
	"io/fs"
	"iter"
	"os"
	"path"
	"slices"
	"strings"
)

// Hidden reports whether a path in a directory or an archive is hidden, as in Hive and Spark: a name in it starts with a dot, or with
// an underscore and is not a partition value, such as _year=2026.
func Hidden(file string) bool {
	for name := range strings.SplitSeq(file, "/") {
		switch {
		case name == "." || name == "..":
		case strings.HasPrefix(name, "."), strings.HasPrefix(name, "_") && !strings.Contains(name, "="):
			return true
		}
	}
	return false
}

// File is a file in a directory tree.
type File struct {
	Path string // in the tree
	fs.FileInfo
}

// Walk iterates over the files in a directory tree in path order, and over hidden ones if all is set. It follows links to directories, but
// not in cycles. It ends after an error, which comes with its path.
func Walk(folder fs.FS, all bool) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) { walk(folder, ".", nil, all, yield) }
}

// walk reports whether more files are wanted.
func walk(folder fs.FS, at string, above []fs.FileInfo, all bool, yield func(File, error) bool) bool {
	info, err := fs.Stat(folder, at) // follows links
	switch {
	case err != nil:
		yield(File{Path: at}, err)
		return false
	case !info.IsDir():
		return yield(File{at, info}, nil)
	case slices.ContainsFunc(above, func(other fs.FileInfo) bool { return os.SameFile(info, other) }):
		return true
	}
	entries, err := fs.ReadDir(folder, at)
	if err != nil {
		yield(File{Path: at}, err)
		return false
	}
	for _, entry := range entries {
		if all || !Hidden(entry.Name()) {
			if !walk(folder, path.Join(at, entry.Name()), append(above, info), all, yield) {
				return false
			}
		}
	}
	return true
}
