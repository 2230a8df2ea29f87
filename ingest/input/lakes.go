package input

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// lakeFormats are table formats whose directories also have the files of earlier states, by a name in the directory of a table.
var lakeFormats = []struct{ marker, name, reader string }{
	{"_delta_log", "Delta Lake", "delta"},
	{".hoodie", "Apache Hudi", "hudi"},
	{"metadata/*.metadata.json", "Apache Iceberg", "iceberg"},
	{"snapshot/snapshot-*", "Apache Paimon", "paimon"},
}

// lakes are the directories that have been checked.
type lakes map[string]bool

// check returns a *Error if a directory is a table of such a format, or in one.
func (l lakes) check(folder string) error {
	folder, err := filepath.Abs(folder)
	for ; err == nil && !l[folder]; folder = filepath.Dir(folder) {
		l[folder] = true
		for _, f := range lakeFormats {
			if found, _ := fs.Glob(os.DirFS(folder), f.marker); len(found) > 0 {
				return WholeFile(folder, fmt.Errorf("a table of %s, which also has files of earlier states: write the current state as "+
					"Parquet, as with `spark.read.format(%q).load(…).write.parquet(…)`, or name its files one by one", f.name, f.reader))
			}
		}
	}
	return err
}
