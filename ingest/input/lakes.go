package input

import (
	"cmp"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

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
