package input

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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

// IsPattern reports whether a name may match other files than the one with this name.
func IsPattern(name string) bool { return strings.ContainsAny(name, "*?[") }

// Glob is filepath.Glob, except that an exact match takes precedence, in each element of the path. So brackets in a directory name
// don't break a pattern for files in it. It is an error if a match is in a directory of a table format that keeps files of earlier
// states. A hidden name matches only a pattern that starts with the same character.
func Glob(name string) ([]string, error) {
	if !IsPattern(name) {
		return []string{name}, nil
	}
	if _, err := os.Lstat(name); err == nil {
		return []string{name}, nil
	}
	folder, pattern := filepath.Split(name)
	if _, err := filepath.Match(pattern, ""); err != nil {
		return nil, WholeFile(name, errors.New("no such file, nor a valid pattern: [ without ]"))
	}
	folders := []string{folder}
	if IsPattern(folder) {
		var err error
		if folders, err = Glob(filepath.Clean(folder)); err != nil {
			return nil, err
		}
	}
	var found []string
	for _, folder := range folders {
		entries, err := os.ReadDir(cmp.Or(folder, "."))
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			continue
		} else if err != nil {
			return nil, WholeFile(name, err)
		}
		for _, e := range entries {
			hidden := Hidden(e.Name()) && pattern[0] != e.Name()[0]
			if matches, _ := filepath.Match(pattern, e.Name()); matches && !hidden {
				found = append(found, filepath.Join(folder, e.Name()))
			}
		}
	}
	slices.Sort(found)
	lakes := lakes{}
	for _, file := range found {
		if err := lakes.check(filepath.Dir(file)); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// Kind is the kind of a file in a directory, by its name.
type Kind struct {
	IsTable bool // it is a table, or a part of one
	HasPath bool // its format supports partition values from directory names
}

// Tables returns the table files in a directory, sorted, as written in parts by Spark and others; none if it has images.
// values are partition values from directory names, such as kind=iris. It is an error if the directory is of a table format that keeps
// files of earlier states, or has one in it.
func Tables(folder string, kindOf func(name string) Kind) (tables []string, values map[string][]Partition, err error) {
	lakes := lakes{}
	if err := lakes.check(folder); err != nil {
		return nil, nil, err
	}
	images := false
	for file, err := range Walk(os.DirFS(folder), false) {
		name := strings.ToLower(filepath.Base(file.Path))
		switch {
		case err != nil:
			err = WholeFile(filepath.Join(folder, filepath.FromSlash(file.Path)), err)
		case slices.Contains([]string{".png", ".jpg", ".jpeg"}, filepath.Ext(name)):
			images = true
		case kindOf(name).IsTable:
			tables = append(tables, filepath.Join(folder, filepath.FromSlash(file.Path)))
			err = lakes.check(filepath.Dir(tables[len(tables)-1]))
		}
		if err != nil {
			return nil, nil, err
		}
	}
	if images || len(tables) == 0 {
		return nil, nil, nil
	}
	slices.Sort(tables)
	values, err = valuesInPaths(folder, tables, kindOf)
	return tables, values, err
}

// lakeFormat is a table format whose directories also have the files of earlier states.
type lakeFormat struct {
	folder, file string // a folder in the directory of a table, and a file in it; "": any file
	name, reader string
	layout       string // examples.archive.layout that reads it; "": none
}

var lakeFormats = []lakeFormat{
	{"_delta_log", "", "Delta Lake", "delta", "delta"},
	{".hoodie", "", "Apache Hudi", "hudi", ""},
	{"metadata", "*.metadata.json", "Apache Iceberg", "iceberg", "iceberg"},
	{"snapshot", "snapshot-*", "Apache Paimon", "paimon", ""},
}

// at returns the error of a directory that is a table of the format.
func (f lakeFormat) at(folder string) error {
	instead := ""
	if f.layout != "" {
		instead = fmt.Sprintf("set examples.archive with files: %s and layout: %s if its rows have partitions and offsets of a topic, ",
			folder, f.layout)
	}
	return WholeFile(folder, fmt.Errorf("a table of %s, which also has files of earlier states: %swrite the current state as "+
		"Parquet, as with `spark.read.format(%q).load(…).write.parquet(…)`, or name its files one by one", f.name, instead, f.reader))
}

// LakeFolders returns the names of directories that are only in tables of formats that also keep files of earlier states.
func LakeFolders() (names []string) {
	for _, f := range lakeFormats {
		names = append(names, f.folder)
	}
	return names
}

// CheckLake returns a *Error if the path of a file shows that folder, or a directory below it, is a table of such a format. The path is
// relative to folder.
func CheckLake(folder, file string) error {
	names := strings.Split(file, "/")
	for i := range len(names) - 1 {
		for _, f := range lakeFormats {
			if matches, _ := path.Match(cmp.Or(f.file, "*"), names[i+1]); matches && names[i] == f.folder && (f.file == "" || i+2 == len(names)) {
				return f.at(strings.Join(append([]string{strings.TrimSuffix(folder, "/")}, names[:i]...), "/"))
			}
		}
	}
	return nil
}

// lakes are the directories that have been checked.
type lakes map[string]bool

// check returns a *Error if a directory is a table of such a format, or in one.
func (l lakes) check(folder string) error {
	folder, err := filepath.Abs(folder)
	for ; err == nil && !l[folder]; folder = filepath.Dir(folder) {
		l[folder] = true
		for _, f := range lakeFormats {
			if found, _ := fs.Glob(os.DirFS(folder), path.Join(f.folder, f.file)); len(found) > 0 {
				return f.at(folder)
			}
		}
	}
	return err
}
